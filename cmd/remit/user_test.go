//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"remit/fixtures/tally"
)

// testUID is an unprivileged user.
const testUID = 65533

// asUser are the tests that count for the tables, by the turn that tries them, and how
// many rows they have.
var asUser = []struct {
	tests string
	rows  int
}{
	{"TestKilledAtEveryStep|TestReadOnlyHome", 2},
	{"TestKilledAgainWhileResumed|TestKilledAtRandom|TestTwoProcessesOnOneSession|TestHomeFillsUp", 4},
	{"TestGitEscapesOfTheRepository|TestGitEnvironment|TestAttributesChangeNoBytes|TestGitEscapesOfTheAgent", len(gitEscapes.Rows)},
}

// TestAsOrdinaryUser runs the tests of the tables again as an ordinary user,
// with the programs that are built already: a part of them, by turn, and all in a soak.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 || testing.Short() {
		t.Skip("not root, so the other tests are the ordinary user's already")
	}
	t.Parallel()
	tables := []*tally.Table{crashes, storage, gitEscapes}
	if !tally.ByTurn(t, 5, 8) {
		for _, table := range tables {
			table.LeftOut(t, "ordinary user", nil)
		}
		t.Skip(tally.Waits)
	}
	dir, err := os.MkdirTemp("/tmp", "remit-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	if err := os.Chown(dir, testUID, testUID); err != nil {
		t.Fatal(err)
	}
	// Copies: the originals lie in directories of root's.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"remit": program(), "remit-crashing": crashing(), "cli.test": self} {
		if out, err := exec.Command("cp", from, filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	turn := tally.Turn(t, len(asUser))
	var chosen []string
	want := 0
	for i, part := range asUser {
		if turn < 0 || i == turn {
			chosen, want = append(chosen, part.tests), want+part.rows
		}
	}
	args := []string{"-test.v", "-test.run", "^(" + strings.Join(chosen, "|") + ")$", "-test.timeout=0"}
	if end, ok := t.Deadline(); ok { // a minute before this process, so that it can say where it stood
		args[3] = "-test.timeout=" + (time.Until(end) - time.Minute).String()
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "cli.test"), args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), givenProgram + "=" + filepath.Join(dir, "remit"),
		"REMIT_SOAK=" + os.Getenv("REMIT_SOAK"), "REMIT_CRASH_SEED=" + os.Getenv("REMIT_CRASH_SEED"), "GORACE=" + os.Getenv("GORACE")}
	if _, soak := soaking(t); soak {
		cmd.Env = append(cmd.Env, "REMIT_TURN=all") // else it draws one of its own
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}, Pdeathsig: syscall.SIGKILL}
	keepThread(t)
	out, err := cmd.CombinedOutput()
	rows, tried := 0, map[string]bool{}
	var rest strings.Builder
	for line := range strings.Lines(string(out)) {
		if row, ok := tally.Parse(line); ok {
			rows++
			tried[row.Name] = true
			fmt.Fprintln(t.Output(), row) // of the table, for the other kind of user
		} else {
			rest.WriteString(line)
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, rest.String())
	}
	if rows != want {
		t.Errorf("%d rows of the tables, want %d", rows, want)
	}
	left := 0
	for _, table := range tables {
		left += table.LeftOut(t, "ordinary user", tried)
	}
	if all := len(crashes.Rows) + len(storage.Rows) + len(gitEscapes.Rows); rows+left != all {
		t.Errorf("%d rows are tried by this turn and %d by others, of %d", rows, left, all)
	}
}
