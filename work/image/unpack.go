package image

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"remit/proof/reason"
)

// unpacker writes the entries of one layer.
type unpacker struct {
	root   *os.Root
	budget *budget
	meta   layerMeta

	places  map[string]string     // the directory of an entry, and where it really is
	dirs    map[string]attributes // made so far
	unnamed map[string]bool       // of them: no entry named it
	hidden  map[string]bool       // by a whiteout
	emptied map[string]bool       // by an opaque whiteout
	dir     *os.Root              // of the last entry
	dirAt   string
}

// attributes are set at the end, when nothing is made below a directory any more.
type attributes struct {
	mode fs.FileMode
	time time.Time
}

func newUnpacker(root *os.Root, b *budget) *unpacker {
	return &unpacker{root: root, budget: b, places: map[string]string{}, dirs: map[string]attributes{".": {mode: 0o755}},
		unnamed: map[string]bool{}, hidden: map[string]bool{}, emptied: map[string]bool{}}
}

func (u *unpacker) count() error {
	if u.budget.entries--; u.budget.entries < 0 {
		return tooLarge("the layers have more than %d entries", u.budget.limits.Entries)
	}
	u.meta.Entries++
	return nil
}

func (u *unpacker) all(t *tar.Reader) error {
	defer u.leave()
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.count(); err != nil {
			return err
		}
		name, err := readName(h.Name, u.budget.limits)
		if err != nil {
			return err
		}
		if err := u.entry(h, name, t); err != nil {
			return err
		}
	}
}

// entry writes one entry.
func (u *unpacker) entry(h *tar.Header, n entryName, content io.Reader) error {
	if n.inRoot || n.empty && len(n.parts) == 0 {
		switch {
		case n.empty:
			u.meta.OpaqueRoot = true
		case h.Typeflag != tar.TypeDir:
			return reason.Errorf(reason.ImageLayerEntry, "the entry %q of kind %q is in the place of the root", plain(n.text), h.Typeflag)
		default:
			u.dirs["."] = attributesOf(h)
		}
		return nil
	}
	if n.empty || n.hides {
		return u.hide(n)
	}
	parent, err := u.resolve(n.parts[:len(n.parts)-1])
	if err != nil {
		return err
	}
	at := path.Join(parent, n.parts[len(n.parts)-1])
	switch h.Typeflag {
	case tar.TypeDir:
		return u.mkdir(at, h)
	case tar.TypeReg:
		if sparse(h) {
			return tooLarge("the entry %q is a sparse file, which is larger than its stream", plain(n.text))
		}
		return u.file(parent, at, h, content)
	case tar.TypeSymlink:
		return u.symlink(at, h)
	case tar.TypeLink:
		return u.link(at, h)
	case tar.TypeChar:
		if h.Devmajor == 0 && h.Devminor == 0 {
			return reason.Errorf(reason.ImageLayerEntry, "the entry %q is a device that hides what is below", plain(n.text))
		}
		u.meta.Dropped++
		return nil
	case tar.TypeGNUSparse:
		return tooLarge("the entry %q is a sparse file, which is larger than its stream", plain(n.text))
	case tar.TypeBlock, tar.TypeFifo:
		u.meta.Dropped++
		return nil
	}
	return reason.Errorf(reason.ImageLayerEntry, "the entry %q is of the unknown kind %q", plain(n.text), h.Typeflag)
}

// hide remembers what a whiteout is about. The directory around it is made, since
// the mark stands in it.
func (u *unpacker) hide(n entryName) error {
	if n.empty {
		at, err := u.resolve(n.parts)
		if err == nil {
			u.emptied[at] = true
		}
		return err
	}
	parent, err := u.resolve(n.parts[:len(n.parts)-1])
	if err == nil {
		u.hidden[path.Join(parent, n.parts[len(n.parts)-1])] = true
	}
	return err
}

// sparse reports a file with holes, in the form that package tar expands silently.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func attributesOf(h *tar.Header) attributes {
	return attributes{mode: fs.FileMode(h.Mode).Perm()&^0o022 | 0o700, time: timeOf(h)} // nine bits are kept
}

// timeOf keeps times that every file system can.
func timeOf(h *tar.Header) time.Time {
	if s := h.ModTime.Unix(); s < 0 || s > 1<<32-1 {
		return time.Unix(0, 0)
	}
	return h.ModTime
}

func twice(at string) error {
	return reason.Errorf(reason.ImageLayerEntry, "the layer has an entry for %q twice", plain(at))
}

func (u *unpacker) mkdir(at string, h *tar.Header) error {
	if err := u.root.Mkdir(at, 0o700); errors.Is(err, fs.ErrExist) {
		if _, isDir := u.dirs[at]; !isDir {
			return twice(at)
		}
	} else if err != nil {
		return unusable(err)
	}
	u.dirs[at] = attributesOf(h)
	delete(u.unnamed, at)
	return nil
}

