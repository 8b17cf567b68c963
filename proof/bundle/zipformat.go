package bundle

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"remit/proof/reason"
)

// The records of a zip file (APPNOTE 6.3.10, section 4.3). All integers are
// little endian.
const (
	sigLocal        = 0x04034b50
	sigCentral      = 0x02014b50
	sigEnd          = 0x06054b50
	sigZip64Locator = 0x07064b50
	sigDescriptor   = 0x08074b50

	localLen    = 30 // then name, extra field, data, data descriptor
	centralLen  = 46 // then name, extra field, comment
	endLen      = 22 // then comment
	locatorLen  = 20
	shortestZip = endLen
)

// Compression methods.
const (
	methodStore   = 0
	methodDeflate = 8
)

// General purpose flags (4.4.4).
const (
	flagEncrypted   = 1 << 0
	flagDeflateFast = 1<<1 | 1<<2
	flagDescriptor  = 1 << 3
	flagStrong      = 1 << 6
	flagUTF8        = 1 << 11
	flagMasked      = 1 << 13
)

// What [WriteZip] writes into every entry.
const (
	writtenMadeBy   = hostUnix<<8 | 20
	writtenNeeded   = 10
	writtenDate     = 0<<9 | 1<<5 | 1 // 1980-01-01
	writtenExternal = (modeRegular | 0o644) << 16
)

// Host systems of "version made by", and the Unix modes in the upper half of
// the external attributes.
const (
	hostFAT  = 0
	hostUnix = 3
	hostNTFS = 10

	modeType    = 0o170000
	modeDir     = 0o040000
	modeRegular = 0o100000
	modeSymlink = 0o120000
	modeSpecial = 0o007000 // setuid, setgid, sticky
)

// fields are what the local and the central header both say about an entry.
type fields struct {
	needed, flags, method, time, date uint16
	crc, packed, size                 uint32
	name                              string
	extra                             []byte
}

// entry is one entry as the central directory tells it, and where it lies.
type entry struct {
	fields
	madeBy, internal uint16
	external         uint32
	comment          int

	central    []byte // its central header, byte for byte
	local      []byte // its local header without the extra field
	localExtra int    // length of the extra field of the local header
	offset     int64  // of the local header
	data       int64  // of the content
	descriptor int64  // length of the data descriptor, 0 without

	member *member // nil for a directory
	flaw   bool    // a finding names this entry
	unread bool    // its content is not read, because of a finding
}

func (e *entry) isDir() bool { return len(e.name) > 0 && e.name[len(e.name)-1] == '/' }

// end is the offset after everything that belongs to the entry.
func (e *entry) end() int64 { return e.data + int64(e.packed) + e.descriptor }

// endRecord is the end of central directory record.
type endRecord struct {
	disk, directoryDisk uint16
	entriesHere         uint16
	entries             uint16
	size, offset        uint32 // of the central directory
	comment             uint16
}

func parseEnd(b []byte) endRecord {
	u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
	return endRecord{
		disk: u16(b[4:]), directoryDisk: u16(b[6:]),
		entriesHere: u16(b[8:]), entries: u16(b[10:]),
		size: u32(b[12:]), offset: u32(b[16:]), comment: u16(b[20:]),
	}
}

// parseLocal reads the fixed part of a local header; the lengths of name and
// extra field are returned.
func parseLocal(b []byte) (f fields, name, extra int) {
	f = parseShared(b[4:])
	return f, int(binary.LittleEndian.Uint16(b[26:])), int(binary.LittleEndian.Uint16(b[28:]))
}

// parseShared reads the 22 bytes that both headers have in common.
func parseShared(b []byte) fields {
	u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
	return fields{
		needed: u16(b), flags: u16(b[2:]), method: u16(b[4:]), time: u16(b[6:]), date: u16(b[8:]),
		crc: u32(b[10:]), packed: u32(b[14:]), size: u32(b[18:]),
	}
}

// appendShared writes what every entry of ours has in common.
func appendShared(b []byte, crc, size uint32, name string) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, writtenNeeded)
	b = le.AppendUint16(b, flagsOf(name))
	b = le.AppendUint16(b, methodStore)
	b = le.AppendUint16(b, 0) // time
	b = le.AppendUint16(b, writtenDate)
	b = le.AppendUint32(b, crc)
	b = le.AppendUint32(b, size)
	b = le.AppendUint32(b, size)
	b = le.AppendUint16(b, uint16(len(name)))
	return le.AppendUint16(b, 0) // extra field
}

