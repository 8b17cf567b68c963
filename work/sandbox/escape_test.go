//go:build linux && !race

package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	e := escape(t, "write outside the workspace")
	// control
	mine := t.TempDir()
	write(t, mine+"/f", "")
	out, err := exec.Command(self(t), "attack", "write", mine, mine+"/f").Output()
	if stopped, through := verdicts(t, string(out)); err != nil || len(stopped) != 0 || len(through) < 6 {
		t.Fatalf("the control cannot write: %v\n%s", err, out)
	}
	tryAll(e, open1(e), Spec{}, "write", "/", "/usr", "/usr/bin", "/usr/local/bin", "/etc", "/etc/ssl", "/dev", "/proc", "/proc/sys", "/proc/self", "/cache", "/cache/go-mod", "/opt",
		"/opt/remit", "/home", "/root", "/var", "/var/tmp", "/sys", "/run", "/srv", "/mnt", "/boot", "/toolchain", "/workspace/..", "/proc/1/root/usr", "/proc/self/cwd/../etc",
		"/etc/hosts", "/etc/passwd", "/etc/nsswitch.conf", "/etc/shadow", "/usr/bin/id", "/usr/bin/env", "/bin/sh", attackPath)
	shell(e, open1(e), Spec{}, `
		mv /workspace /workspace2 2>/dev/null && exit 6
		rm -rf /workspace 2>/dev/null && exit 7
		rm -rf /usr /etc /opt 2>/dev/null && exit 8
		[ -x /usr/bin/id ]`)
	e.All(3)
}

func TestReadsOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	e := escape(t, "read outside the workspace")
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, canary, secret)
	// control
	out, err := exec.Command(self(t), "attack", "read", canary, filepath.Dir(canary)).Output()
	if _, through := verdicts(t, string(out)); err != nil || len(through) != 2 {
		t.Fatalf("the control cannot read: %v\n%s", err, out)
	}
	tryAll(e, open1(e), Spec{}, "read", canary, filepath.Dir(canary), "/proc/self/root"+canary, "/proc/1/root"+canary, "/proc/1/cwd"+canary, "/workspace/../../../.."+canary, "//"+canary,
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/machine-id", "/etc/resolv.conf", "/etc/environment", "/root", "/home", "/var", "/sys", "/run", "/mnt", "/boot", "/srv",
		"/proc/1/environ", "/tmp/lower", "/newroot", "/oldroot")
	if o := shell(e, open1(e), Spec{}, `cat `+canary+` 2>&1; ls -d /root /home /var /sys /run /mnt /boot /srv 2>/dev/null
		ls /tmp /etc; cat /etc/shadow 2>/dev/null; readlink /proc/*/root /proc/*/cwd | sort -u; exit 0`); strings.Contains(o.out, secret) ||
		o.out != "cat: "+canary+": No such file or directory\n/etc:\n"+etcListing()+"\n/tmp:\nhome\n/\n/workspace\n" {
		t.Errorf("visible:\n%s", o.out)
	}
}

// A link out of the tree dangles inside, and is only a text to the host.
func TestLinksOutOfTheTree(t *testing.T) {
	t.Parallel()
	e := escape(t, "symlink out of the tree")
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, canary, secret)
	lower := t.TempDir()
	must(t, os.Symlink(canary, lower+"/link"))
	must(t, os.Symlink(filepath.Dir(canary), lower+"/dir"))
	if text, err := os.ReadFile(lower + "/link"); err != nil || string(text) != secret {
		t.Fatalf("the control cannot follow the link: %v", err)
	}
	for name, d := range layers(e) {
		for _, path := range []string{"link", "dir/canary", "./dir/../dir/canary"} {
			o := try(e, d, Spec{Lower: lower}, "cat", path)
			e.Check(o.ExitCode != 0 && !strings.Contains(o.out, secret), "%s, %s: %d %q", name, path, o.ExitCode, o.out)
			o = try(e, d, Spec{Lower: lower}, "sh", "-c", "echo overwritten >"+path)
			text, _ := os.ReadFile(canary)
			e.Check(o.ExitCode != 0 && string(text) == secret, "%s, write through %s: %d %q", name, path, o.ExitCode, o.out)
		}
		o := shell(e, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, "ln -s "+canary+" made; ln -sfn "+canary+" link; rm dir; ln -s /proc/self/root"+canary+" dir")
		got := shown(t, o.Changes)
		e.Check(!strings.Contains(got, secret) && strings.Count(got, "symlink ") == 2, "%s: collected %s", name, got)
	}
}

