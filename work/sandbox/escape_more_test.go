//go:build linux && !race

package sandbox

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/work/tree"
)

// A process of the attacker exchanges a file and a directory with links to a
// secret, while the host reads: the collector of a run that has ended, and, as
// if a process had survived, a walk with the reader that the collector uses.
func TestSymlinkRace(t *testing.T) {
	t.Parallel()
	e := escape(t, "symlink race")
	outside := t.TempDir()
	write(t, outside+"/f", secret)
	for name, d := range layers(e) {
		o := shell(e, d, Spec{Binds: []Bind{{self(t), attackPath}}, Capture: true, SpoolDir: t.TempDir()}, `
			(setsid setsid `+attackPath+" attack swap "+outside+"/f "+outside+` >/tmp/log 2>&1 &)
			until grep -q swapping /tmp/log; do :; done`)
		got := shown(t, o.Changes)
		e.Check(!strings.Contains(got, secret) && strings.Contains(got, "public"), "%s: collected %s", name, got)
	}

	head := t.TempDir()
	attacker := exec.Command(self(t), "attack", "swap", outside+"/f", outside)
	attacker.Dir = head
	said, err := attacker.StdoutPipe()
	must(t, err)
	must(t, attacker.Start())
	defer func() { attacker.Process.Kill(); attacker.Wait() }()
	if line := make([]byte, len("swapping\n")); true {
		if _, err := io.ReadFull(said, line); err != nil || string(line) != "swapping\n" {
			t.Fatalf("the attacker says %q: %v", line, err)
		}
	}
	root, err := os.OpenRoot(head)
	must(t, err)
	defer root.Close()
	empty, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer empty.Close()
	reads := 0
	for range 300 {
		_ = tree.Comparison{Base: empty, Head: root}.Walk(t.Context(), func(c tree.Change) error { // it changes: errors are right
			if c.Kind != tree.File {
				return nil
			}
			r, err := c.Open()
			if err != nil {
				return nil // the file was exchanged meanwhile: refused, as it must be
			}
			defer r.Close()
			if text, _ := io.ReadAll(r); strings.Contains(string(text), secret) {
				e.Check(false, "%q leaked", c.Path)
			}
			reads++
			return nil
		})
	}
	if reads < 50 {
		t.Errorf("only %d files were read, so the test shows little", reads)
	}
	e.All(300)
	for range 500_000 {
		p := filepath.Join(head, "f")
		if info, err := os.Lstat(p); err == nil && info.Mode().IsRegular() {
			if text, _ := os.ReadFile(p); string(text) == secret {
				return
			}
		}
	}
	t.Error("the naive control never lost the race, so the test shows nothing")
}

// Nothing foreign can be had under a second name, and a second name of what
// belongs to the base leads to a copy.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	e := escape(t, "hard links and their race")
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, canary, secret)
	// control
	same := filepath.Dir(canary) + "/same"
	must(t, os.Link(canary, same))
	must(t, os.Remove(same))
	for _, d := range layers(e) {
		lower := t.TempDir()
		write(t, lower+"/base", "mine")
		before := state(t, lower)
		tryAll(e, d, Spec{Lower: lower}, "link", "/etc/passwd", "/usr/bin/id", "/etc/hosts", attackPath, "/proc/self/exe", "/proc/1/exe", "/dev/null", canary)
		o := shell(e, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, "ln base other && echo more >>other && ln other third && mv third base2")
		got := shown(t, o.Changes)
		e.Check(state(t, lower) == before && strings.Contains(got, `file "base2" "minemore\n"`), "collected %s\n%s", got, state(t, lower))
	}
}

func TestProcTricks(t *testing.T) {
	t.Parallel()
	e := escape(t, "/proc tricks")
	// control: the host's own process shows it
	if text, err := os.ReadFile("/proc/self/environ"); err == nil && !strings.Contains(os.Getenv("REMIT_TEST_TOKEN")+string(text), secret) {
		t.Fatal("the host has no secret, so the test shows nothing")
	}
	tryAll(e, open1(e), Spec{}, "proc", reversed(secret))
	// control: without the masks the memory of process 1 can be written
	_, through := verdicts(t, try(e, without(e, controlled{noMasks: true}), Spec{}, attackPath, "attack", "proc", reversed(secret)).out)
	for _, what := range []string{"open for writing /proc/1/mem", "read the memory in /proc/1/task/1/mem"} {
		if !slices.Contains(through, what) {
			t.Errorf("without the masks it is refused too, so the test shows nothing: %s", what)
		}
	}
}

// Process 1 inside belongs to bwrap. It can be written to through /proc by
// what runs beside it, so it must have no right that a command has not: no
// capability, the same filter, no descriptor but pipes and its own eventfd.
func TestProcessOne(t *testing.T) {
	t.Parallel()
	e := escape(t, "process 1 of the sandbox")
	rights := "grep -hE '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters):' "
	o := shell(e, open1(e), Spec{}, "cat /proc/1/comm; "+rights+"/proc/1/status >/tmp/one; "+rights+"/proc/self/status >/tmp/self; cmp /tmp/one /tmp/self && echo same")
	e.Check(o.out == "bwrap\nsame\n", "the rights differ: %s", o.out)
	o = shell(e, open1(e), Spec{}, "for f in /proc/1/fd/*; do readlink $f || :; done" /* one may be closed meanwhile */)
	for line := range strings.Lines(o.out) {
		e.Check(strings.HasPrefix(line, "pipe:") || line == "/dev/null\n" || line == "anon_inode:[eventfd]\n", "process 1 has a descriptor %s", line)
	}
	for _, ns := range []string{"mnt", "pid", "net", "user", "ipc", "uts"} {
		o := shell(e, open1(e), Spec{}, "readlink /proc/1/ns/"+ns+" /proc/self/ns/"+ns)
		host, err := os.Readlink("/proc/self/ns/" + ns)
		must(t, err)
		names := strings.Fields(o.out)
		e.Check(len(names) == 2 && names[0] == names[1] && names[0] != host, "%s: inside %q, on the host %s", ns, names, host)
	}
}

