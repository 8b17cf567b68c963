//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// has reports whether a finding of this code about this file is there.
func has(findings []reason.Finding, code reason.Code, path string) bool {
	return slices.ContainsFunc(findings, func(f reason.Finding) bool { return f.Code == code && f.Path == path })
}

// memory is a session directory that a test may change.
func memory(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range readTree(t, dir) {
		files[name] = &fstest.MapFile{Data: text, Mode: 0o644}
	}
	return files
}

// TestEveryByteCounts: whatever byte of a session changes, and however, the
// gates find it and name the file.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	original := memory(t, golden("approved"))
	names := slices.Sorted(maps.Keys(original))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "file")
		text := bytes.Clone(original[name].Data)
		switch kind := rapid.SampledFrom([]string{"flip", "insert", "remove", "append"}).Draw(rt, "kind"); {
		case kind == "append" || len(text) == 0:
			text = append(text, rapid.Byte().Draw(rt, "byte"))
		default:
			at := rapid.IntRange(0, len(text)-1).Draw(rt, "at")
			switch kind {
			case "flip":
				text[at] ^= rapid.ByteRange(1, 255).Draw(rt, "mask")
			case "insert":
				text = slices.Insert(text, at, rapid.Byte().Draw(rt, "byte"))
			case "remove":
				text = slices.Delete(text, at, at+1)
			}
		}
		if bytes.Equal(text, original[name].Data) {
			rt.Skip("the same bytes")
		}
		files := maps.Clone(original)
		files[name] = &fstest.MapFile{Data: text}
		check := evidence.CheckProjections
		if name == evidence.JournalFile {
			check = evidence.CheckJournal
		}
		found := check(t.Context(), files)
		if !slices.ContainsFunc(found, func(f reason.Finding) bool { return f.Path == name }) {
			rt.Fatalf("%s changed and the gates find:%s", name, texts(found))
		}
	})
}

// TestFilesThatDoNotBelong: nothing is missing and nothing is added.
func TestFilesThatDoNotBelong(t *testing.T) {
	t.Parallel()
	original := memory(t, golden("pass"))
	for name := range original {
		files := maps.Clone(original)
		delete(files, name)
		if found := evidence.CheckProjections(t.Context(), files); !has(found, reason.ArtifactMissing, name) {
			t.Errorf("without %s projections finds:%s", name, texts(found))
		}
		proof := strings.HasPrefix(name, evidence.ProofsDir+"/") || strings.HasPrefix(name, evidence.BackendDir+"/")
		if found := evidence.CheckSchemas(t.Context(), files); !has(found, reason.ArtifactMissing, name) {
			t.Errorf("without %s (proof or raw output: %t) schema finds:%s", name, proof, texts(found))
		}
	}
	for _, name := range []string{"notes.txt", "backend/more.log", "proofs/extra.json", "report.json.bak"} {
		files := maps.Clone(original)
		files[name] = &fstest.MapFile{Data: []byte("{}\n")}
		if found := evidence.CheckProjections(t.Context(), files); !has(found, reason.ProjectionMismatch, name) {
			t.Errorf("with %s projections finds:%s", name, texts(found))
		}
	}
}

// forge makes the session that an attacker would make who holds the disk: a
// journal with other steps, a correct chain, and everything projected anew.
func forge(t testing.TB, name string, edit func(i int, s *journal.Step) bool) fstest.MapFS {
	t.Helper()
	return memory(t, remade(t, golden(name), entriesOf(t, name), edit))
}

// remade is a copy of a session with other steps, whose journal and projections agree.
func remade(t testing.TB, from string, entries []journal.Entry, edit func(i int, s *journal.Step) bool) string {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, from, dir)
	if err := os.Remove(filepath.Join(dir, evidence.JournalFile)); err != nil {
		t.Fatal(err)
	}
	writeProjections(t, dir, rechain(t, dir, entries, edit))
	return dir
}

// forged is what the gates find in a session that was made anew with other steps.
func (s *session) forged(t *testing.T, edit func(i int, s *journal.Step) bool) string {
	t.Helper()
	return texts(gates(t, remade(t, s.dir, s.w.Entries(), edit)))
}

// reopened edits how a session was opened, as one who makes it anew would.
func (s *session) reopened(edit func(o *evidence.RunOpened)) func(i int, step *journal.Step) bool {
	return func(i int, step *journal.Step) bool {
		if i == 0 {
			o := s.run
			edit(&o)
			id, err := evidence.RunIDOf(o)
			s.must(err)
			o.RunID, step.Inputs = id, o
		}
		return true
	}
}

