//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remit/fixtures/rootfs"
	"remit/proof/reason"
)

// rootDir makes a layer with a few programs of this machine.
func rootDir(t testing.TB, programs ...string) string {
	t.Helper()
	files, err := rootfs.Programs(programs...)
	if err != nil {
		t.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	dir := t.TempDir()
	must(t, rootfs.Lay(dir, files))
	return dir
}

func rooted(t testing.TB, d Driver, r Root) Driver {
	t.Helper()
	r.Digest = "sha256:" + strings.Repeat("1", 64)
	in, err := Rooted(d, r)
	must(t, err)
	return in
}

// TestRootOfAnImage looks around in an image of three layers, whose upper ones
// delete, empty and replace.
func TestRootOfAnImage(t *testing.T) {
	t.Parallel()
	d := open1(t)
	low, middle, top := rootDir(t, "sh", "cat", "ls", "id"), t.TempDir(), t.TempDir()
	write(t, low+"/etc/passwd", "root:x:0:0::/root:/bin/sh\npostgres:x:101:102::/var/lib/postgresql:/bin/sh\nnot a line\n")
	write(t, low+"/etc/group", "root:x:0:\npostgres:x:102:\n")
	write(t, low+"/etc/secret", "deleted by a layer")
	write(t, low+"/opt/d/old", "emptied by a layer")
	write(t, low+"/only/in/image", "here")
	write(t, middle+"/opt/d/new", "new")
	must(t, unix.Setxattr(middle+"/opt/d", "user.overlay.opaque", []byte("y"), 0))
	must(t, os.MkdirAll(middle+"/etc", 0o755))
	must(t, unix.Mknod(middle+"/etc/secret", unix.S_IFCHR|0o600, 0))
	// What a hostile image puts into the places of the sandbox's own mounts.
	must(t, os.Symlink("/etc", top+"/tmp"))
	must(t, os.Symlink("/only", top+"/workspace"))
	must(t, os.Symlink("/", top+"/cache"))
	must(t, os.Symlink("/workspace", top+"/proc"))
	write(t, top+"/dev", "no directory")
	write(t, top+"/etc/hosts", "6.6.6.6 localhost\n")
	write(t, top+"/etc/resolv.conf", "nameserver 6.6.6.6\n")
	in := rooted(t, d, Root{Layers: []string{top, middle, low}, Env: []string{"PATH=/bin", "HOME=/root", "GREETING=hello", "LANG=de_DE"}})
	o := shell(t, in, Spec{Env: map[string]string{"MORE": "1"}}, `
		echo "$PATH|$HOME|$GREETING|$LANG|$MORE|$(pwd)"
		cat /only/in/image /opt/d/new; echo
		cat /etc/secret 2>/dev/null && echo SECRET
		cat /opt/d/old 2>/dev/null && echo OLD
		[ -e /usr/bin ] && echo USR
		id -un; id -u
		cat /etc/passwd /etc/hosts /etc/resolv.conf
		[ -c /dev/null ] && [ -r /proc/self/status ] && echo mounted
		echo x >/only/in/image; echo x >/etc/x; echo x >/new; echo x >/bin/sh
		echo written >file; echo written >/tmp/x && echo writable
		ls /workspace`)
	for _, want := range []string{"/bin|/tmp/home|hello|de_DE|1|/workspace\n", "herenew", "remit\n64242\n", "mounted\n", "writable\nfile\n",
		"postgres:x:101:102:", "127.0.0.1 localhost"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("missing %q in\n%s", want, o.out)
		}
	}
	for _, not := range []string{"SECRET", "OLD", "USR", "6.6.6.6", "not a line"} {
		if strings.Contains(o.out, not) {
			t.Errorf("%q is in\n%s", not, o.out)
		}
	}
	if n := strings.Count(o.out, "Read-only file system") + strings.Count(o.out, "cannot create"); n < 4 {
		t.Errorf("%d of 4 writes to the image were refused:\n%s", n, o.out)
	}
	if got := in.Describe().Config["image_digest"]; got != "sha256:"+strings.Repeat("1", 64) {
		t.Errorf("the description says the image %q", got)
	}
	if _, said := d.Describe().Config["image_digest"]; said {
		t.Error("the driver of the host says an image, too")
	}
}

// TestRootHasTheSameWalls runs the probe's own attempts, and the one for a private
// file of the host, in an image.
func TestRootHasTheSameWalls(t *testing.T) {
	t.Parallel()
	in := rooted(t, open1(t), Root{Layers: []string{rootDir(t, "sh", "ls", "cat", "wc", "grep")}})
	o := shell(t, in, Spec{}, `
		[ -e /tmp/home/.. ] || exit 10
		[ "$(ls /proc/self/fd | wc -l)" -le 4 ] || exit 15
		grep -q '^NoNewPrivs:.1' /proc/self/status || exit 16
		grep -q '^Seccomp:.2' /proc/self/status || exit 17
		grep -q '^CapEff:.0000000000000000' /proc/self/status || exit 18
		[ "$(grep -c . /proc/net/dev)" -le 3 ] || exit 19
		cat /proc/self/mountinfo`)
	if strings.Contains(o.out, os.TempDir()+"/Test") {
		t.Errorf("the mount table tells where the layers lie:\n%s", o.out)
	}
}

