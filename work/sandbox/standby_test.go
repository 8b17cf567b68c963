//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// None of these is parallel: a process has one keeper that stands by.

// awaited returns the keeper that stands by, ready to be claimed.
func awaited(t *testing.T) *standbyKeeper {
	t.Helper()
	open1(t)
	startStandby()
	standby.Lock()
	w := standby.next
	standby.Unlock()
	if w == nil {
		t.Fatal("no keeper stands by")
	}
	<-w.born
	if w.err != nil {
		t.Fatal(w.err)
	}
	t.Cleanup(w.dismiss)
	return w
}

func (w *standbyKeeper) pid() int { return w.session.cmd.Process.Pid }

func noOp(t *testing.T) Spec {
	return Spec{Lower: t.TempDir(), Commands: []Command{{Argv: []string{"/bin/true"}}}}
}

func run1(t *testing.T, s Spec) {
	t.Helper()
	r, err := open1(t).Run(t.Context(), s)
	if err != nil || len(r.Commands) != 1 || !r.Commands[0].Started || r.Commands[0].ExitCode != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// gone waits until a process is no more, not even as a zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return startTime(pid) == "0" })
}

// TestStandbyServesOneRun: the keeper that stands by becomes the one of the
// next Run, ends with it, and another one takes its place.
func TestStandbyServesOneRun(t *testing.T) {
	w := awaited(t)
	claimed := w.pid()
	var name string
	s := noOp(t)
	s.Commands[0] = Command{Argv: []string{"/bin/echo"}, Stdout: writer(func(p []byte) (int, error) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", claimed))
		name = string(bytes.Trim(text, "\x00"))
		return len(p), nil
	})}
	run1(t, s)
	if name != keeperName {
		t.Errorf("the keeper at work is called %q", name)
	}
	if startTime(claimed) != "0" {
		t.Error("the keeper outlived its Run")
	}
	next := awaited(t)
	if next == w || next.pid() == claimed {
		t.Error("a keeper serves a second Run")
	}
	startStandby()
	if again := awaited(t); again != next {
		t.Error("two keepers stand by")
	}
}

// TestStandbyHoldsNothing: what was secret or open in this process when the
// keeper was born does not wait in it.
func TestStandbyHoldsNothing(t *testing.T) {
	open1(t)
	dismissAny()
	t.Setenv("REMIT_TEST_LATE", secret)
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	// Inherited by every child, as from a careless parent of ours.
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	w := awaited(t)
	eventually(t, "the keeper closes what is not its own, or marks it", func() bool { return sealed(t, w.pid()) })
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.pid()))
	if err != nil || len(environ) != 0 {
		t.Errorf("environment %q, %v", environ, err)
	}
	var out bytes.Buffer
	s := noOp(t)
	s.Commands[0] = Command{Argv: []string{"/bin/sh", "-c", "ls /proc/self/fd | wc -l; env"}, Stdout: &out}
	run1(t, s)
	lines := bufio.NewScanner(&out)
	lines.Scan()
	if n, err := strconv.Atoi(strings.TrimSpace(lines.Text())); err != nil || n > 4 {
		t.Errorf("%s descriptors inside", lines.Text())
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), secret) {
			t.Errorf("inside: %s", lines.Text())
		}
	}
}

// sealed reports whether every descriptor of a process from 3 on is
// close-on-exec.
func sealed(t *testing.T, pid int) bool {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil || len(infos) < 5 {
		return false // not there yet
	}
	for _, path := range infos {
		text, err := os.ReadFile(path)
		if fd, _ := strconv.Atoi(filepath.Base(path)); err != nil || fd < 3 {
			continue
		}
		var flags uint64
		_, after, _ := strings.Cut(string(text), "flags:")
		if _, err := fmt.Sscanf(strings.TrimSpace(after), "%o", &flags); err != nil || flags&unix.O_CLOEXEC == 0 {
			return false
		}
	}
	return true
}

// TestStandbyThatDied is not claimed: a keeper killed while it waited is no
// failure of the Run that would have had it.
func TestStandbyThatDied(t *testing.T) {
	w := awaited(t)
	if err := unix.Kill(w.pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the keeper is seen", func() bool { return !w.usable() })
	run1(t, noOp(t))
	gone(t, w.pid())
}

// TestStandbyWithOldMounts is not claimed: it would show the host as it was.
func TestStandbyWithOldMounts(t *testing.T) {
	needRoot(t)
	const again = "REMIT_TEST_OWN_MOUNTS"
	if os.Getenv(again) == "" {
		// In a mount namespace of its own: the host keeps its mounts.
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestStandbyWithOldMounts$", "-test.v")
		cmd.Env = append(os.Environ(), again+"=1")
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	w := awaited(t)
	if !w.usable() {
		t.Fatal("a new keeper is refused, so the test shows nothing")
	}
	lower := t.TempDir()
	if err := unix.Mount("tmpfs", lower, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(lower, unix.MNT_DETACH)
	write(t, lower+"/new", "x")
	shell(t, open1(t), Spec{Lower: lower}, "test -f new")
	gone(t, w.pid())
}

// TestStandbyExpires: a standby keeper ends after its time, and dismissing one that was
// claimed meanwhile does nothing.
func TestStandbyExpires(t *testing.T) {
	w := awaited(t)
	if !w.expiry.Stop() {
		t.Fatal("the keeper waits without an end")
	}
	w.expiry.Reset(time.Millisecond)
	gone(t, w.pid())
	claimed := awaited(t)
	s, err := obtainKeeper(true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	if s != claimed.session {
		t.Fatal("another keeper was claimed")
	}
	claimed.dismiss()
	if startTime(claimed.pid()) == "0" {
		t.Error("a keeper at work was dismissed")
	}
}

// TestKillOfTheParentOfAStandby: it dies with this program, whatever the end.
func TestKillOfTheParentOfAStandby(t *testing.T) {
	open1(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestStandbyServesOneRun$", "-test.count", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var pid int
	eventually(t, "a keeper stands by", func() bool {
		for _, dir := range marked(standbyName) {
			var found int
			fmt.Sscanf(dir, "/proc/%d", &found)
			if parent, _ := parentOf(found); parent == cmd.Process.Pid {
				pid = found
			}
		}
		return pid > 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

// TestManyRunsAtOnce: one of them gets the keeper that stands by, the others
// get one of their own.
func TestManyRunsAtOnce(t *testing.T) {
	d := open1(t)
	awaited(t)
	failures := make(chan error, 6)
	for i := range cap(failures) {
		lower := t.TempDir()
		write(t, lower+"/mine", fmt.Sprint(i))
		go func() {
			r, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{
				{Argv: []string{"/bin/sh", "-c", fmt.Sprintf(`[ "$(cat mine)" = %d ]`, i)}},
			}})
			if err == nil && r.Commands[0].ExitCode != 0 {
				err = fmt.Errorf("run %d: %+v", i, r.Commands[0])
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

func dismissAny() {
	if w := claimStandby(nil); w != nil {
		<-w.born
		_ = unix.Close(w.mounts)
		w.end()
	}
}