// flagsOf marks a name that is not ASCII as UTF-8; [ProfileBundle] has no such names.
func flagsOf(name string) uint16 {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return flagUTF8
	}
	return 0
}

// canonicalLocal is the local header that WriteZip writes.
func canonicalLocal(name string, crc, size uint32) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, localLen+len(name)), sigLocal)
	return append(appendShared(b, crc, size, name), name...)
}

// canonicalCentral is the central header that WriteZip writes.
func canonicalCentral(name string, crc, size, offset uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, centralLen+len(name)), sigCentral)
	b = le.AppendUint16(b, writtenMadeBy)
	b = appendShared(b, crc, size, name)
	b = le.AppendUint16(b, 0) // comment
	b = le.AppendUint16(b, 0) // disk
	b = le.AppendUint16(b, 0) // internal attributes
	b = le.AppendUint32(b, writtenExternal)
	b = le.AppendUint32(b, offset)
	return append(b, name...)
}

// canonicalEnd is the end record that WriteZip writes.
func canonicalEnd(entries int, size, offset uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, endLen), sigEnd)
	b = le.AppendUint32(b, 0) // disks
	b = le.AppendUint16(b, uint16(entries))
	b = le.AppendUint16(b, uint16(entries))
	b = le.AppendUint32(b, size)
	b = le.AppendUint32(b, offset)
	return le.AppendUint16(b, 0) // comment
}

// maxNeeded is the highest "version needed to extract" whose features this
// reader knows: 4.5 is the last before encryption and other compressors.
const maxNeeded = 45

// maxExtraBytes bounds the extra field of a local header: all harmless fields
// together fit.
const maxExtraBytes = 2 << 10

// compareHeaders finds fields in which the local header tells another story
// than the central one. With a data descriptor, checksum and sizes of the
// local header may be left 0.
func (a *archive) compareHeaders(e *entry, local fields) {
	differ := func(what string, central, local any) {
		a.add(reason.ZipHeaderMismatch, e, "%s is %v in the central and %v in the local header", what, central, local)
	}
	if local.method != e.method {
		differ("the method", e.method, local.method)
	}
	if local.flags != e.flags {
		differ("the flag word", e.flags, local.flags)
	}
	if local.time != e.time || local.date != e.date {
		differ("the date and time", [2]uint16{e.date, e.time}, [2]uint16{local.date, local.time})
	}
	if local.needed != e.needed {
		differ("the version needed", e.needed, local.needed)
	}
	for _, n := range []struct {
		what           string
		central, local uint32
	}{{"the crc", e.crc, local.crc}, {"the packed size", e.packed, local.packed}, {"the size", e.size, local.size}} {
		deferred := n.local == 0 && e.flags&flagDescriptor != 0
		if n.local != n.central && !deferred {
			differ(n.what, n.central, n.local)
		}
	}
}

// checkEntry checks what the central header says by itself. What cannot be
// read safely is marked unread.
func (a *archive) checkEntry(e *entry) {
	if e.comment > 0 {
		a.add(reason.ZipExtraBytes, e, "the entry has a comment of %d bytes", e.comment)
	}
	if e.packed == zip64Value32 || e.size == zip64Value32 {
		a.add(reason.Zip64, e, "the sizes of the entry are in zip64 format")
	}
	if e.flags&(flagEncrypted|flagStrong|flagMasked) != 0 {
		a.add(reason.ZipEncrypted, e, "the entry is encrypted (flags %#04x)", e.flags)
	}
	known := uint16(flagEncrypted | flagStrong | flagMasked | flagDescriptor | flagUTF8)
	if e.method == methodDeflate {
		known |= flagDeflateFast
	}
	if odd := e.flags &^ known; odd != 0 {
		a.add(reason.ZipFlags, e, "flags %#04x have no meaning here", odd)
	}
	if e.flags&flagUTF8 == 0 && strings.ContainsFunc(e.name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		a.add(reason.PathInvalid, e, "the name is not ASCII and not marked as UTF-8; readers guess its encoding")
	}
	switch {
	case e.method != methodStore && e.method != methodDeflate:
		a.add(reason.ZipMethod, e, "compression method %d is not supported", e.method)
	case e.needed > maxNeeded:
		a.add(reason.ZipMethod, e, "version %d.%d is needed to extract the entry", e.needed/10, e.needed%10)
	case e.method == methodStore && e.packed != e.size && e.flags&flagEncrypted == 0:
		a.add(reason.ZipHeaderMismatch, e, "a stored entry of %d bytes takes %d bytes", e.size, e.packed)
		e.unread = true
	}
	if e.isDir() && e.size != 0 {
		a.add(reason.EntrySpecial, e, "a directory entry has %d bytes of content", e.size)
	}
	a.checkAttributes(e)
}

