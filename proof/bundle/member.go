package bundle

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"remit/proof/reason"
)

// member is one regular file of a bundle, whether it lies in a zip or in a
// directory.
type member struct {
	name   string
	size   int64
	exec   bool // executable; kept in workspaces, never evidence
	open   func() (io.ReadCloser, error)
	hashed bool // sum and crc are those of the whole content
	sum    [sha256.Size]byte
	crc    uint32
	err    error // why it is not hashed
}

// readBlock is the unit of reading: large enough that system calls do not
// show next to hashing, small enough that a block is still in the cache when
// the second checksum passes over it.
const readBlock = 256 << 10

// hasher owns the buffers of one worker.
type hasher struct {
	block []byte
	sha   hash.Hash
}

// hashers are kept for the next worker: small bundles would spend most of their
// time on clearing blocks.
var hashers = sync.Pool{New: func() any { return &hasher{block: make([]byte, readBlock), sha: sha256.New()} }}

// withHasher lends a hasher to f.
func withHasher(f func(h *hasher) error) error {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	return f(h)
}

// sum reads r to its end, at most limit bytes, into SHA-256 and CRC-32 in one
// pass. Every block is also written to w when there is one.
func (h *hasher) sum(ctx context.Context, w io.Writer, r io.Reader, limit int64) (sum [sha256.Size]byte, crc uint32, n int64, err error) {
	h.sha.Reset()
	for {
		if err := context.Cause(ctx); err != nil {
			return sum, crc, n, err
		}
		k, err := r.Read(h.block)
		n += int64(k)
		if n > limit {
			return sum, crc, n, errTooLong
		}
		h.sha.Write(h.block[:k])
		crc = crc32.Update(crc, crc32.IEEETable, h.block[:k])
		if w != nil {
			if _, err := w.Write(h.block[:k]); err != nil {
				return sum, crc, n, err
			}
		}
		if errors.Is(err, io.EOF) {
			h.sha.Sum(sum[:0])
			return sum, crc, n, nil
		}
		if err != nil {
			return sum, crc, n, err
		}
	}
}

// errTooLong means that a content is longer than its container says.
var errTooLong = errors.New("the content is longer than declared")

// errLength means that a content is shorter than its container says.
var errLength = errors.New("the content is shorter than declared")

// hash reads one member and fills in its digests or its error.
func (h *hasher) hash(ctx context.Context, f *member) {
	f.err = func() error {
		r, err := f.open()
		if err != nil {
			return err
		}
		sum, crc, n, err := h.sum(ctx, nil, r, f.size)
		if err := cmp.Or(err, r.Close()); err != nil {
			return err
		}
		if n != f.size {
			return fmt.Errorf("%w: it has %d bytes, %d were declared", errLength, n, f.size)
		}
		f.sum, f.crc, f.hashed = sum, crc, true
		return nil
	}()
}

// hashAll hashes every member that has no error yet, with one worker a
// processor.
func hashAll(ctx context.Context, files []*member) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		workers.Go(func() {
			_ = withHasher(func(h *hasher) error { // errors are kept with each member
				for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
					if files[i].err == nil {
						h.hash(ctx, files[i])
					}
				}
				return nil
			})
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// ReadMember reads one file out of a zip, at most so many bytes. It says nothing
// about the others, nor about the manifest: that is for [Audit]. A zip whose
// structure has a flaw is refused as a whole.
func ReadMember(ctx context.Context, r io.ReaderAt, size int64, name string, most int64) ([]byte, error) {
	c, a := scanZip(r, size, defaultLimits)
	if found := a.findings.all(); !c.complete || len(found) > 0 {
		if len(found) == 0 {
			return nil, reason.Errorf(reason.ZipUnreadable, "the structure of the zip cannot be read")
		}
		return nil, reason.Errorf(found[0].Code, "%s", found[0].Detail)
	}
	var found *entry
	for _, e := range a.entries {
		if e.name == name {
			if found != nil {
				return nil, reason.Errorf(reason.ZipUnreadable, "the zip has two files %q", name)
			}
			found = e
		}
	}
	switch {
	case found == nil || found.isDir():
		return nil, reason.Errorf(reason.ArtifactMissing, "the zip has no file %q", name)
	case int64(found.size) > most:
		return nil, reason.Errorf(reason.RequestTooLarge, "%q has %d bytes, at most %d are read", name, found.size, most)
	}
	content, err := found.member.open()
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	defer func() { _ = content.Close() }() // only read
	var text bytes.Buffer
	err = withHasher(func(h *hasher) error {
		_, crc, n, err := h.sum(ctx, &text, content, int64(found.size))
		if err == nil && (n != int64(found.size) || crc != found.crc) {
			err = reason.Errorf(reason.ZipUnreadable, "%q is not what its header says", name)
		}
		return err
	})
	if err != nil && reason.CodeOf(err) == "" && ctx.Err() == nil {
		err = reason.Errorf(reason.ZipUnreadable, "read %q: %w", name, err)
	}
	return text.Bytes(), err
}
