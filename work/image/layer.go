package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/counted"
)

// download keeps a blob in a file without a name, and holds it against its digest
// and size before anything reads it.
func download(ctx context.Context, s layerSource, staging string, l Limits) (*os.File, error) {
	r, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := os.CreateTemp(staging, "blob-")
	if err != nil {
		return nil, unusable(err)
	}
	if err = os.Remove(f.Name()); err != nil {
		return nil, errors.Join(unusable(err), f.Close())
	}
	most, known := l.Blob, s.blob.Digest.Hex != ""
	if known {
		most = s.blob.Size
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), &cancellable{ctx, io.LimitReader(r, most+1)})
	switch got := canon.DigestSum(sum); {
	case err != nil:
		err = writing(err, func(err error) error { return said(err) })
	case n > most && !known:
		err = tooLarge("a layer has more than %d bytes", most)
	case n > most:
		err = reason.Errorf(reason.ImageDigest, "the layer %s has more than the %d bytes that the manifest says", s.blob.Digest, most)
	case known && (n != most || got != s.blob.Digest.String()):
		err = reason.Errorf(reason.ImageDigest, "the layer %s has %d bytes with the digest %s, and not %d", s.blob.Digest, n, got, most)
	default:
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// cancellable ends a stream with its context.
type cancellable struct {
	ctx context.Context
	io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}

// maxDictionary is what xz needs at its highest level.
const maxDictionary = 64 << 20

// decompress tells the compression by the first bytes.
func decompress(r io.Reader) (io.Reader, func(), error) {
	in := bufio.NewReaderSize(r, 1<<20)
	first, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		return z, func() {}, err
	case bytes.Equal(first, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case bytes.Equal(first, []byte{0xfd, '7', 'z', 'X'}):
		z, err := xz.NewReader(in, maxDictionary) // a stream that wants a larger one is an error
		return z, func() {}, err
	}
	return in, func() {}, nil
}

// unpackLayer writes the entries of a compressed layer below root, and holds the
// whole uncompressed stream against the diff id.
func unpackLayer(ctx context.Context, blob io.Reader, diffID string, root *os.Root, b *budget) (*layerMeta, error) {
	sum := sha256.New()
	u := newUnpacker(root, b)
	if err := u.stream(ctx, blob, sum); err != nil {
		return nil, err
	}
	if got := canon.DigestSum(sum); got != diffID {
		return nil, reason.Errorf(reason.ImageDigest, "the unpacked layer has the digest %s, and the configuration says %s", got, diffID)
	}
	return u.finish(diffID)
}

// stream writes the entries of a compressed layer, and sums up what it unpacks to.
func (u *unpacker) stream(ctx context.Context, blob io.Reader, sum io.Writer) error {
	packed := &counted.Reader{R: &cancellable{ctx, blob}}
	plainText, stop, err := decompress(packed)
	if err != nil {
		return broken(err)
	}
	defer stop()
	stream := &inflow{r: io.TeeReader(plainText, sum), packed: packed, budget: u.budget}
	if err := u.all(tar.NewReader(stream)); err != nil {
		return err
	}
	return rest(stream)
}

// Unpack writes the entries of a tar, packed with gzip, zstd or xz or not at all, into an
// empty directory, by the rules of a layer. Such a tar is no layer of an image: a
// whiteout in it is refused, and so are devices and FIFOs.
func Unpack(ctx context.Context, packed io.Reader, root *os.Root, l Limits) error {
	u := newUnpacker(root, &budget{limits: l, bytes: l.Bytes, entries: l.Entries})
	if err := u.stream(ctx, packed, io.Discard); err != nil {
		return err
	}
	if n := len(u.hidden) + len(u.emptied); n > 0 || u.meta.OpaqueRoot {
		return reason.Errorf(reason.ImageLayerName, "%d entries are whiteouts, which only a layer of an image has", max(n, 1))
	}
	if u.meta.Dropped > 0 {
		return reason.Errorf(reason.ImageLayerEntry, "%d entries are devices or FIFOs", u.meta.Dropped)
	}
	return nil
}

// rest reads what follows the last entry: zeros that fill a block, or else
// something that another reader could take for entries.
func rest(r io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return reason.Errorf(reason.ImageLayerStream, "the layer goes on after its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
	}
}

// broken is a stream that cannot be read.
func broken(err error) error {
	if _, ok := errors.AsType[*reason.Error](err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return reason.Errorf(reason.ImageLayerStream, "the layer cannot be read to its end: %s", plain(fmt.Sprint(err)))
}

// budget is what is left for all layers of an image.
type budget struct {
	limits  Limits
	bytes   int64
	entries int64
}

// inflow is an uncompressed stream within the budget.
type inflow struct {
	r      io.Reader
	packed *counted.Reader
	budget *budget
	n      int64
}

func (s *inflow) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	l := s.budget.limits
	if s.budget.bytes -= int64(n); s.budget.bytes < 0 {
		return 0, tooLarge("the layers unpack to more than %d bytes", l.Bytes)
	}
	if s.n > l.RatioFrom && s.n > l.Ratio*max(1, s.packed.N) {
		return 0, tooLarge("a layer unpacks to more than %d times its size", l.Ratio)
	}
	return n, err
}
