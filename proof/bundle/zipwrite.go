package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"remit/proof/reason"
)

// WriteZip writes the sealed directory dir as a zip whose bytes depend on
// nothing but names and contents of the files. Every file is read twice: once
// for the checksum that stands before its data, once to copy it, when its
// digest must be that of the manifest. What an audit would refuse is refused
// with [*Refused]; so is a file that changed since [Seal]. After an error, w
// has received a part of a zip that must be thrown away.
func WriteZip(w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write zip of %q: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // read-only handle of a directory
	files, err := listDirectory(root)
	if err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	slices.SortFunc(files, func(a, b *member) int { return cmp.Compare(a.name, b.name) })
	if err := checkSealed(files); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	if err := withHasher(func(h *hasher) error { return writeEntries(w, h, files) }); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	return nil
}

// checkSealed is the first pass: it hashes every file and holds gates 3 and 4
// against the directory.
func checkSealed(files []*member) error {
	if err := hashAll(context.Background(), files); err != nil {
		return err
	}
	for _, f := range files {
		if f.err != nil {
			return fmt.Errorf("read %q: %w", f.name, f.err)
		}
	}
	m, found := readManifest(ProfileBundle, files)
	found = append(found, compareManifest(m, files, nil)...)
	if len(found) > 0 {
		return &Refused{Findings: found}
	}
	return nil
}

// readManifest parses the manifest among files.
func readManifest(profile Profile, files []*member) (Manifest, []reason.Finding) {
	missing := func(code reason.Code, format string, args ...any) (Manifest, []reason.Finding) {
		return nil, []reason.Finding{{Gate: GateManifest, Code: code, Path: ManifestName, Detail: fmt.Sprintf(format, args...)}}
	}
	i := slices.IndexFunc(files, func(f *member) bool { return f.name == ManifestName })
	switch {
	case i < 0:
		return missing(reason.ManifestMissing, "there is no %s", ManifestName)
	case files[i].err != nil:
		return missing(reason.GateUnavailable, "%v", files[i].err)
	case files[i].size > MaxManifestBytes:
		return missing(reason.ManifestFormat, "the manifest has %d bytes, the limit is %d", files[i].size, MaxManifestBytes)
	}
	text, err := files[i].read()
	if err != nil {
		return missing(reason.GateUnavailable, "%v", err)
	}
	return ParseManifest(profile, text)
}

// writeEntries is the second pass.
func writeEntries(w io.Writer, h *hasher, files []*member) error {
	var directory []byte
	var offset int64
	for _, f := range files {
		if offset > MaxEntryBytes {
			return tooLarge(f.name)
		}
		size := uint32(f.size) // at most MaxEntryBytes, see scanDirectory
		directory = append(directory, canonicalCentral(f.name, f.crc, size, uint32(offset))...)
		local := canonicalLocal(f.name, f.crc, size)
		if _, err := w.Write(local); err != nil {
			return err
		}
		if err := h.copy(context.Background(), w, f); err != nil {
			return fmt.Errorf("copy %q: %w", f.name, err)
		}
		offset += int64(len(local)) + f.size
	}
	if offset > MaxEntryBytes || len(directory) > MaxDirectoryBytes {
		return tooLarge("")
	}
	_, err := w.Write(append(directory, canonicalEnd(len(files), uint32(len(directory)), uint32(offset))...))
	return err
}

func tooLarge(name string) error {
	return &Refused{Findings: []reason.Finding{{Code: reason.Zip64, Path: name, Detail: "the bundle is too large for a zip without zip64"}}}
}

// copy writes a hashed member to w and checks that it is still the same.
func (h *hasher) copy(ctx context.Context, w io.Writer, f *member) error {
	r, err := f.open()
	if err != nil {
		return err
	}
	sum, _, _, err := h.sum(ctx, w, r, f.size)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if sum != f.sum {
		return errChanged
	}
	return nil
}

// errChanged means that a file is not what was hashed before.
var errChanged = errors.New("the content changed since it was hashed")
