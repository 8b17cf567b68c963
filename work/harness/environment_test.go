package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// TestVariablesOfThePolicy: the engine and every command get the variables that the policy
// of the base sets. The report shows them, and a file that no commit has cannot set them.
func TestVariablesOfThePolicy(t *testing.T) {
	t.Parallel()
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	repo := newRepo(t, map[string]string{"a.txt": "one\n", "remit.yaml": "environment: {env: {MOOD: calm}}\n"})
	if err := os.WriteFile(filepath.Join(repo, "remit.yaml"), []byte("environment: {env: {MOOD: wild}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := fixing(t, repo, d, `echo "$MOOD" >>a.txt`)
	req.Contract.RequireClean = false
	req.Contract.VerificationCommands = []string{`test "$MOOD" = calm`}
	out, _ := baseRun(t, req)
	patch, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.PatchFile))
	if err != nil || !strings.Contains(string(patch), "+calm\n") {
		t.Errorf("the engine wrote %s, %v", patch, err)
	}
	if e := out.Report.Environment; e == nil || e.Env["MOOD"] != "calm" || len(e.Layers) != 0 {
		t.Errorf("the report says %+v", e)
	}
}

// TestNoEngineWithoutItsLayers: dependencies that cannot be installed are found before the
// engine costs anything, with a nexus or without one.
func TestNoEngineWithoutItsLayers(t *testing.T) {
	t.Parallel()
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	repo := newRepo(t, map[string]string{"a.txt": "one\n", "remit.yaml": "environment: {prepare: [{ecosystem: npm}]}\n"})
	for name, nexus := range map[string]string{"a nexus": "https://nexus.example", "this machine": ""} {
		req := fixing(t, repo, d, "echo two >>a.txt")
		req.Nexus = nexus
		out, err := Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if rep := out.Report; rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.LockFileInvalid || rep.EngineProcessStarted {
			t.Errorf("%s: %s %+v", name, rep.Status, rep.Blockers)
		}
		audited(t, out.Session)
	}
}

// TestPolicyThatCannotBeRead: a caller that asks for the environment alone gets an error
// that says what is wrong with the policy, and where.
func TestPolicyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]reason.Code{
		"allowed_paths: [a]\nprepare: [{ecosystem: npm}]\n":        reason.ContractUnknownKey,
		"allowed_paths: [a]\nverify: {prepare: []}\n":              reason.ContractUnknownKey,
		"allowed_paths: [a]\nenvironment: {prepare: {dir: sub}}\n": reason.ContractType,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "remit.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := EnvironmentAt(dir, false)
		if reason.CodeOf(err) != want || !strings.Contains(err.Error(), "remit.yaml:2:") || !strings.Contains(err.Error(), "prepare") {
			t.Errorf("%q: %v", text, err)
		}
	}
	linked := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "remit.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := EnvironmentAt(linked, false); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Errorf("a link: %v", err)
	}
	if env, err := EnvironmentAt(t.TempDir(), false); err != nil || !env.Empty() {
		t.Errorf("none: %v", err)
	}
}
