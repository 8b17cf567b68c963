//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// forgeBlob makes a session in which a blob says something else and every
// digest of it is right.
func forgeBlob(t testing.TB, name, blob string, edit func(string) string) fstest.MapFS {
	t.Helper()
	text := []byte(edit(string(memory(t, golden(name))[blob].Data)))
	files := forge(t, name, func(_ int, s *journal.Step) bool {
		raw, _ := s.Outputs.(json.RawMessage)
		var a evidence.ArtifactRecorded
		if s.Name == evidence.StepArtifact && json.Unmarshal(raw, &a) == nil && a.Path == blob {
			a.SHA256, a.Bytes = canon.Digest(text), int64(len(text))
			s.Outputs = a
		}
		return true
	})
	files[blob] = &fstest.MapFile{Data: text, Mode: 0o644}
	return files
}

// editOutputs changes the final outputs of a step.
func editOutputs[T any](t testing.TB, name string, edit func(*T)) func(int, *journal.Step) bool {
	return func(_ int, s *journal.Step) bool {
		if s.Name == name && s.Status != journal.Started {
			var v T
			if err := json.Unmarshal(s.Outputs.(json.RawMessage), &v); err != nil {
				t.Fatal(err)
			}
			edit(&v)
			s.Outputs = v
		}
		return true
	}
}

func once(t testing.TB, text, old, replacement string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q occurs %d times, want once", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, replacement, 1)
}