// TestUserOfAnImage gives commands the numbers of the user that the image names.
func TestUserOfAnImage(t *testing.T) {
	t.Parallel()
	d := open1(t)
	low := rootDir(t, "sh", "id")
	write(t, low+"/etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n")
	write(t, low+"/etc/group", "root:x:0:\nstaff:x:50:\n")
	for user, want := range map[string]string{"": "64242 64242 remit", "root": "64242 64242 remit", "0:0": "64242 64242 remit",
		"app": "1000 1001 app", "1000": "1000 1001 app", "app:staff": "1000 50 app", "1234": "1234 64242 remit"} {
		o := shell(t, rooted(t, d, Root{Layers: []string{low}, User: user}), Spec{}, `echo "$(id -u) $(id -g) $(id -un)"; echo x >file`)
		if strings.TrimSpace(o.out) != want {
			t.Errorf("user %q: %q, want %q", user, o.out, want)
		}
	}
	for _, user := range []string{"nobody-here", "app:none", "-1", "99999999999"} {
		_, err := rooted(t, d, Root{Layers: []string{low}, User: user}).Run(context.Background(), Spec{Lower: t.TempDir(), Commands: []Command{{Argv: []string{"sh"}}}})
		if reason.CodeOf(err) != reason.ImageUnusable {
			t.Errorf("user %q: %v", user, err)
		}
	}
}

// TestRootCapturesAndBinds works as a run does: it captures, binds, and listens.
func TestRootCapturesAndBinds(t *testing.T) {
	t.Parallel()
	low := rootDir(t, "sh", "cat")
	lower, lent := t.TempDir(), t.TempDir()
	write(t, lower+"/base", "base")
	write(t, lent+"/file", "lent")
	in := rooted(t, open1(t), Root{Layers: []string{low}})
	var out bytes.Buffer
	r, err := in.Run(context.Background(), Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir(),
		Binds:    []Bind{{Host: lent, Inside: "/opt/lent"}, {Host: lent + "/file", Inside: "/single"}},
		Commands: []Command{{Argv: []string{"sh", "-c", "cat base /opt/lent/file /single; echo x >>base; echo y >new"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if out.String() != "baselentlent" || len(r.Changes) != 2 {
		t.Errorf("%q, changes %v", out.String(), r.Changes)
	}
	if entries, err := os.ReadDir(low); err != nil || len(entries) > 4 {
		t.Errorf("the layer was written to: %v %v", entries, err)
	}
}

// TestNoShell says what an image without a shell lacks.
func TestNoShell(t *testing.T) {
	t.Parallel()
	d := open1(t)
	err := HasShell(context.Background(), rooted(t, d, Root{Layers: []string{rootDir(t, "cat")}}), t.TempDir())
	if reason.CodeOf(err) != reason.ImageUnusable {
		t.Errorf("got %v", err)
	}
	must(t, HasShell(context.Background(), rooted(t, d, Root{Layers: []string{rootDir(t, "sh")}}), t.TempDir()))
	_, err = Rooted(&none{}, Root{Layers: []string{t.TempDir()}})
	if reason.CodeOf(err) != reason.SandboxUnavailable {
		t.Errorf("the driver none takes an image: %v", err)
	}
}

// TestHostViewOfAnImage changes with the image and not with the host's programs.
func TestHostViewOfAnImage(t *testing.T) {
	t.Parallel()
	d := open1(t)
	one, two := t.TempDir(), t.TempDir()
	lower := t.TempDir()
	view := func(d Driver) string {
		v, err := d.(interface {
			HostView(ctx context.Context, lower string) (string, error)
		}).HostView(context.Background(), lower)
		must(t, err)
		return v
	}
	seen := map[string]string{view(d): "host"}
	for i, r := range []Root{{Layers: []string{one}}, {Layers: []string{two}}, {Layers: []string{one, two}}, {Layers: []string{one}, User: "app"}, {Layers: []string{one}, Env: []string{"A=b"}}} {
		v := view(rooted(t, d, r))
		if other, known := seen[v]; known {
			t.Errorf("%d has the view of %s", i, other)
		}
		if v != view(rooted(t, d, r)) {
			t.Errorf("%d has two views", i)
		}
		seen[v] = fmt.Sprint(i)
	}
}
