//go:build linux

package sandbox

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
)

// escapes are the ways out that are really tried, as root and as an ordinary
// user. Those through git are tried with the whole program, in cmd/remit.
var escapes = &tally.Table{Name: "escape suite", Rows: []string{
	"write outside the workspace",
	"read outside the workspace",
	"symlink out of the tree",
	"symlink race",
	"hard links and their race",
	"patch laid through a symlink",
	"/proc tricks",
	"process 1 of the sandbox",
	"what a login has once",
	"fork bomb",
	"memory bomb",
	"memory bomb through tmpfs",
	"processor hog",
	"disk fill",
	"inode fill",
	"limits raised from inside",
	"double-forked daemon",
	"time limit ignored",
	"kill -9 of the parent",
	"kill -9 of the keeper",
	"loopback and outside network",
	"abstract sockets",
	"sockets in lent directories",
	"sockets, FIFOs and locks of the host",
	"mounts below lent directories",
	"listener: reach another port",
	"listener: connect out",
	"listener: reuse the control descriptor",
	"listener: bind the port again",
	"listener: abstract unix socket",
	"listener: change the network",
	"listener: connections without end",
	"listener: survives the run",
	"secrets in the environment",
	"secrets in the home",
	"files of the user's groups",
	"inherited descriptors",
	"host paths in the mount table",
	"huge output",
	"output taken back",
	"odd file names and types",
	"nested git directory",
	"device nodes",
	"setuid",
	"ptrace",
	"signals to the parent and others",
	"clock",
	"mounts and namespaces",
	"denied system calls",
	"system calls of another ABI",
	"terminal input",
	"forged setup failure",
	"two runs at once",
	"build cache poisoning",
	"lent build cache",
	"hostile entries in a kept build cache",
}}

// escape opens the row of an attack.
func escape(t *testing.T, name string) *tally.Count { return escapes.Row(t, name) }

// wholeSuite is set where all attacks are compiled in: without the race detector.
var wholeSuite bool

// complete fails a whole run of the tests in which an attack was never begun.
func complete(code int) int {
	all := wholeSuite && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" && !testing.Short()
	if missing := escapes.Missing(); all && code == 0 && len(missing) > 0 {
		fmt.Fprintf(os.Stderr, "no test tried: %q\n", missing)
		return 1
	}
	return code
}

// The hostile program says of each attempt whether it was stopped, and at its
// end how many there were: one that died half-way does not count.
const (
	stoppedMark = "STOPPED "
	throughMark = "THROUGH "
	endMark     = "END "
)

// tries makes attempts and reports them.
type tries struct{ made int }

func (n *tries) attempt(what string, err error) {
	n.made++
	if err == nil {
		fmt.Println(throughMark + what)
		return
	}
	fmt.Printf("%s%s: %v\n", stoppedMark, what, err)
}

func (n *tries) end() int {
	fmt.Println(endMark + fmt.Sprint(n.made))
	return 0
}

// verdicts reads what the hostile program said.
func verdicts(t testing.TB, out string) (stopped, through []string) {
	t.Helper()
	end := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if what, ok := strings.CutPrefix(line, stoppedMark); ok {
			stopped = append(stopped, what)
		} else if what, ok := strings.CutPrefix(line, throughMark); ok {
			through = append(through, what)
		} else if what, ok := strings.CutPrefix(line, endMark); ok {
			end = what
		}
	}
	if n := len(stopped) + len(through); n == 0 || end != fmt.Sprint(n) {
		t.Fatalf("the attack did not come to its end:\n%s", out)
	}
	return stopped, through
}

// tryAll runs a part of the hostile program inside and counts its attempts.
func tryAll(t *tally.Count, d Driver, s Spec, part string, args ...string) {
	t.Helper()
	if s.Limits.Wall == 0 {
		s.Limits.Wall = time.Minute
	}
	o := try(t, d, s, append([]string{attackPath, "attack", part}, args...)...)
	stopped, through := verdicts(t, o.out)
	t.All(len(stopped))
	for _, what := range through {
		t.Check(false, "%s: it succeeded", what)
	}
}
