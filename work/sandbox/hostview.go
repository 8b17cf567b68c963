//go:build linux

package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
	"remit/proof/reason"
)

// maxViewEntries bounds how many files a look at the host covers.
const maxViewEntries = 200_000

// HostView is a digest over what a command over the base tree lower sees of this
// host: the boot and its kernel, this program, the variables, the programs on the search path,
// the libraries and language installations, and the modules that the tree is
// lent. A file counts by its inode, size, mode and times of modification and
// change, which no user can set back; nothing is started and no content of a
// program is read. Two equal digests say that nothing of this was replaced,
// added or removed in between.
func (d *bwrap) HostView(ctx context.Context, lower string) (string, error) {
	lent, err := d.modules.lend(ctx, d.tools.modCache, lower)
	if err != nil {
		return "", err
	}
	boot, kernel, err := bootAndKernel()
	if err != nil {
		return "", fmt.Errorf("sandbox: looking at the host: %w", err)
	}
	v := &hostView{sum: sha256.New(), left: maxViewEntries, seen: map[string]bool{}}
	v.say(append([]string{"boot", boot}, kernel...)...)
	v.say("env", fmt.Sprint(d.environment(Spec{Limits: DefaultLimits()}, false)))
	v.path(unix.AT_FDCWD, "/proc/self/exe", 0)
	if lent != nil {
		v.say(append([]string{"modules"}, lent.Dirs...)...)
		v.say(append([]string{"module files"}, lent.Files...)...)
	}
	for _, b := range d.tools.binds {
		v.say("bind", b.Inside)
		v.list(b.Host)
	}
	if d.image != nil {
		v.image(d.image)
	} else {
		v.system(d.tools.hostDirs)
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if v.left < 0 {
		return "", fmt.Errorf("sandbox: looking at the host: more than %d files are on the search path", maxViewEntries)
	}
	return canon.DigestSum(v.sum), nil
}

// libraryDirs hold what programs load. An upgrade replaces files, which changes
// the time of their directory.
var libraryDirs = []string{"/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/libexec", "/usr/share/java", "/usr/lib/node_modules", "/usr/local/lib/node_modules"}

// system adds what every command sees of the host.
func (v *hostView) system(hostDirs []string) {
	links, system := systemPlaces("/")
	v.say("root", fmt.Sprint(links))
	for _, dir := range system {
		v.list(dir)
	}
	for _, name := range slices.Concat(etcPlaces(), belowEtc(phpModules)) {
		v.list(filepath.Join("/etc", name))
	}
	for _, dir := range slices.Concat(hostDirs, filepath.SplitList(SystemPath)) {
		v.list(dir)
		v.installation(filepath.Dir(dir))
	}
	for _, dir := range libraryDirs {
		v.list(dir)
	}
	v.languages("/usr/lib", "/usr/local/lib")
}

// image adds the root of an image: its digest says what was unpacked, and the
// directories of its layers that they were not put into the place of others.
func (v *hostView) image(r *Root) {
	v.say("image", r.Digest, r.User)
	for _, dir := range r.Layers {
		v.path(unix.AT_FDCWD, dir, 0)
	}
	v.path(unix.AT_FDCWD, "/"+caBundle, 0)
}

// hostView collects what a look sees.
type hostView struct {
	sum  hash.Hash
	fact []byte
	left int             // entries that may still be looked at
	seen map[string]bool // directories that were listed, links resolved
}

// say adds facts. Lengths keep apart what else could be read in two ways.
func (v *hostView) say(facts ...string) {
	for _, f := range facts {
		v.fact = append(binary.AppendUvarint(v.fact[:0], uint64(len(f))), f...)
		v.sum.Write(v.fact)
	}
}

// path adds what a name below an open directory is, or that there is nothing.
func (v *hostView) path(dir int, name string, flags int) (mode uint32) {
	v.say(name)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, flags); err != nil {
		v.say("absent")
		return 0
	}
	v.fact = v.fact[:0]
	for _, n := range []uint64{st.Dev, st.Ino, uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec)} {
		v.fact = binary.LittleEndian.AppendUint64(v.fact, n)
	}
	v.sum.Write(v.fact)
	return st.Mode
}

// list adds what a path is and, of a directory, what each entry is, a link with
// its target.
func (v *hostView) list(path string) {
	if v.path(unix.AT_FDCWD, path, 0)&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || v.seen[real] {
		v.say(real)
		return
	}
	v.seen[real] = true
	dir, err := os.Open(real)
	if err != nil {
		v.say("closed")
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(max(v.left, 0) + 1)
	if v.left -= len(names); err != nil || v.left < 0 {
		return
	}
	slices.Sort(names)
	at := int(dir.Fd())
	for _, name := range names {
		if v.path(at, name, unix.AT_SYMLINK_NOFOLLOW)&unix.S_IFMT == unix.S_IFLNK {
			v.path(at, name, 0)
		}
	}
}

// installation adds the parts of a language installation that lie beside its
// programs: the release and the settings of Go, and its compiler.
func (v *hostView) installation(root string) {
	if root == "/" || root == "/usr" || root == "/usr/local" {
		root = goRootBelow(filepath.Join(root, "bin"))
	}
	if root == "" {
		return
	}
	for _, name := range []string{"VERSION", "go.env", "src", "lib"} {
		v.path(unix.AT_FDCWD, filepath.Join(root, name), 0)
	}
	tools, _ := filepath.Glob(filepath.Join(root, "pkg/tool/*"))
	for _, dir := range tools {
		v.list(dir)
	}
}

// goRootBelow follows the go command in a directory of programs to its
// installation, "" if there is none.
func goRootBelow(bin string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(bin, "go"))
	if err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(real))
}

// languages adds the directories that interpreters import from.
func (v *hostView) languages(dirs ...string) {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !e.IsDir() || !strings.HasPrefix(e.Name(), "python") && !strings.HasPrefix(e.Name(), "ruby") && !strings.HasPrefix(e.Name(), "jvm") {
				continue
			}
			at := filepath.Join(dir, e.Name())
			v.list(at)
			v.list(filepath.Join(at, "dist-packages"))
			v.list(filepath.Join(at, "site-packages"))
		}
	}
}

// hidden are host directories that no command may see, see [Options.Hidden].
type hidden []string

// hiddenFrom resolves the directories. One that every sandbox shows, since it
// lies below a directory that is always there, cannot be hidden.
func hiddenFrom(dirs []string) (hidden, error) {
	out := make(hidden, 0, len(dirs))
	for _, dir := range dirs {
		real, err := resolved(dir)
		if err != nil {
			return nil, err
		}
		if visibleInside(real) {
			return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: %s lies below /usr, which every command sees", dir).
				WithHint("set REMIT_HOME to a directory elsewhere")
		}
		out = append(out, real)
	}
	return out, nil
}

// resolved follows the links of a path of which the end may not exist yet.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			return "", err
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

// check refuses a bind that would show a hidden directory, whole or in part. The
// host path of the bind has no links any more. Sockets, files and directories
// count alike.
func (h hidden) check(b Bind) error {
	for _, dir := range h {
		if within(dir, b.Host) || within(b.Host, dir) {
			return reason.Errorf(reason.SandboxUnavailable, "sandbox: cannot show %q to a command: it would show %q", b.Host, dir).
				WithHint("name a smaller directory: keys and the books of the authority lie there")
		}
	}
	return nil
}

// within reports whether a clean path is top or lies below it.
func within(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, string(os.PathSeparator))+string(os.PathSeparator))
}
