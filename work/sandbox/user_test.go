//go:build linux && !race

package sandbox

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

func init() { wholeSuite = true }

// TestAsOrdinaryUser runs this package again as an ordinary user: a part of its tests,
// by turn, and with REMIT_TURN=all each of them.
func TestAsOrdinaryUser(t *testing.T) {
	if !asRoot() || testing.Short() {
		t.Skip("SKIPPED: not root, so the other tests are the ordinary user's already")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "remit-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, testUID, testUID); err != nil {
		t.Fatal(err)
	}
	// A copy: the test binary lies in a directory of root's.
	exe := filepath.Join(dir, "sandbox.test")
	copyProgram(t, self(t), exe)
	// What Go needs is compiled once, for both kinds of user.
	cache := filepath.Join(dir, "gocache")
	if err := (BuildCache{}).Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `[ ! -d "$1" ] || { cp -R "$1" "$2" && chown -R "$3" "$2"; }`, "sh",
		(BuildCache{}).State().Dir, cache, fmt.Sprintf("%[1]d:%[1]d", testUID)).CombinedOutput(); err != nil {
		t.Fatalf("copying the build cache: %v: %s", err, out)
	}
	limit := "0"
	if end, ok := t.Deadline(); ok { // a minute before this process, so that it can say where it stood
		limit = (time.Until(end) - time.Minute).String()
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout="+limit)
	turn, least := tally.Turn(t, userTurns), 100
	if turn >= 0 { // without -test.run the process itself looks for rows that no test tried
		cmd.Args = append(cmd.Args, "-test.run="+testsOf(t, exe, turn))
		least /= userTurns
	} else {
		cmd.Env = []string{"REMIT_TURN=all"}
	}
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "HOME="+dir, "TMPDIR="+dir, "PATH="+os.Getenv("PATH"), EnvBuildCache+"="+cache)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	out, err := cmd.CombinedOutput()
	var rest strings.Builder
	tried := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if row, ok := tally.Parse(line); ok {
			tried[row.Name] = true
			fmt.Fprintln(t.Output(), row) // of the table, for the other kind of user
			continue
		}
		rest.WriteString(line)
		if strings.Contains(line, "SKIPPED") || strings.Contains(line, "NOT ENFORCED") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, rest.String())
	}
	if n := strings.Count(string(out), "\n--- PASS"); n < least {
		t.Errorf("only %d tests passed as an ordinary user:\n%s", n, rest.String())
	}
	if turn >= 0 {
		escapes.LeftOut(t, "ordinary user", tried)
	}
}

// userTurns is how many runs try all of the package as an ordinary user.
const userTurns = 12

// testsOf is a pattern for the tests of one turn: every twelfth one.
func testsOf(t *testing.T, exe string, turn int) string {
	t.Helper()
	list, err := exec.Command(exe, "-test.list", "^Test").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, name := range strings.Fields(string(list)) {
		if i%userTurns == turn {
			names = append(names, name)
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
