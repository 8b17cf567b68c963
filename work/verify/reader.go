package verify

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"slices"

	"remit/work/tree"
)

// maxTestFile bounds a test file that is edited.
const maxTestFile = 4 << 20

// laidTree reads the files of a tree: a checkout with changes over it.
type laidTree struct {
	root    *os.Root
	changes map[string]tree.Change
}

// openTree opens the baseline of p with changes laid over it. The caller closes
// the tree.
func openTree(p *Plan, changes []tree.Change) (*laidTree, error) {
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		return nil, err
	}
	t := &laidTree{root: root, changes: make(map[string]tree.Change, len(changes))}
	for _, c := range changes {
		t.changes[c.Path] = c
	}
	return t, nil
}

func (t *laidTree) close() { _ = t.root.Close() } // a read-only handle of a directory

// files lists the regular files of the tree, sorted.
func (t *laidTree) files() ([]string, error) {
	below, err := filesBelow(t.root, ".")
	if err != nil {
		return nil, err
	}
	present := make(map[string]bool, len(below))
	for _, f := range below {
		present[f] = true
	}
	for _, c := range t.changes {
		present[c.Path] = c.Kind == tree.File
	}
	out := make([]string, 0, len(present))
	for f, there := range present {
		if there {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out, nil
}

// read returns the content of a regular file of at most maxTestFile bytes.
func (t *laidTree) read(p string) ([]byte, error) {
	if c, laid := t.changes[p]; laid {
		if c.Kind != tree.File || c.Open == nil {
			return nil, fs.ErrNotExist
		}
		f, err := c.Open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAtMost(f, maxTestFile)
	}
	info, err := t.root.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := t.root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, maxTestFile)
}

// readAtMost reads all of r, and fails on more than limit bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fs.ErrInvalid
	}
	return b, err
}

// executable says whether a file of the tree has the executable bit.
func (t *laidTree) executable(p string) bool {
	if c, laid := t.changes[p]; laid {
		return c.Executable
	}
	info, err := t.root.Lstat(p)
	return err == nil && info.Mode()&0o100 != 0
}

// fileOf is a change that puts a file with the text at p.
func fileOf(p string, text []byte, executable bool) tree.Change {
	return tree.Change{Path: p, Kind: tree.File, Executable: executable, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}
}
