package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/work/git"
)

// maxIndex bounds an index file: about ten million paths.
const maxIndex = 1 << 30

// indexEntry is one path of a source's index with what stat said when git last looked.
type indexEntry struct {
	path         string
	mode         uint32
	id           string
	stage        int
	ctime, mtime [2]uint32 // seconds, nanoseconds
	ino          uint32    // low half
	uid, gid     uint32
	size         uint32 // low half
	intentToAdd  bool
	skipWorktree bool // sparse checkout: the file is not meant to be there
	assumeValid  bool // `update-index --assume-unchanged`: the user asked not to look
}

var (
	errIndexSyntax = errors.New("malformed index")
	// errIndexForm reports an index that refers to another file.
	errIndexForm = errors.New("split index")
)

// The bits of an index entry, gitformat-index(5).
const (
	flagAssumeValid  = 0x8000
	flagExtended     = 0x4000
	flagSkipWorktree = 0x4000 // in the second word
	flagIntentToAdd  = 0x2000
)

// parseIndex reads an index of version 2, 3 or 4. A sparse index has entries of mode modeDir for whole directories that
// are not checked out; their path ends with a slash. A split index is errIndexForm. The trailing checksum is not
// checked: nothing here relies on it.
func parseIndex(format git.Format, b []byte) ([]indexEntry, error) {
	if len(b) < 12+format.Size() || string(b[:4]) != "DIRC" {
		return nil, errIndexSyntax
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("index version %d: %w", version, errIndexSyntax)
	}
	p := &indexParser{format: format, version: version, rest: b[12 : len(b)-format.Size()]}
	least := 42 + format.Size() // bytes of an entry with an empty name
	if uint64(count)*uint64(least) > uint64(len(p.rest)) {
		return nil, errIndexSyntax
	}
	entries := make([]indexEntry, 0, count)
	for range count {
		e, err := p.entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, p.extensions()
}

type indexParser struct {
	format  git.Format
	version uint32
	rest    []byte
	last    string // the path before, which version 4 builds on
}

func (p *indexParser) entry() (e indexEntry, err error) {
	fixed := 40 + p.format.Size() + 2
	if len(p.rest) < fixed+2 {
		return e, errIndexSyntax
	}
	b := p.rest
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	e = indexEntry{
		ctime: [2]uint32{word(0), word(1)}, mtime: [2]uint32{word(2), word(3)},
		ino: word(5), mode: word(6), uid: word(7), gid: word(8), size: word(9),
		id: git.Hex(b[40 : 40+p.format.Size()]),
	}
	flags := binary.BigEndian.Uint16(b[fixed-2:])
	e.stage, e.assumeValid = int(flags>>12&3), flags&flagAssumeValid != 0
	if flags&flagExtended != 0 {
		more := binary.BigEndian.Uint16(b[fixed:])
		e.skipWorktree, e.intentToAdd = more&flagSkipWorktree != 0, more&flagIntentToAdd != 0
		fixed += 2
	}
	e.path, err = p.name(fixed)
	if err == nil && (e.mode == modeDir) != strings.HasSuffix(e.path, "/") {
		err = errIndexSyntax
	}
	p.last = e.path
	return e, err
}

// name reads the path at offset and moves on to the next entry.
func (p *indexParser) name(offset int) (string, error) {
	keep := 0
	if p.version == 4 {
		strip, n := varint(p.rest[offset:])
		if n == 0 || strip > uint64(len(p.last)) {
			return "", errIndexSyntax
		}
		keep, offset = len(p.last)-int(strip), offset+n
	}
	length := bytes.IndexByte(p.rest[offset:], 0)
	if length < 0 || keep+length > 1<<16 {
		return "", errIndexSyntax
	}
	if keep+length == 0 {
		return "", errIndexForm // it replaces an entry of the shared index
	}
	name := p.last[:keep] + string(p.rest[offset:offset+length])
	end := offset + length + 1
	if p.version < 4 {
		end = (offset + length + 8) &^ 7 // 1 to 8 NULs
	}
	if end > len(p.rest) {
		return "", errIndexSyntax
	}
	p.rest = p.rest[end:]
	return name, nil
}

// varint reads git's offset encoding; n is 0 if it is malformed.
func varint(b []byte) (value uint64, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		n++
		value = value<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
		value++
	}
	return 0, 0
}

// extensions refuses what changes the meaning of the entries; those are the ones with a lower-case name.
func (p *indexParser) extensions() error {
	for b := p.rest; len(b) > 0; {
		if len(b) < 8 {
			return errIndexSyntax
		}
		size := binary.BigEndian.Uint32(b[4:])
		if uint64(size) > uint64(len(b)-8) {
			return errIndexSyntax
		}
		switch {
		case string(b[:4]) == "link":
			return errIndexForm
		case string(b[:4]) == "sdir":
		case b[0] < 'A' || b[0] > 'Z':
			return fmt.Errorf("unknown extension %q: %w", b[:4], errIndexSyntax)
		}
		b = b[8+size:]
	}
	return nil
}

// readIndex returns the entries of the source's index and the time it was written. A split index is first rewritten
// by git, as a copy in dir, a directory of ours.
func (s *Source) readIndex(rewrite func() error, dir string) ([]indexEntry, time.Time, error) {
	file := filepath.Join(s.loc.gitDir, "index")
	info, err := os.Lstat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, invalid(file, "%w", err)
	}
	b, err := readBounded(file, maxIndex)
	if err != nil {
		return nil, time.Time{}, invalid(file, "%w", err)
	}
	entries, err := parseIndex(s.config.format, b)
	if errors.Is(err, errIndexForm) {
		if b, err = s.rewriteIndex(rewrite, dir, b); err == nil {
			entries, err = parseIndex(s.config.format, b)
		}
	}
	if err != nil {
		return nil, time.Time{}, invalid(file, "%w", err).WithHint("remove it and run `git reset` to make a new one")
	}
	return entries, info.ModTime(), nil
}

func (s *Source) rewriteIndex(rewrite func() error, dir string, index []byte) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(dir, "index"), index, 0o600); err != nil {
		return nil, err
	}
	names, err := os.ReadDir(s.loc.gitDir)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), "sharedindex.") {
			continue
		}
		shared, err := readBounded(filepath.Join(s.loc.gitDir, n.Name()), maxIndex)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, n.Name()), shared, 0o600); err != nil {
			return nil, err
		}
	}
	if err := rewrite(); err != nil {
		return nil, err
	}
	return readBounded(filepath.Join(dir, "index"), maxIndex)
}
