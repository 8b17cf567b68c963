package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unreadCommand is the program with both outputs on a pipe that nobody reads.
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
		{[]string{"no-such-command"}, 1},
		{[]string{"help"}, 0},
	} {
		cmd := unreadCommand(t, home, repo, test.args...)
		_ = cmd.Run() // its code is looked at
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%.60q: %v, want %d", test.args, cmd.ProcessState, test.code)
		}
	}
}

// TestServeOutlivesItsReader: a nexus whose log nobody reads any more goes on,
// and drains as ever.
func TestServeOutlivesItsReader(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := unreadCommand(t, home, home, "serve", "--listen", addr, "--data", filepath.Join(home, "nexus"), "--verbose")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // there is nothing to wait for but the answer
		resp, err := http.Get("http://" + addr + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
			break
		}
		if time.Since(began) > time.Minute || len(ended) > 0 {
			t.Fatalf("no answer: %v", err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
