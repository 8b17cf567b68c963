// Package blob keeps artifacts by their content: the name of a blob is the
// SHA-256 of its bytes, so that it can be written twice, copied and checked
// against it.
//
// [Dir] keeps blobs as files, <dir>/<first two hex digits>/<64 hex digits>.
// A blob appears whole or not at all: it is written under a temporary name in
// the same directory, checked, flushed, and renamed. What a reader gets is
// checked again while it is read: a changed file ends in digest_mismatch. A disk
// that takes no more is store_unavailable, which goes away. What a writer leaves
// behind that is killed, [Dir.Prune] finds.
package blob

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Store keeps blobs. An object store can be a second implementation.
type Store interface {
	// Put stores the bytes of r if they have the digest, and says how many they are.
	Put(ctx context.Context, digest string, r io.Reader) (size int64, err error)
	// Open reads a blob; not_found when there is none.
	Open(ctx context.Context, digest string) (content io.ReadCloser, size int64, err error)
	// OpenAt is Open for content that is read here and there: it is not checked.
	OpenAt(ctx context.Context, digest string) (content Content, size int64, err error)
	// Delete removes a blob. One that is gone already is no error.
	Delete(ctx context.Context, digest string) error
	// Retire removes a blob that was not stored within age. One that is gone
	// already is no error.
	Retire(ctx context.Context, digest string, age time.Duration) error
	// Prune removes what writers left unfinished that have written nothing for
	// longer than age, and says how much that was.
	Prune(ctx context.Context, age time.Duration) (removed int, err error)
}

// Content is a blob that is read here and there.
type Content interface {
	io.ReaderAt
	io.Closer
}

// Dir is a Store in a directory of its own.
type Dir struct{ root *os.Root }

// OpenDir opens a directory of blobs, and makes it when it is missing.
func OpenDir(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of artifacts: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of artifacts: %w", err)
	}
	return &Dir{root}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Put implements Store. A blob that is there already is replaced by itself.
func (d *Dir) Put(ctx context.Context, digest string, r io.Reader) (int64, error) {
	name, err := fileName(digest)
	if err != nil {
		return 0, err
	}
	if err := d.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return 0, refused(digest, err)
	}
	f, temporary, err := d.temporary(filepath.Dir(name))
	if err != nil {
		return 0, refused(digest, err)
	}
	size, err := fill(ctx, f, digest, r)
	if err == nil {
		err = d.root.Rename(temporary, name)
	}
	if err != nil {
		return 0, errors.Join(refused(digest, err), d.root.Remove(temporary))
	}
	return size, nil
}

// refused tells a full disk, after which the upload may be tried again, from a
// reader that failed.
func refused(digest string, err error) error {
	if _, link := errors.AsType[*os.LinkError](err); !link {
		if _, path := errors.AsType[*fs.PathError](err); !path {
			return err
		}
	}
	return fmt.Errorf("store blob %s: %w: %w", digest,
		&reason.Error{Code: reason.StoreUnavailable, Message: "the artifact could not be stored"}, err)
}

// fill writes the bytes, checks them and puts them on the disk.
func fill(ctx context.Context, f *os.File, digest string, r io.Reader) (size int64, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), &contextReader{ctx, r})
	if err != nil {
		return 0, fmt.Errorf("store blob %s: %w", digest, err)
	}
	if got := canon.DigestSum(sum); got != digest {
		return 0, reason.Errorf(reason.DigestMismatch, "the content has the digest %s, announced was %s", got, digest)
	}
	return size, f.Sync()
}

// Open implements Store.
func (d *Dir) Open(_ context.Context, digest string) (io.ReadCloser, int64, error) {
	f, size, err := d.open(digest)
	if err != nil {
		return nil, 0, err
	}
	return &checked{f: f, sum: sha256.New(), digest: digest}, size, nil
}

// OpenAt implements Store.
func (d *Dir) OpenAt(_ context.Context, digest string) (Content, int64, error) { return d.open(digest) }

func (d *Dir) open(digest string) (*os.File, int64, error) {
	name, err := fileName(digest)
	if err != nil {
		return nil, 0, err
	}
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, reason.Errorf(reason.NotFound, "no artifact %s", digest)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open blob %s: %w", digest, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open blob %s: %w", digest, err), f.Close())
	}
	return f, info.Size(), nil
}

// Delete implements Store.
func (d *Dir) Delete(_ context.Context, digest string) error {
	name, err := fileName(digest)
	if err != nil {
		return err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob %s: %w", digest, err)
	}
	return nil
}

// Retire implements Store. The file is put aside before its age is looked at: who
// stores the blob at this very moment makes a new file, which is not touched.
func (d *Dir) Retire(_ context.Context, digest string, age time.Duration) error {
	name, err := fileName(digest)
	if err != nil {
		return err
	}
	aside := name + ".retired"
	if err := d.root.Rename(name, aside); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("retire blob %s: %w", digest, err)
	}
	info, err := d.root.Stat(aside)
	if err == nil && time.Since(info.ModTime()) < age {
		err = d.root.Rename(aside, name) // the same bytes, should there be a newer file
	} else if err == nil {
		err = d.root.Remove(aside)
	}
	if err != nil {
		return fmt.Errorf("retire blob %s: %w", digest, err)
	}
	return nil
}

// fileName is where a blob lies; a digest has no other form, so no name leads
// out of the directory.
func fileName(digest string) (string, error) {
	if !canon.ValidDigest(digest) {
		return "", reason.Errorf(reason.RequestInvalid, "%.80q is not sha256: and 64 lowercase hex digits", digest)
	}
	hexDigits := digest[len("sha256:"):]
	return filepath.Join(hexDigits[:2], hexDigits), nil
}

// contextReader stops reading when the caller has gone.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// checked tells at the end of a blob whether it is the blob that was asked for.
type checked struct {
	f      *os.File
	sum    hash.Hash
	digest string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	c.sum.Write(p[:n])
	if err == io.EOF {
		if got := canon.DigestSum(c.sum); got != c.digest {
			return n, reason.Errorf(reason.DigestMismatch, "the stored content has the digest %s, not %s", got, c.digest)
		}
	}
	return n, err
}

func (c *checked) Close() error { return c.f.Close() }

// unfinished begins the name of a file that is being written. No blob's does.
const unfinished = "new-"

// temporary makes a new file beside its later name. Its name is no blob's.
func (d *Dir) temporary(dir string) (*os.File, string, error) {
	for {
		name := filepath.Join(dir, unfinished+rand.Text())
		f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}

// Prune implements Store. A file of an upload in progress was changed a moment ago,
// by this process or another one that shares the directory: a file that was not
// changed for longer than any upload takes is left over.
func (d *Dir) Prune(ctx context.Context, age time.Duration) (removed int, err error) {
	before := time.Now().Add(-age)
	all := d.root.FS()
	list, err := fs.Glob(all, "??/"+unfinished+"*")
	if err != nil {
		return 0, fmt.Errorf("look for unfinished blobs: %w", err)
	}
	for _, name := range list {
		if err := context.Cause(ctx); err != nil {
			return removed, err
		}
		info, err := fs.Stat(all, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it became a blob meanwhile
		}
		if err != nil {
			return removed, fmt.Errorf("look at unfinished blob %s: %w", path.Base(name), err)
		}
		if !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("remove unfinished blob: %w", err)
		}
		removed++
	}
	return removed, nil
}
