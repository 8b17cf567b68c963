//test:both-package The attacks run in processes of their own, and the runs of the sandbox have several goroutines.

//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary plays four parts: the tests, the keeper (Init), the hostile
// program inside the sandbox ("attack") and a parent to be killed ("parent").
func TestMain(m *testing.M) {
	Init()
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "grouped":
			os.Exit(grouped(os.Args[2], os.Args[3:]))
		case "mounted":
			os.Exit(mounted(os.Args[2], os.Args[3]))
		case "attack":
			os.Exit(attack(os.Args[2], os.Args[3:]))
		case "parent":
			os.Exit(parent(os.Args[2]))
		}
	}
	os.Setenv("REMIT_TEST_TOKEN", secret)
	os.Setenv("GORACE", endAtOnce)
	os.Exit(complete(m.Run()))
}

// secret is what no command may ever see.
const secret = "s3cr3t-t0k3n-of-the-host"

// attackPath is where the test binary stands inside.
const attackPath = "/opt/remit/attack"

// endAtOnce is for the test binary in its other parts. Built with the race
// detector it would sleep for a second before it ends, so that threads which
// still run can be caught; those parts have none.
const endAtOnce = "atexit_sleep_ms=0"

func asRoot() bool { return os.Geteuid() == 0 }

// open returns the default driver or skips the test, loudly.
func open1(t testing.TB) *bwrap {
	t.Helper()
	d, err := Open(context.Background(), Options{})
	if err != nil {
		t.Skipf("SKIPPED, the sandbox cannot be tested here: %v", err)
	}
	return d.(*bwrap)
}

// without returns the driver with some walls taken down.
func without(t testing.TB, c controlled) *bwrap {
	d := open1(t)
	return &bwrap{path: d.path, tools: d.tools, desc: d.desc, control: c}
}

func needRoot(t testing.TB) {
	t.Helper()
	if !asRoot() {
		t.Skip("SKIPPED, needs root")
	}
}

// outcome is a Run of one command.
type outcome struct {
	*Result
	CommandResult
	out string
}

// try runs one command over lower (empty if ""), with the attack program bound.
func try(t testing.TB, d Driver, s Spec, argv ...string) outcome {
	t.Helper()
	if s.Lower == "" {
		s.Lower = t.TempDir()
	}
	var out bytes.Buffer
	s.Commands = []Command{{Argv: argv, Stdout: &out, Stderr: &out}}
	if argv[0] == attackPath {
		s.Binds = append(s.Binds, Bind{Host: self(t), Inside: attackPath})
		s.Env = map[string]string{"GORACE": endAtOnce}
	}
	result, err := d.Run(context.Background(), s)
	if err != nil {
		t.Fatalf("run %q: %v\n%s", argv, err, out.String())
	}
	return outcome{result, result.Commands[0], out.String()}
}

// shell runs a script and fails the test unless it exits 0.
func shell(t testing.TB, d Driver, s Spec, script string) outcome {
	t.Helper()
	o := try(t, d, s, "/bin/sh", "-c", script)
	if o.ExitCode != 0 || !o.Started {
		t.Fatalf("script %q: exit %d\n%s", script, o.ExitCode, o.out)
	}
	return o
}

func self(t testing.TB) string {
	t.Helper()
	// The binary may lie in a directory that only root can enter.
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// copyProgram has another process write the copy. What this one starts at the same
// moment would inherit its file open for writing, and the kernel executes no such file.
func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// markOf is a word for a command line that no other run of these tests has: several go
// on side by side, as different users and with the detector.
func markOf(what string) string {
	return fmt.Sprintf("mark-of-%s-%d-%d", what, os.Getpid(), time.Now().UnixNano())
}

// marked returns the processes of the host whose command line has mark in it.
func marked(mark string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		text, _ := os.ReadFile(d + "/cmdline")
		if strings.Contains(string(text), mark) && d != fmt.Sprintf("/proc/%d", os.Getpid()) {
			pids = append(pids, d)
		}
	}
	return pids
}

// eventually waits for the kernel to finish something that is under way.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// testUID is an unprivileged user for the run of all tests as non-root. No other
// package uses it: what these tests exhaust (processes, inotify watches, keys) is
// counted by user, and the sandboxes of another test would fail for it.
const testUID = 65532

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shortDir is a directory in which the path of a socket is short enough.
func shortDir(t testing.TB, in string) string {
	t.Helper()
	dir, err := os.MkdirTemp(in, "remit-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
