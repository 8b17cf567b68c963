// Package tree reads what a hostile process left in a directory, carries it
// through a pipe and lays it over another directory.
//
// The one value is a [Change]: the new state of one path relative to a base
// tree. [Comparison] finds the changes between two directories, [Encoder] and
// [Decoder] move them between processes, [Spool] keeps the content of files,
// [Apply] writes them.
//
// # How hostile trees are read
//
// A name below such a directory can be anything: a symbolic link to a secret,
// a FIFO that blocks its reader, a device, a path of ten thousand
// components. Therefore every directory is opened as an [os.Root] of its own,
// every entry is looked at with Lstat before it is opened, opened without
// blocking, and compared with what Lstat saw; links are recorded as text.
// Depth, entries and bytes are bounded by [MaxDepth], [MaxEntries],
// [MaxFileBytes] and [MaxTotalBytes]. All processes that could write must be
// dead before; a race is then impossible, and with one still alive the worst
// outcome is an error or a refused entry, never a file from elsewhere.
//
// # The stream
//
// The magic line "remit tree 1\n", then records. A record is one letter and
// its fields; a number is an unsigned varint, a string is a number and as many
// bytes:
//
//	F flags path size content   a file; flags is 0, or 1 (executable) and 2 (old) or both
//	L path target               a symbolic link
//	D path                      gone, with everything below
//	S path note                 special, not representable in a patch
//	E count                     the end; count of the records before
//	X code message              the end; the writer failed with a reason code
//
// Paths keep their raw bytes. A stream without its end record, with a path
// that is not relative and clean, with a path twice or beyond a limit is
// refused as a whole.
package tree

import (
	"cmp"
	"io"
	"strings"

	"remit/proof/reason"
)

// Kind says what a path has become.
type Kind string

// The four things that can have happened to a path. Everything that is neither
// a regular file nor a symbolic link nor gone is special: it is reported, and
// it never enters a patch.
const (
	File    Kind = "file"
	Symlink Kind = "symlink"
	Delete  Kind = "delete"
	Special Kind = "special"
)

// The notes of special changes.
const (
	NoteFIFO       = "fifo"
	NoteSocket     = "socket"
	NoteDevice     = "device"
	NoteSetuid     = "setuid"     // setuid or setgid bit on a regular file
	NoteNestedGit  = "nested-git" // a name that git or a file system takes for .git
	NoteName       = "name"       // directory whose path is too long for MaxPathBytes
	NoteUnreadable = "unreadable"
	NoteTooDeep    = "too-deep"  // directory below MaxDepth
	NoteTooLarge   = "too-large" // file above MaxFileBytes
	NoteIrregular  = "irregular" // anything else
)

// Change is the new state of one path of a tree, relative to a base tree.
//
// Path is slash-separated and relative; its bytes are whatever the writer
// chose, so it need not be UTF-8. A Delete stands for everything below the
// path too. A File or Symlink replaces whatever was there, a directory
// included; a file that becomes a directory is a Delete of it and the changes
// below. Directories themselves are not recorded, so empty ones are lost.
type Change struct {
	Path       string
	Kind       Kind
	Executable bool
	// Old has a file applied with the time [Past], so that build tools take it for
	// older than what they make of it. It is never set of what was captured.
	Old  bool
	Size int64
	// Target is the text of a symbolic link, recorded and never followed.
	Target string
	// Note says why a path is special.
	Note string
	// Open gives the content of a file. A change from a Spool can be opened
	// any number of times; one from a Decoder or inside a visit function once
	// and only until the next change.
	Open func() (io.ReadCloser, error)
}

// ValidPath reports whether p can name a change: relative, slash-separated,
// clean, without NUL and at most MaxPathBytes long. It says nothing about
// whether git would take it.
func ValidPath(p string) bool {
	if p == "" || len(p) > MaxPathBytes || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	depth := 0
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return false
		}
		if depth++; depth > MaxDepth+1 {
			return false
		}
	}
	return true
}

// IsDotGit reports whether some git or some file system takes name for .git:
// any case, the short name git~1, trailing dots, spaces or a stream name
// (NTFS), and code points that HFS+ ignores.
func IsDotGit(name string) bool {
	folded := strings.ToLower(strings.Map(dropIgnorable, name))
	if i := strings.IndexAny(folded, `:\`); i >= 0 {
		folded = folded[:i]
	}
	folded = strings.TrimRight(folded, " .")
	return folded == ".git" || folded == "git~1"
}

// dropIgnorable removes the code points that HFS+ leaves out of comparisons,
// the list that git uses.
func dropIgnorable(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// The bounds on one tree. They are far above an honest change and low enough
// that a hostile one costs seconds, not the machine.
const (
	MaxDepth      = 128       // directories below each other; each costs an open descriptor or three
	MaxEntries    = 400_000   // entries looked at
	MaxFileBytes  = 256 << 20 // content of one file; larger ones are special
	MaxTotalBytes = 2 << 30   // content of all changed files
	MaxPathBytes  = 4096      // PATH_MAX
	maxName       = 255       // NAME_MAX
	maxTarget     = 4096      // a link text is at most PATH_MAX too
	maxNote       = 64
	maxMessage    = 8192
)

// budget is what is left of the bounds during one walk.
type budget struct {
	entries int
	bytes   int64
	whole   int64 // bytes at the beginning
}

func newBudget() *budget { return budgetOf(0) }

// budgetOf is a budget with another bound on the bytes; 0 is MaxTotalBytes.
func budgetOf(bytes int64) *budget {
	bytes = cmp.Or(bytes, MaxTotalBytes)
	return &budget{entries: MaxEntries, bytes: bytes, whole: bytes}
}

func (b *budget) entry() error {
	if b.entries--; b.entries < 0 {
		return reason.Errorf(reason.ResourceLimit, "the tree has more than %d entries", MaxEntries)
	}
	return nil
}

func (b *budget) content(n int64) error {
	if b.bytes -= n; b.bytes < 0 {
		return reason.Errorf(reason.ResourceLimit, "the changed files hold more than %d bytes", b.whole)
	}
	return nil
}
