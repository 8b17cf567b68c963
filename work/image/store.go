package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
	"remit/proof/reason"
)

// The parts of a store, and of a layer in it.
const (
	imagesDir  = "images"  // by digest, one record each
	tagsDir    = "tags"    // by the digest of a reference: what it meant
	layersDir  = "layers"  // by diff id
	stagingDir = "staging" // of the pull that works
	lockName   = "lock"
	treeDir    = "tree"
	metaName   = "layer.json"

	metaVersion = 1
	maxRecord   = 16 << 20
)

// Store keeps images in a directory that only its owner can enter.
type Store struct {
	dir    string
	limits Limits
}

// Open opens the store in dir, which is made if it is not there.
func Open(dir string) (*Store, error) {
	s := &Store{dir, DefaultLimits()}
	for _, sub := range []string{"", imagesDir, tagsDir, layersDir, shellDir, stagingDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, unusable(err)
		}
	}
	return s, nil
}

func unusable(err error) error {
	return reason.Errorf(reason.HomeUnusable, "the store of images cannot be used: %w", err)
}

// Image is an image of the store.
type Image struct {
	V        int    `json:"v"`
	Digest   string `json:"digest"` // of its manifest; of its configuration if it came from a docker archive
	Index    string `json:"index,omitempty"`
	Platform string `json:"platform"`
	// Layers are the lowest first, as in the configuration.
	Layers     []Layer   `json:"layers"`
	Env        []string  `json:"env,omitempty"`
	WorkingDir string    `json:"working_dir,omitempty"`
	User       string    `json:"user,omitempty"`
	Entrypoint []string  `json:"entrypoint,omitempty"`
	Cmd        []string  `json:"cmd,omitempty"`
	PulledAt   time.Time `json:"pulled_at"`
	// References are what the image was asked for as, on this machine.
	References []string `json:"references,omitempty"`
}

// Layer is a layer of an image of the store.
type Layer struct {
	DiffID  string `json:"diff_id"`
	Bytes   int64  `json:"bytes"`
	Entries int64  `json:"entries"`
	Dropped int64  `json:"dropped,omitempty"` // devices and FIFOs
}

// layerMeta is what is known of an unpacked layer.
type layerMeta struct {
	V          int      `json:"v"`
	DiffID     string   `json:"diff_id"`
	Bytes      int64    `json:"bytes"`
	Entries    int64    `json:"entries"`
	Dropped    int64    `json:"dropped"`
	OpaqueRoot bool     `json:"opaque_root,omitempty"` // hides every layer below
	Unnamed    []string `json:"unnamed,omitempty"`     // directories that are only on the way to entries
	Index      string   `json:"index"`                 // see indexOf
}

// tag is what a reference meant when it was resolved.
type tag struct {
	Reference  string    `json:"reference"`
	Digest     string    `json:"digest"`
	ResolvedAt time.Time `json:"resolved_at"`
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (s *Store) record(kind, digest string) string {
	return filepath.Join(s.dir, kind, hexOf(digest)+".json")
}

func (s *Store) layer(diffID string) string { return filepath.Join(s.dir, layersDir, hexOf(diffID)) }

// lock waits for its turn: one pull works at a time, so that what lies in the
// staging directory then was left by one that was broken off.
func (s *Store) lock(ctx context.Context) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, unusable(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(unusable(err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
	if err := removeAll(filepath.Join(s.dir, stagingDir)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written
}

// removeAll empties a directory of the store.
func removeAll(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unusable(err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// write puts a record in its place at once or not at all.
func (s *Store) write(to string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, stagingDir), "record-")
	if err != nil {
		return unusable(err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

func readRecord(name string, v any) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := readAll(f, maxRecord, "a record of the store")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return reason.Errorf(reason.ImageChanged, "the record %s of the store of images is no JSON", filepath.Base(name))
	}
	return nil
}

// find reads the record of an image by its digest, or by that of the index that
// it was chosen from.
func (s *Store) find(digest string) (*Image, error) {
	if !canon.ValidDigest(digest) {
		return nil, reason.Errorf(reason.ImageReference, "%.100q is no digest: sha256: and 64 hexadecimal digits", digest)
	}
	img := &Image{}
	err := readRecord(s.record(imagesDir, digest), img)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.ImageMissing, "the image %s is not on this machine", digest)
	}
	if err != nil {
		return nil, err
	}
	if img.V != metaVersion || img.Digest != digest && img.Index != digest {
		return nil, reason.Errorf(reason.ImageChanged, "the record of the image %s is about another one", digest)
	}
	return img, nil
}

// Resolve returns the digest that a reference means on this machine, without
// asking anybody: its own, or the one that its tag had when it was pulled.
func (s *Store) Resolve(ref Reference) (string, error) {
	if ref.Digest != "" {
		return ref.Digest, nil
	}
	var t tag
	err := readRecord(s.record(tagsDir, canon.Digest([]byte(ref.Text))), &t)
	if errors.Is(err, fs.ErrNotExist) {
		return "", reason.Errorf(reason.ImageMissing, "the image %.200q is not on this machine", ref.Text).
			WithHint("`remit env image pull %s` gets it", ref.Text)
	}
	return t.Digest, err
}

// List returns the images of the store, the latest first.
func (s *Store) List() ([]*Image, error) {
	asked := map[string][]string{}
	err := s.each(tagsDir, func(name string) error {
		var t tag
		if err := readRecord(name, &t); err != nil {
			return err
		}
		asked[t.Digest] = append(asked[t.Digest], t.Reference)
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := []*Image{}
	err = s.each(imagesDir, func(name string) error {
		img := &Image{}
		if err := readRecord(name, img); err != nil {
			return err
		}
		if filepath.Base(name) == hexOf(img.Digest)+".json" {
			img.References = append(asked[img.Digest], asked[img.Index]...)
			slices.Sort(img.References)
			list = append(list, img)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *Image) int {
		return cmp.Or(b.PulledAt.Compare(a.PulledAt), strings.Compare(a.Digest, b.Digest))
	})
	return list, err
}

func (s *Store) each(kind string, do func(name string) error) error {
	names, err := filepath.Glob(filepath.Join(s.dir, kind, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// Empty removes every image: what could write to the store could have written
// whatever it is held against, too.
func (s *Store) Empty(ctx context.Context) error {
	release, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, sub := range []string{imagesDir, tagsDir, shellDir, layersDir} {
		if err := removeAll(filepath.Join(s.dir, sub)); err != nil {
			return err
		}
	}
	return nil
}

// Limits bound what an image may be.
type Limits struct {
	Layers     int   // in a stack; an overlay takes a few hundred
	Manifest   int64 // bytes of a manifest, an index or a configuration
	Blob       int64 // bytes of one compressed layer, and of a whole archive
	Bytes      int64 // of all layers, unpacked
	Entries    int64 // of all layers
	PathLength int
	Depth      int
	Links      int // that are followed on the way to one entry
	Ratio      int64
	RatioFrom  int64 // unpacked bytes below which the ratio does not count
}

// DefaultLimits are far above what images of build tools have: the largest that
// was tried has 38,000 entries and 2.2 GB.
func DefaultLimits() Limits {
	return Limits{Layers: 127, Manifest: 4 << 20, Blob: 8 << 30, Bytes: 32 << 30, Entries: 2_000_000,
		PathLength: 2048, Depth: 128, Links: 40, Ratio: 200, RatioFrom: 256 << 20}
}