// TestVerdictCannotBeClaimed edits only run.completed, in journals that do not
// carry a pass, and makes all the rest agree with the lie.
func TestVerdictCannotBeClaimed(t *testing.T) {
	t.Parallel()
	scripts := map[string]func(*session){
		"verification failed": failing,
		"blocked by a gate":   blocked,
		"interrupted":         resumed,
		"disallowed write": func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes(".github/workflows/ci.yml")
			s.blob(evidence.TestLogFile, "NOT RUN: go test ./...\n")
			s.source()
			s.complete()
		},
		"source mutated": func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes()
			s.verify(true)
			s.source("refs/heads/main")
			s.complete()
		},
		"engine failed": func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(1, evidence.Blocker{Code: reason.EngineFailed, Message: "exit 1", Evidence: "backend/stderr.log"})
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
			s.complete()
		},
		"head command fails, the verifier is silent": func(s *session) {
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes()
			s.phase(evidence.StepVerifyHead, "head", 1, evidence.TestCounts{Failed: 1})
			s.blob(evidence.TestLogFile, "FAIL\n")
			s.source()
			s.complete()
		},
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			honest := newSession(t)
			script(honest)
			if v := decodeOutputs[evidence.RunCompleted](t, honest.w.Entries()[len(honest.w.Entries())-1]); v.Status == evidence.StatusPass {
				t.Fatal("the script passes: the test would prove nothing")
			}
			dir := t.TempDir()
			entries := rechain(t, dir, honest.w.Entries(), func(_ int, s *journal.Step) bool {
				if s.Name == evidence.StepRunCompleted {
					s.Status, s.Outputs = journal.Completed, evidence.RunCompleted{Status: evidence.StatusPass}
				}
				return true
			})
			for path, text := range readTree(t, honest.dir) {
				if path != evidence.JournalFile {
					path = filepath.Join(dir, path)
					honest.must(os.MkdirAll(filepath.Dir(path), 0o700))
					honest.must(os.WriteFile(path, text, 0o600))
				}
			}
			writeProjections(t, dir, entries)
			rep, err := evidence.ReportOf(entries)
			honest.must(err)
			if rep.Status != evidence.StatusPass {
				t.Fatal("the forged report does not claim a pass: the test would prove nothing")
			}
			files := memory(t, dir)
			if found := evidence.CheckProjections(t.Context(), files); !has(found, reason.ProjectionMismatch, evidence.JournalFile) {
				t.Errorf("the claim of a pass stands:%s", texts(found))
			}
			for _, g := range evidence.Gates()[:2] {
				if found := g.Check(t.Context(), files); len(found) > 0 {
					t.Errorf("the forgery is not clean enough, gate %s sees it:%s", g.Name, texts(found))
				}
			}
		})
	}
}