func etcListing() string {
	var b strings.Builder
	names := make(map[string]bool)
	for _, name := range []string{"alternatives", "group", "hosts", "ld.so.cache", "nsswitch.conf", "passwd", "ssl"} {
		if _, err := os.Stat("/etc/" + name); err == nil || etcFiles()[name] != "" {
			names[name] = true
		}
	}
	// Java, Maven and PHP read their configuration there, where they are installed.
	for _, pattern := range []string{"java-*-openjdk", "java/java-*-openjdk", "maven/m2.conf", "maven/logging", phpModules} {
		found, _ := filepath.Glob("/etc/" + pattern)
		for _, name := range found {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "/etc/"), "/")
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintln(&b, name)
	}
	return b.String()
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	t.Parallel()
	e := escape(t, "secrets in the environment")
	look := `cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; env | cut -d= -f1 | sort`
	o := shell(e, open1(e), Spec{Env: map[string]string{"ASKED": "for"}}, look)
	e.Check(!strings.Contains(o.out, secret), "the secret is visible:\n%s", o.out)
	e.Check(!strings.Contains(o.out, "--ro-bind"), "the options of the sandbox are visible:\n%s", o.out)
	e.Check(!strings.Contains(o.out, "REMIT"), "variables of the host are visible:\n%s", o.out)
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
	e := escape(t, "inherited descriptors")
	d := open1(e)
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
	o := try(e, d, Spec{}, attackPath, "attack", "fds")
	lines := strings.Split(strings.TrimSpace(o.out), "\n")
	e.Check(len(lines) == 3 && strings.HasPrefix(lines[0], "0 /dev/null") && strings.HasPrefix(lines[1], "1 pipe:") && strings.HasPrefix(lines[2], "2 pipe:"),
		"descriptors inside:\n%s", o.out)
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	e := escape(t, "loopback and outside network")
	d := open1(e)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	target := "tcp:" + tcp.Addr().String()
	// control
	out, err := exec.Command(self(t), "attack", "dial", target).Output()
	if err != nil || strings.Count(string(out), "true") != 1 {
		t.Fatalf("the control cannot connect: %v\n%s", err, out)
	}
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	must(t, err)
	targets := []string{target, "tcp:localhost:" + port, "tcp:[::ffff:127.0.0.1]:" + port, "tcp:192.0.2.1:80", "tcp:169.254.169.254:80", "udp:[2001:db8::1]:53", "udp:192.0.2.1:53", "tcp:example.com:80"}
	o := try(e, d, Spec{}, append([]string{attackPath, "attack", "dial"}, targets...)...)
	for _, target := range targets {
		e.Check(o.ExitCode == 0 && strings.Contains(o.out, target+" false\n"), "%s: exit %d\n%s", target, o.ExitCode, o.out)
	}
	if o := try(t, d, Spec{}, attackPath, "attack", "loopback"); o.ExitCode != 0 {
		t.Errorf("loopback inside: %s", o.out)
	}
	if o := shell(t, d, Spec{}, "getent hosts localhost"); !strings.Contains(o.out, "localhost") {
		t.Errorf("localhost: %q", o.out)
	}
}

func TestAbstractSockets(t *testing.T) {
	t.Parallel()
	e := escape(t, "abstract sockets")
	abstract := fmt.Sprintf("@remit-test-%d", os.Getpid())
	for _, network := range []string{"unix", "unixpacket"} {
		l, err := net.Listen(network, abstract+network)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		target := network + ":" + abstract + network
		out, err := exec.Command(self(t), "attack", "dial", target).Output()
		if err != nil || !strings.Contains(string(out), "true") {
			t.Fatalf("the control cannot connect: %v\n%s", err, out)
		}
		o := try(e, open1(e), Spec{}, attackPath, "attack", "dial", target)
		e.Check(o.ExitCode == 0 && strings.Contains(o.out, "false"), "%s: exit %d\n%s", target, o.ExitCode, o.out)
	}
}

// A unix socket in a lent directory would be a way out.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	e := escape(t, "sockets in lent directories")
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
	_, err = open1(e).Run(context.Background(), s)
	e.Check(reason.CodeOf(err) == reason.SandboxUnavailable && !ran, "socket in the base tree: %v, command ran: %v", err, ran)
	s.Lower, s.Binds = t.TempDir(), []Bind{{dir, "/opt/lent"}}
	_, err = open1(e).Run(context.Background(), s)
	e.Check(reason.CodeOf(err) == reason.SandboxUnavailable && !ran, "socket in a bind: %v, command ran: %v", err, ran)
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
		o := try(e, without(e, tt.off), tt.spec, attackPath, "attack", "dial", "unix:"+tt.path)
		got := strings.Contains(o.out, "true")
		if tt.out && !got {
			t.Errorf("%s: not connected, so the test shows nothing\n%s", tt.name, o.out)
		} else if !tt.out {
			e.Check(!got && strings.Contains(o.out, "false"), "%s: connected\n%s", tt.name, o.out)
		}
	}
}

// The mount table inside does not tell where things lie on the host.
func TestMountTable(t *testing.T) {
	t.Parallel()
	e := escape(t, "host paths in the mount table")
	host := filepath.Join(t.TempDir(), "of-the-host") // a name that no number of a mount has in it
	if err := os.Mkdir(host, 0o700); err != nil {
		t.Fatal(err)
	}
	o := shell(e, open1(e), Spec{Binds: []Bind{{host, "/opt/lent"}}}, "cat /proc/self/mountinfo /proc/mounts")
	e.Check(strings.Contains(o.out, "/opt/lent") && !strings.Contains(o.out, filepath.Base(host)), "mount table:\n%s", o.out)
	e.Check(home() == "" || home() == "/" || !strings.Contains(o.out, home()+"/"), "mount table:\n%s", o.out)
}

