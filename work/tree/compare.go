package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Comparison finds what Head changed against Base by name, type, executable
// bit, link text and content; times and owners do not count.
type Comparison struct {
	Base *os.Root // nil: everything in Head is new
	Head *os.Root // hostile
	// Upper, if set, narrows the walk: a name that is missing in a directory
	// of Upper is known to be the same in Base and Head. The upper layer of an
	// overlay has this property where its directories are merged.
	Upper *os.Root
	// Whole reports that a directory of Upper hides or relocates what is below
	// it instead of merging with it, so that the walk must look at everything
	// there. Required with Upper.
	Whole func(dir *os.File) (bool, error)
	// Skip, if set, says of which paths nothing is to be said, nor of what is
	// below them.
	Skip func(path string) bool
	// Bytes bounds the content of all changed files; 0 is MaxTotalBytes.
	Bytes int64
}

// Walk calls visit for each change, directory by directory in name order.
// Change.Open is valid during the call only. A *reason.Error with
// resource_limit says that a bound was hit.
func (c Comparison) Walk(ctx context.Context, visit func(Change) error) error {
	w := &walker{ctx: ctx, whole: c.Whole, skip: c.Skip, visit: visit, budget: budgetOf(c.Bytes)}
	return w.dir(level{base: c.Base, head: c.Head, upper: c.Upper}, "", 0)
}

type walker struct {
	ctx    context.Context
	whole  func(*os.File) (bool, error)
	skip   func(string) bool
	visit  func(Change) error
	budget *budget
	inGit  bool // below a .git, where its own name rule no longer matters
}

// level is one directory seen in all trees; base and upper may be nil.
type level struct{ base, head, upper *os.Root }

func (w *walker) dir(l level, path string, depth int) error {
	names, err := w.names(l)
	if err != nil {
		return fmt.Errorf("read directory %q: %w", path, err)
	}
	for _, name := range names {
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		full := name
		if path != "" {
			full = path + "/" + name
		}
		if w.skip != nil && w.skip(full) {
			continue
		}
		if err := w.entry(l, name, full, depth); err != nil {
			return err
		}
	}
	return nil
}

// names returns what can differ in a directory.
func (w *walker) names(l level) ([]string, error) {
	if l.upper != nil {
		return readNames(l.upper, w.budget)
	}
	head, err := readNames(l.head, w.budget)
	if err != nil {
		return nil, err
	}
	base, err := readNames(l.base, newBudget())
	if err != nil {
		return nil, err
	}
	all := append(head, base...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (w *walker) entry(l level, name, path string, depth int) error {
	head, err := lstat(l.head, name)
	if err != nil {
		return fmt.Errorf("look at %q: %w", path, err)
	}
	base, err := lstat(l.base, name)
	if err != nil {
		return fmt.Errorf("look at base %q: %w", path, err)
	}
	switch {
	case head == nil && base == nil:
		return nil
	case !w.inGit && IsDotGit(name):
		return w.dotGit(l, name, path, depth)
	case head == nil:
		return w.visit(Change{Path: path, Kind: Delete})
	case head.IsDir():
		return w.subdir(l, name, path, head, base, depth)
	}
	same, err := unchanged(l, name, head, base)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errSwapped):
		return w.special(path, NoteUnreadable)
	case err != nil:
		return fmt.Errorf("compare %q: %w", path, err)
	case same:
		return nil
	}
	return w.changed(l, name, path, head)
}

func (w *walker) special(path, note string) error {
	return w.visit(Change{Path: path, Kind: Special, Note: note})
}

func (w *walker) subdir(l level, name, path string, head, base fs.FileInfo, depth int) error {
	if base != nil && !base.IsDir() {
		if err := w.visit(Change{Path: path, Kind: Delete}); err != nil {
			return err
		}
		base = nil
	}
	switch {
	case depth+1 > MaxDepth:
		return w.special(path, NoteTooDeep)
	case len(path)+1+maxName > MaxPathBytes:
		return w.special(path, NoteName) // a path below it might not fit
	}
	var sub level
	defer func() { closeRoots(sub.base, sub.head, sub.upper) }()
	var err error
	sub.head, err = openDir(l.head, name, head)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errSwapped) {
		return w.special(path, NoteUnreadable)
	}
	if err != nil {
		return fmt.Errorf("open directory %q: %w", path, err)
	}
	if base != nil {
		if sub.base, err = openDir(l.base, name, base); err != nil {
			return fmt.Errorf("open base directory %q: %w", path, err)
		}
	}
	if sub.upper, err = w.narrowed(l.upper, name); err != nil {
		return fmt.Errorf("open upper directory %q: %w", path, err)
	}
	return w.dir(sub, path, depth+1)
}