// TestForgedFromScratch: a chain that is right, projections that follow from
// it, every digest made anew. What no run can have written is found all the
// same, and only that.
func TestForgedFromScratch(t *testing.T) {
	t.Parallel()
	type phase = evidence.VerifyPhase
	type verified = evidence.VerificationCompleted
	log := func(name string, edit func(string) string) func(testing.TB) fstest.MapFS {
		return func(t testing.TB) fstest.MapFS { return forgeBlob(t, name, evidence.TestLogFile, edit) }
	}
	results := func(edit func(string) string) func(testing.TB) fstest.MapFS {
		return func(t testing.TB) fstest.MapFS { return forgeBlob(t, "pass", evidence.TestResultsFile, edit) }
	}
	steps := func(name string, edit func(t testing.TB) func(int, *journal.Step) bool) func(testing.TB) fstest.MapFS {
		return func(t testing.TB) fstest.MapFS { return forge(t, name, edit(t)) }
	}
	shift := func(from, to int, by time.Duration) func(testing.TB) fstest.MapFS {
		return steps("pass", func(testing.TB) func(int, *journal.Step) bool {
			return func(i int, s *journal.Step) bool {
				if i >= from && i < to && s.Name != evidence.StepArtifact {
					s.StartedAt = s.StartedAt.Add(by)
					if !s.CompletedAt.IsZero() {
						s.CompletedAt = s.CompletedAt.Add(by)
					}
				}
				return true
			}
		})
	}
	tests := []struct {
		name  string
		code  reason.Code
		files func(testing.TB) fstest.MapFS
	}{
		{"a receipt that was raised", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepReceipt, func(a *record.AuthorityReceipt) {
				a.Payload = bytes.ReplaceAll(a.Payload, []byte(`"amount_msats":700`), []byte(`"amount_msats":900`))
			})
		})},
		{"a receipt of another principal", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepReceipt, func(a *record.AuthorityReceipt) { a.Principal = "user:2" })
		})},
		{"an approval that the authority knows nothing of", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepApprovalGranted, func(a *evidence.Approval) { a.ApprovalID = "" })
		})},
		{"an approval without its receipts", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return func(_ int, s *journal.Step) bool { return !strings.HasPrefix(s.StepID, "receipt-Approval") }
		})},
		{"an approval that is for another run", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepBudget, func(b *evidence.BudgetSettled) { b.RunID = "run_2" })
		})},
		{"an approval by another person", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepApprovalGranted, func(a *evidence.Approval) { a.Actor = "user:1" })
		})},
		{"another approval than that of the receipts", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepApprovalGranted, func(a *evidence.Approval) { a.ApprovalID = "apr_2" })
		})},
		{"a settlement that no receipt knows", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepBudget, func(b *evidence.BudgetSettled) { b.ReservationID = "rsv_2" })
		})},
		{"a settlement of another amount", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepBudget, func(b *evidence.BudgetSettled) { b.SettledMsats = 1 })
		})},
		{"a withheld payment passed off as a pass", reason.ProjectionMismatch, steps("approved", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepBudget, func(b *evidence.BudgetSettled) { b.Passed = false })
		})},
		{"a log that says nothing", reason.TestLogMismatch, log("pass", func(string) string { return "all tests passed\n" })},
		{"an empty log", reason.TestLogMismatch, log("pass", func(string) string { return "" })},
		{"a log that is cut off", reason.TestLogMismatch, log("pass", func(s string) string { return s[:len(s)-30] })},
		{"another exit code in the log", reason.TestLogMismatch, log("pass", func(s string) string { return once(t, s, "exit: 0", "exit: 1") })},
		{"other counts in the log", reason.TestLogMismatch, log("pass", func(s string) string { return once(t, s, "tests: 4 passed", "tests: 5 passed") })},
		{"other output in the log", reason.TestLogMismatch, log("pass", func(s string) string { return once(t, s, "\nhead\n", "\nHEAD\n") })},
		{"another command in the log", reason.TestLogMismatch, log("pass", func(s string) string { return strings.ReplaceAll(s, "command: go test ./...", "command: true") })},
		{"a run with a fault", reason.TestLogMismatch, log("pass", func(s string) string {
			return s + "BLOCKED infrastructure_fault tree=head: the sandbox gave no result\n\n"
		})},
		{"a section twice", reason.TestLogMismatch, log("pass", func(s string) string { return s + s[strings.Index(s, "=== head"):] })},
		{"a head that is missing", reason.TestLogMismatch, log("pass", func(s string) string { return s[:strings.Index(s, "=== head")] })},
		{"a repetition that failed", reason.TestLogMismatch, log("pass", func(s string) string {
			again := strings.NewReplacer("repetition=1", "repetition=2", "exit: 0", "exit: 1", "end head pass", "end head fail").Replace(s[strings.Index(s, "=== head"):])
			return s + again
		})},
		{"a cached baseline passed off as run", reason.TestLogMismatch, log("cached", func(s string) string { return s[strings.Index(s, "=== base"):] })},
		{"a baseline that was run passed off as cached", reason.TestLogMismatch, log("pass", func(s string) string {
			return "=== cached base key=" + canon.Digest(nil) + " made_at=2026-02-01T11:30:00.000Z\n\n" + s
		})},
		{"a run of the verifier without a log", reason.TestLogMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerifyHead, func(p *phase) { p.Runs[0].StdoutSHA256 = canon.Digest([]byte("ok")) })
		})},
		{"a repetition without a log", reason.TestLogMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerification, func(v *verified) { v.Repeats = 3 })
		})},
		{"a cached head", reason.ProjectionMismatch, steps("cached", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerifyHead, func(p *phase) {
				p.Runs[0].Cached, p.Runs[0].CacheKey, p.Runs[0].CachedAt = true, canon.Digest(nil), "2026-02-01T11:30:00.000Z"
			})
		})},
		{"a result from the future", reason.ProjectionMismatch, steps("cached", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerifyBase, func(p *phase) { p.Runs[0].CachedAt = "2026-02-01T12:30:00.000Z" })
		})},
		{"a test more than is counted", reason.TestCountMismatch, results(func(s string) string {
			return s + `{"command":"go test ./...","outcome":"pass","phase":"head","test":"calc.TestZero"}` + "\n"
		})},
		{"a test listed twice", reason.TestCountMismatch, results(func(s string) string { return s + s[strings.LastIndex(strings.TrimSpace(s), "\n")+1:] })},
		{"tests of another command", reason.TestCountMismatch, results(func(s string) string {
			return s + `{"command":"true","outcome":"pass","phase":"head","test":"calc.TestAdd"}` + "\n"
		})},
		{"more tests kept than are listed", reason.TestCountMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerification, func(v *verified) { v.PassToPass = 400 })
		})},
		{"a test fixed that was not broken", reason.TestCountMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerification, func(v *verified) { v.FailToPass = append(v.FailToPass, "calc.TestSub"); v.PassToPass = 2 })
		})},
		{"a better delta", reason.TestCountMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepVerification, func(v *verified) { v.Delta = 12 })
		})},
		{"engine output that is not the artifact", reason.OutputMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepEngine, func(f *evidence.EngineFinished) { f.StdoutSHA256 = canon.Digest([]byte("nothing to see")) })
		})},
		{"an engine artifact that is not its output", reason.OutputMismatch, func(t testing.TB) fstest.MapFS {
			return forgeBlob(t, "pass", "backend/stdout.log", func(s string) string { return s + "done\n" })
		}},
		{"the mode of a file of the patch", reason.ProjectionMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepPatch, func(p *evidence.PatchCaptured) { p.Files[0].NewMode = "100755" })
		})},
		{"the operation on a file of the patch", reason.ProjectionMismatch, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepPatch, func(p *evidence.PatchCaptured) { p.Files[0].Op = "create" })
		})},
		{"time that goes backwards", reason.TimeImplausible, shift(2, 6, 2*time.Hour)},
		{"the year 2301", reason.TimeImplausible, shift(29, 100, 275*365*24*time.Hour)},
		{"an engine that ran longer than its step", reason.TimeImplausible, steps("pass", func(t testing.TB) func(int, *journal.Step) bool {
			return editOutputs(t, evidence.StepEngine, func(f *evidence.EngineFinished) { f.DurationMS = 3_600_000 })
		})},
		{"a run of another day than its session", reason.TimeImplausible, func(t testing.TB) fstest.MapFS {
			return forge(t, "blocked", func(_ int, s *journal.Step) bool {
				s.StartedAt, s.CompletedAt = s.StartedAt.AddDate(0, 0, 1), s.CompletedAt.AddDate(0, 0, 1)
				var a evidence.ArtifactRecorded
				if raw, ok := s.Outputs.(json.RawMessage); ok && s.Name == evidence.StepArtifact && json.Unmarshal(raw, &a) == nil {
					a.WrittenAt, a.CheckedAt = s.StartedAt.Format(journal.TimeFormat), s.StartedAt.Format(journal.TimeFormat)
					s.Outputs = a
				}
				return true
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := tt.files(t)
			var found []reason.Finding
			for _, g := range evidence.Gates() {
				found = append(found, g.Check(t.Context(), files)...)
			}
			if len(found) == 0 {
				t.Fatal("no gate finds anything")
			}
			// A lie about the cache does not fit the log either.
			known := func(f reason.Finding) bool {
				return f.Code == tt.code || tt.code == reason.ProjectionMismatch && f.Code == reason.TestLogMismatch
			}
			if !slices.ContainsFunc(found, func(f reason.Finding) bool { return f.Code == tt.code }) || !slices.ContainsFunc(found, known) {
				t.Errorf("want %s, got:%s", tt.code, texts(found))
			}
			if slices.ContainsFunc(found, func(f reason.Finding) bool { return !known(f) }) {
				t.Errorf("want %s only, got:%s", tt.code, texts(found))
			}
		})
	}
}

