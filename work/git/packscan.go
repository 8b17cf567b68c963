package git

import (
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"remit/proof/reason"
	"remit/work/counted"
)

// PackLimits bound a pack that is not checked yet.
type PackLimits struct {
	Bytes    int64 // of the pack itself
	Objects  int
	Inflated int64 // of all objects together, deltas resolved
	Delta    int64 // of an object that is stored as a delta, and of its base: both are held in memory
}

// PackSummary is what a pack says of itself, after every entry of it has been inflated once.
type PackSummary struct {
	Objects  int
	Inflated int64
	Checksum string // its last bytes, in hexadecimal: what git names the file after
	// Commits counts the commits that are stored whole, Commit is the id of the first. A pack with one commit stores it
	// whole, since deltas are between objects of the same type.
	Commits int
	Commit  string
}

// The types of a pack's entries, see gitformat-pack(5).
const (
	entryCommit   = 1
	entryTree     = 2
	entryBlob     = 3
	entryTag      = 4
	entryOfsDelta = 6
	entryRefDelta = 7
)

// ScanPack copies a pack of version 2 from r to w and checks its outer form on the way: the number of its entries, that
// each inflates to the size that it announces, what deltas announce as their result, the checksum, and that nothing
// follows it. So its cost is known before git sees a byte of it: git takes memory for as many entries, and for
// as large ones, as a pack claims to have.
//
// What is wrong with the pack is repository_invalid. An error of r or w is returned as it is.
func (f Format) ScanPack(ctx context.Context, r io.Reader, w io.Writer, limits PackLimits) (PackSummary, error) {
	s := &packScan{format: f, limits: limits, in: &packReader{ctx: ctx, r: r, w: w, left: limits.Bytes, hash: f.newHash(),
		buf: make([]byte, 64<<10)}}
	err := s.scan()
	if s.in.err != nil {
		err = s.in.err // what the reader met is why the pack seemed to be broken
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = badPack("it ends early")
	}
	if err != nil {
		return PackSummary{}, fmt.Errorf("reading the pack: %w", err)
	}
	return s.found, nil
}

func badPack(format string, args ...any) error {
	return reason.Errorf(reason.RepositoryInvalid, "the pack is refused: %w", fmt.Errorf(format, args...))
}

type packScan struct {
	format Format
	limits PackLimits
	in     *packReader
	zlib   io.ReadCloser // used again for every entry
	found  PackSummary
}

func (s *packScan) scan() error {
	var head [12]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return err
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return badPack("it does not begin as a pack of version 2")
	}
	count := binary.BigEndian.Uint32(head[8:])
	if int64(count) > int64(s.limits.Objects) {
		return badPack("it announces %d objects, and may have %d", count, s.limits.Objects)
	}
	for range count {
		if err := s.entry(); err != nil {
			return err
		}
	}
	s.found.Objects = int(count)
	return s.trailer()
}

// entry reads one object: type and size, what it is a delta to, and the compressed content.
func (s *packScan) entry() error {
	at := s.in.offset()
	kind, size, err := s.entryHead()
	if err != nil {
		return err
	}
	switch kind {
	case entryCommit, entryTree, entryBlob, entryTag:
		if err := s.take(size); err != nil {
			return err
		}
		if kind == entryCommit {
			return s.commit(size)
		}
	case entryOfsDelta:
		if back, err := s.distance(); err != nil {
			return err
		} else if back <= 0 || back >= at {
			return badPack("a delta refers to something outside of it")
		}
	case entryRefDelta:
		if _, err := io.CopyN(io.Discard, s.in, int64(s.format.Size())); err != nil {
			return err
		}
	default:
		return badPack("it has an entry of type %d", kind)
	}
	return s.content(size, kind == entryOfsDelta || kind == entryRefDelta, io.Discard)
}

func (s *packScan) commit(size int64) error {
	h := s.format.NewHash("commit", size)
	if err := s.content(size, false, h); err != nil {
		return err
	}
	if s.found.Commits++; s.found.Commits == 1 {
		s.found.Commit = hexOf(h)
	}
	return nil
}

