package depend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/atomicfile"
	"remit/proof/reason"
)

// The files of a layer's directory, and the bound on what is read of them.
const (
	manifestFile = "manifest.json"
	listingFile  = "listing"
	indexFile    = "index"
	lockFile     = "lock"
	treeDir      = "tree"

	maxManifest = 32 << 20
)

// Store keeps layers in a directory that only its owner can enter.
type Store struct{ dir string }

// OpenStore opens the store in dir, which is made if it is not there.
func OpenStore(dir string) (*Store, error) {
	s := &Store{dir}
	for _, sub := range []string{dir, s.layers(), s.staging()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, unusable(err)
		}
	}
	return s, nil
}

func (s *Store) layers() string  { return filepath.Join(s.dir, "layers") }
func (s *Store) staging() string { return filepath.Join(s.dir, "staging") }

func unusable(err error) error {
	return reason.Errorf(reason.HomeUnusable, "the store of dependency layers cannot be used: %w", err).
		WithHint("free some space below REMIT_HOME, or set it to another place")
}

// Layer is a layer of the store, held until it is released: nothing removes it
// meanwhile.
type Layer struct {
	Manifest
	Tree string // the directory to mount

	dir  string
	lock *os.File
}

// Release lets the layer be removed.
func (l *Layer) Release() {
	if l != nil {
		// Unlocked, not only closed: a process that is just being started holds a copy of the file until it executes.
		_ = unix.Flock(int(l.lock.Fd()), unix.LOCK_UN)
		_ = l.lock.Close() // nothing was written
	}
}

// Find returns the layer of a key, nil if there is none. It was compared with its
// index, and where that differs with its manifest, byte by byte.
func (s *Store) Find(key string) (*Layer, error) {
	l, err := s.hold(key, unix.LOCK_SH)
	if l == nil || err != nil {
		return nil, err
	}
	if err := l.verify(); err != nil {
		l.Release()
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(l.dir, lockFile), now, now) // when it was used last; gc asks
	return l, nil
}

// hold opens a layer under a lock, and reads its manifest.
func (s *Store) hold(key string, how int) (*Layer, error) {
	name, ok := dirName(key)
	if !ok {
		return nil, fmt.Errorf("%.100q is no key of a layer: sha256: and 64 hexadecimal digits", key)
	}
	l := &Layer{dir: filepath.Join(s.layers(), name)}
	l.Tree = filepath.Join(l.dir, treeDir)
	var err error
	for range 2 { // again where it was removed, and made anew, between open and lock
		if l.lock, err = os.OpenFile(filepath.Join(l.dir, lockFile), os.O_RDWR|unix.O_NOFOLLOW, 0); err != nil {
			break
		}
		if err = lockOf(l.lock, how); err != nil {
			return nil, errors.Join(err, l.lock.Close())
		}
		if at, statErr := os.Stat(l.lock.Name()); statErr == nil {
			if mine, err := l.lock.Stat(); err == nil && os.SameFile(at, mine) {
				return l, l.readManifest(key)
			}
		}
		_ = l.lock.Close()
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, unusable(err)
}

// errInUse is the lock of a layer that a run holds.
var errInUse = errors.New("a run uses it")

func lockOf(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errInUse
		default:
			return err
		}
	}
}

func (l *Layer) readManifest(key string) error {
	err := func() error {
		text, err := readBounded(filepath.Join(l.dir, manifestFile), maxManifest)
		if err != nil {
			return err
		}
		l.Manifest, err = decodeManifest(text)
		if err == nil && l.Key != key {
			err = fmt.Errorf("the manifest is that of %s", l.Key)
		}
		return err
	}()
	if err != nil {
		l.Release()
		return changed(key, err.Error())
	}
	return nil
}

