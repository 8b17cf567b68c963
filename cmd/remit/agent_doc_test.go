package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/work/engine/agent/modeltest"
)

// TestAgentsPage runs the blocks of docs/agents.md as they stand there, with the
// real Codex where it is installed. Only the port is the test's.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 8)
	requireSandbox(t)
	prefix, err := modeltest.Installed()
	if err != nil {
		t.Fatal(err)
	}
	if given := os.Getenv("REMIT_AGENTS"); given != "" {
		prefix = given
	}
	e, err := engineNamed("codex", prefix)
	if err == nil {
		_, err = e.Identity(t.Context())
	}
	if err != nil {
		t.Skipf("SKIPPED, the page was not executed: %v", err)
	}
	parts := blocks(t, "../../docs/agents.md", "Without a provider")
	if len(parts) != 3 {
		t.Fatalf("%d blocks, want the repository, the setup and a run, and what is set up", len(parts))
	}
	text, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "```sh\n"); n != len(parts) {
		t.Errorf("%d blocks in all, %d are executed", n, len(parts))
	}
	address := freeAddress(t)
	dir := t.TempDir()
	fixtures, err := filepath.Abs("../../fixtures")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{fixtures, "fixtures"}, {program(), "remit"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	// The model is asked as soon as it listens, and not before.
	script := strings.NewReplacer("127.0.0.1:8080 &", address+" &\nuntil (exec 3<>/dev/tcp/"+strings.Replace(address, ":", "/", 1)+") 2>/dev/null; do :; done", "127.0.0.1:8080", address).
		Replace("set -e\n" + strings.Join(parts, "") + "wait\n")
	cmd := exec.CommandContext(t.Context(), "bash", "-m", "-c", script) // -m: the jobs have numbers
	cmd.Dir = dir
	cmd.Env = append(plainEnv(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "REMIT_HOME="+filepath.Join(dir, "home"), "REMIT_AGENTS="+prefix,
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	keepThread(t)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"ok    policy    remit.yaml switches the engine on", "ok    proof     pass: proven up to stage 3", "PASS  2", "head      PASS  python3 -m unittest",
		"codex  0.", "mode         copied-repo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