// checkAttributes refuses everything but plain files and directories. The
// Unix mode counts whatever host the entry claims: some extractors do not ask.
func (a *archive) checkAttributes(e *entry) {
	const dosVolume, dosDir, dosDevice, dosReparse = 0x08, 0x10, 0x40, 0x400
	mode := e.external >> 16
	host := e.madeBy >> 8
	if mode&modeSpecial != 0 {
		a.add(reason.EntrySetuid, e, "mode %#o has a setuid, setgid or sticky bit", mode)
	}
	wanted := uint32(modeRegular)
	if e.isDir() {
		wanted = modeDir
	}
	switch kind := mode & modeType; {
	case kind == modeSymlink:
		a.add(reason.EntrySymlink, e, "the entry is a symbolic link")
	case kind != 0 && kind != wanted:
		a.add(reason.EntrySpecial, e, "mode %#o does not fit a plain file or directory of this name", mode)
	}
	dos := e.external & 0xffff
	if (host == hostFAT || host == hostNTFS) && dos&dosReparse != 0 {
		a.add(reason.EntrySymlink, e, "the entry is a reparse point")
	}
	if dos&(dosVolume|dosDevice) != 0 || dos&dosDir != 0 && !e.isDir() {
		a.add(reason.EntrySpecial, e, "attributes %#x do not fit a plain file or directory of this name", dos)
	}
}

// Extra fields that carry times and owners, and the lengths they may have.
// Whatever else an extra field holds may change what an entry means (zip64,
// encryption, link targets) or hide bytes.
var harmlessExtra = map[uint16]func(n int) bool{
	0x000a: func(n int) bool { return n == 32 },                               // NTFS times
	0x5455: func(n int) bool { return n == 1 || n >= 5 && n <= 13 },           // Unix times
	0x5855: func(n int) bool { return n == 8 || n == 12 },                     // Info-ZIP Unix, first
	0x7855: func(n int) bool { return n == 0 || n == 4 },                      // Info-ZIP Unix, second
	0x7875: func(n int) bool { return n >= 3 && n <= 3+8+8 },                  // Info-ZIP Unix, third
	0xcafe: func(n int) bool { return n == 0 },                                // Java archive
	0x7075: func(n int) bool { return n >= 5 && n <= 5+MaxPortableNameBytes }, // Unicode path, compared below
}

// checkExtra takes the extra field of one header apart, to the last byte. It
// stops at the first flaw.
func (a *archive) checkExtra(e *entry, where string, extra []byte) {
	seen := map[uint16]bool{}
	for len(extra) > 0 {
		if len(extra) < 4 || len(extra) < 4+int(binary.LittleEndian.Uint16(extra[2:])) {
			a.add(reason.ZipExtraBytes, e, "the %s extra field ends in %d bytes that are not a field", where, len(extra))
			return
		}
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		body := extra[4:][:n]
		extra = extra[4+n:]
		fits, known := harmlessExtra[id]
		switch {
		case id == 0x0001:
			a.add(reason.Zip64, e, "the %s header has a zip64 extra field", where)
		case id == 0x9901 || id == 0x0017:
			a.add(reason.ZipEncrypted, e, "the %s header has an encryption extra field %#04x", where, id)
		case !known || !fits(n):
			a.add(reason.ZipExtraBytes, e, "the %s header has an extra field %#04x of %d bytes, which can hide anything", where, id, n)
		case seen[id]:
			a.add(reason.ZipExtraBytes, e, "the %s header has extra field %#04x twice", where, id)
		case id == 0x7075 && !agreesWithName(body, e.name):
			a.add(reason.ZipHeaderMismatch, e, "the %s Unicode path field names it %q", where, body[5:])
		default:
			seen[id] = true
			continue
		}
		return
	}
}

// agreesWithName checks an Info-ZIP Unicode path field: version 1, CRC-32 of
// the name in the header, and the same name.
func agreesWithName(body []byte, name string) bool {
	return body[0] == 1 && binary.LittleEndian.Uint32(body[1:]) == crc32.ChecksumIEEE([]byte(name)) && string(body[5:]) == name
}