// decodeManifest reads a manifest strictly, and computes its key again.
func decodeManifest(text []byte) (m Manifest, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	if m.Schema != ManifestSchema {
		return m, fmt.Errorf("the manifest is of schema %.50q, not %s", m.Schema, ManifestSchema)
	}
	key, err := m.Recipe.Key()
	if err == nil && key != m.Key {
		err = fmt.Errorf("the manifest says %.80s, and its recipe has the key %s", m.Key, key)
	}
	sum, sumErr := deliveriesDigest(m.Deliveries)
	if err == nil && sumErr == nil && sum != m.DeliveriesSHA256 {
		err = errors.New("the manifest has another digest of what was delivered than its list")
	}
	return m, errors.Join(err, sumErr)
}

func changed(key, why string) error {
	return reason.Errorf(reason.LayerChanged, "the layer %s is not what its manifest says: %s", Short(key), why).
		WithHint("`remit env gc --key %s` removes it; look at who could write below REMIT_HOME", Short(key))
}

// Short is the form of a key for a person.
func Short(key string) string {
	if name, ok := dirName(key); ok {
		return name[:12]
	}
	return key
}

// verify compares the layer with its index, and with its manifest where that
// differs: a copy of the store on another disk is still good.
func (l *Layer) verify() error {
	now, err := statDigest(l.Tree)
	if err != nil {
		return changed(l.Key, err.Error())
	}
	index, err := readBounded(filepath.Join(l.dir, indexFile), 1<<10)
	if err == nil && string(index) == now {
		return nil
	}
	if err := l.Check(context.Background()); err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(l.dir, indexFile), []byte(now), 0o600); err != nil {
		return unusable(err)
	}
	return nil
}

// Check reads every byte of the layer, and compares it with the manifest.
func (l *Layer) Check(ctx context.Context) error {
	var now strings.Builder
	got, err := list(l.Tree, contextWriter{ctx, &now})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return changed(l.Key, err.Error())
	}
	if got.digest == l.ContentSHA256 && got.entries == l.Entries && got.bytes == l.Bytes {
		return nil
	}
	return changed(l.Key, l.firstDifference(now.String()))
}

// firstDifference names a path, if the listing that lies beside the tree is that of
// the manifest.
func (l *Layer) firstDifference(now string) string {
	kept, err := readBounded(filepath.Join(l.dir, listingFile), maxListing)
	if err == nil {
		was := strings.Split(string(kept), "\n")
		is := strings.Split(now, "\n")
		for i := range max(len(was), len(is)) {
			if i >= len(was) || i >= len(is) || was[i] != is[i] {
				return fmt.Sprintf("line %d of the listing was %.200q and is %.200q", i+1, at(was, i), at(is, i))
			}
		}
	}
	return "its content has another digest"
}

const maxListing = 256 << 20

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// Keys lists what the store has, in order.
func (s *Store) Keys() ([]string, error) {
	entries, err := os.ReadDir(s.layers())
	if err != nil {
		return nil, unusable(err)
	}
	var keys []string
	for _, e := range entries {
		key := "sha256:" + e.Name()
		if _, ok := dirName(key); ok && e.IsDir() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Complete returns the one key that begins with the given digits.
func (s *Store) Complete(name string) (string, error) {
	keys, err := s.Keys()
	if err != nil {
		return "", err
	}
	prefix := "sha256:" + strings.TrimPrefix(name, "sha256:")
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) })
	switch {
	case len(keys) == 0 || len(prefix) < len("sha256:")+4:
		return "", reason.Errorf(reason.FileUnusable, "no layer has a key that begins with %.80q", name).
			WithHint("`remit env list` shows the keys; give at least 4 digits")
	case len(keys) > 1:
		return "", reason.Errorf(reason.FileUnusable, "%d layers have a key that begins with %.80q", len(keys), name).WithHint("give more digits of it")
	}
	return keys[0], nil
}

// Look finds a layer by its key or the beginning of its digits, without comparing
// its content.
func (s *Store) Look(name string) (*Layer, error) {
	key, err := s.Complete(name)
	if err != nil {
		return nil, err
	}
	l, err := s.hold(key, unix.LOCK_SH)
	if err == nil && l == nil {
		err = reason.Errorf(reason.FileUnusable, "the layer %s has just been removed", Short(key))
	}
	return l, err
}
