package depend

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/tree"
)

// entry is an entry of a package of Debian.
type entry struct {
	name, text, link string
	kind             byte
	mode             int64
}

func tarOf(t testing.TB, members ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Linkname: m.link, Typeflag: m.kind, Mode: 0o644 | m.mode, Size: int64(len(m.text))}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		must(t, w.WriteHeader(h))
		_, err := w.Write([]byte(m.text))
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// packedXZ is a tar with usr/share/packed/xz, as xz packs it; the header of the second one
// asks for a dictionary of 1 GiB.
const (
	packedXZ = "/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/AJZdABcLyyeJ8uv7sv6J4fnJCB0cKx5/hk24Hs3vQBOLFClofvFujRaKjYgL01gSfZmWALxXcoQqwEWqQEFgDoQd4q0eFhFnnd21lmrggEa63u0qjYiqmYSaaFi0NvVxTo1x" +
		"hsFg5xKaehVHL2Kx1DDd/Q6wtsA95Q5CoVGnYPFiiSW1A24T1jwWuPfHnvozSHB+Vz9TWHeQAgAAAKy8CChuyixgAAGyAYBQAACY19IoscRn+wIAAAAABFla"
	dictionaryXZ = "/Td6WFoAAATm1rRGAgAhASQAAABeH8f54Cf/AJZdABcLyyeJ8uv7sv6J4fnJCB0cKx5/hk24Hs3vQBOLFClofvFujRaKjYgL01gSfZmWALxXcoQqwEWqQEFgDoQd4q0eFhFnnd21lmrggEa63u0qjYiqmYSaaFi0NvVxTo1x" +
		"hsFg5xKaehVHL2Kx1DDd/Q6wtsA95Q5CoVGnYPFiiSW1A24T1jwWuPfHnvozSHB+Vz9TWHeQAgAAAKy8CChuyixgAAGyAYBQAACY19IoscRn+wIAAAAABFla"
)

func unbase(t testing.TB, text string) []byte {
	t.Helper()
	out, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return out
}

