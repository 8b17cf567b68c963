// Package hunk takes a patch apart, so that a verifier can see which parts of it
// the tests notice: it runs them over the patch without one part.
//
// A part is a hunk of lines of a text file, or a whole file where there are no
// lines to take back: one that is added, deleted, binary, a link, of which only
// the mode changes, or that is too large ([MaxBytes], [MaxLines]). Files that
// only exist together, as when a directory takes the place of a file, are one
// part. A change of mode beside a change of lines goes with the first hunk of
// the file. Tests are no part, and neither are lines in which only comments are:
// they stay as the patch has them.
//
// Nothing is executed and nothing is written. Reading is bounded: what lies
// beyond a bound is one part for the whole file.
package hunk

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/work/tree"
)

// Bounds of a file that is taken apart by lines, and of the parts of a patch; a
// file behind the last of these is one part each.
const (
	MaxBytes = 2 << 20
	MaxLines = 20_000
	MaxHunks = 10_000
)

// Patch is a patch in parts. It reads the base and the changes again when it is
// asked for a patch without some of them.
type Patch struct {
	base  *os.Root
	same  func(path string, a, b []byte) bool
	units []unit
	hunks []part
}

// unit are changes that only make sense together; one change, as a rule.
type unit struct {
	changes  []tree.Change
	edits    []edit // of the lines of the one change; nil: taken back as a whole
	comments []bool // which of them are of comments alone: they are always kept
	first    int    // its first hunk
	count    int    // of its hunks; 0: always kept
}

type part struct {
	unit int
	what evidence.HunkOfPatch
}

// Split takes a patch apart. The changes are those to the tree below base,
// whole directories written out as far as they hold tests; each is opened more
// than once. base and the changes must stay readable as long as the result is
// used. sameCode says whether two texts of a file differ in comments alone.
func Split(base *os.Root, patch []tree.Change, isTest func(path string) bool, sameCode func(path string, a, b []byte) bool) (*Patch, error) {
	p := &Patch{base: base, same: sameCode}
	for _, changes := range together(patch) {
		u := unit{changes: changes, first: len(p.hunks)}
		if !slices.ContainsFunc(changes, func(c tree.Change) bool { return isTest(c.Path) }) {
			found, err := p.split(&u)
			if err != nil {
				return nil, err
			}
			u.count = len(found)
			for _, what := range found {
				p.hunks = append(p.hunks, part{len(p.units), what})
			}
		}
		p.units = append(p.units, u)
	}
	return p, nil
}

// together groups changes of which one lies below the other, in the order of
// their paths.
func together(patch []tree.Change) [][]tree.Change {
	sorted := slices.Clone(patch)
	// A slash sorts first, so that what lies below a path follows it.
	key := func(c tree.Change) string { return strings.ReplaceAll(c.Path, "/", "\x00") }
	slices.SortStableFunc(sorted, func(a, b tree.Change) int { return cmp.Compare(key(a), key(b)) })
	var groups [][]tree.Change
	for _, c := range sorted {
		if n := len(groups); n > 0 {
			if top := groups[n-1][0].Path; c.Path == top || strings.HasPrefix(c.Path, top+"/") {
				groups[n-1] = append(groups[n-1], c)
				continue
			}
		}
		groups = append(groups, []tree.Change{c})
	}
	return groups
}

// Hunks are the parts, in the order of their paths and lines. A part without
// lines (a binary file, a link, a mode) has 0 for both of them.
func (p *Patch) Hunks() []evidence.HunkOfPatch {
	all := make([]evidence.HunkOfPatch, len(p.hunks))
	for i, h := range p.hunks {
		all[i] = h.what
	}
	return all
}

