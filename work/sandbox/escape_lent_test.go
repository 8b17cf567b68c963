//go:build linux && !race

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// What is shown of the host are its bytes, and not the files in which a process
// of the host could be met: through a socket, a FIFO or a lock.
func TestHostFilesAreNotMet(t *testing.T) {
	t.Parallel()
	e := escape(t, "sockets, FIFOs and locks of the host")
	dir := shortDir(t, "/tmp")
	must(t, plant(dir))
	open := open1(e)
	tools := open.tools
	tools.binds = append([]Bind{{dir, "/opt/tools"}}, tools.binds...)
	binds := []Bind{{dir, "/opt/lent"}, {dir + "/lock", "/opt/file/lock"}}
	places := []string{"/opt/lent", "/opt/tools", "/opt/file/lock"}
	if asRoot() {
		// What every command sees: removed when the test ends.
		usr := shortDir(t, "/usr/local")
		must(t, plant(usr))
		places = append(places, usr)
	} else {
		t.Log("SKIPPED, needs root: a socket, a FIFO and a lock below /usr/local")
	}
	lent := &bwrap{path: open.path, tools: tools, desc: open.desc, control: controlled{noSocketScan: true}}
	tryAll(e, lent, Spec{Binds: binds}, "lent", places...)
	// control
	lent.control.plainBinds = true
	stopped, _ := verdicts(t, try(e, lent, Spec{Binds: binds}, append([]string{attackPath, "attack", "lent"}, places...)...).out)
	if len(stopped) > 0 {
		t.Errorf("without the overlays it is stopped too, so the test shows nothing: %q", stopped)
	}
}

// The other direction: a lock that is taken inside blocks no process of the host.
func TestLocksHoldNobodyUp(t *testing.T) {
	t.Parallel()
	e := escape(t, "sockets, FIFOs and locks of the host")
	dir := shortDir(t, "/tmp")
	write(t, dir+"/lock", "x")
	lower := t.TempDir()
	write(t, lower+"/lock", "x")
	for inside, host := range map[string]string{
		"/opt/lent/lock": dir + "/lock", "/opt/file/lock": dir + "/lock", "/workspace/lock": lower + "/lock",
		"/usr/bin/env": "/usr/bin/env", "/etc/ld.so.cache": "/etc/ld.so.cache",
	} {
		if got := lockedFromInside(e, open1(e), lower, dir, inside, host); got != "" {
			e.Check(false, "%s: held up on the host: %s", inside, got)
		} else {
			e.All(2)
		}
	}
	if lockedFromInside(e, without(e, controlled{plainBinds: true}), lower, dir, "/usr/bin/env", "/usr/bin/env") == "" {
		t.Error("without the overlays no process is blocked either, so the test shows nothing")
	}
}

// lockedFromInside says which locks of a host file cannot be had while a command
// holds those of what it is shown.
func lockedFromInside(t testing.TB, d Driver, lower, dir, inside, host string) (locked string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held := false
	look := writer(func(p []byte) (int, error) {
		held = string(p) == "holding\n"
		f, err := os.Open(host)
		if err == nil {
			defer f.Close()
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				locked += "flock "
			}
			record := unix.Flock_t{Type: unix.F_WRLCK}
			if unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &record) != nil || record.Type != unix.F_UNLCK {
				locked += "record"
			}
		}
		cancel()
		return len(p), nil
	})
	_, _ = d.Run(ctx, Spec{Lower: lower, Env: map[string]string{"GORACE": endAtOnce}, Commands: []Command{
		{Argv: []string{attackPath, "attack", "hold", inside}, Stdout: look}},
		Binds: []Bind{{dir, "/opt/lent"}, {dir + "/lock", "/opt/file/lock"}, {self(t), attackPath}}})
	if !held {
		t.Fatalf("%s: the command holds no lock, so the test shows nothing", inside)
	}
	return locked
}

// A mount below a directory that is lent is not shown, and what lies beside it
// is; below the system's own directories it is shown like everything else.
func TestMountsBelowLentDirectories(t *testing.T) {
	t.Parallel()
	e := escape(t, "mounts below lent directories")
	needRoot(e)
	dir := shortDir(t, "/tmp")
	must(t, os.Chmod(dir, 0o755))
	for _, sub := range []string{"empty", "home", "tmp"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
		must(t, os.Chmod(filepath.Join(dir, sub), 0o777))
	}
	exe := filepath.Join(dir, "attack") // an ordinary user cannot run ours
	copyProgram(t, self(t), exe)
	cmd := exec.Command(exe, "mounted", dir, "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, who := range []string{"0", fmt.Sprint(testUID)} {
		for _, what := range []string{"lent", "system"} {
			end := fmt.Sprintf("%s as %s 0\n", what, who)
			said, rest, found := strings.Cut(string(out), end)
			if !found {
				t.Fatalf("no %q in\n%s", end, out)
			}
			out = []byte(rest)
			shows := "textrefused\n"
			if what == "system" {
				shows = "textfifo\nlock\nsock\nrefused\n"
			}
			e.Check(strings.HasPrefix(said, shows), "%s as %s: shown %q", what, who, said)
			stopped, through := verdicts(t, said)
			e.All(len(stopped))
			e.Check(len(through) == 0, "%s as %s: %q succeeded", what, who, through)
		}
	}
}

// Where no overlay is possible, what is shown is searched for ways out.
func TestSearchForWaysOut(t *testing.T) {
	t.Parallel()
	dir := shortDir(t, "/tmp")
	must(t, os.MkdirAll(dir+"/a/b", 0o755))
	must(t, os.Symlink("/dev/log", dir+"/a/link"))
	write(t, dir+"/a/file", "x")
	if err := searchWaysOut(dir, "/host"); err != nil {
		t.Errorf("a harmless directory: %v", err)
	}
	must(t, plant(dir+"/a/b"))
	for _, name := range []string{"fifo", "sock"} {
		err := searchWaysOut(dir, "/host")
		if reason.CodeOf(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), "a/b/"+name) {
			t.Errorf("a directory with a %s: %v", name, err)
		}
		must(t, os.Remove(dir+"/a/b/"+name))
	}
}

func TestNamesOfMounts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{`/a\040b\134c`: `/a b\c`, `/plain`: `/plain`, `/end\`: `/end\`, `/no\9`: `/no\9`, `\011`: "\t"} {
		if got := unescapeOctal(in); got != want {
			t.Errorf("%q: %q instead of %q", in, got, want)
		}
	}
	if points, err := mountPoints(); err != nil || len(points) < 2 || points[0] != "/" {
		t.Errorf("%q, %v", points, err)
	}
}
