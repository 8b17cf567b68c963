package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remit/work/session"
)

// cli is one remit process.
func cli(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(), args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+home)
	if len(args) > 1 && args[1] == session.Latest { // from no repository: the tests are in one, and the latest session is of another
		cmd.Dir = home
	}
	return cmd
}

// waitGone waits until no process carries the marker and no mount lies below
// home; the kernel takes them down when the run's process dies. It returns what
// is still there after a long while.
func waitGone(t testing.TB, marker, home string) []string {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := leftovers(t, marker, home)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline.C:
			return left
		case <-tick.C:
		}
	}
}

func leftovers(t testing.TB, marker, home string) []string {
	t.Helper()
	var left []string
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ")) // may be another user's
		if (bytes.Contains(text, []byte(marker)) && bytes.Contains(text, []byte("/workspace"))) || bytes.Contains(env, []byte("REMIT_HOME="+home+"\x00")) {
			left = append(left, name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(home)) {
		left = append(left, "a mount below "+home)
	}
	return left
}

// TestInterruptClosesTheRun sends SIGINT while the engine works: the run ends
// as blocked, with complete evidence, and the work so far is kept.
func TestInterruptClosesTheRun(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	home := t.TempDir()
	repo := gitRepo(t, map[string]string{"a.txt": "a\n"})
	cmd := cli(t, home, "run", "--repo", repo, "--allow", "a.txt", "--verify", "true", "--json", "--", "sh", "-c", "echo x >> a.txt; echo READY; exec sleep 1000")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(pipe)
	for scan.Scan() {
		if strings.Contains(scan.Text(), "READY") {
			// Twice, as timeout(1) does: to the process and to its group.
			for range 2 {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	_ = cmd.Wait() // the exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Fatalf("exit code %d, want 3\n%s", code, stdout.String())
	}
	var rep runResult
	if err := json.Unmarshal(stdout.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Status != "blocked" || rep.Blockers[0].Code != "cancelled" || !slices.Contains(rep.ChangedFiles, "a.txt") {
		t.Errorf("status %s, blockers %v, changed %v", rep.Status, rep.Blockers, rep.ChangedFiles)
	}
	if out, err := cli(t, home, "audit", "latest").CombinedOutput(); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}
