//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"remit/proof/form"
)

// What a fill of the Go build cache has compiled, and how the go command is started for it.

// warmUp says what there is to compile, a line a package; compiles what every Go test
// needs, a line a package too; and has vet and the runner of tests compiled.
var warmUp = [...][]string{{"list", "std"}, {"build", "-v", "std"}, {"vet", "errors"}, {"test", "-count=1", "-run", "^$", "errors"}}

// warmVet tests a module that imports the standard library. go test vets what it tests,
// and vet looks for facts in every package below that, each time in a process of its
// own: a test of an HTTP server waits 2 s for 120 of them where they are not kept.
var warmVet = []string{"test", "-count=1", "-run", "^$", "."}

// warmModule is that module, for the packages that `go list std` has printed.
func warmModule(list []byte) map[string]string {
	var imports strings.Builder
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		switch first, _, _ := strings.Cut(name, "/"); {
		case name == "" || !stdPackage().MatchString(name), first == "cmd", first == "vendor", name == "testing", name == "plugin",
			strings.HasPrefix(name, "runtime/"), slices.Contains(strings.Split(name, "/"), "internal"):
		default:
			fmt.Fprintf(&imports, "\t_ %q\n", name)
		}
	}
	return map[string]string{"go.mod": "module warm\n", "warm_test.go": "package warm\n\nimport (\n" + imports.String() +
		"\t\"testing\"\n)\n\nfunc TestNothing(*testing.T) {}\n"}
}

var stdPackage = form.Lazy(`^[a-z0-9]+(/[a-z0-9]+)*$`)

// goOutput is what a go command prints: how many lines, the beginning and the end of it.
type goOutput struct {
	lines      atomic.Int64
	begin, end []byte
}

// maxList bounds the list of packages that is read; there are some 350 of them.
const maxList = 64 << 10

func (o *goOutput) Write(b []byte) (int, error) {
	o.lines.Add(int64(bytes.Count(b, []byte("\n"))))
	o.begin = append(o.begin, b[:min(len(b), maxList-len(o.begin))]...)
	o.end = append(o.end, b...)
	o.end = o.end[max(0, len(o.end)-500):]
	return len(b), nil
}

// runGo runs the go command of the installation, in a directory that has only files,
// with nothing of the user's settings. What it starts dies with it.
func (c *goCache) runGo(ctx context.Context, args []string, files map[string]string, out *goOutput) error {
	scratch, err := os.MkdirTemp("", "remit-go-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // only the go command wrote there
	work := filepath.Join(scratch, "work")       // a go.mod in TMPDIR itself is ignored
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	bin := filepath.Join(c.root, "bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "go"), args...)
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + scratch, "TMPDIR=" + scratch,
		"GOCACHE=" + c.path("go-build"), "GOENV=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local", "LANG=C.UTF-8"}
	// The signal comes when the thread ends that started the command, so it stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("filling Remit's own Go build cache: go %s: %w", strings.Join(args, " "), err),
			errors.New(string(bytes.TrimSpace(out.end))))
	}
	return nil
}