// narrowed descends in the upper layer, or returns nil where everything below
// has to be looked at.
func (w *walker) narrowed(upper *os.Root, name string) (*os.Root, error) {
	info, err := lstat(upper, name)
	if err != nil || info == nil || !info.IsDir() {
		return nil, err
	}
	dir, err := openDir(upper, name, info)
	if err != nil {
		return nil, err
	}
	f, err := dir.Open(".")
	if err != nil {
		dir.Close()
		return nil, err
	}
	defer f.Close()
	whole, err := w.whole(f)
	if whole || err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// errChanged ends a walk that only asks whether anything differs.
var errChanged = errors.New("changed")

// dotGit reports a .git as one special change if anything in it differs. Its
// content is never handed on: git would run it as code.
func (w *walker) dotGit(l level, name, path string, depth int) error {
	quiet := *w
	quiet.inGit = true
	quiet.visit = func(Change) error { return errChanged }
	err := quiet.entry(l, name, path, depth)
	if err == nil && w.isNewDir(l, name) {
		err = errChanged // an empty directory is no change, but it is a .git
	}
	if errors.Is(err, errChanged) {
		return w.special(path, NoteNestedGit)
	}
	return err
}

func (w *walker) isNewDir(l level, name string) bool {
	base, err := lstat(l.base, name)
	return err == nil && base == nil
}

// changed reports a path that is neither a directory nor as it was.
func (w *walker) changed(l level, name, path string, head fs.FileInfo) error {
	switch mode := head.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, err := l.head.Readlink(name)
		if err != nil {
			return fmt.Errorf("read link %q: %w", path, err)
		}
		return w.visit(Change{Path: path, Kind: Symlink, Target: target, Size: int64(len(target))})
	case !mode.IsRegular():
		return w.special(path, noteOf(mode))
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return w.special(path, NoteSetuid)
	case head.Size() > MaxFileBytes:
		return w.special(path, NoteTooLarge)
	}
	f, err := openFile(l.head, name, head)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errSwapped) {
		return w.special(path, NoteUnreadable)
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", path, err)
	}
	defer f.Close() // again, if the visitor has read it
	if err := w.budget.content(head.Size()); err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) { return f, nil }
	return w.visit(Change{Path: path, Kind: File, Executable: executable(head), Size: head.Size(), Open: open})
}

// executable reads the bit that git records.
func executable(info fs.FileInfo) bool { return info.Mode()&0o100 != 0 }

func noteOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return NoteFIFO
	case mode&fs.ModeSocket != 0:
		return NoteSocket
	case mode&fs.ModeDevice != 0:
		return NoteDevice
	}
	return NoteIrregular
}

// unchanged compares one name that is not a directory in head.
func unchanged(l level, name string, head, base fs.FileInfo) (bool, error) {
	const kind = fs.ModeType | fs.ModeSetuid | fs.ModeSetgid
	if base == nil || head.Mode()&kind != base.Mode()&kind {
		return false, nil
	}
	switch mode := head.Mode(); {
	case mode&fs.ModeSymlink != 0:
		h, err := l.head.Readlink(name)
		if err != nil {
			return false, err
		}
		b, err := l.base.Readlink(name)
		return h == b, err
	case !mode.IsRegular():
		return true, nil // two FIFOs are alike; device numbers need privileges to set
	}
	if head.Size() != base.Size() || executable(head) != executable(base) {
		return false, nil
	}
	return sameContent(l, name, head, base)
}

func sameContent(l level, name string, head, base fs.FileInfo) (bool, error) {
	if os.SameFile(head, base) {
		return true, nil
	}
	h, err := openFile(l.head, name, head)
	if err != nil {
		return false, err
	}
	defer h.Close()
	b, err := openFile(l.base, name, base)
	if err != nil {
		return false, err
	}
	defer b.Close()
	var hb, bb [32 << 10]byte
	for {
		n, herr := io.ReadFull(h, hb[:])
		m, berr := io.ReadFull(b, bb[:])
		if !bytes.Equal(hb[:n], bb[:m]) {
			return false, nil
		}
		if herr != nil || berr != nil {
			return ended(herr) && ended(berr), firstReal(herr, berr)
		}
	}
}

func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func firstReal(errs ...error) error {
	for _, err := range errs {
		if err != nil && !ended(err) {
			return err
		}
	}
	return nil
}