// arOf is an archive of ar: a name, then what it has, and so on.
func arOf(parts ...string) []byte {
	out := bytes.NewBufferString("!<arch>\n")
	for i := 0; i < len(parts); i += 2 {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", parts[i], 0, 0, 0, "100644", len(parts[i+1]), parts[i+1])
		if len(parts[i+1])%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// debOf is a package of Debian, whose maintainer script would be noticed.
func debOf(t testing.TB, ext string, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	switch ext {
	case ".gz":
		z := gzip.NewWriter(&packed)
		_, err := z.Write(data)
		must(t, errors.Join(err, z.Close()))
	case ".zst":
		z, err := zstd.NewWriter(&packed)
		must(t, err)
		_, err = z.Write(data)
		must(t, errors.Join(err, z.Close()))
	default:
		packed.Write(data)
	}
	control := tarOf(t, entry{name: "./postinst", text: "#!/bin/sh\ntouch /workspace/ran\n", mode: 0o755})
	return arOf("debian-binary", "2.0\n", "control.tar", string(control), "data.tar"+ext, packed.String())
}

// debian adds a package to an archive of a registry, and returns its line of the list.
func (r *npmRegistry) debian(archive, name, version string, file []byte) string {
	base := fmt.Sprintf("%s_%s_%s.deb", name, version, debianMachines[runtime.GOARCH].name)
	pool := "/pool/main/" + name[:1] + "/" + name + "/" + base
	r.files["/"+archive+pool] = file
	return fmt.Sprintf("'http://deb.debian.org/%s%s' %s %d SHA256:%x\n", archive, strings.ReplaceAll(pool, "+", "%2b"), base, len(file), sha256.Sum256(file))
}

// debianBuilder asks the archives of a registry, in the place of Debian's.
func debianBuilder(t testing.TB, r *npmRegistry, b *Builder) *Builder {
	t.Helper()
	b.Upstream = func(_ context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		if e == registry.Debian {
			return registry.Upstream{URL: r.URL + "/debian", Others: []registry.Upstream{{URL: r.URL + "/debian-security"}}}, nil
		}
		return registry.Upstream{URL: r.URL}, nil
	}
	return b
}

// Packages of Debian are found by programs, compilers and pkg-config of every command, and
// of the builds of later entries; no maintainer script runs.
func TestDebianLayer(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	lib := debianMachines[runtime.GOARCH].triplet
	lock := "# apt-get install --print-uris …\n" +
		r.debian("debian", "tool", "1.0-1+b1", debOf(t, ".gz", tarOf(t,
			entry{name: "./", kind: tar.TypeDir, mode: 0o755}, entry{name: "./usr/bin/", kind: tar.TypeDir, mode: 0o755},
			entry{name: "./usr/bin/remit-tool", text: "#!/bin/sh\necho tool $(cat /workspace/.remit-debian/etc/tool) $(cat /workspace/.remit-debian/usr/share/tool/l)\n", mode: 0o4755},
			entry{name: "./etc/tool", text: "configured"}, entry{name: "./lib/" + lib + "/a.so.1", text: "a"},
			entry{name: "./lib/" + lib + "/b.so.1", kind: tar.TypeLink, link: "./lib/" + lib + "/a.so.1"},
			entry{name: "./usr/lib/" + lib + "/a.so", kind: tar.TypeSymlink, link: "/lib/" + lib + "/a.so.1"},
			entry{name: "./usr/share/tool/l", kind: tar.TypeSymlink, link: "../../../lib/" + lib + "/a.so.1"}))) +
		r.debian("debian-security", "libtool-dev", "1~2", debOf(t, ".zst", tarOf(t,
			entry{name: "./usr/lib/" + lib + "/pkgconfig/tool.pc", text: "prefix=/usr\nother=/usrx\nlibdir=/usr/lib/x\nName: /usr\n"}))) +
		r.debian("debian", "packed", "3", debOf(t, ".xz", unbase(t, packedXZ)))
	base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{"debian.lock": lock, "sub/debian.lock": r.debian("debian", "other", "1", debOf(t, "", tarOf(t)))}),
		Tree: "1111111111111111111111111111111111111111"}
	b := debianBuilder(t, r, openBuilder(t, r.URL))
	env := task.Environment{Env: map[string]string{"CPATH": "/mine"}, Prepare: []task.Prepare{{Ecosystem: task.Debian, Dir: "."},
		{Ecosystem: task.Debian, Dir: "sub", Build: []string{"mkdir .remit-debian && remit-tool >.remit-debian/built && ! test -e /workspace/ran"}}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	l := p.Layers[0]
	if d := l.Deliveries; len(d) != 3 || d[1].Name != "packed" || d[2].Name != "tool" || d[2].Version != "1.0-1+b1" || d[0].Path != "/debian/pool/main/l/libtool-dev/"+filepath.Base(d[0].Path) || d[0].SHA256 == "" {
		t.Errorf("delivered: %+v", d)
	}
	if p.Layers[1].Recipe.Beside[0] != l.Key || !strings.HasSuffix(p.Variables()["CPATH"], ":/workspace/.remit-debian/usr/include:/workspace/.remit-debian/usr/include/"+lib+":/mine") {
		t.Errorf("%v, %v", p.Layers[1].Recipe.Beside, p.Variables())
	}
	sameElsewhere(t, b, env, base, p)
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), Env: p.Variables(), PathDirs: p.Programs(), Commands: []sandbox.Command{{Argv: []string{"sh", "-c",
		"remit-tool; cat sub/.remit-debian/built; cd .remit-debian && cat usr/lib/*/a.so usr/lib/*/b.so.1 usr/lib/*/pkgconfig/tool.pc usr/share/packed/xz && ls -l usr/bin && readlink usr/lib/*/a.so"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	for _, want := range []string{"tool configured a\ntool configured a\naa", "prefix=/workspace/.remit-debian/usr\nother=/usrx\nlibdir=/workspace/.remit-debian/usr/lib/x\nName: /usr\npacked\n", "-rwxr-xr-x", "\na.so.1\n"} {
		if !strings.Contains(out.String(), want) || res.Commands[0].ExitCode != 0 {
			t.Errorf("exit %d, no %q in\n%s", res.Commands[0].ExitCode, want, out.String())
		}
	}
}

// What comes from elsewhere, or is another file than the list names, makes no layer.
func TestDebianFetch(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	good := r.debian("debian", "tool", "1", debOf(t, ".gz", tarOf(t, entry{name: "./usr/bin/tool", text: "x"})))
	for name, test := range map[string]struct {
		lock string
		code reason.Code
	}{
		"control":          {good, ""},
		"own archive":      {strings.Replace(good, "http://deb.debian.org", r.URL, 1), ""},
		"security":         {strings.Replace(good, "http://deb.debian.org/debian", "https://security.debian.org/debian-security", 1), reason.RegistryMissing},
		"foreign archive":  {strings.Replace(good, "deb.debian.org", "evil.example", 1), reason.DependencyRefused},
		"foreign port":     {strings.Replace(good, "deb.debian.org", "deb.debian.org:8080", 1), reason.DependencyRefused},
		"private archive":  {strings.Replace(good, "deb.debian.org/debian", "169.254.169.254/debian", 1), reason.DependencyRefused},
		"like a snapshot":  {strings.Replace(good, "deb.debian.org/debian", "snapshot.debian.org/archive/x", 1), reason.DependencyRefused},
		"another digest":   {good[:len(good)-8] + "0000000\n", reason.RegistryAnswer},
		"another size":     {strings.Replace(good, "deb ", "deb 1", 1), reason.RegistryAnswer},
		"not in the pool":  {strings.ReplaceAll(good, "tool_1", "tool_2"), reason.RegistryMissing},
		"another package":  {strings.Replace(good, "/tool_1", "/evil_1", 1), reason.RegistryMissing},
		"index as package": {strings.Replace(good, "/pool/main/t/tool/tool_1", "/dists/x/tool_1", 1), reason.LockFileInvalid},
	} {
		b := debianBuilder(t, r, &Builder{})
		base := os.DirFS(writeTree(t, t.TempDir(), map[string]string{"debian.lock": test.lock}))
		plan, err := planOf(base, task.Prepare{Ecosystem: task.Debian, Dir: "."}, nil)
		if err == nil {
			_, _, err = b.debian(context.Background(), task.Prepare{Ecosystem: task.Debian, Dir: "."}, plan, t.TempDir())
		}
		if reason.CodeOf(err) != test.code || err != nil && test.code == "" {
			t.Errorf("%s: got %v, want %q", name, err, test.code)
		}
	}
	snapshot, up := &plan{debs: []deb{{archive: "http://snapshot.debian.org/archive/debian-security/20250520T000000Z", name: "a"}}}, registry.Defaults()[registry.Debian]
	if err := snapshot.archives(&up); err != nil || len(up.Others) != 2 || snapshot.from["a"] != "https://snapshot.debian.org/archive/debian-security/20250520T000000Z" {
		t.Errorf("%v, %+v, %v", err, up.Others, snapshot.from)
	}
}

func TestDebianLockIsData(t *testing.T) {
	t.Parallel()
	machine := debianMachines[runtime.GOARCH].name
	line := func(url string) string { return "'" + url + "' x 12 SHA256:" + strings.Repeat("a", 64) + "\n" }
	const pool = "http://deb.debian.org/debian/pool/main/t/tool/"
	for name, test := range map[string]struct {
		lock string
		code reason.Code
	}{
		"control":              {line(pool + "tool_1_" + machine + ".deb"), ""},
		"for all":              {"\n# remark\n" + line(pool+"tool_1%2bx_all.deb"), ""},
		"nothing":              {"# nothing\n", reason.LockFileInvalid},
		"empty":                {"", reason.LockFileInvalid},
		"words":                {"Reading package lists...\n", reason.LockFileInvalid},
		"MD5":                  {"'" + pool + "tool_1_all.deb' x 12 MD5Sum:" + strings.Repeat("a", 32) + "\n", reason.LockFileInvalid},
		"no digest":            {"'" + pool + "tool_1_all.deb' x 12\n", reason.LockFileInvalid},
		"size below 0":         {strings.Replace(line(pool+"tool_1_all.deb"), " 12 ", " -1 ", 1), reason.LockFileInvalid},
		"twice":                {line(pool+"tool_1_all.deb") + line(pool+"tool_2_all.deb"), reason.LockFileInvalid},
		"file":                 {line("file:///pool/main/t/tool/tool_1_all.deb"), reason.LockFileInvalid},
		"user":                 {line("http://u:p@deb.debian.org/debian/pool/main/t/tool/tool_1_all.deb"), reason.LockFileInvalid},
		"query":                {line(pool + "tool_1_all.deb?x=y"), reason.LockFileInvalid},
		"dots":                 {line(pool + "../tool_1_all.deb"), reason.LockFileInvalid},
		"escaped dots":         {line(pool + "%2e%2e/tool_1_all.deb"), reason.LockFileInvalid},
		"escaped slash":        {line(pool + "a%2ftool_1_all.deb"), ""}, // the same path as with the slash
		"data in a name":       {line(pool + "tool%0a_1_all.deb"), reason.LockFileInvalid},
		"another architecture": {line(pool + "tool_1_riscv64.deb"), reason.EnvironmentUnavailable},
		"the C library":        {line(pool + "libc6_1_" + machine + ".deb"), reason.DependencyRefused},
		"too long":             {strings.Repeat(line(pool+"tool_1_all.deb"), maxDebian+1), reason.LockFileInvalid},
	} {
		dir := writeTree(t, t.TempDir(), map[string]string{"debian.lock": test.lock})
		if _, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.Debian, Dir: "."}, nil); reason.CodeOf(err) != test.code || err != nil && test.code == "" {
			t.Errorf("%s: got %v, want %q", name, err, test.code)
		}
	}
}

// A hostile package is refused as a whole; what it may not have is not written anywhere.
func TestHostilePackages(t *testing.T) {
	t.Parallel()
	data := func(members ...entry) []byte { return debOf(t, ".gz", tarOf(t, members...)) }
	link := func(name, target string) entry { return entry{name: name, link: target, kind: tar.TypeSymlink} }
	empty := string(tarOf(t))
	for name, test := range map[string]struct {
		file []byte
		want string // in the error; "" for none
	}{
		"control":                {data(entry{name: "./usr/x", text: "x"}, link("./usr/y", "/usr/x"), link("./usr/z", "../usr/x"), link("./bin/sh", "/usr/bin/x")), ""},
		"parent":                 {data(entry{name: "./../x"}), "part of its name that is .."},
		"absolute":               {data(entry{name: "/etc/x"}), "absolute"},
		"link out":               {data(link("./usr/x", "../../x")), "leaves the package"},
		"link out of lib":        {data(link("./lib/x", "../../usr/x")), "leaves the package"},
		"link up behind a link":  {data(link("./usr/a/b/x", "../../.."), link("./usr/a/l", "b/x/../../../../x")), ""}, // read as the text says,
		"through a link":         {data(link("./a", "/tmp"), entry{name: "./a/x"}), ""},                               // /tmp of the package
		"through a link out":     {data(link("./a", "../../tmp"), entry{name: "./a/x"}), "leaves"},
		"hard link out":          {data(entry{name: "./x", link: "../../etc/passwd", kind: tar.TypeLink}), "leaves the image or links to no file"},
		"hard link to the host":  {data(entry{name: "./x", link: "/etc/passwd", kind: tar.TypeLink}), "no file of this layer"},
		"device":                 {data(entry{name: "./dev/null", kind: tar.TypeChar}), "device"},
		"block device":           {data(entry{name: "./dev/sda", kind: tar.TypeBlock}), "devices or FIFOs"},
		"FIFO":                   {data(entry{name: "./x", kind: tar.TypeFifo}), "devices or FIFOs"},
		"whiteout":               {data(entry{name: "./usr/.wh.x"}), "whiteouts"},
		"opaque root":            {data(entry{name: "./.wh..wh..opq"}), "whiteouts"},
		"file twice":             {data(entry{name: "./usr/lib/x", text: "good"}, entry{name: "./lib/x", text: "evil"}), "and so has"},
		"of another package":     {data(entry{name: "./usr/bin/taken"}), "and so has other"},
		"bomb":                   {data(entry{name: "./x", text: strings.Repeat("\x00", 3<<20)}), "unpack to more than"},
		"dictionary":             {debOf(t, ".xz", unbase(t, dictionaryXZ)), "cannot be read"},
		"wrong compression":      {arOf("debian-binary", "2.0\n", "control.tar", empty, "data.tar.xz", "no xz"), "cannot be read"},
		"no archive":             {[]byte("!<arch>"), "no archive of ar"},
		"no members":             {arOf(), "no member debian-binary"},
		"no data":                {arOf("debian-binary", "2.0\n", "control.tar", empty), "no member data.tar"},
		"format 3":               {arOf("debian-binary", "3.0\n", "control.tar", empty, "data.tar", empty), "not of the format"},
		"data before control":    {arOf("debian-binary", "2.0\n", "data.tar", empty, "control.tar", empty), "is expected"},
		"bzip2":                  {arOf("debian-binary", "2.0\n", "control.tar", empty, "data.tar.bz2", ""), "is expected"},
		"two data":               {arOf("debian-binary", "2.0\n", "control.tar", empty, "data.tar", empty, "data.tar", empty), "its members say"},
		"size beyond the end":    {bytes.Replace(debOf(t, "", tarOf(t)), []byte("100644  1024      `"), []byte("100644  1034      `"), 2), "its members say"},
		"size below 0":           {bytes.Replace(data(), []byte("100644  4 "), []byte("100644  -4"), 1), "no size"},
		"bytes behind the tar":   {debOf(t, "", append(tarOf(t), 'x')), "goes on after its end"},
		"half of a tar":          {debOf(t, "", tarOf(t, entry{name: "./x", text: "text"})[:514]), "cannot be read"},
		"name that is too long":  {data(entry{name: "./" + strings.Repeat("a", 256)}), "too long"},
		"deeper than a path is":  {data(entry{name: "./" + strings.Repeat("a/", 200) + "x"}), "too deep"},
		"through another's link": {data(entry{name: "./usr/share/link/x"}), ""}, // laid out below a link of the other: refused there
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, "deb"))
			must(t, err)
			defer f.Close()
			_, err = f.Write(test.file)
			must(t, err)
			u := &unpacked{place: "p", owner: map[string]string{"p/usr/bin/taken": "other"}, left: 2 << 20, entries: 100}
			err = u.add(context.Background(), deb{name: "evil", version: "1", size: int64(len(test.file))}, f, filepath.Join(dir, "unpacked"))
			if test.want != "" && (reason.CodeOf(err) != reason.LayerRefused || !strings.Contains(err.Error(), test.want)) || test.want == "" && err != nil {
				t.Errorf("got %v, want %q", err, test.want)
			}
			for _, c := range u.changes {
				if err := allowed(c, []string{"p"}); err != nil || !below(c.Path, []string{"p"}) {
					t.Errorf("%s: %v", c.Path, err)
				}
				if c.Kind == tree.Symlink && !strings.HasPrefix(filepath.Join("/", filepath.Dir(c.Path), c.Target)+"/", "/p/") {
					t.Errorf("%s leads to %s", c.Path, c.Target)
				}
			}
		})
	}
}

