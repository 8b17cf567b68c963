package bundle

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
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
