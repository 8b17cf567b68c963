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
	"syscall"
	"testing"
	"time"

	"remit/fixtures/tally"
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

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
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

// testUID is an unprivileged user for the run of all tests as non-root.
const testUID = 65533

// TestAsOrdinaryUser runs this whole package again as an ordinary user.
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
	text, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, text, 0o755); err != nil {
		t.Fatal(err)
	}
	limit := "0"
	if end, ok := t.Deadline(); ok { // a minute before this process, so that it can say where it stood
		limit = (time.Until(end) - time.Minute).String()
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout="+limit)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=" + endAtOnce}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	out, err := cmd.CombinedOutput()
	var rest strings.Builder
	for line := range strings.Lines(string(out)) {
		if row, ok := tally.Parse(line); ok {
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
	if n := strings.Count(string(out), "--- PASS"); n < 10 {
		t.Errorf("only %d tests passed as an ordinary user:\n%s", n, rest.String())
	}
}