// A real package of Debian, by the list that apt of this machine writes.
func TestLiveDebian(t *testing.T) {
	t.Parallel()
	lock, err := exec.CommandContext(t.Context(), "apt-get", "download", "--print-uris", "-qq", "-o", "Acquire::ForceHash=SHA256", "hello").Output()
	if err != nil || !bytes.Contains(lock, []byte("SHA256:")) {
		t.Skipf("SKIPPED, NOT TESTED: apt-get is not here, or has no list of packages: %v %s", err, lock)
	}
	plan, err := planOf(os.DirFS(writeTree(t, t.TempDir(), map[string]string{"debian.lock": string(lock)})), task.Prepare{Ecosystem: task.Debian, Dir: "."}, nil)
	must(t, err)
	b := &Builder{Upstream: func(ctx context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		found, bad := registry.Discover(ctx, func(ctx context.Context, argv []string) ([]byte, error) {
			return exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		}, e)
		return found[e], bad[e]
	}}
	changes, told, err := b.debian(t.Context(), task.Prepare{Ecosystem: task.Debian, Dir: "."}, plan, t.TempDir())
	if code := reason.CodeOf(err); code == reason.RegistryUnreachable || code == reason.RegistryAddress || code == reason.RegistryMissing || code == reason.RegistryUnusable {
		t.Skipf("SKIPPED, NOT TESTED: apt or the mirror does not answer here, or has a newer one than apt's list: %v", err)
	}
	must(t, err)
	for _, c := range changes {
		if c.Path == ".remit-debian/usr/bin/hello" && c.Executable && len(told) == 1 && told[0].Name == "hello" {
			r, err := c.Open()
			must(t, err)
			head, err := io.ReadAll(io.LimitReader(r, 4))
			must(t, errors.Join(err, r.Close()))
			if string(head) != "\x7fELF" {
				t.Errorf("hello begins with %q", head)
			}
			return
		}
	}
	t.Errorf("no program in %d files, delivered %+v", len(changes), told)
}