// TestJournalsThatContradictThemselves: the chain holds, every projection
// agrees, and one claim inside the journal is false.
func TestJournalsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	other := canon.Digest([]byte("other"))
	input := func(name, field string, value any) func(testing.TB, *journal.Step) {
		return func(t testing.TB, s *journal.Step) {
			if s.Name == name {
				s.Inputs = withField(t, s.Inputs, field, value)
			}
		}
	}
	output := func(name, field string, value any) func(testing.TB, *journal.Step) {
		return func(t testing.TB, s *journal.Step) { set(name, field, value)(t, s) }
	}
	tests := []struct {
		name string
		base string
		edit func(testing.TB, *journal.Step)
		code reason.Code
		path string
	}{
		{"run_id", "pass", input(evidence.StepRunOpened, "run_id", other), reason.ProjectionMismatch, evidence.JournalFile},
		{"another engine under the same run_id", "pass", input(evidence.StepRunOpened, "engine", evidence.EngineIdentity{Name: "command", Version: "2", SHA256: other}),
			reason.ProjectionMismatch, evidence.JournalFile},
		{"another contract under the same digest", "pass", input(evidence.StepContract, "contract", map[string]any{"task_id": "other"}),
			reason.ProjectionMismatch, evidence.JournalFile},
		{"params_hash", "pass", input(evidence.StepTool, "params_hash", other), reason.ReplayInvalid, evidence.JournalFile},
		{"params under the same hash", "pass", input(evidence.StepTool, "params", map[string]any{"path": "other"}), reason.ReplayInvalid, evidence.JournalFile},
		{"failure_reason", "fail", output(evidence.StepRunCompleted, "failure_reason", "nothing serious"), reason.ProjectionMismatch, evidence.JournalFile},
		{"a blocker left out of the verdict", "blocked", func(t testing.TB, s *journal.Step) {
			if s.Name == evidence.StepRunCompleted {
				v := s.Outputs.(json.RawMessage)
				var done evidence.RunCompleted
				if err := json.Unmarshal(v, &done); err != nil {
					t.Fatal(err)
				}
				done.Blockers = done.Blockers[:1]
				s.Outputs = done
			}
		}, reason.ProjectionMismatch, evidence.JournalFile},
		{"digest of a blob", "pass", output(evidence.StepArtifact, "sha256", other), reason.ArtifactDigest, evidence.TestLogFile},
		{"size of a blob", "pass", output(evidence.StepArtifact, "bytes", 1), reason.ArtifactDigest, evidence.TestLogFile},
		{"digest of the patch", "pass", output(evidence.StepPatch, "patch_sha256", other), reason.ArtifactDigest, evidence.JournalFile},
		{"a blob from before the run", "pass", output(evidence.StepArtifact, "written_at", "2025-01-01T00:00:00.000Z"), reason.ArtifactStale, evidence.JournalFile},
		{"other commands than the contract's", "pass", input(evidence.StepRunOpened, "verification_commands", []string{"true"}), reason.ProjectionMismatch, evidence.JournalFile},
		{"another title", "pass", input(evidence.StepRunOpened, "title", "Something else"), reason.ProjectionMismatch, evidence.JournalFile},
		{"another mode", "pass", input(evidence.StepRunOpened, "mutation_mode", "none"), reason.ProjectionMismatch, evidence.JournalFile},
		{"no diff expected", "pass", input(evidence.StepRunOpened, "expect_diff", false), reason.ProjectionMismatch, evidence.JournalFile},
		{"another baseline tree", "pass", input(evidence.StepRunOpened, "baseline_tree", headTree), reason.ProjectionMismatch, evidence.JournalFile},
		{"a patch against another tree", "pass", output(evidence.StepPatch, "base_tree", headTree), reason.ProjectionMismatch, evidence.JournalFile},
		{"another engine in the sandbox", "pass", input(evidence.StepEngine, "engine", "other"), reason.ProjectionMismatch, evidence.JournalFile},
		{"a network that the contract does not give", "pass", input(evidence.StepEngine, "network", "gateway"), reason.ProjectionMismatch, evidence.JournalFile},
		{"another command line", "pass", input(evidence.StepEngine, "argv", []string{"/bin/true"}), reason.ProjectionMismatch, evidence.JournalFile},
		{"another tests rule", "pass", output(evidence.StepVerification, "tests_rule", "free"), reason.ProjectionMismatch, evidence.JournalFile},
		{"a proof that says something else", "pass", output(evidence.StepProof, "allowed_writes_passed", false), reason.ProjectionMismatch, evidence.JournalFile},
		{"files that the patch does not change", "pass", output(evidence.StepPatch, "files", []evidence.ChangedFile{{Path: "README.md", Op: "modify", Added: 1, Removed: 1}}),
			reason.ProjectionMismatch, evidence.PatchFile},
		{"fewer lines than the patch changes", "pass", output(evidence.StepPatch, "files", []evidence.ChangedFile{{Path: "calc/add.go", Op: "modify"}}),
			reason.ProjectionMismatch, evidence.PatchFile},
		{"a file less than the patch changes", "pass", output(evidence.StepPatch, "files", []evidence.ChangedFile{}), reason.ProjectionMismatch, evidence.PatchFile},
		{"fewer tokens than the requests have", "approved", output(evidence.StepUsage, "tokens", 1199), reason.ProjectionMismatch, evidence.JournalFile},
		{"less money than the requests cost", "approved", output(evidence.StepUsage, "cost_micro_usd", 339), reason.ProjectionMismatch, evidence.JournalFile},
		{"fewer requests than there are", "approved", output(evidence.StepUsage, "requests", 1), reason.ProjectionMismatch, evidence.JournalFile},
		{"a cost that is known, of requests whose is not", "unpriced", output(evidence.StepUsage, "cost_known", true), reason.ProjectionMismatch, evidence.JournalFile},
		{"requests, and no word of what they used", "approved", func(_ testing.TB, s *journal.Step) {
			if s.Name == evidence.StepUsage {
				s.Name = evidence.StepMessage
				s.Outputs = evidence.Message{Role: "agent", Text: "x"}
			}
		}, reason.ProjectionMismatch, evidence.JournalFile},
		{"a request that takes tokens away", "approved", func(t testing.TB, s *journal.Step) {
			set(evidence.StepUsage, "tokens", 0)(t, s)
			if s.Name == evidence.StepModel {
				set(evidence.StepModel, "usage", map[string]any{"in_uncached": -1 << 50, "out": 1})(t, s)
			}
		}, reason.ProjectionMismatch, evidence.JournalFile},
		{"no record of the patch", "pass", func(t testing.TB, s *journal.Step) {
			if s.Name == evidence.StepArtifact {
				set(evidence.StepArtifact, "path", "backend/other.log")(t, s)
			}
		}, reason.ArtifactMissing, evidence.PatchFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := forge(t, tt.base, func(_ int, s *journal.Step) bool { tt.edit(t, s); return true })
			if found := evidence.CheckProjections(t.Context(), files); !has(found, tt.code, tt.path) {
				t.Errorf("projections finds:%s\nwant %s in %s", texts(found), tt.code, tt.path)
			}
		})
	}
	t.Run("untouched", func(t *testing.T) {
		t.Parallel()
		if found := evidence.CheckProjections(t.Context(), forge(t, "pass", nil)); len(found) > 0 {
			t.Errorf("an honest journal has findings:%s", texts(found))
		}
	})
}