// TestUnforged: the helpers that forge leave a session right when they change
// nothing, so that what the gates find above is the lie.
func TestUnforged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pass", "cached", "fail"} {
		files := forgeBlob(t, name, evidence.TestLogFile, func(s string) string { return s })
		for _, g := range evidence.Gates() {
			if found := g.Check(t.Context(), files); len(found) > 0 {
				t.Errorf("%s: %s finds:%s", name, g.Name, texts(found))
			}
		}
	}
}

// FuzzTestLog: whatever stands in test.log, the gate ends and says something.
func FuzzTestLog(f *testing.F) {
	files := memory(f, golden("pass"))
	f.Add(files[evidence.TestLogFile].Data)
	f.Add([]byte("=== head tree=head repetition=1 command=1/1\n--- stdout 9223372036854775807\n"))
	f.Add([]byte("=== cached base key=sha256:0 made_at=0\n\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		forged := fstest.MapFS{}
		for name, file := range files {
			forged[name] = file
		}
		forged[evidence.TestLogFile] = &fstest.MapFile{Data: log}
		found := evidence.CheckProjections(t.Context(), forged)
		if same := bytes.Equal(log, files[evidence.TestLogFile].Data); same != (len(found) == 0) {
			t.Errorf("same %t:%s", same, texts(found))
		}
	})
}