func TestProcessTreeIsKilled(t *testing.T) {
	t.Parallel()
	e := escape(t, "double-forked daemon")
	mark := markOf("a-daemon")
	daemon := `setsid sh -c 'sleep 60; : ` + mark + `' >/dev/null 2>&1 & (setsid setsid sleep 60 &) ; echo begun`
	if o := shell(e, open1(e), Spec{}, daemon+"; pgrep -f '[s]leep 60; : "+mark+"' >/dev/null || exit 9"); o.out != "begun\n" {
		t.Errorf("output %q", o.out)
	}
	left := marked(mark)
	e.Check(len(left) == 0, "survivors: %q", left)
	// The daemon holds the pipe, too: the run must not wait for it.
	o := shell(e, open1(e), Spec{}, "sleep 60 & echo begun")
	e.Check(o.Duration.Seconds() < 30, "waited %s for a daemon", o.Duration)
	// Forked twice, in a session of its own, deaf to signals, and busy with the
	// tree: what it writes after the end of the command is not collected.
	o = shell(e, open1(e), Spec{Capture: true, SpoolDir: t.TempDir()}, `
		(trap '' HUP TERM INT; setsid setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >file.new; mv file.new file; done' >/dev/null 2>&1 &)
		while ! [ -s file ]; do :; done`)
	e.Check(len(o.Changes) > 0, "nothing was collected of %v", o.Changes)
}

func TestOtherProcesses(t *testing.T) {
	t.Parallel()
	e := escape(t, "signals to the parent and others")
	victim := exec.Command("sleep", "60")
	must(t, victim.Start())
	defer func() { victim.Process.Kill(); victim.Wait() }()
	pid, parent := fmt.Sprint(victim.Process.Pid), fmt.Sprint(os.Getpid())
	// control: from here it can be signalled
	must(t, unix.Kill(victim.Process.Pid, unix.SIGCONT))
	tryAll(e, open1(e), Spec{}, "signals", pid, parent)
	o := shell(e, open1(e), Spec{}, "kill -9 -1 2>/dev/null; kill -9 $PPID 2>/dev/null; ls /proc | grep -c '^[0-9]'")
	n := strings.TrimSpace(o.out)
	e.Check(len(n) == 1, "%s processes are visible", n)
	e.Check(unix.Kill(victim.Process.Pid, 0) == nil, "the process of the host is dead")
}

func TestSetuidIsInert(t *testing.T) {
	t.Parallel()
	e := escape(t, "setuid")
	lower := t.TempDir()
	copyProgram(t, "/usr/bin/id", lower+"/id")
	must(t, os.Chmod(lower+"/id", 0o755|os.ModeSetuid|os.ModeSetgid))
	// control: the bits are really there
	if info, err := os.Stat(lower + "/id"); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	for name, d := range layers(e) {
		o := shell(e, d, Spec{Lower: lower}, "./id -u; cp id mine; chmod 6755 mine; [ -u mine ] && ./mine -u; cp id /tmp/mine; chmod 6755 /tmp/mine; /tmp/mine -u")
		ids := strings.Fields(o.out)
		for _, id := range ids {
			e.Check(id == "64242", "%s: ids %q", name, o.out)
		}
		if len(ids) != 3 {
			t.Errorf("%s: %q", name, o.out)
		}
		for _, program := range []string{"su", "sudo", "mount", "newuidmap", "passwd"} {
			o := try(e, d, Spec{}, "sh", "-c", "p=$(command -v "+program+") || exit 77; [ -u $p ] || exit 77; $p -u 2>/dev/null </dev/null; grep '^CapEff' /proc/self/status")
			if o.ExitCode != 77 {
				e.Check(strings.Contains(o.out, "0000000000000000"), "%s: %s", program, o.out)
			}
		}
	}
}

// Standard output is a pipe: it cannot be emptied afterwards.
func TestOutputCannotBeTaken(t *testing.T) {
	t.Parallel()
	e := escape(t, "output taken back")
	o := shell(e, open1(e), Spec{}, `echo first; truncate -s 0 /proc/self/fd/1 2>/dev/null; (: >/proc/self/fd/1) 2>/dev/null; echo last; [ -t 0 ] || [ -t 1 ] && exit 1; exit 0`)
	e.Check(o.out == "first\nlast\n", "output %q", o.out)
	// control: on a file it can
	log := filepath.Join(t.TempDir(), "log")
	if out, err := exec.Command("sh", "-c", "(echo first; truncate -s 0 /proc/self/fd/1; echo last) >>"+log+"; cat "+log).Output(); err != nil || strings.Contains(string(out), "first") {
		t.Errorf("the control does not lose its output (%v): %q", err, out)
	}
}
