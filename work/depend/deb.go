package depend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/image"
	"remit/work/sandbox"
	"remit/work/tree"
)

// unpacked is what packages of Debian have, on its way into a layer.
type unpacked struct {
	place         string            // of the layer, relative to the workspace
	owner         map[string]string // of each file and link: the package
	changes       []tree.Change
	left, entries int64
}

// mergedDirs are those of the root that Debian has below /usr.
var mergedDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// add unpacks one package into a directory of its own, by the checks that a layer of an
// image goes through, and takes over what is in it.
func (u *unpacked) add(ctx context.Context, d deb, file *os.File, dir string) error {
	refuse := func(err error) error {
		if ctx.Err() != nil {
			return err
		}
		return reason.Errorf(reason.LayerRefused, "the package %s %s cannot be unpacked: %w", d.name, d.version, err).
			WithHint("leave out the package, or the one that needs it")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return unusable(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unusable(err)
	}
	defer root.Close()
	data, err := dataOf(file, d.size)
	if err != nil {
		return refuse(err)
	}
	limits := image.DefaultLimits()
	limits.Bytes, limits.Entries = u.left, u.entries
	if err := image.Unpack(ctx, data, root, limits); err != nil {
		return refuse(err)
	}
	return eachEntry(dir, func(name string, e fs.DirEntry) error {
		u.entries--
		if e.IsDir() {
			return nil
		}
		c, err := u.change(dir, name, e)
		if err != nil {
			return refuse(err)
		}
		if other := u.owner[c.Path]; other != "" {
			return refuse(fmt.Errorf("it has %q, and so has %s", name, other))
		}
		u.owner[c.Path] = d.name
		u.left -= c.Size
		u.changes = append(u.changes, c)
		return nil
	}, nil)
}

// change is an entry of a package in its place of the workspace.
func (u *unpacked) change(dir, name string, e fs.DirEntry) (tree.Change, error) {
	at, full := merged(name), filepath.Join(dir, name)
	c := tree.Change{Path: path.Join(u.place, at), Kind: tree.File}
	if !tree.ValidPath(c.Path) {
		return c, fmt.Errorf("%q is no path of a layer", name)
	}
	info, err := e.Info()
	if err != nil {
		return c, err
	}
	if e.Type() == fs.ModeSymlink {
		target, err := os.Readlink(full)
		if err != nil {
			return c, err
		}
		c.Kind = tree.Symlink
		c.Target, err = within(name, target)
		c.Size = int64(len(c.Target))
		return c, err
	}
	c.Executable, c.Size = info.Mode()&0o100 != 0, info.Size()
	c.Open = func() (io.ReadCloser, error) { return os.Open(full) }
	if path.Ext(at) != ".pc" || path.Base(path.Dir(at)) != "pkgconfig" || c.Size > maxPkgConfig {
		return c, nil
	}
	text, err := os.ReadFile(full)
	if err != nil {
		return c, err
	}
	text = pkgConfigPrefix().ReplaceAll(text, []byte("${1}"+path.Join(sandbox.WorkspacePath, u.place)+"/usr${2}"))
	c.Size, c.Open = int64(len(text)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return c, nil
}

// maxPkgConfig is more than a description for pkg-config has.
const maxPkgConfig = 64 << 10

// pkgConfigPrefix is the one thing in a package that is written anew: where a
// description for pkg-config says that the headers and libraries are.
var pkgConfigPrefix = form.Lazy(`(?m)^([a-z_]+=)/usr(/|$)`)

// merged is a path of the root where a merged /usr has it.
func merged(name string) string {
	if top, _, _ := strings.Cut(name, "/"); slices.Contains(mergedDirs, top) {
		return "usr/" + name
	}
	return name
}

// within is the target of a link when the root is the place of the layer: what led from
// / is led from there, and what would leave it is refused. Steps up come first, so that
// they are taken from real directories.
func within(link, target string) (string, error) {
	to := target
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(link), to)
	}
	if to = strings.TrimLeft(path.Clean(to), "/"); to == ".." || strings.HasPrefix(to, "../") {
		return "", fmt.Errorf("%q is a link to %.200q, which leaves the package", link, target)
	}
	return filepath.Rel("/"+path.Dir(merged(link)), "/"+merged(to))
}

// dataOf finds the files of a package: in an archive of ar the third member, behind
// debian-binary and what holds the maintainer scripts. Nothing may be in another place,
// where another reader could find other files.
func dataOf(f io.ReaderAt, whole int64) (io.Reader, error) {
	at := int64(8)
	magic := make([]byte, at)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "!<arch>\n" {
		return nil, errors.New("it is no archive of ar")
	}
	var data io.Reader
	for i, want := range []string{"debian-binary", "control.tar", "data.tar"} {
		header := make([]byte, 60)
		if _, err := f.ReadAt(header, at); err != nil || string(header[58:]) != "`\n" {
			return nil, fmt.Errorf("it has no member %s", want)
		}
		name := strings.TrimSuffix(strings.TrimRight(string(header[:16]), " "), "/")
		size, err := strconv.ParseInt(strings.TrimRight(string(header[48:58]), " "), 10, 64)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("its member %d has no size", i+1)
		}
		member := io.NewSectionReader(f, at+60, size)
		ext, is := strings.CutPrefix(name, want)
		switch {
		case !is || i == 0 && ext != "" || i > 0 && !slices.Contains([]string{"", ".gz", ".xz", ".zst"}, ext):
			return nil, fmt.Errorf("its member %d is %q, and %s is expected, packed with gz, xz or zst", i+1, name, want)
		case i == 0:
			version := make([]byte, 2)
			if _, err := member.ReadAt(version, 0); err != nil || string(version) != "2." {
				return nil, errors.New("it is not of the format 2.0")
			}
		case i == 2:
			data = member
		}
		at += 60 + size + size%2
	}
	if at != whole {
		return nil, fmt.Errorf("it has %d bytes, and its members say %d", whole, at)
	}
	return data, nil
}
