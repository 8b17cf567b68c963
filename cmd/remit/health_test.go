package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/admission"
	"remit/law/health"
	"remit/law/ladder"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/keyring"
	"remit/work/session"
)

const aSession = "20260201T120000Z-fix-add-0a1b2c"

// keptHome is a home with a session that holds, and a folder of records.
func keptHome(t *testing.T) (home, records string) {
	t.Helper()
	home, records = t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(home, ".autopilot", "sessions", aSession), os.DirFS("../../vectors/evidence/valid/pass")); err != nil {
		t.Fatal(err)
	}
	recordsAt(t, records)
	return home, records
}

// keptHealth is the verdict over what is kept, without what the machine lacks.
func keptHealth(t *testing.T, home, records string) health.Report {
	t.Helper()
	h := &healthCheck{app: &app{home: session.Home{Dir: home}}}
	h.home(t.Context())
	h.records(records)
	return h.Report()
}

// unsignedBuild is an agent of which only the identity is asked.
type unsignedBuild struct{ engine.Engine }

func (unsignedBuild) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: "pi", Version: "1", SHA256: canon.Digest(nil)}, nil
}

// TestHealthNamesFaults plants one fault at a time. The control is green, and each
// fault is a named cause of its check.
func TestHealthNamesFaults(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	home, records := keptHome(t)
	if r := keptHealth(t, home, records); !r.OK || r.ExitCode != 0 {
		t.Fatalf("%+v", r)
	}
	if r := keptHealth(t, t.TempDir(), records); !r.OK { // a home that keeps nothing
		t.Fatalf("%+v", r)
	}
	proof, err := os.ReadFile("../../vectors/ladder/valid/agent-stage1.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ladder.ParseProof(proof)
	if err != nil {
		t.Fatal(err)
	}
	keyDir := filepath.Join("ladder", p.Key.Engine, strings.TrimPrefix(p.KeySHA256, "sha256:")[:16])
	key := "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	in := func(name string) string { return filepath.Join(".autopilot", "sessions", aSession, name) }
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { writeText(t, filepath.Join(dir, name), text) }
	}
	replace := func(name, old, with string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Contains(text, []byte(old)) {
				t.Fatalf("%s has no %q (%v)", name, old, err)
			}
			writeText(t, filepath.Join(dir, name), strings.Replace(string(text), old, with, 1))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, test := range []struct {
		name      string
		check     string
		code      reason.Code // "": any
		inHome    func(*testing.T, string)
		inRecords func(*testing.T, string)
	}{
		{"an admission that is no JSON", health.Admissions, reason.InvalidAdmission, write("admissions/source/codex.json", "{"), nil},
		{"an admission that others can write", health.Admissions, reason.InvalidAdmission, func(t *testing.T, dir string) {
			writeText(t, filepath.Join(dir, "admissions/model/p+m.json"), "{}")
			if err := os.Chmod(filepath.Join(dir, "admissions/model/p+m.json"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"an admission that is a link", health.Admissions, reason.InvalidAdmission, func(t *testing.T, dir string) {
			writeText(t, filepath.Join(dir, "elsewhere.json"), "{}")
			if err := os.MkdirAll(filepath.Join(dir, "admissions/source"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../../elsewhere.json", filepath.Join(dir, "admissions/source/pi.json")); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a key that others can read", health.Admissions, reason.HomeUnusable, func(t *testing.T, dir string) {
			ring := keyring.Ring{Dir: filepath.Join(dir, "keys")}
			_, err := ring.New()
			if err == nil {
				err = os.Chmod(ring.PrivatePath(), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a matrix that is no JSON", health.Matrix, "", write("ladder/fake/matrix.json", "{"), nil},
		{"a matrix of another engine", health.Matrix, "", write("ladder/fake/matrix.json", `{"schema":"remit.matrix.v1","engine":{"name":"pi"}}`), nil},
		{"a matrix of this build that fails", health.Matrix, reason.RefreshFailed, write("ladder/fake/matrix.json",
			fmt.Sprintf(`{"schema":"remit.matrix.v1","engine":{"name":"fake"},"remit":{"version":%q,"commit":%q},"status":"fail","held":11,"total":12}`, version, commit)), nil},
		{"a proof that is none", health.Proofs, reason.ProofInvalid, write(filepath.Join(keyDir, ladder.ProofFile(1)), "proof\n"), nil},
		{"a proof that was edited", health.Proofs, reason.ProofInvalid, write(filepath.Join(keyDir, ladder.ProofFile(1)), strings.Replace(string(proof), `"ok":true`, `"ok":false`, 1)), nil},
		{"a proof without its sessions", health.Proofs, reason.ProofInvalid, write(filepath.Join(keyDir, ladder.ProofFile(1)), string(proof)), nil},
		{"a proof that is not signed", health.Proofs, reason.SignatureMissing, func(t *testing.T, dir string) {
			grant(unsignedBuild{}, "p", "m", 1).In(t, dir)
			found, err := filepath.Glob(filepath.Join(dir, "ladder/*/*/*"+keyring.SignatureSuffix))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			remove(strings.TrimPrefix(found[0], dir))(t, dir)
		}, nil},
		{"an admission with another signature", health.Admissions, reason.SignatureInvalid, func(t *testing.T, dir string) {
			if _, err := decideSource(dir, admission.SourceDecision{Engine: "pi", Version: "1", SHA256: canon.Digest(nil),
				Ruling: admission.Ruling{Decision: admission.Admitted, Reason: "a test", By: "a test", At: "2026-01-02T03:04:05.000Z"}}); err != nil {
				t.Fatal(err)
			}
			writeText(t, filepath.Join(dir, "admissions/source/pi.json"+keyring.SignatureSuffix), "x\n")
		}, nil},
		{"a recorded pass that is none", health.Refresh, reason.RefreshFailed, write(filepath.Join(keyDir, ladder.ProofFile(5)), "proof\n"), nil},
		{"books that are no database", health.Store, "", write("authority/nexus.db", "books\n"), nil},
		{"a report that was edited", health.Sessions, "", replace(in("report.json"), `"status":"pass"`, `"status":"fail"`), nil},
		{"a journal that was edited", health.Sessions, "", replace(in("journal.jsonl"), `"seq":1`, `"seq":7`), nil},
		{"a patch that was edited", health.Sessions, "", replace(in("patch.diff"), "+", "+ "), nil},
		{"a log that is gone", health.Sessions, "", remove(in("test.log")), nil},
		{"a file that no manifest lists", health.Sessions, "", write(in("more.txt"), "more\n"), nil},
		{"a session without its seal", health.Sessions, reason.JournalUnfinished, remove(in("manifest.txt")), nil},
		{"a session that was cut off", health.Sessions, reason.Interrupted, func(t *testing.T, dir string) {
			write(in("journal.jsonl"), "")(t, dir)
			remove(in("manifest.txt"))(t, dir)
		}, nil},
		{"a journal that has lost its end", health.Sessions, reason.JournalUnfinished, write(in("journal.jsonl"), ""), nil},
		{"a session under another name", health.Sessions, reason.SessionNotFound, func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, in("")), filepath.Join(dir, ".autopilot/sessions/20260201T120000Z-fix-add-ffffff")); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a key in a record", health.Records, reason.SecretLeak, nil, write("notes.md", aRecord+key+"\n")},
		{"a record without front matter", health.Records, reason.RecordInvalid, nil, write("more.md", "More.\n")},
		{"evidence that was edited", health.Records, reason.EvidenceChanged, nil, replace("pass.json", "pass", "fail")},
		{"evidence that is gone", health.Records, reason.EvidenceMissing, nil, remove("pass.json")},
		{"a statement that is gone", health.Records, reason.StatementMissing, nil, replace("brief.md", "Nothing is", "All is")},
		{"a review that is due", health.Records, reason.ReviewOverdue, nil, replace("brief.md", "review_by: 9999", "review_by: 2026")},
		{"an item that waits for itself", health.Records, reason.WorkboardCycle, nil, replace("WORKBOARD.yaml", "    title:", "    blocked_by: W-1\n    title:")},
		{"no workboard", health.Records, reason.WorkboardInvalid, nil, remove("WORKBOARD.yaml")},
	} {
		t.Run(fmt.Sprintf("%02d %s", i+1, test.name), func(t *testing.T) {
			t.Parallel()
			home, records := keptHome(t)
			if test.inHome != nil {
				test.inHome(t, home)
			}
			if test.inRecords != nil {
				test.inRecords(t, records)
			}
			r := keptHealth(t, home, records)
			if r.OK || r.ExitCode == 0 || !slices.ContainsFunc(r.Causes, func(c health.Cause) bool {
				return c.Check == test.check && (test.code == "" || c.Code == test.code) && c.What != "" && c.Message != "" && c.Hint != ""
			}) {
				t.Errorf("%+v", r)
			}
			if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), key) {
				t.Errorf("%v: the verdict repeats the key", err)
			}
		})
	}
}

// TestControlSummary: the summary lists every engine of this program, every path in
// it resolves, and nothing of a session or a record is repeated.
func TestControlSummary(t *testing.T) {
	t.Parallel()
	home, _ := keptHome(t)
	code, out := judged(t, home, "ladder", "status")
	var s ladder.Status
	if err := json.Unmarshal(out, &s); err != nil || code != 0 || s.Schema != ladder.StatusSchema || s.Control == nil || s.Control.Schema != ladder.ControlSchema {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	for _, name := range engineNames() {
		if !slices.ContainsFunc(s.Control.Lanes, func(l ladder.Lane) bool { return l.Engine == name && len(l.Stages) == 6 && l.NextAction != "" }) {
			t.Errorf("no lane of %s", name)
		}
	}
	for _, l := range s.Control.Lanes {
		if l.RuntimeDefault || l.CandidateDefault || (l.Status == ladder.LaneBlocked) != (l.Rationale != nil) {
			t.Errorf("%+v", l)
		}
		paths := []*string{l.Replay.Matrix, l.Replay.Comparison, l.Replay.Refresh, l.Replay.Stage5Proof, l.Replay.Stage5Report}
		for _, stage := range l.Stages {
			paths = append(paths, stage.Proof)
		}
		for _, p := range paths {
			if p == nil {
				continue
			}
			if _, err := os.Stat(filepath.Join(home, *p)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, leak := range []string{home, "fix-add", "://"} {
		if bytes.Contains(out, []byte(leak)) {
			t.Errorf("the summary has %q\n%s", leak, out)
		}
	}
	if code, out := judged(t, home, "ladder", "refresh"); code != 3 || !bytes.Contains(out, []byte(`"repeatability_status": "blocked"`)) {
		t.Errorf("a refresh without passes: %d\n%s", code, out)
	}
}

// TestNextOfAnAgent: what to type next names the program, where an engine drives several.
func TestNextOfAnAgent(t *testing.T) {
	t.Parallel()
	g := &laneGatherer{app: &app{home: session.Home{Dir: t.TempDir()}}, records: ladder.Records{Engine: acp.Name}}
	e, err := engineNamed(acp.Name, "codex-acp")
	if err != nil {
		t.Fatal(err)
	}
	there := g.installed(e, evidence.EngineIdentity{Name: acp.Name, Version: "1", SHA256: canon.Digest(nil)}, "codex-acp")
	if len(there) != 1 || there[0].Unblock != "remit admit source --engine acp --bin codex-acp --decision admitted --reason WHY" {
		t.Errorf("%+v", there)
	}
	missing := g.blocked(acp.Name, "codex-acp", reason.Errorf(reason.ProviderUnavailable, "it is not there"))
	if missing.Unblock != "remit agent setup acp:codex-acp --model-provider P --model M" {
		t.Errorf("%+v", missing)
	}
}

// TestHealthHere: a machine that keeps nothing yet is healthy as far as doctor is
// content, and the command says so by its exit code.
func TestHealthHere(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	_, records := keptHome(t)
	var r health.Report
	if code, out := judged(t, t.TempDir(), "health", "--records", records); code != 0 || json.Unmarshal(out, &r) != nil || !r.OK || len(r.Checks) != len(health.Checks()) {
		t.Errorf("%d\n%s", code, out)
	}
}

// TestHealthPage: docs/governance.md names every check of health and of a refresh.
func TestHealthPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/governance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(health.Checks(), ladder.RefreshChecks()...) {
		if !bytes.Contains(page, []byte("| `"+name+"` |")) {
			t.Errorf("the page has no row for %s", name)
		}
	}
}

// TestSignedHere: the policy of a directory counts without a repository too, and one that
// cannot be read is not taken for one that asks for nothing.
func TestSignedHere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "records: {signed: true}\n": true, "tests: extend\n": false, "records: [\n": true} {
		for _, repository := range []bool{false, true} {
			dir := t.TempDir()
			if text != "" {
				write(t, dir, "remit.yaml", text)
			}
			if repository {
				gitIn(t, dir, "init", "-q")
			}
			if got := signedHere(t.Context(), dir); got != want {
				t.Errorf("%q, in a repository %t: %t", text, repository, got)
			}
		}
	}
}

// TestReadmeSample: the line about new tests is what a run prints.
func TestReadmeSample(t *testing.T) {
	t.Parallel()
	if line := "\n  new tests " + (&evidence.NewTests{}).Sentence() + "\n"; !strings.Contains(fileText(t, "../../README.md"), line) {
		t.Errorf("README.md has no line %q", line)
	}
}