// TestJournalGate: the chain may hold and the journal still not be the one of
// this bundle, or not be complete.
func TestJournalGate(t *testing.T) {
	t.Parallel()
	base := memory(t, golden("accepted"))
	shorter := bytes.Join(bytes.SplitAfter(base[evidence.JournalFile].Data, []byte("\n"))[:10], nil)
	accepted := bytes.SplitAfter(base[evidence.JournalFile].Data, []byte("\n"))
	tests := []struct {
		name string
		text []byte
		code reason.Code
	}{
		{"cut at an entry", shorter, reason.JournalUnfinished},
		{"the outcome cut off", bytes.Join(accepted[:len(accepted)-2], nil), reason.JournalChain},
		{"torn", append(bytes.Clone(base[evidence.JournalFile].Data), `{"completed_at"`...), reason.JournalTorn},
		{"two lines swapped", bytes.Join(slices.Concat(accepted[:3], accepted[4:5], accepted[3:4], accepted[5:]), nil), reason.JournalChain},
		{"empty", nil, reason.JournalUnfinished},
	}
	for _, tt := range tests {
		files := maps.Clone(base)
		files[evidence.JournalFile] = &fstest.MapFile{Data: tt.text}
		if found := evidence.CheckJournal(t.Context(), files); !has(found, tt.code, evidence.JournalFile) {
			t.Errorf("%s: journal.chain finds:%s\nwant %s", tt.name, texts(found), tt.code)
		}
	}
	s := newSession(t)
	passing(s)
	s.note(evidence.StepMessage, "message", journal.Completed, nil, evidence.Message{Role: "agent", Text: "one more thing"})
	if found := evidence.CheckJournal(t.Context(), os.DirFS(s.write())); !has(found, reason.JournalOrder, evidence.JournalFile) {
		t.Errorf("an entry after the end: journal.chain finds:%s", texts(found))
	}
}

// TestLaterEntriesHideNothing: a fact that is stated again, differently, and an
// outcome that is given where none can be, are found.
func TestLaterEntriesHideNothing(t *testing.T) {
	t.Parallel()
	again := func(name, field string, value any) func(*session) {
		return func(s *session) {
			for _, e := range slices.Backward(s.w.Entries()) {
				if e.Name == name && e.Status != journal.Started {
					s.note(e.Name, e.StepID, e.Status, e.Inputs, withField(s.t, e.Outputs, field, value))
					return
				}
			}
		}
	}
	tests := []struct {
		name  string
		first func(*session) // before the run is completed
		after func(*session)
		check func(testing.TB, *session) []reason.Finding
		code  reason.Code
	}{
		{"refused paths", again(evidence.StepWrites, "offending", []string{"x"}), nil, projections, reason.ProjectionMismatch},
		{"a failed verification", again(evidence.StepVerification, "verification_delta", 7), nil, projections, reason.ProjectionMismatch},
		{"a touched source", again(evidence.StepSourceChecked, "differs", []string{"HEAD"}), nil, projections, reason.ProjectionMismatch},
		{"another patch", again(evidence.StepPatch, "ignored", []string{"x"}), nil, projections, reason.ProjectionMismatch},
		{"an outcome before the end", func(s *session) { s.outcome("accepted", "") }, nil, chain, reason.JournalOrder},
		{"two outcomes", nil, func(s *session) { s.outcome("rejected", ""); s.outcome("accepted", "") }, chain, reason.JournalOrder},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			s.engine(0)
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
			if tt.first != nil {
				tt.first(s)
			}
			s.complete()
			if tt.after != nil {
				tt.after(s)
			}
			if found := tt.check(t, s); !has(found, tt.code, evidence.JournalFile) {
				t.Errorf("found:%s\nwant %s", texts(found), tt.code)
			}
		})
	}
}

func projections(t testing.TB, s *session) []reason.Finding {
	return evidence.CheckProjections(t.Context(), os.DirFS(s.write()))
}

func chain(t testing.TB, s *session) []reason.Finding {
	return evidence.CheckJournal(t.Context(), os.DirFS(s.write()))
}
