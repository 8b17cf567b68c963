package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"remit/proof/reason"
)

// DiffEntry is one path that differs between two trees.
type DiffEntry struct {
	Path             string
	Status           byte // A, D, M or T
	OldMode, NewMode string
	OldID, NewID     string
	Added, Removed   int
	Binary           bool // Added and Removed are 0
}

// diffFlags switch everything off that could start a program or depend on a user's settings.
var diffFlags = []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index",
	"--ignore-submodules=none", "--no-color", "--no-relative"}

// Diff lists what differs between the trees a and b, and after the list writes the patch from a to b, binary files
// included, both in bytewise path order. One process does both. patch may be nil. More than most paths are
// change_too_large, before anything of the patch is written.
func (d Dir) Diff(ctx context.Context, a, b string, most int, patch io.Writer) ([]DiffEntry, error) {
	if !d.Format.IsID(a) || !d.Format.IsID(b) {
		return nil, fmt.Errorf("git diff-tree: %q or %q is not an object id", a, b)
	}
	args := append(diffFlags[:len(diffFlags):len(diffFlags)], "-z", "--raw", "--numstat")
	if patch != nil {
		args = append(args, "-p", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/")
	}
	out := &diffSplitter{most: most, patch: patch}
	err := d.run(ctx, call{args: append(args, a, b), stdout: out})
	if err == nil {
		err = out.end()
	}
	if err != nil {
		return nil, err
	}
	return out.entries, nil
}

var errDiffSyntax = errors.New("git diff-tree: unexpected answer")

// maxDiffRecord bounds one record of the list: a path and what is said of it.
const maxDiffRecord = 1 << 20

// diffSplitter takes the answer apart while it comes: `--raw --numstat -z` gives first every
// ":<mode> <mode> <id> <id> <status>\0<path>\0", then every "<added>\t<removed>\t<path>\0" in the same order, and with
// -p a NUL and the patch, which is handed on as it is.
type diffSplitter struct {
	most    int
	patch   io.Writer // nil: none is expected
	entries []DiffEntry
	counted int    // of them have their counts
	rest    []byte // the beginning of a record
	inPatch bool
}

func (s *diffSplitter) Write(p []byte) (int, error) {
	n := len(p)
	if !s.inPatch {
		s.rest = append(s.rest, p...)
		left := s.rest
		for more := true; more && !s.inPatch; {
			var err error
			if left, more, err = s.record(left); err != nil {
				return 0, err
			}
		}
		if !s.inPatch {
			if len(left) > maxDiffRecord {
				return 0, errDiffSyntax
			}
			s.rest = append(s.rest[:0], left...)
			return n, nil
		}
		p, s.rest = left, nil
	}
	if len(p) == 0 {
		return n, nil
	}
	if _, err := s.patch.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

// record reads one record, if a whole one is there.
func (s *diffSplitter) record(b []byte) (rest []byte, more bool, err error) {
	switch {
	case len(b) == 0:
		return b, false, nil
	case b[0] == ':' && s.counted == 0:
		if meta := bytes.IndexByte(b, 0); meta < 0 || bytes.IndexByte(b[meta+1:], 0) < 0 {
			return b, false, nil
		}
		if len(s.entries) == s.most {
			return b, false, reason.Errorf(reason.ChangeTooLarge, "more than %d path(s) differ", s.most)
		}
		e, rest, err := parseRaw(b[1:])
		s.entries = append(s.entries, e)
		return rest, true, err
	case s.counted < len(s.entries):
		line, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return b, false, nil
		}
		fields := bytes.SplitN(line, []byte{'\t'}, 3)
		e := &s.entries[s.counted]
		if len(fields) != 3 || string(fields[2]) != e.Path {
			return b, false, errDiffSyntax
		}
		s.counted++
		return rest, true, e.count(string(fields[0]), string(fields[1]))
	case s.patch != nil && b[0] == 0 && len(s.entries) > 0:
		s.inPatch = true
		return b[1:], true, nil
	}
	return b, false, errDiffSyntax
}

// end says whether everything was there.
func (s *diffSplitter) end() error {
	if len(s.rest) > 0 || s.counted != len(s.entries) || s.patch != nil && len(s.entries) > 0 && !s.inPatch {
		return errDiffSyntax
	}
	return nil
}

func parseRaw(b []byte) (e DiffEntry, rest []byte, err error) {
	meta, rest, ok := bytes.Cut(b, []byte{0})
	path, rest, ok2 := bytes.Cut(rest, []byte{0})
	f := bytes.Fields(meta)
	if !ok || !ok2 || len(f) != 5 || len(f[4]) != 1 || len(path) == 0 {
		return e, nil, errDiffSyntax
	}
	return DiffEntry{
		Path: string(path), Status: f[4][0],
		OldMode: string(f[0]), NewMode: string(f[1]), OldID: string(f[2]), NewID: string(f[3]),
	}, rest, nil
}

func (e *DiffEntry) count(added, removed string) error {
	if added == "-" && removed == "-" {
		e.Binary = true
		return nil
	}
	var err1, err2 error
	e.Added, err1 = strconv.Atoi(added)
	e.Removed, err2 = strconv.Atoi(removed)
	if err1 != nil || err2 != nil {
		return errDiffSyntax
	}
	return nil
}
