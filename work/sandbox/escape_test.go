//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// Each test here is an escape that is really tried from inside. Where it is
// cheap a control shows that the attempt works when the wall is missing.

func TestIdentity(t *testing.T) {
	t.Parallel()
	o := shell(t, open1(t), Spec{}, `id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status; hostname`)
	want := "64242\n64242\n64242\n"
	for _, c := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		want += "Cap" + c + ":\t0000000000000000\n"
	}
	want += "NoNewPrivs:\t1\nSeccomp:\t2\nsandbox\n"
	if o.out != want {
		t.Errorf("got\n%s", o.out)
	}
}

func TestWritesOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	shell(t, open1(t), Spec{}, `
		for d in / /usr /usr/bin /etc /dev /proc /proc/sys /cache /cache/go-mod /opt /home /root /var /sys /run /workspace/..; do
			if (: >$d/remit-test) 2>/dev/null; then echo "wrote to $d"; exit 1; fi
		done
		for f in /etc/hosts /etc/passwd /usr/bin/id /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/self/exe /proc/1/exe /proc/1/mem; do
			if (echo x >>$f) 2>/dev/null; then echo "wrote to $f"; exit 1; fi
		done
		chmod 777 /usr/bin/id 2>/dev/null && exit 2
		mount -o remount,bind,rw / 2>/dev/null && exit 3
		mount -t tmpfs none /tmp 2>/dev/null && exit 4
		mknod /tmp/null c 1 3 2>/dev/null && exit 5
		mv /workspace /workspace2 2>/dev/null && exit 6
		rm -rf /workspace 2>/dev/null && exit 7
		date -s '2001-01-01' >/dev/null 2>&1 && exit 8
		unshare -Ur true 2>/dev/null && exit 9
		exit 0`)
}

func TestReadsOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, canary, secret)
	if o := shell(t, open1(t), Spec{}, `cat `+canary+` 2>&1; ls -d /root /home /var /sys /run /mnt /boot /srv 2>/dev/null
		ls /tmp /etc; cat /etc/shadow 2>/dev/null; readlink /proc/*/root /proc/*/cwd | sort -u; exit 0`); strings.Contains(o.out, secret) ||
		o.out != "cat: "+canary+": No such file or directory\n/etc:\n"+etcListing()+"\n/tmp:\nhome\n/\n/workspace\n" {
		t.Errorf("visible:\n%s", o.out)
	}
	// A link out of the tree dangles inside.
	lower := t.TempDir()
	if err := os.Symlink(canary, lower+"/link"); err != nil {
		t.Fatal(err)
	}
	if o := try(t, open1(t), Spec{Lower: lower}, "cat", "link"); o.ExitCode == 0 || strings.Contains(o.out, secret) {
		t.Errorf("%d %q", o.ExitCode, o.out)
	}
}

func etcListing() string {
	var b strings.Builder
	for _, name := range []string{"alternatives", "group", "hosts", "ld.so.cache", "nsswitch.conf", "passwd", "ssl"} {
		if _, err := os.Stat("/etc/" + name); err == nil || etcFiles()[name] != "" {
			fmt.Fprintln(&b, name)
		}
	}
	return b.String()
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	t.Parallel()
	look := `cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; env | cut -d= -f1 | sort`
	o := shell(t, open1(t), Spec{Env: map[string]string{"ASKED": "for"}}, look)
	if strings.Contains(o.out, secret) {
		t.Errorf("the secret is visible:\n%s", o.out)
	}
	if strings.Contains(o.out, "--ro-bind") {
		t.Errorf("the options of the sandbox are visible:\n%s", o.out)
	}
	for _, name := range []string{"ASKED", "GOCACHE", "GOFLAGS", "GOMAXPROCS", "GOPROXY", "GOTOOLCHAIN", "HOME", "LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR"} {
		if !strings.Contains(o.out, "\n"+name+"\n") {
			t.Errorf("%s is not set", name)
		}
	}
	// control
	if out, err := exec.Command("sh", "-c", look).Output(); err != nil || !strings.Contains(string(out), secret) {
		t.Errorf("the control does not see the secret (%v): the test shows nothing", err)
	}
}

