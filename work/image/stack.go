package image

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Mounted is an image as a sandbox needs it.
type Mounted struct {
	Image
	Dirs []string // the layers to stack, the highest first; with userxattr
}

// Find returns an image by its digest, or by that of its index, after a look that
// its layers are as they were when they were unpacked.
func (s *Store) Find(digest string) (*Mounted, error) {
	img, err := s.find(digest)
	if err == nil {
		err = s.use(img.Digest)
	}
	if err == nil {
		img, err = s.find(digest) // gc may have removed it before it was in use
	}
	if err != nil {
		return nil, err
	}
	dirs, err := s.stack(img)
	if err != nil {
		return nil, err
	}
	for _, l := range img.Layers {
		meta, err := s.meta(l.DiffID)
		if err == nil {
			err = s.intact(meta)
		}
		if err != nil {
			return nil, err
		}
	}
	return &Mounted{*img, dirs}, nil
}

func (s *Store) meta(diffID string) (*layerMeta, error) {
	m := &layerMeta{}
	err := readRecord(filepath.Join(s.layer(diffID), metaName), m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.ImageChanged, "the layer %s is not in the store any more", diffID)
	}
	if err == nil && (m.V != metaVersion || m.DiffID != diffID) {
		err = reason.Errorf(reason.ImageChanged, "the record of the layer %s is about another one", diffID)
	}
	return m, err
}

// intact compares a layer with what it was.
func (s *Store) intact(m *layerMeta) error {
	now, err := indexOf(filepath.Join(s.layer(m.DiffID), treeDir))
	if err != nil {
		return err
	}
	if now != m.Index {
		return reason.Errorf(reason.ImageChanged, "the layer %s was changed after it was unpacked", m.DiffID)
	}
	return nil
}

// stack returns the directories of an image, the highest first, without those
// that a layer hides as a whole. A directory that a layer has only on the way to
// an entry would cover a link of a layer below: the layer means what is behind
// the link, and in a stack it would hide it.
func (s *Store) stack(img *Image) ([]string, error) {
	var dirs []string
	metas := make([]*layerMeta, len(img.Layers))
	for i, l := range img.Layers {
		var err error
		if metas[i], err = s.meta(l.DiffID); err != nil {
			return nil, err
		}
		if metas[i].OpaqueRoot {
			dirs = dirs[:0]
		}
		for _, at := range metas[i].Unnamed {
			if link := covers(dirs, at); link != "" {
				return nil, inLayer(i, l.DiffID, reason.Errorf(reason.ImageLayerLink,
					"it has entries below %q, which is a link in a layer below", plain(at)).
					WithHint("build the image so that the layer names the real place of the files"))
			}
		}
		dirs = append(dirs, filepath.Join(s.layer(l.DiffID), treeDir))
	}
	slices.Reverse(dirs)
	var once []string // an overlay takes no directory twice, and the higher one has all of it
	for _, dir := range dirs {
		if !slices.Contains(once, dir) {
			once = append(once, dir)
		}
	}
	return once, nil
}

// covers returns the name if the highest of the layers that have it has a link.
func covers(dirs []string, at string) string {
	for _, dir := range slices.Backward(dirs) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue // Find compares the layer, and says so
		}
		info, err := root.Lstat(at)
		_ = root.Close()
		if err == nil {
			if info.Mode()&fs.ModeSymlink != 0 {
				return at
			}
			return ""
		}
	}
	return ""
}

// indexOf is a digest over what every file of a directory is: name, inode, mode,
// size, and the times of modification and change. No user can set back the time of
// change, so two equal digests say that nothing was changed in between.
func indexOf(dir string) (string, error) {
	sum := sha256.New()
	var fact []byte
	var walk func(dir *os.File, at string) error
	walk = func(dir *os.File, at string) error {
		names, err := dir.Readdirnames(-1)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			var st unix.Stat_t
			if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			rel := path.Join(at, name)
			fact = append(binary.AppendUvarint(fact[:0], uint64(len(rel))), rel...)
			for _, n := range []int64{int64(st.Ino), int64(st.Mode), st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec} { // bits
				fact = binary.AppendVarint(fact, n)
			}
			sum.Write(fact)
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			sub := os.NewFile(uintptr(fd), name)
			if err := errors.Join(walk(sub, rel), sub.Close()); err != nil {
				return err
			}
		}
		return nil
	}
	root, err := os.Open(dir)
	if err == nil {
		err = errors.Join(walk(root, ""), root.Close())
	}
	if err != nil {
		return "", reason.Errorf(reason.ImageChanged, "a layer of the store cannot be read: %w", err)
	}
	return canon.DigestSum(sum), nil
}

// checkEnv refuses variables that no process can have.
func checkEnv(env []string) error {
	for _, v := range env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.Contains(v, "\x00") || len(v) > 64<<10 {
			return invalid("the configuration has the variable %q", plain(v))
		}
	}
	if len(env) > 1000 {
		return invalid("the configuration has %d variables", len(env))
	}
	return nil
}

// shellDir holds a file for each image in which a shell was seen to run.
const shellDir = "shell"

// HasShell reports whether KeepShell was called for the image.
func (s *Store) HasShell(digest string) bool {
	info, err := os.Lstat(s.record(shellDir, digest))
	return err == nil && info.Mode().IsRegular()
}

// KeepShell remembers that a shell runs in the image.
func (s *Store) KeepShell(digest string) error {
	f, err := os.OpenFile(s.record(shellDir, digest), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}
