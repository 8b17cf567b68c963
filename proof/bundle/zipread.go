package bundle

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"remit/proof/reason"
)

// archive is the structure of a zip file, read without archive/zip and
// without believing any part of it before another part agrees.
type archive struct {
	r    io.ReaderAt
	size int64
	lim  limits

	end      endRecord
	endAt    int64 // offset of the end record
	dirAt    int64 // offset of the central directory
	shift    int64 // bytes before the archive, which its offsets do not count
	entries  []*entry
	findings findings
}

// add records a finding about e, or about the whole archive when e is nil.
func (a *archive) add(code reason.Code, e *entry, format string, args ...any) {
	path := ""
	if e != nil {
		path, e.flaw = e.name, true
		e.unread = e.unread || unreadableCode(code)
	}
	a.findings.add(code, path, format, args...)
}

// read parses the structure in the order in which it can be trusted: end
// record, central directory, local headers, and then the space between them.
// It reports false when the entries cannot be determined; whatever the result, the
// findings say what is wrong.
func (a *archive) read() bool {
	if !a.readEnd() || !a.placeDirectory() || !a.readDirectory() {
		return false
	}
	placed := true
	for _, e := range a.entries {
		placed = a.readLocal(e) && placed
	}
	if !placed {
		return false
	}
	return a.account()
}

// bytesAt reads n bytes; nil when they are not all there.
func (a *archive) bytesAt(offset int64, n int) []byte {
	if offset < 0 || offset+int64(n) > a.size {
		return nil
	}
	b := make([]byte, n)
	if k, err := a.r.ReadAt(b, offset); k < n && err != nil {
		return nil
	}
	return b
}