// Without returns the patch without some of its parts, named by their places in
// Hunks: what they changed is as in the base. The error is a read that failed.
func (p *Patch) Without(hunks ...int) ([]tree.Change, error) {
	taken := make(map[int]bool, len(hunks))
	for _, h := range hunks {
		if h < 0 || h >= len(p.hunks) {
			return nil, fmt.Errorf("there is no hunk %d of %d", h, len(p.hunks))
		}
		taken[h] = true
	}
	var out []tree.Change
	for _, u := range p.units {
		back := 0
		for i := range u.count {
			if taken[u.first+i] {
				back++
			}
		}
		switch {
		case back == 0:
			out = append(out, u.changes...)
		case back < u.count:
			c, err := p.partly(u, taken)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return tree.Sorted(out), nil
}

// split finds the hunks of a unit. A file that the patch leaves as it is has none.
func (p *Patch) split(u *unit) ([]evidence.HunkOfPatch, error) {
	c := u.changes[0]
	whole := evidence.HunkOfPatch{Path: evidence.DisplayPath(c.Path)}
	if len(u.changes) > 1 {
		return []evidence.HunkOfPatch{whole}, nil
	}
	before, was, err := p.before(c.Path)
	if err != nil {
		return nil, err
	}
	after, isText, err := textOf(c)
	if err != nil {
		return nil, err
	}
	switch a, b := splitLines(before), splitLines(after); {
	case c.Kind == tree.Delete && was == absent:
		return nil, nil
	case c.Kind == tree.Delete && was == text && len(a) > 0:
		whole.First, whole.Last, whole.Removed = 1, len(a), true
	case c.Kind == tree.File && isText && was == absent && len(b) > 0:
		whole.First, whole.Last = 1, len(b)
	case c.Kind == tree.File && isText && was == text && len(a) <= MaxLines && len(b) <= MaxLines && len(p.hunks) < MaxHunks:
		if hunks := u.split(a, b, p.same); len(hunks) > 0 {
			return hunks, nil
		}
		u.edits = nil
		if same, err := p.sameMode(c); err != nil || same {
			return nil, err
		}
	}
	return []evidence.HunkOfPatch{whole}, nil
}

// maxComments is of how many edits of a file it is looked whether they are comments:
// each time the file is read as a whole.
const maxComments = 50

// split takes an edited text apart. Edits of comments alone are no parts.
func (u *unit) split(a, b [][]byte, same func(path string, a, b []byte) bool) (hunks []evidence.HunkOfPatch) {
	file, after := u.changes[0].Path, bytes.Join(b, nil)
	u.edits = compare(a, b)
	u.comments = make([]bool, len(u.edits))
	path := evidence.DisplayPath(file)
	for i, e := range u.edits {
		switch {
		case len(u.edits) <= maxComments && same(file, bytes.Join(slices.Concat(b[:e.b0], a[e.a0:e.a1], b[e.b1:]), nil), after):
			u.comments[i] = true
		case e.b0 == e.b1:
			hunks = append(hunks, evidence.HunkOfPatch{Path: path, First: e.a0 + 1, Last: e.a1, Removed: true})
		default:
			hunks = append(hunks, evidence.HunkOfPatch{Path: path, First: e.b0 + 1, Last: e.b1})
		}
	}
	return hunks
}

// partly is the change of a text file without the hunks that are taken.
func (p *Patch) partly(u unit, taken map[int]bool) (tree.Change, error) {
	c := u.changes[0]
	before, was, err := p.before(c.Path)
	if err != nil {
		return tree.Change{}, err
	}
	after, isText, err := textOf(c)
	if err != nil {
		return tree.Change{}, err
	}
	a, b := splitLines(before), splitLines(after)
	last := u.edits[len(u.edits)-1]
	if was != text || !isText || last.a1 > len(a) || last.b1 > len(b) {
		return tree.Change{}, fmt.Errorf("%q is not what it was when the patch was taken apart", c.Path)
	}
	var mixed [][]byte
	at, n := 0, u.first
	for i, e := range u.edits {
		mixed = append(mixed, a[at:e.a0]...)
		if !u.comments[i] && taken[n] {
			mixed = append(mixed, a[e.a0:e.a1]...)
		} else {
			mixed = append(mixed, b[e.b0:e.b1]...)
		}
		if at = e.a1; !u.comments[i] {
			n++
		}
	}
	content := bytes.Join(append(mixed, a[at:]...), nil)
	if taken[u.first] {
		info, err := p.base.Lstat(c.Path)
		if err != nil {
			return tree.Change{}, err
		}
		c.Executable = executable(info)
	}
	c.Size = int64(len(content))
	c.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return c, nil
}
