package bundle

import (
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"remit/proof/reason"
)

// scanZip reads the structure of a zip file and lists its members. Names are
// not checked here: the profile depends on them.
func scanZip(r io.ReaderAt, size int64, lim limits) (*contents, *archive) {
	a := &archive{r: r, size: size, lim: lim}
	c := &contents{complete: a.read()}
	if c.complete {
		a.checkSizes()
		for _, e := range a.entries {
			c.names = append(c.names, namedEntry{name: e.name, dir: e.isDir()})
			e.member = a.newMember(e)
			c.hashable = append(c.hashable, e.member)
			if !e.isDir() {
				c.files = append(c.files, e.member)
			}
		}
	}
	return c, a
}

// checkSizes finds bombs by what the headers declare. The declared size is
// also the limit of what is ever unpacked, so a lie gains nothing.
func (a *archive) checkSizes() {
	var total int64
	for _, e := range a.entries {
		size, packed := int64(e.size), int64(e.packed)
		total += size
		switch {
		case size > a.lim.entryBytes:
			a.add(reason.ZipBomb, e, "%d bytes, the limit for an entry is %d", size, a.lim.entryBytes)
		case size >= a.lim.ratioFloor && size > packed*a.lim.ratio:
			a.add(reason.ZipBomb, e, "%d bytes packed into %d, the limit is a ratio of %d", size, packed, a.lim.ratio)
		}
	}
	if total > a.lim.totalBytes {
		a.add(reason.ZipBomb, nil, "%d bytes in all, the limit is %d", total, a.lim.totalBytes)
		for _, e := range a.entries {
			e.unread = true
		}
	}
}

// errNotRead marks members whose headers are already refused: their content
// is not read, because its extent or encoding is in doubt.
var errNotRead = errors.New("not read: its headers are refused")

func (a *archive) newMember(e *entry) *member {
	f := &member{name: e.name, size: int64(e.size), exec: e.external>>16&0o100 != 0}
	if e.method == methodDeflate {
		f.open = func() (io.ReadCloser, error) { return a.inflate(e), nil }
	} else {
		f.open = func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(a.r, e.data, int64(e.packed))), nil
		}
	}
	if e.unread {
		f.err = errNotRead
	}
	return f
}

// errTrailing means that a compressed stream ends before its entry does.
var errTrailing = errors.New("bytes follow the end of the compressed data")

// inflater unpacks one entry and insists that the compressed stream takes up
// all of the packed bytes: flate stops at the final block, and anything could
// follow.
type inflater struct {
	packed *bufio.Reader // flate reads exactly what it needs from a ByteReader
	flate  io.ReadCloser
}

func (a *archive) inflate(e *entry) *inflater {
	packed := bufio.NewReaderSize(io.NewSectionReader(a.r, e.data, int64(e.packed)), 64<<10)
	return &inflater{packed: packed, flate: flate.NewReader(packed)}
}

func (z *inflater) Read(p []byte) (int, error) {
	n, err := z.flate.Read(p)
	if errors.Is(err, io.EOF) {
		if _, more := z.packed.ReadByte(); more == nil {
			return n, errTrailing
		}
	}
	return n, err
}

func (z *inflater) Close() error { return z.flate.Close() }

// contentFindings turns what hashing found into findings. Content whose crc is
// wrong still has a digest, which the manifest gate compares as well.
func (a *archive) contentFindings() {
	for _, e := range a.entries {
		f := e.member
		switch {
		case errors.Is(f.err, errNotRead):
		case errors.Is(f.err, errTooLong):
			a.add(reason.ZipHeaderMismatch, e, "the content is longer than the %d bytes that the headers declare", e.size)
		case errors.Is(f.err, errTrailing):
			a.add(reason.ZipExtraBytes, e, "bytes follow the end of the compressed data inside the entry")
		case errors.As(f.err, new(flate.CorruptInputError)):
			a.add(reason.ZipCRC, e, "the compressed data is damaged, so there is nothing its checksum could be right for")
		case errors.Is(f.err, io.ErrUnexpectedEOF):
			a.add(reason.ZipTruncated, e, "the compressed data ends too early")
		case errors.Is(f.err, errLength):
			a.add(reason.ZipHeaderMismatch, e, "%v", f.err)
		case f.err != nil:
			a.add(reason.ZipUnreadable, e, "%v", f.err)
		case f.crc != e.crc:
			a.add(reason.ZipCRC, e, "the crc is %08x, the headers say %08x", f.crc, e.crc)
		}
	}
}

// checkCanonical holds every header against what WriteZip writes for the same
// files. An entry that already has a finding is left out, and so is, after the
// first finding, what depends on the entries before it: the zip differs for a
// reason that has been named.
func (a *archive) checkCanonical() {
	var offset, directory int64
	for i, e := range a.entries {
		local := canonicalLocal(e.name, e.crc, e.size)
		central := canonicalCentral(e.name, e.crc, e.size, uint32(offset))
		flawless := a.findings.empty()
		switch {
		case e.flaw:
		case flawless && i > 0 && a.entries[i-1].name >= e.name:
			a.add(reason.ZipNotCanonical, e, "the entries are not sorted by name")
		case !bytes.Equal(e.local, local) || e.localExtra != 0 || e.descriptor != 0:
			a.add(reason.ZipNotCanonical, e, "the local header is not the one that remit writes")
		case flawless && !bytes.Equal(e.central, central):
			a.add(reason.ZipNotCanonical, e, "the central header is not the one that remit writes")
		}
		offset += int64(len(local)) + int64(e.size)
		directory += int64(len(central))
	}
	want := canonicalEnd(len(a.entries), uint32(directory), uint32(offset))
	if a.findings.empty() && !bytes.Equal(a.bytesAt(a.endAt, endLen), want) {
		a.add(reason.ZipNotCanonical, nil, "the end record is not the one that remit writes")
	}
}

// digestText is the text form of a digest outside the manifest.
func digestText(sum []byte) string { return fmt.Sprintf("sha256:%x", sum) }
