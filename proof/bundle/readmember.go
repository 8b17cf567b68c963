package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"remit/proof/reason"
)

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