// signature is the 32-bit word at offset, 0 beyond the end.
func (a *archive) signature(offset int64) uint32 {
	b := a.bytesAt(offset, 4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// readEnd finds the end record, which must be the last 22 bytes. When it is
// not, the last thing that looks like one is used to name what follows it.
func (a *archive) readEnd() bool {
	const reach = endLen + 1<<16
	tail := a.bytesAt(max(0, a.size-reach), int(min(a.size, reach)))
	if len(tail) < shortestZip {
		a.add(reason.ZipUnreadable, nil, "%d bytes are too few for a zip file", a.size)
		return false
	}
	mark := binary.LittleEndian.AppendUint32(nil, sigEnd)
	at := bytes.LastIndex(tail[:len(tail)-endLen+len(mark)], mark)
	if at < 0 {
		if a.signature(0) == sigLocal {
			a.add(reason.ZipTruncated, nil, "there is no end of central directory record")
		} else {
			a.add(reason.ZipUnreadable, nil, "this is not a zip file")
		}
		return false
	}
	a.end = parseEnd(tail[at:])
	a.endAt = a.size - int64(len(tail)-at)
	after := a.size - a.endAt - endLen
	switch {
	case int64(a.end.comment) > after:
		a.add(reason.ZipTruncated, nil, "the archive comment has %d bytes, %d are there", a.end.comment, after)
		return false
	case a.end.comment > 0:
		a.add(reason.ZipExtraBytes, nil, "the archive has a comment of %d bytes", a.end.comment)
	}
	if extra := after - int64(a.end.comment); extra > 0 {
		a.add(reason.ZipExtraBytes, nil, "%d bytes follow the end record", extra)
	}
	return a.checkEnd()
}

// checkEnd refuses what needs another kind of reader.
func (a *archive) checkEnd() bool {
	end := a.end
	switch {
	case end.entries == zip64Value16 || end.entriesHere == zip64Value16 || end.size == zip64Value32 || end.offset == zip64Value32 ||
		a.endAt >= locatorLen && a.signature(a.endAt-locatorLen) == sigZip64Locator:
		a.add(reason.Zip64, nil, "the archive is in zip64 format")
	case end.disk != 0 || end.directoryDisk != 0 || end.entriesHere != end.entries:
		a.add(reason.ZipMultiDisk, nil, "the archive is one part of several")
	case int(end.entries) > a.lim.entries:
		a.add(reason.ZipTooMany, nil, "%d entries, the limit is %d", end.entries, a.lim.entries)
	case end.size > MaxDirectoryBytes:
		a.add(reason.ZipBomb, nil, "the central directory has %d bytes, the limit is %d", end.size, MaxDirectoryBytes)
	default:
		return true
	}
	return false
}

// placeDirectory decides where the central directory is. It should end at the
// end record; in an archive with something in front, offsets may be short by
// that much, and readers disagree on whether to correct them.
func (a *archive) placeDirectory() bool {
	a.dirAt = int64(a.end.offset)
	behind := a.endAt - a.dirAt - int64(a.end.size)
	switch {
	case behind < 0:
		a.add(reason.ZipTruncated, nil, "the central directory would end %d bytes after the end record begins", -behind)
		return false
	case behind == 0 || a.signature(a.dirAt) == sigCentral:
		return true
	case a.end.size == 0 || a.signature(a.dirAt+behind) == sigCentral:
		a.dirAt += behind
		a.shift = behind
		return true
	}
	a.add(reason.ZipTruncated, nil, "there is no central directory at byte %d", a.dirAt)
	return false
}

func (a *archive) readDirectory() bool {
	rest := a.bytesAt(a.dirAt, int(a.end.size))
	for i := range int(a.end.entries) {
		if len(rest) < centralLen || binary.LittleEndian.Uint32(rest) != sigCentral {
			a.add(reason.ZipTruncated, nil, "the end record counts %d entries, the central directory has %d", a.end.entries, i)
			return false
		}
		u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
		name, extra, comment := int(u16(rest[28:])), int(u16(rest[30:])), int(u16(rest[32:]))
		whole := centralLen + name + extra + comment
		if len(rest) < whole {
			a.add(reason.ZipTruncated, nil, "central header %d runs out of the central directory", i)
			return false
		}
		e := &entry{
			fields: parseShared(rest[6:]), madeBy: u16(rest[4:]), internal: u16(rest[36:]), external: u32(rest[38:]),
			comment: comment, central: rest[:whole], offset: a.shift + int64(u32(rest[42:])),
		}
		e.name = string(rest[centralLen:][:name])
		e.extra = rest[centralLen+name:][:extra]
		if u16(rest[34:]) != 0 {
			a.add(reason.ZipMultiDisk, e, "the entry is on another disk")
		}
		if u32(rest[42:]) == zip64Value32 {
			a.add(reason.Zip64, e, "the offset of the entry is in zip64 format")
			return false
		}
		a.checkExtra(e, "central", e.extra)
		a.checkEntry(e)
		a.entries = append(a.entries, e)
		rest = rest[whole:]
	}
	if bytes.HasPrefix(rest, binary.LittleEndian.AppendUint32(nil, sigCentral)) {
		a.add(reason.ZipHiddenEntry, nil, "the central directory goes on after the %d entries that the end record counts", a.end.entries)
	} else if len(rest) > 0 {
		a.add(reason.ZipExtraBytes, nil, "%d bytes follow the last central header inside the central directory", len(rest))
	}
	return true
}

// readLocal reads the local header of an entry and compares it with the
// central one. False: there is none.
func (a *archive) readLocal(e *entry) bool {
	fixed := a.bytesAt(e.offset, localLen)
	if fixed == nil || binary.LittleEndian.Uint32(fixed) != sigLocal {
		a.add(reason.ZipHeaderMismatch, e, "there is no local header at byte %d", e.offset)
		return false
	}
	local, name, extra := parseLocal(fixed)
	e.localExtra = extra
	e.data = e.offset + int64(localLen+name+extra)
	if e.data+int64(e.packed) > a.dirAt {
		a.add(reason.ZipOverlap, e, "the entry of %d packed bytes at byte %d runs into the central directory", e.packed, e.offset)
		return false
	}
	a.compareHeaders(e, local)
	if name != len(e.name) || extra > maxExtraBytes {
		a.add(reason.ZipHeaderMismatch, e, "the local header has a name of %d and an extra field of %d bytes", name, extra)
		return true
	}
	whole := a.bytesAt(e.offset, localLen+name+extra)
	if whole == nil {
		a.add(reason.ZipUnreadable, e, "the local header at byte %d cannot be read", e.offset)
		return false
	}
	if local := string(whole[localLen:][:name]); local != e.name {
		a.add(reason.ZipHeaderMismatch, e, "the local header names it %q", local)
	}
	a.checkExtra(e, "local", whole[localLen+name:])
	e.local = whole[:localLen+name]
	return true
}

// account walks the file from byte 0 and attributes every byte. It reports
// false when entries overlap: what they hold is then a matter of opinion, and
// reading it is how a small file becomes a large one.
func (a *archive) account() bool {
	order := slices.SortedStableFunc(slices.Values(a.entries), func(x, y *entry) int { return cmp.Compare(x.offset, y.offset) })
	apart := true
	at := int64(0)
	for i, e := range order {
		next := a.dirAt
		if i+1 < len(order) {
			next = order[i+1].offset
		}
		if e.offset < at {
			a.add(reason.ZipOverlap, e, "the entry begins at byte %d, before the previous one ends at %d", e.offset, at)
			apart = false
		} else {
			a.gap(at, e.offset, "before entry "+fmt.Sprintf("%q", e.name))
		}
		if e.flags&flagDescriptor != 0 {
			a.readDescriptor(e, next)
		}
		at = max(at, e.end())
	}
	if at > a.dirAt {
		a.add(reason.ZipOverlap, nil, "the last entry ends at byte %d, inside the central directory", at)
		return false
	}
	a.gap(at, a.dirAt, "before the central directory")
	a.gap(a.dirAt+int64(a.end.size), a.endAt, "between the central directory and the end record")
	return apart
}

// gap reports bytes that belong to nothing. If they begin with a zip record,
// they are an entry (or a whole archive) that only some readers see.
func (a *archive) gap(from, to int64, where string) {
	if from >= to {
		return
	}
	switch a.signature(from) {
	case sigLocal, sigCentral, sigEnd:
		a.add(reason.ZipHiddenEntry, nil, "%d bytes %s hold a zip record that the central directory does not list", to-from, where)
	default:
		a.add(reason.ZipExtraBytes, nil, "%d bytes %s belong to no entry", to-from, where)
	}
}

// readDescriptor checks the copy of checksum and sizes after the data. Its
// signature is optional, so the space up to the next record decides.
func (a *archive) readDescriptor(e *entry, next int64) {
	const plain, signed = 12, 16
	from := e.data + int64(e.packed)
	e.descriptor = plain
	if a.signature(from) == sigDescriptor && next-from != plain {
		e.descriptor = signed
	}
	if next-from < e.descriptor {
		a.add(reason.ZipHeaderMismatch, e, "flag bit 3 promises a data descriptor, and there is no room for one")
		e.descriptor = 0
		return
	}
	b := a.bytesAt(from+e.descriptor-plain, plain)
	u32 := binary.LittleEndian.Uint32
	if b == nil || u32(b) != e.crc || u32(b[4:]) != e.packed || u32(b[8:]) != e.size {
		a.add(reason.ZipHeaderMismatch, e, "the data descriptor and the central header disagree")
	}
}
