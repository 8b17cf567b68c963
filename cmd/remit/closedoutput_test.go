package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
)

// unreadCommand is the program with both outputs on a pipe that is not read.
func unreadCommand(t *testing.T, home, dir string, args ...string) *exec.Cmd {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	cmd := exec.CommandContext(t.Context(), program(), args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(os.Environ(), "REMIT_HOME="+home), dir, w, w
	return cmd
}

// TestClosedOutput: `remit run 2>&1 | head -2` and its kind lose no work, and the
// exit code is that of the work.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	requireSandbox(t)
	home, repo := t.TempDir(), t.TempDir()
	for _, line := range []string{"init -q", "-c user.name=t -c user.email=t@example.com commit -q --allow-empty -m base"} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	bundle := filepath.Join(t.TempDir(), "b.zip")
	run := []string{"run", "--repo", ".", "--allow", "**", "--verify", "test -e a", "--"}
	for _, test := range []struct {
		args []string
		code int
	}{
		{append(slices.Clone(run), "sh", "-c", "seq 1000 >&2; echo x >a"), 0},
		{[]string{"show", "latest"}, 0},
		{[]string{"audit", "latest"}, 0},
		{[]string{"verify", "latest"}, 0},
		{[]string{"replay", "latest", "--follow"}, 0},
		{[]string{"logs", "latest"}, 0},
		{[]string{"resume", "latest"}, 0},
		{[]string{"export", "latest", "--out", bundle}, 0},
		{[]string{"reproduce", bundle, "--repo", ".", "--json"}, 0},
		{[]string{"accept", "latest"}, 0},
		{[]string{"show", "latest", "--json"}, 0},
		{append(slices.Clone(run), "sh", "-c", "echo x >b"), 2},
		{[]string{"show", "latest"}, 2},
		{[]string{"show", "nothing"}, 3},
		{[]string{"check", "--base", "HEAD", "--head", "HEAD"}, 3},
		{[]string{"watch", "--once"}, 0},
		{[]string{"watch", "--once", "--json"}, 0},
		{[]string{"health"}, 0},
		{[]string{"ladder", "status"}, 0},
		{[]string{"records", "check", "/no/such"}, 3},
		{[]string{"env", "list"}, 0},
		{[]string{"agent", "show", "none"}, 3},
		{[]string{"policy", "diff", "HEAD", "HEAD"}, 0},
		{[]string{"bundle", "make", "/no/such", "--out", bundle}, 3},
		{[]string{"no-such-command"}, 1},
		{[]string{"help"}, 0},
	} {
		cmd := unreadCommand(t, home, repo, test.args...)
		_ = cmd.Run() // its code is looked at
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%.60q: %v, want %d", test.args, cmd.ProcessState, test.code)
		}
	}
	// What a full disk did not take is no success, with --json or without.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, line := range []string{"show latest", "show latest --json", "logs latest", "list", "help", "doctor"} {
		cmd := unreadCommand(t, home, repo, strings.Fields(line)...)
		cmd.Stdout = full
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("%s >/dev/full: %v, want 3", line, cmd.ProcessState)
		}
	}
}

// TestServeOutlivesItsReader: a nexus whose log is no longer read goes on,
// and drains as ever.
func TestServeOutlivesItsReader(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := unreadCommand(t, home, home, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(home, "nexus"), "--verbose", "--json")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		resp, err := http.Get(said.URL + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