func TestDescriptorsAreSealed(t *testing.T) {
	t.Parallel()
	d := open1(t)
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, canary, secret)
	// Like a descriptor that our own process inherited: not close-on-exec.
	fd, err := unix.Open(canary, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	out, err := exec.Command(self(t), "attack", "fds").Output()
	if err != nil || !strings.Contains(string(out), canary) {
		t.Fatalf("the control does not inherit the descriptor: %v\n%s", err, out)
	}
	o := try(t, d, Spec{}, attackPath, "attack", "fds")
	lines := strings.Split(strings.TrimSpace(o.out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "0 /dev/null") || !strings.HasPrefix(lines[1], "1 pipe:") || !strings.HasPrefix(lines[2], "2 pipe:") {
		t.Errorf("descriptors inside:\n%s", o.out)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	d := open1(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract := fmt.Sprintf("@remit-test-%d", os.Getpid())
	unixl, err := net.Listen("unix", abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer unixl.Close()
	targets := []string{"tcp:" + tcp.Addr().String(), "unix:" + abstract}
	// control
	out, err := exec.Command(self(t), append([]string{"attack", "dial"}, targets...)...).Output()
	if err != nil || strings.Count(string(out), "true") != 2 {
		t.Fatalf("the control cannot connect: %v\n%s", err, out)
	}
	o := try(t, d, Spec{}, append([]string{attackPath, "attack", "dial", "tcp:192.0.2.1:80", "udp:[2001:db8::1]:53", "tcp:example.com:80"}, targets...)...)
	if o.ExitCode != 0 || strings.Contains(o.out, "true") || strings.Count(o.out, "false") != 5 {
		t.Errorf("exit %d\n%s", o.ExitCode, o.out)
	}
	if o := try(t, d, Spec{}, attackPath, "attack", "loopback"); o.ExitCode != 0 {
		t.Errorf("loopback inside: %s", o.out)
	}
	if o := shell(t, d, Spec{}, "getent hosts localhost"); !strings.Contains(o.out, "localhost") {
		t.Errorf("localhost: %q", o.out)
	}
}

// A unix socket in a lent directory would be a way out.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "s") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	must(t, os.Mkdir(dir+"/sub", 0o755))
	l, err := net.Listen("unix", dir+"/sub/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	must(t, os.Chmod(dir+"/sub/sock", 0o777))
	ran := false
	s := Spec{Lower: dir, Commands: []Command{{Argv: []string{"echo"}, Stdout: writer(func(p []byte) (int, error) { ran = true; return len(p), nil })}}}
	if _, err := open1(t).Run(context.Background(), s); reason.CodeOf(err) != reason.SandboxUnavailable || ran {
		t.Errorf("socket in the base tree: %v, command ran: %v", err, ran)
	}
	s.Lower, s.Binds = t.TempDir(), []Bind{{dir, "/opt/lent"}}
	if _, err := open1(t).Run(context.Background(), s); reason.CodeOf(err) != reason.SandboxUnavailable || ran {
		t.Errorf("socket in a bind: %v, command ran: %v", err, ran)
	}
	// With the check switched off the overlays are a second wall, and without
	// both a read-only bind does let out.
	for _, tt := range []struct {
		name string
		off  controlled
		spec Spec
		path string
		out  bool
	}{
		{"base tree", controlled{noSocketScan: true}, Spec{Lower: dir}, "/workspace/sub/sock", false},
		{"bind", controlled{noSocketScan: true}, Spec{Binds: s.Binds}, "/opt/lent/sub/sock", false},
		{"control", controlled{noSocketScan: true, plainBinds: true}, Spec{Binds: s.Binds}, "/opt/lent/sub/sock", true},
	} {
		o := try(t, without(t, tt.off), tt.spec, attackPath, "attack", "dial", "unix:"+tt.path)
		if got := strings.Contains(o.out, "true"); got != tt.out {
			t.Errorf("%s: connected %v\n%s", tt.name, got, o.out)
		}
	}
}

// The mount table inside does not tell where things lie on the host.
func TestMountTable(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	o := shell(t, open1(t), Spec{Binds: []Bind{{host, "/opt/lent"}}}, "cat /proc/self/mountinfo /proc/mounts")
	if strings.Contains(o.out, filepath.Base(host)) || home() != "" && home() != "/" && strings.Contains(o.out, home()+"/") {
		t.Errorf("mount table:\n%s", o.out)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessTreeIsKilled(t *testing.T) {
	t.Parallel()
	const mark = "mark-of-a-daemon"
	daemon := `setsid sh -c 'sleep 60; : ` + mark + `' >/dev/null 2>&1 & (setsid setsid sleep 60 &) ; echo begun`
	if o := shell(t, open1(t), Spec{}, daemon); o.out != "begun\n" {
		t.Errorf("output %q", o.out)
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("survivors: %q", left)
	}
	// The daemon holds the pipe, too: the run must not wait for it.
	if o := shell(t, open1(t), Spec{}, "sleep 60 & echo begun"); o.Duration.Seconds() > 30 {
		t.Errorf("waited %s for a daemon", o.Duration)
	}
}

func TestOtherProcesses(t *testing.T) {
	t.Parallel()
	victim := exec.Command("sleep", "60")
	must(t, victim.Start())
	defer func() { victim.Process.Kill(); victim.Wait() }()
	o := shell(t, open1(t), Spec{}, fmt.Sprintf(`kill -9 %d 2>/dev/null && exit 1; kill -9 -1 2>/dev/null; kill -9 1 2>/dev/null; ls /proc | grep -c '^[0-9]'; exit 0`, victim.Process.Pid))
	if n := strings.TrimSpace(o.out); len(n) != 1 {
		t.Errorf("%s processes are visible", n)
	}
	if unix.Kill(victim.Process.Pid, 0) != nil {
		t.Error("the process of the host is dead")
	}
}

func TestSetuidIsInert(t *testing.T) {
	t.Parallel()
	lower := t.TempDir()
	id, err := os.ReadFile("/usr/bin/id")
	must(t, err)
	must(t, os.WriteFile(lower+"/id", id, 0o755))
	must(t, os.Chmod(lower+"/id", 0o6755))
	if o := shell(t, open1(t), Spec{Lower: lower}, "./id -u; cp id mine; chmod 6755 mine; ./mine -u"); o.out != "64242\n64242\n" {
		t.Errorf("ids %q", o.out)
	}
}

// Standard output is a pipe: it cannot be emptied afterwards.
func TestOutputCannotBeTaken(t *testing.T) {
	t.Parallel()
	o := shell(t, open1(t), Spec{}, `echo first; truncate -s 0 /proc/self/fd/1 2>/dev/null; (: >/proc/self/fd/1) 2>/dev/null; echo last; [ -t 0 ] || [ -t 1 ] && exit 1; exit 0`)
	if o.out != "first\nlast\n" {
		t.Errorf("output %q", o.out)
	}
}
