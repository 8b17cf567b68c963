package image

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// usedDir holds a file for each image: locked while a process uses it, and as old as
// the last use. It stays when the image goes.
const usedDir = "used"

// held are the images that this process uses, until it ends: what was mounted once
// may be mounted again at any time.
var held struct {
	sync.Mutex
	files map[string]*os.File
}

// use marks an image as in use by this process from now on, and this as its last use.
func (s *Store) use(digest string) error {
	name := strings.TrimSuffix(s.record(usedDir, digest), ".json")
	held.Lock()
	defer held.Unlock()
	f := held.files[name]
	if f == nil {
		var err error
		if f, err = s.openUse(digest); err != nil {
			return err
		}
		if err := flock(f, unix.LOCK_SH); err != nil {
			return errors.Join(unusable(err), f.Close())
		}
		if held.files == nil {
			held.files = map[string]*os.File{}
		}
		held.files[name] = f
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // gc asks; without it the pull counts
	return nil
}

func (s *Store) openUse(digest string) (*os.File, error) {
	name := strings.TrimSuffix(s.record(usedDir, digest), ".json")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, unusable(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, unusable(err)
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// LastUsed is when a process last used the image, or when it was pulled.
func (s *Store) LastUsed(img *Image) time.Time {
	info, err := os.Lstat(strings.TrimSuffix(s.record(usedDir, img.Digest), ".json"))
	if err != nil || info.ModTime().Before(img.PulledAt) {
		return img.PulledAt
	}
	return info.ModTime()
}

// Bytes is the size of the layers of an image, unpacked. Images share layers.
func (i *Image) Bytes() (n int64) {
	for _, l := range i.Layers {
		n += l.Bytes
	}
	return n
}

// Removed is what became of an image that gc looked at.
type Removed struct {
	Digest string `json:"digest"`
	Why    string `json:"why,omitempty"` // it was kept
}

// Collection is what gc did.
type Collection struct {
	Images []Removed `json:"images"`
	Layers int       `json:"layers"` // removed, since no image has them any more
	Bytes  int64     `json:"bytes"`  // of those layers, unpacked
}

// Collect removes the images that nothing has used since a time, and then the layers
// that no image has. An image that a process uses stays, with its layers. The image
// that is being pulled meanwhile is waited for.
func (s *Store) Collect(ctx context.Context, since time.Time) (*Collection, error) {
	release, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	out := &Collection{Images: []Removed{}}
	kept := map[string]bool{}
	for _, img := range list {
		gone := false
		if !s.LastUsed(img).After(since) {
			gone, err = s.remove(img)
			if err != nil {
				return out, err
			}
			r := Removed{Digest: img.Digest}
			if !gone {
				r.Why = "a run uses it"
			}
			out.Images = append(out.Images, r)
		}
		for _, l := range img.Layers {
			kept[hexOf(l.DiffID)] = kept[hexOf(l.DiffID)] || !gone
		}
	}
	return out, s.sweep(kept, out)
}

// remove takes an image out of the records, unless a process uses it.
func (s *Store) remove(img *Image) (bool, error) {
	f, err := s.openUse(img.Digest)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	} else if err != nil {
		return false, unusable(err)
	}
	var names []string
	err = s.each(imagesDir, func(name string) error {
		var other Image
		if err := readRecord(name, &other); err != nil {
			return err
		}
		if other.Digest == img.Digest {
			names = append(names, name)
		}
		return nil
	})
	if err == nil {
		err = s.each(tagsDir, func(name string) error {
			var t tag
			if err := readRecord(name, &t); err != nil {
				return err
			}
			if t.Digest == img.Digest || img.Index != "" && t.Digest == img.Index {
				names = append(names, name)
			}
			return nil
		})
	}
	if err != nil {
		return false, err
	}
	for _, name := range append(names, s.record(shellDir, img.Digest)) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, unusable(err)
		}
	}
	return true, nil
}

// sweep removes the layers that no image has. One is out of its place before it is
// taken apart, so that no half of it is ever found there.
func (s *Store) sweep(kept map[string]bool, out *Collection) error {
	names, err := os.ReadDir(filepath.Join(s.dir, layersDir))
	if err != nil {
		return unusable(err)
	}
	names = slices.DeleteFunc(names, func(e fs.DirEntry) bool { return kept[e.Name()] })
	for _, e := range names {
		var meta layerMeta
		if readRecord(filepath.Join(s.dir, layersDir, e.Name(), metaName), &meta) == nil {
			out.Bytes += meta.Bytes
		}
		if err := os.Rename(filepath.Join(s.dir, layersDir, e.Name()), filepath.Join(s.dir, stagingDir, e.Name())); err != nil {
			return unusable(err)
		}
		out.Layers++
	}
	return removeAll(filepath.Join(s.dir, stagingDir))
}

// mark writes whiteouts in the form that an overlay reads: a device 0/0 hides a
// name of the layers below, an attribute on a directory all of its names there.
// What the layer itself has under the name stays: as a file it covers what is
// below anyway, and as a directory it must not be merged with it.
func (u *unpacker) mark() error {
	for _, at := range slices.Sorted(maps.Keys(u.hidden)) {
		info, err := u.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := u.inDir(path.Dir(at), func(dir *os.File) error {
				return hide(dir, path.Base(at))
			}); err != nil {
				return unfit("make the device that hides a file", err)
			}
		case err != nil:
			return unusable(err)
		case info.IsDir():
			u.emptied[at] = true
		}
	}
	for _, at := range slices.Sorted(maps.Keys(u.emptied)) {
		if at == "." {
			u.meta.OpaqueRoot = true // an overlay merges roots whatever they are marked with
			continue
		}
		if err := u.inDir(at, func(dir *os.File) error {
			return unix.Fsetxattr(int(dir.Fd()), "user.overlay.opaque", []byte("y"), 0)
		}); err != nil {
			return unfit("mark a directory as emptied", err)
		}
	}
	return nil
}

func (u *unpacker) inDir(at string, do func(*os.File) error) error {
	dir, err := u.root.Open(at)
	if err != nil {
		return err
	}
	return errors.Join(do(dir), dir.Close())
}

func unfit(what string, err error) error {
	return reason.Errorf(reason.ImageStoreUnfit, "the file system of the store does not let Remit %s: %w", what, err)
}

// touch sets the time of modification of an open file.
func touch(f *os.File, t time.Time) error {
	tv := []unix.Timeval{unix.NsecToTimeval(t.UnixNano()), unix.NsecToTimeval(t.UnixNano())}
	return unix.Futimes(int(f.Fd()), tv)
}
