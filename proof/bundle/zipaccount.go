package bundle

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"remit/proof/reason"
)

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
