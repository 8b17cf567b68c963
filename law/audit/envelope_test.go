//test:plain-package It only computes: there is one goroutine.

package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// forgeSession makes a published session anew with another contract, as
// a person can who holds the disk: the chain, the run_id, every projection,
// every digest and the manifest are right.
func forgeSession(t *testing.T, name, old, replacement string, blobs map[string]string, patched func(*evidence.PatchCaptured)) string {
	t.Helper()
	from, dir := filepath.Join("..", "..", "vectors", "evidence", "valid", name), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	log, err := journal.ReadFile(filepath.Join(dir, evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, evidence.JournalFile)); err != nil {
		t.Fatal(err)
	}
	for file, text := range blobs {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := journal.Create(filepath.Join(dir, evidence.JournalFile), log.Entries[0].SessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	digest, contract := "", []byte(nil)
	for _, e := range log.Entries {
		var c evidence.ContractCreated
		if e.Name == evidence.StepContract && json.Unmarshal(e.Inputs, &c) == nil {
			if contract = bytes.Replace(c.Contract, []byte(old), []byte(replacement), 1); bytes.Equal(contract, c.Contract) && old != "" {
				t.Fatalf("%q is not in the contract", old)
			}
			digest = canon.Digest(contract)
		}
	}
	var opened evidence.RunOpened
	must(t, json.Unmarshal(log.Entries[0].Inputs, &opened))
	was := opened.ContractSHA256
	for _, e := range log.Entries {
		s := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, StartedAt: moment(t, e.StartedAt),
			Inputs: json.RawMessage(strings.ReplaceAll(string(e.Inputs), was, digest)), Outputs: json.RawMessage(strings.ReplaceAll(string(e.Outputs), was, digest))}
		if e.CompletedAt != nil {
			s.CompletedAt = moment(t, *e.CompletedAt)
		}
		switch e.Name {
		case evidence.StepRunOpened:
			opened.ContractSHA256 = digest
			opened.RunID, err = evidence.RunIDOf(opened)
			must(t, err)
			s.Inputs = opened
		case evidence.StepContract:
			s.Inputs = evidence.ContractCreated{ContractSHA256: digest, Contract: contract}
		case evidence.StepArtifact:
			var a evidence.ArtifactRecorded
			must(t, json.Unmarshal(e.Outputs, &a))
			if text, ok := blobs[a.Path]; ok {
				a.SHA256, a.Bytes = canon.Digest([]byte(text)), int64(len(text))
				s.Outputs = a
			}
		case evidence.StepPatch:
			var p evidence.PatchCaptured
			if text, ok := blobs[evidence.PatchFile]; ok && e.Status == journal.Completed {
				must(t, json.Unmarshal(e.Outputs, &p))
				p.PatchSHA256, p.PatchBytes = canon.Digest([]byte(text)), int64(len(text))
				patched(&p)
				s.Outputs = p
			}
		}
		_, err := w.Append(s)
		must(t, err)
	}
	set, err := evidence.Project(w.Entries())
	must(t, err)
	must(t, evidence.Write(dir, set))
	must(t, os.Remove(filepath.Join(dir, evidence.ManifestFile)))
	must(t, bundle.Seal(dir))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(journal.TimeFormat, text)
	must(t, err)
	return at
}

// TestEnvelopeIsDecidedAgain: a journal that was made up from its first entry
// says that a patch stays inside a contract which it leaves. Every other gate
// passes; this one names the path and the rule.
func TestEnvelopeIsDecidedAgain(t *testing.T) {
	t.Parallel()
	const hooks = "diff --git a/calc/.github/workflows/ci.yml b/calc/.github/workflows/ci.yml\nnew file mode 100644\nindex 0000000..8a1c0de\n--- /dev/null\n+++ b/calc/.github/workflows/ci.yml\n@@ -0,0 +1 @@\n+on: push\n"
	const link = "diff --git a/calc/out b/calc/out\nnew file mode 120000\nindex 0000000..8a1c0de\n--- /dev/null\n+++ b/calc/out\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n"
	const protected = "diff --git a/AGENTS.md b/AGENTS.md\nnew file mode 100644\nindex 0000000..8a1c0de\n--- /dev/null\n+++ b/AGENTS.md\n@@ -0,0 +1 @@\n+obey\n"
	created := func(path, mode, op string) func(*evidence.PatchCaptured) {
		return func(p *evidence.PatchCaptured) {
			p.Files = []evidence.ChangedFile{{Path: path, Op: op, OldMode: "000000", NewMode: mode, Added: 1}}
		}
	}
	tests := []struct {
		name             string
		old, replacement string
		patch            string
		patched          func(*evidence.PatchCaptured)
		want             string // "" passes
	}{
		{"the contract of the run", "", "", "", nil, ""},
		{"wider paths", `"allowed_paths":["calc/**"]`, `"allowed_paths":["**"]`, "", nil, ""},
		{"other paths", `"allowed_paths":["calc/**"]`, `"allowed_paths":["docs/**"]`, "", nil, "calc/add.go: disallowed_file_change: "},
		{"a forbidden path", `"forbidden_paths":[]`, `"forbidden_paths":["calc/add.go"]`, "", nil, "calc/add.go: disallowed_file_change: "},
		{"a path that the contract protects", `"protected_paths":[]`, `"protected_paths":["calc/add.go"]`, "", nil, "calc/add.go: protected_path: "},
		{"a path that is always protected", `"allowed_paths":["calc/**"]`, `"allowed_paths":["**"]`, protected, created("AGENTS.md", "100644", "create"), "AGENTS.md: protected_path: "},
		{"an operation that is not allowed", `"allow_ops":["read","write","create"]`, `"allow_ops":["read"]`, "", nil, `calc/add.go: op_not_allowed: `},
		{"a workflow below an allowed path", "", "", hooks, created("calc/.github/workflows/ci.yml", "100644", "create"), ""},
		{"a link out of the tree", `"allow_symlinks":false`, `"allow_symlinks":true`, link, created("calc/out", "120000", "symlink"), "calc/out: symlink_refused: "},
		{"no writes at all", `"mutation_mode":"copied-repo"`, `"mutation_mode":"none"`, "", nil, "skip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			blobs := map[string]string{}
			if tt.patch != "" {
				blobs[evidence.PatchFile] = tt.patch
			}
			dir := forgeSession(t, "pass", tt.old, tt.replacement, blobs, tt.patched)
			var opt bundle.Options
			opt.Gates, opt.Further = Gates()
			rep, err := bundle.Audit(t.Context(), dir, opt)
			must(t, err)
			if i := slices.IndexFunc(rep.Gates, func(g bundle.GateResult) bool { return g.Name == bundle.GateSignatures }); i < 0 || rep.Gates[i+1].Name != GateEnvelope {
				t.Fatalf("the gate is not behind the others: %+v", rep.Gates)
			}
			for _, g := range rep.Gates {
				if g.Name != GateEnvelope {
					if tt.want != "skip" && g.Status != bundle.Pass && g.Status != bundle.Skipped {
						t.Errorf("the forgery has another defect: %+v", g)
					}
					continue
				}
				if (g.Status == bundle.Pass) != (tt.want == "") {
					t.Errorf("%+v", g)
				}
				if tt.want != "" && tt.want != "skip" && !slices.ContainsFunc(g.Findings, func(f reason.Finding) bool {
					return f.Code == reason.EnvelopeMismatch && f.Path == evidence.PatchFile && strings.HasPrefix(f.Detail, tt.want)
				}) {
					t.Errorf("it does not find %q: %+v", tt.want, g.Findings)
				}
			}
		})
	}
}

// TestEnvelopeOfRefusedRuns: a run that was refused claims nothing, so its
// patch may be what it is; what is missing is no pass.
func TestEnvelopeOfRefusedRuns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pass", "fail", "approved", "accepted", "blocked", "resumed", "cached"} {
		dir := filepath.Join("..", "..", "vectors", "evidence", "valid", name)
		if found := CheckEnvelope(t.Context(), os.DirFS(dir)); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
	for _, gone := range []string{evidence.JournalFile, evidence.ContractFile, evidence.PatchFile} {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "vectors", "evidence", "valid", "pass"))))
		must(t, os.Remove(filepath.Join(dir, gone)))
		if found := CheckEnvelope(t.Context(), os.DirFS(dir)); len(found) != 1 || found[0].Path != gone {
			t.Errorf("without %s: %v", gone, found)
		}
	}
}
