package depend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
	"remit/work/tree"
)

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", filepath.Base(path)))
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(path), limit)
	}
	return text, err
}

// contextWriter ends writing with its context.
type contextWriter struct {
	ctx context.Context //nolint:containedctx // io.Writer has no parameter for a context
	to  io.Writer
}

func (w contextWriter) Write(p []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// deliveriesDigest names a list of deliveries.
func deliveriesDigest(d []Delivery) (string, error) {
	if d == nil {
		d = []Delivery{}
	}
	return canon.DigestOf(d)
}

func sortDeliveries(d []Delivery) []Delivery {
	d = slices.Clone(d)
	slices.SortFunc(d, func(a, b Delivery) int {
		return strings.Compare(a.Name+"\x00"+a.Version+"\x00"+a.Path+"\x00"+a.SHA256, b.Name+"\x00"+b.Version+"\x00"+b.Path+"\x00"+b.SHA256)
	})
	return slices.CompactFunc(d, func(a, b Delivery) bool { return a == b })
}

// seal makes a layer of contents, and puts it into the store under the key of its
// recipe. Of the manifest it fills in what follows from the content. Where another
// builder was first, its layer is the one.
func (s *Store) seal(ctx context.Context, m Manifest, from contents) (*Layer, error) {
	var err error
	m.Schema = ManifestSchema
	if m.Key, err = m.Recipe.Key(); err != nil {
		return nil, err
	}
	staged, err := os.MkdirTemp(s.staging(), "")
	if err != nil {
		return nil, unusable(err)
	}
	defer func() { _ = os.RemoveAll(staged) }() // gone if it was renamed
	content := filepath.Join(staged, treeDir)
	if err := os.Mkdir(content, 0o755); err != nil {
		return nil, unusable(err)
	}
	if err := lay(ctx, content, m.Recipe.Paths, from); err != nil {
		return nil, err
	}
	var listing bytes.Buffer
	got, err := list(content, contextWriter{ctx, &listing})
	if err != nil {
		return nil, unusable(err)
	}
	if m.ContentSHA256 != "" && m.ContentSHA256 != got.digest {
		return nil, notALayer(fmt.Errorf("its content has the digest %s, and its manifest says %s", got.digest, m.ContentSHA256))
	}
	m.ContentSHA256, m.Entries, m.Bytes = got.digest, got.entries, got.bytes
	m.Deliveries = sortDeliveries(m.Deliveries)
	if m.DeliveriesSHA256, err = deliveriesDigest(m.Deliveries); err != nil {
		return nil, err
	}
	if err := complete(staged, content, m, listing.Bytes()); err != nil {
		return nil, unusable(err)
	}
	name, _ := dirName(m.Key)
	err = os.Rename(staged, filepath.Join(s.layers(), name))
	if err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return nil, unusable(err)
	}
	l, err := s.Find(m.Key)
	if err == nil && l == nil {
		err = unusable(fmt.Errorf("the layer %s was removed as soon as it was made", Short(m.Key)))
	}
	return l, err
}

// complete writes what lies beside the tree, and has all of it on the disk before
// the layer can be found.
func complete(staged, content string, m Manifest, listing []byte) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	index, err := statDigest(content)
	if err != nil {
		return err
	}
	for name, body := range map[string][]byte{manifestFile: append(text, '\n'), listingFile: listing, indexFile: []byte(index), lockFile: nil} {
		if err := os.WriteFile(filepath.Join(staged, name), body, 0o600); err != nil {
			return err
		}
	}
	return tree.Sync(staged)
}

// stagingLife is how long an unfinished layer may stay: no build takes as long.
const stagingLife = 24 * time.Hour

// sweep removes what crashed builders left.
func (s *Store) sweep(now time.Time) error {
	entries, err := os.ReadDir(s.staging())
	if err != nil {
		return unusable(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > stagingLife {
			_ = os.RemoveAll(filepath.Join(s.staging(), e.Name())) // tried again next time
		}
	}
	return nil
}

// Removed is a layer that gc removed, or could not.
type Removed struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"kept_because,omitempty"` // "" when it is gone
}

// Remove deletes the layer of a key, whatever its content, unless a run uses it.
func (s *Store) Remove(key string) (Removed, error) {
	name, ok := dirName(key)
	if !ok {
		return Removed{}, fmt.Errorf("%.100q is no key of a layer", key)
	}
	dir, r := filepath.Join(s.layers(), name), Removed{Key: key}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer lock.Close()
		if err := lockOf(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			r.Why = err.Error()
			return r, nil
		}
	}
	if text, err := readBounded(filepath.Join(dir, manifestFile), maxManifest); err == nil {
		if m, err := decodeManifest(text); err == nil {
			r.Bytes = m.Bytes
		}
	}
	// Moved away by one rename, so that half of a layer is never found.
	gone, err := os.MkdirTemp(s.staging(), "gone-")
	if err == nil {
		err = os.Rename(dir, filepath.Join(gone, "layer"))
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return r, unusable(err)
	}
	return r, nil
}

// Collect removes the layers that no run has used since the given time, and what
// crashed builders left.
func (s *Store) Collect(now, unusedSince time.Time) ([]Removed, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	removed := []Removed{}
	for _, key := range keys {
		if s.LastUsed(key).After(unusedSince) {
			continue
		}
		r, err := s.Remove(key)
		if err != nil {
			return removed, err
		}
		removed = append(removed, r)
	}
	return removed, s.sweep(now)
}

// Trim removes the layers whose last use is longest ago, until the others have no
// more bytes than that. What is in use stays.
func (s *Store) Trim(most int64) ([]Removed, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(keys, func(a, b string) int { return s.LastUsed(b).Compare(s.LastUsed(a)) })
	removed := []Removed{}
	for _, key := range keys {
		l, err := s.Look(key)
		if err != nil { // it has just been removed, or nothing can be said of it
			continue
		}
		most -= l.Bytes
		l.Release()
		if most >= 0 {
			continue
		}
		r, err := s.Remove(key)
		if err != nil {
			return removed, err
		}
		removed = append(removed, r)
	}
	return removed, nil
}

// Empty removes every layer. One that a run uses is an error.
func (s *Store) Empty() error {
	keys, err := s.Keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		r, err := s.Remove(key)
		if err == nil && r.Why != "" {
			err = unusable(fmt.Errorf("the layer %s cannot be removed: %s", Short(key), r.Why))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LastUsed is when a run used the layer last, or it was made.
func (s *Store) LastUsed(key string) time.Time {
	name, _ := dirName(key)
	info, err := os.Stat(filepath.Join(s.layers(), name, lockFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