// enter opens the directory of an entry. Most entries follow one of the same
// directory.
func (u *unpacker) enter(dir string) (*os.Root, error) {
	if u.dir != nil && u.dirAt == dir {
		return u.dir, nil
	}
	u.leave()
	d, err := u.root.OpenRoot(dir)
	if err != nil {
		return nil, unusable(err)
	}
	u.dir, u.dirAt = d, dir
	return d, nil
}

func (u *unpacker) leave() {
	if u.dir != nil {
		_ = u.dir.Close()
		u.dir = nil
	}
}

func (u *unpacker) file(parent, at string, h *tar.Header, content io.Reader) error {
	dir, err := u.enter(parent)
	if err != nil {
		return err
	}
	f, err := dir.OpenFile(path.Base(at), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return twice(at)
	}
	if err != nil {
		return unusable(err)
	}
	n, err := io.Copy(f, content) // the stream has a budget
	u.meta.Bytes += n
	if err != nil {
		err = writing(err, broken)
	} else if err = f.Chmod(fs.FileMode(h.Mode).Perm()&^0o022 | 0o400); err == nil { // nine bits are kept
		err = touch(f, timeOf(h))
	}
	return errors.Join(err, f.Close())
}

func (u *unpacker) symlink(at string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > 4095 || strings.Contains(h.Linkname, "\x00") {
		return reason.Errorf(reason.ImageLayerLink, "the link %q has no target that a link can have", plain(at))
	}
	err := u.root.Symlink(h.Linkname, at)
	if errors.Is(err, fs.ErrExist) {
		return twice(at)
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// link makes a hard link to a file of this layer. Build tools write the file into
// the layer with its links.
func (u *unpacker) link(at string, h *tar.Header) error {
	refuse := func(why string) error {
		return reason.Errorf(reason.ImageLayerLink, "the hard link %q to %q %s", plain(at), plain(h.Linkname), why)
	}
	n, err := readName(strings.TrimPrefix(h.Linkname, "/"), u.budget.limits)
	if err != nil || n.inRoot || n.empty || n.hides {
		return refuse("leaves the image or links to no file")
	}
	parent, err := u.resolve(n.parts[:len(n.parts)-1])
	if err != nil {
		return err
	}
	target := path.Join(parent, n.parts[len(n.parts)-1])
	info, err := u.root.Lstat(target)
	if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return refuse("has no file of this layer behind it")
	}
	err = u.root.Link(target, at)
	if errors.Is(err, fs.ErrExist) {
		return twice(at)
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// finish writes the marks, and the modes and times of directories.
func (u *unpacker) finish(diffID string) (*layerMeta, error) {
	if err := u.mark(); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(u.dirs))
	for at := range u.dirs {
		names = append(names, at)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, at := range names {
		a := u.dirs[at]
		if err := errors.Join(u.root.Chmod(at, a.mode), u.root.Chtimes(at, a.time, a.time)); err != nil {
			return nil, unusable(err)
		}
	}
	u.meta.V, u.meta.DiffID = metaVersion, diffID
	for at := range u.unnamed {
		u.meta.Unnamed = append(u.meta.Unnamed, at)
	}
	slices.Sort(u.meta.Unnamed)
	return &u.meta, nil
}

// The prefix of a whiteout, and the name of the one that empties a directory.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// entryName reads the name of an entry: its parts, and whether the last one is a
// whiteout of the name that is returned in its place, or empties its directory.
type entryName struct {
	text   string // as it was
	parts  []string
	hides  bool // parts is what a whiteout hides
	empty  bool // parts is the directory that a whiteout empties
	inRoot bool // no parts: the root itself
}

func readName(name string, l Limits) (entryName, error) {
	n := entryName{text: name}
	refuse := func(why string) (entryName, error) {
		return n, reason.Errorf(reason.ImageLayerName, "the entry %q %s", plain(name), why)
	}
	switch {
	case name == "" || strings.HasPrefix(name, "/"):
		return refuse("is absolute or has no name")
	case strings.Contains(name, "\x00"):
		return refuse("has a NUL in its name")
	case len(name) > l.PathLength:
		return refuse("has too long a name")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == ".." || len(part) > 255:
			return refuse("has a part of its name that is .. or too long")
		case part == "" || part == ".":
			continue
		}
		n.parts = append(n.parts, part)
	}
	if len(n.parts) > l.Depth {
		return refuse("is too deep")
	}
	if len(n.parts) == 0 {
		n.inRoot = true
		return n, nil
	}
	last := len(n.parts) - 1
	for _, part := range n.parts[:last] {
		if strings.HasPrefix(part, whiteout) {
			return refuse("is below a whiteout")
		}
	}
	hidden, is := strings.CutPrefix(n.parts[last], whiteout)
	switch {
	case !is:
	case n.parts[last] == opaque:
		n.parts, n.empty = n.parts[:last], true
	case hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteout):
		return refuse("is a whiteout of no name")
	default:
		n.parts, n.hides = append(n.parts[:last:last], hidden), true
	}
	return n, nil
}
