package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remit/work/harness"
)

// gitRepo makes a repository with one commit of the given files.
func gitRepo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commitAll(t, dir)
	return dir
}

// cli is one remit process.
func cli(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+home)
	return cmd
}

// TestKilledAtEveryStep kills a run with SIGKILL after each line of its
// progress. Whatever the moment: no process, mount or temporary tree of it is
// left after the next command, list and show say where it stopped, and nothing
// claims a pass that does not audit.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	repo := gitRepo(t, map[string]string{"a.txt": "a\n"})
	marker := fmt.Sprintf("REMIT_KILL_%d", os.Getpid())
	args := []string{"run", "--repo", repo, "--allow", "a.txt", "--verify", "test -s a.txt", "--", "sh", "-c", "echo x >> a.txt; echo " + marker}

	var stderr bytes.Buffer
	whole := cli(t, t.TempDir(), args...)
	whole.Stderr = &stderr
	if err := whole.Run(); err != nil {
		t.Fatalf("the run itself: %v\n%s", err, stderr.String())
	}
	lines := strings.Count(stderr.String(), "\n")
	if lines < 10 {
		t.Fatalf("only %d lines of progress:\n%s", lines, stderr.String())
	}
	for n := range lines {
		t.Run(fmt.Sprintf("after_line_%d", n+1), func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			killAfter(t, cli(t, home, args...), n+1)
			waitGone(t, marker, home)
			checkKilled(t, home)
		})
	}
}

// killAfter starts a command, reads so many lines of its stderr and kills it.
func killAfter(t *testing.T, cmd *exec.Cmd, lines int) {
	t.Helper()
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(pipe)
	for range lines {
		if !scan.Scan() {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// waitGone waits until no process carries the marker and no mount lies below
// home; the kernel takes them down when the run's process dies.
func waitGone(t *testing.T, marker, home string) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := leftovers(t, marker, home)
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("left over: %q", left)
		case <-tick.C:
		}
	}
}

func leftovers(t *testing.T, marker, home string) []string {
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

// checkKilled asks the next commands about the killed run.
func checkKilled(t *testing.T, home string) {
	t.Helper()
	out, err := cli(t, home, "list", "--json").Output()
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var rows []listed
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		show := cli(t, home, "show", row.SessionID)
		text, _ := show.Output()
		audit := cli(t, home, "audit", row.SessionID)
		_, _ = audit.Output()
		code, audited := show.ProcessState.ExitCode(), audit.ProcessState.ExitCode()
		switch row.Phase {
		case harness.Sealed:
			if row.Status != "pass" || code != 0 || audited != 0 {
				t.Errorf("a sealed session: status %s, show %d, audit %d", row.Status, code, audited)
			}
		case harness.Interrupted:
			if row.Status != "" || row.StoppedAt == "" || code != 3 || !bytes.Contains(text, []byte("stopped at")) {
				t.Errorf("an interrupted session: %+v, show %d\n%s", row, code, text)
			}
			fallthrough
		default:
			if audited == 0 {
				t.Errorf("session in phase %s passes its audit", row.Phase)
			}
		}
	}
	for _, row := range rows {
		resume := cli(t, home, "resume", row.SessionID, "--json")
		var stderr bytes.Buffer
		resume.Stderr = &stderr
		text, _ := resume.Output()
		var rep runResult
		if err := json.Unmarshal(text, &rep); err != nil {
			t.Fatalf("resume: %v\n%s", err, stderr.String())
		}
		captured := strings.Contains(stderr.String(), "verify.head") || row.Phase != harness.Interrupted
		if (rep.Status == "pass") == (rep.Status == "blocked") || (rep.Status == "pass") != (resume.ProcessState.ExitCode() == 0) {
			t.Errorf("resumed from %s as %s, exit %d", row.StoppedAt, rep.Status, resume.ProcessState.ExitCode())
		}
		if rep.Status == "blocked" && rep.Blockers[0].Code != "interrupted" {
			t.Errorf("resumed from %s: %v", row.StoppedAt, rep.Blockers)
		}
		if rep.Status == "blocked" && captured {
			t.Errorf("resumed from %s as %v although its patch was captured\n%s", row.StoppedAt, rep.Blockers, stderr.String())
		}
		if out, err := cli(t, home, "audit", row.SessionID).CombinedOutput(); err != nil {
			t.Errorf("resumed from %s as %s: audit: %v\n%s", row.StoppedAt, rep.Status, err, out)
		}
	}
	// The next run sweeps what the killed one left in the work directory.
	repo := gitRepo(t, map[string]string{"b.txt": "b\n"})
	if out, err := cli(t, home, "run", "--repo", repo, "--allow", "b.txt", "--verify", "true", "--", "sh", "-c", "echo x >> b.txt").CombinedOutput(); err != nil {
		t.Fatalf("the next run: %v\n%s", err, out)
	}
	left, err := os.ReadDir(filepath.Join(home, "work"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left in the work directory: %v", left)
	}
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