// The secrets of the person who started the run lie in a home directory and
// in the places that programs look in.
func TestHomeIsAbsent(t *testing.T) {
	t.Parallel()
	e := escape(t, "secrets in the home")
	mine := t.TempDir()
	names := []string{".netrc", ".ssh/id_ed25519", ".git-credentials", ".gitconfig", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".npmrc", ".pypirc", ".kube/config", ".gnupg/secring.gpg", ".bash_history"}
	for _, name := range names {
		write(t, filepath.Join(mine, name), secret)
	}
	var paths []string
	for _, dir := range []string{mine, home(), "/root", "~", "/tmp/home"} {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	// control
	out, err := exec.Command(self(t), append([]string{"attack", "read"}, paths[:len(names)]...)...).Output()
	if _, through := verdicts(t, string(out)); err != nil || len(through) != len(names) {
		t.Fatalf("the control cannot read: %v\n%s", err, out)
	}
	tryAll(e, open1(e), Spec{}, "read", paths...)
	o := shell(e, open1(e), Spec{}, `cd; pwd; ls -A; echo ~; getent passwd; id -un`)
	e.Check(strings.HasPrefix(o.out, insideHome+"\n"+insideHome+"\n") && !strings.Contains(o.out, mine) && (home() == "" || home() == "/" || !strings.Contains(o.out, home())), "%s", o.out)
}

// A git directory that the agent makes is no file of the change: host git
// would run what it names.
func TestNestedGitDirectory(t *testing.T) {
	t.Parallel()
	e := escape(t, "nested git directory")
	for name, d := range layers(e) {
		lower := t.TempDir()
		write(t, lower+"/sub/keep", "")
		o := shell(e, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, `
			for g in .git sub/.git deep/a/b/.git .GIT2/.Git; do
				mkdir -p $g/hooks $g/objects/info; echo '[core] fsmonitor=touch /tmp/x' >$g/config; echo /etc >$g/objects/info/alternates
				printf '#!/bin/sh\n' >$g/hooks/post-checkout; chmod +x $g/hooks/post-checkout; done
			mkdir link; echo "gitdir: /tmp/elsewhere" >link/.git`)
		for _, c := range o.Changes {
			bad := strings.Contains(strings.ToLower(c.Path)+"/", ".git/")
			e.Check(!bad || c.Kind == tree.Special, "%s: %s %q is part of the change", name, c.Kind, c.Path)
		}
		got := shown(t, o.Changes)
		e.Check(strings.Count(got, "nested-git") == 5, "%s: %s", name, got)
	}
}

func TestDeviceNodes(t *testing.T) {
	t.Parallel()
	e := escape(t, "device nodes")
	for _, d := range layers(e) {
		tryAll(e, d, Spec{}, "devices")
	}
	o := shell(e, open1(e), Spec{}, "cd /dev; for f in $(find . | sort); do [ -L $f ] && continue; [ -b $f ] || [ -c $f ] && echo ${f#./}; done | tr '\\n' ' '")
	e.Check(o.out == "full null pts/ptmx random tty urandom zero ", "devices %s", o.out)
}

func TestPtrace(t *testing.T) {
	t.Parallel()
	e := escape(t, "ptrace")
	needFilter(e)
	tryAll(e, open1(e), Spec{}, "ptrace", "999999")
	// control: without the filter a child can be traced
	stopped, through := verdicts(t, try(e, without(e, controlled{noFilter: true}), Spec{}, attackPath, "attack", "ptrace").out)
	if len(through) == 0 {
		t.Errorf("without the filter everything is refused too, so the test shows nothing: %q", stopped)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	e := escape(t, "clock")
	tryAll(e, open1(e), Spec{}, "clock")
}

func TestMountsAndNamespaces(t *testing.T) {
	t.Parallel()
	e := escape(t, "mounts and namespaces")
	tryAll(e, open1(e), Spec{}, "namespaces")
	// The second wall: without the filter there is still no right to do it.
	tryAll(e, without(e, controlled{noFilter: true}), Spec{}, "namespaces")
}

// What a command puts into the build cache is gone with its Run.
func TestBuildCachePoisoning(t *testing.T) {
	t.Parallel()
	e := escape(t, "build cache poisoning")
	poison := `find "$GOCACHE" -type f | head -n 20 >/tmp/some; n=0
		while read -r f; do echo poison >"$f" && n=$((n+1)); done </tmp/some
		mkdir -p "$GOCACHE/00"; echo poison >"$GOCACHE/00/poison-d" && n=$((n+1)); echo poisoned $n; grep -rl '^poison$' "$GOCACHE" | wc -l`
	var first, second bytes.Buffer
	lower := t.TempDir()
	for i, out := range []*bytes.Buffer{&first, &second} {
		script := poison
		if i == 1 {
			script = `grep -rl '^poison$' "$GOCACHE" | wc -l; (echo x >/cache/go-mod/poison) 2>/dev/null && echo wrote; exit 0`
		}
		_, err := open1(e).Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"sh", "-c", script}, Stdout: out, Stderr: out}}})
		must(t, err)
	}
	if !strings.HasPrefix(first.String(), "poisoned ") || strings.HasPrefix(first.String(), "poisoned 0") {
		t.Fatalf("nothing was poisoned: %s", first.String())
	}
	e.Check(second.String() == "0\n", "the next run sees %s", second.String())
}