// entryHead reads three bits of type and a size, seven bits a byte after the first, the low ones first.
func (s *packScan) entryHead() (kind byte, size int64, err error) {
	c, err := s.in.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	kind, size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = s.in.ReadByte(); err != nil {
			return 0, 0, err
		}
		if shift > 60-7 {
			return 0, 0, badPack("an entry announces a size beyond all bounds")
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// distance reads how far back the base of a delta begins.
func (s *packScan) distance() (int64, error) {
	c, err := s.in.ReadByte()
	n := int64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if n > s.limits.Bytes {
			return 0, badPack("a delta refers to something outside of it")
		}
		c, err = s.in.ReadByte()
		n = (n+1)<<7 | int64(c&0x7f)
	}
	return n, err
}

// take counts what an object is when it is unpacked.
func (s *packScan) take(size int64) error {
	if size < 0 || size > s.limits.Inflated-s.found.Inflated {
		return badPack("its objects have more than %d bytes", s.limits.Inflated)
	}
	s.found.Inflated += size
	return nil
}

// content inflates an entry, which must be exactly as long as it says. What is inflated of a delta is not an object,
// but takes as long, so it counts as well.
func (s *packScan) content(size int64, delta bool, to io.Writer) error {
	if err := s.inflate(); err != nil {
		return err
	}
	body := &counted.Reader{R: s.zlib}
	if delta {
		if size > s.limits.Delta {
			return badPack("a delta has %d bytes, and may have %d", size, s.limits.Delta)
		}
		if err := s.take(size); err != nil {
			return err
		}
		if err := s.deltaHead(body); err != nil {
			return err
		}
	}
	// One byte more than announced is asked for: the end of the stream, and its own checksum, must be seen.
	_, err := io.Copy(to, io.LimitReader(body, size+1-body.N))
	if err != nil && !errors.Is(err, io.EOF) {
		return badZlib(err)
	}
	if body.N != size {
		return badPack("an entry is not as long as it announces")
	}
	return nil
}

func (s *packScan) inflate() (err error) {
	if s.zlib == nil {
		s.zlib, err = zlib.NewReader(s.in)
	} else {
		err = s.zlib.(zlib.Resetter).Reset(s.in, nil) //nolint:forcetypeassert // documented of every reader of the package
	}
	return badZlib(err)
}

func badZlib(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return badPack("an entry cannot be inflated: %w", err)
}

// deltaHead reads the sizes of base and result that a delta begins with.
func (s *packScan) deltaHead(r io.Reader) error {
	for i := range 2 {
		size, err := deltaSize(r)
		if err != nil {
			return badPack("a delta cannot be read: %w", err)
		}
		if size > s.limits.Delta {
			return badPack("a delta is about an object of %d bytes, and may be of %d", size, s.limits.Delta)
		}
		if i == 1 {
			return s.take(size)
		}
	}
	return nil
}

func deltaSize(r io.Reader) (size int64, err error) {
	var c [1]byte
	for shift := 0; shift <= 60-7; shift += 7 {
		if _, err := io.ReadFull(r, c[:]); err != nil {
			return 0, errors.New("its head ends early")
		}
		if size |= int64(c[0]&0x7f) << shift; c[0]&0x80 == 0 {
			return size, nil
		}
	}
	return 0, errors.New("it announces a size beyond all bounds")
}

// trailer compares the checksum, and looks for the end.
func (s *packScan) trailer() error {
	want := Hex(s.in.sum())
	got := make([]byte, s.format.Size())
	if _, err := io.ReadFull(s.in, got); err != nil {
		return err
	}
	s.found.Checksum = Hex(got)
	if s.found.Checksum != want {
		return badPack("its checksum is wrong")
	}
	if _, err := s.in.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return err
		}
		return badPack("something follows its end")
	}
	return nil
}

// packReader passes on, hashes and counts exactly what is consumed. zlib takes single bytes from it, so that it reads
// not one byte beyond a compressed stream.
type packReader struct {
	ctx  context.Context
	r    io.Reader
	w    io.Writer
	left int64 // that may still be read
	hash hash.Hash
	err  error // of r, w or ctx

	buf             []byte
	done, next, end int   // into buf: passed on, consumed, filled
	before          int64 // bytes consumed before what is in buf
}

func (p *packReader) offset() int64 { return p.before + int64(p.next) }

// commit passes on what was consumed.
func (p *packReader) commit() {
	part := p.buf[p.done:p.next]
	p.hash.Write(part)
	if p.done = p.next; len(part) > 0 && p.err == nil {
		_, p.err = p.w.Write(part)
	}
}

func (p *packReader) sum() []byte {
	p.commit()
	return p.hash.Sum(nil)
}

func (p *packReader) fill() error {
	if p.commit(); p.err == nil && p.ctx.Err() != nil {
		p.err = context.Cause(p.ctx)
	}
	p.before += int64(p.next)
	p.done, p.next, p.end = 0, 0, 0
	for range maxEmptyReads {
		if p.err != nil {
			return p.err
		}
		n, err := p.r.Read(p.buf)
		if p.left -= int64(n); p.left < 0 {
			p.err = badPack("it has more bytes than are allowed")
			return p.err
		}
		p.end = n
		if err != nil && !errors.Is(err, io.EOF) {
			p.err = err
		}
		if n > 0 {
			return nil // an error comes again with the next fill
		}
		if err != nil {
			return err
		}
	}
	p.err = io.ErrNoProgress
	return p.err
}

// maxEmptyReads is how often a reader may answer with nothing.
const maxEmptyReads = 100

// ReadByte implements io.ByteReader.
func (p *packReader) ReadByte() (byte, error) {
	if p.next == p.end {
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
	p.next++
	return p.buf[p.next-1], nil
}

// Read implements io.Reader.
func (p *packReader) Read(b []byte) (int, error) {
	if p.next == p.end {
		if err := p.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.buf[p.next:p.end])
	p.next += n
	return n, nil
}
