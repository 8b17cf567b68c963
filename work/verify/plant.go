package verify

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"remit/work/tree"
	"remit/work/verify/results"
)

// Limits of the control run.
const (
	maxControlDirs  = 500     // Go packages that get a planted test
	maxControlFiles = 5       // Python files that get planted tests: they share one process
	maxControlFile  = 4 << 20 // bytes of such a file
)

// planter makes the planted files over a tree.
type planter struct {
	root  *os.Root
	fixed map[string]bool // held-out files: the same in every tree
	laid  map[string]tree.Change
	files []string // of the tree, sorted: Go tests and Python files
	name  string
	added map[string]tree.Change
}

func newPlanter(p *Plan, laid []tree.Change, name string) (*planter, error) {
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		return nil, err
	}
	pl := &planter{root: root, fixed: make(map[string]bool), laid: make(map[string]tree.Change), name: name, added: make(map[string]tree.Change)}
	for _, h := range p.HeldOut {
		pl.fixed[h.Path] = true
	}
	below, err := filesBelow(root, ".")
	if err != nil {
		root.Close()
		return nil, err
	}
	present := make(map[string]bool)
	for _, f := range below {
		present[f] = true
	}
	for _, c := range laid {
		pl.laid[c.Path] = c
		present[c.Path] = c.Kind == tree.File
	}
	for f, there := range present {
		if there && (strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, ".py")) {
			pl.files = append(pl.files, f)
		}
	}
	slices.Sort(pl.files)
	return pl, nil
}

// changes is the tree with the planted files.
func (pl *planter) changes() []tree.Change {
	all := maps.Clone(pl.laid)
	maps.Copy(all, pl.added)
	return tree.Sorted(slices.Collect(maps.Values(all)))
}

// plant adds control tests for a runner and returns where.
func (pl *planter) plant(runner string, perTest map[string]results.Outcome) []string {
	if runner == results.GoTest {
		return pl.plantGo()
	}
	return pl.plantPython(runner, perTest)
}

func (pl *planter) plantGo() []string {
	var dirs []string
	for _, f := range pl.files {
		dir := path.Dir(f)
		if !strings.HasSuffix(f, "_test.go") || slices.Contains(dirs, dir) || len(dirs) >= maxControlDirs {
			continue
		}
		src, err := pl.read(f)
		if err != nil {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, src, parser.PackageClauseOnly)
		if err != nil {
			continue
		}
		dirs = append(dirs, dir)
		pl.add(path.Join(dir, pl.name+"_test.go"), fmt.Sprintf(
			"package %s\n\nimport \"testing\"\n\nfunc Test_%s(t *testing.T) { t.Fatal(\"control\") }\n", parsed.Name.Name, pl.name))
	}
	return dirs
}

// pythonControl holds one test for each usual way to fail; %[1]s is the secret.
// unittest does not look at the functions, which are for pytest.
const pythonControl = `


import unittest as unittest_%[1]s


class Test_%[1]s(unittest_%[1]s.TestCase):
    def test_%[1]s_equal(self):
        self.assertEqual(1, 2)

    def test_%[1]s_true(self):
        self.assertTrue(False)

    def test_%[1]s_fail(self):
        self.fail("control")

    def test_%[1]s_raises(self):
        with self.assertRaises(KeyError):
            pass

    def test_%[1]s_assert(self):
        assert 1 == 2

    def test_%[1]s_error(self):
        raise RuntimeError("control")


def test_%[1]s_compare():
    assert [1] == [2]


def test_%[1]s_raise():
    raise RuntimeError("control")


def test_%[1]s_raises():
    import pytest
    with pytest.raises(KeyError):
        pass
`

// plantPython appends to test files that were run and that are in the base or
// held out, so that both phases choose the same.
func (pl *planter) plantPython(runner string, perTest map[string]results.Outcome) []string {
	text := fmt.Sprintf(pythonControl, pl.name)
	var planted []string
	for _, f := range pl.files {
		if len(planted) >= maxControlFiles {
			break
		}
		if !ranFile(runner, f, perTest) {
			continue
		}
		if _, err := pl.root.Lstat(f); err != nil && !pl.fixed[f] {
			continue
		}
		src, err := pl.read(f)
		if err != nil {
			continue
		}
		planted = append(planted, f)
		pl.add(f, string(src)+text)
	}
	return planted
}

// ranFile says whether some test of the file ran. The identities of pytest
// are relative to its root, those of unittest to the import path, and both may
// lie below the workspace.
func ranFile(runner, file string, perTest map[string]results.Outcome) bool {
	for id := range perTest {
		name, _, _ := strings.Cut(id, "::")
		if runner == results.Unittest {
			parts := strings.Split(id, ".")
			name = strings.Join(parts[:max(0, len(parts)-2)], "/") + ".py"
		}
		if name == file || strings.HasSuffix(file, "/"+name) {
			return true
		}
	}
	return false
}

// read gives a file of the tree.
func (pl *planter) read(p string) ([]byte, error) {
	var in fs.File
	var content io.ReadCloser
	if c, laid := pl.laid[p]; laid {
		if c.Kind != tree.File || c.Open == nil {
			return nil, fs.ErrNotExist
		}
		opened, err := c.Open()
		if err != nil {
			return nil, err
		}
		content = opened
	} else {
		opened, err := pl.root.Open(p)
		if err != nil {
			return nil, err
		}
		in, content = opened, opened
	}
	defer content.Close()
	if in != nil {
		if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, fs.ErrInvalid
		}
	}
	src, err := io.ReadAll(io.LimitReader(content, maxControlFile+1))
	if err == nil && len(src) > maxControlFile {
		err = fs.ErrInvalid
	}
	return src, err
}

func (pl *planter) add(p, text string) {
	executable := pl.laid[p].Executable
	pl.added[p] = tree.Change{Path: p, Kind: tree.File, Executable: executable, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader([]byte(text))), nil
	}}
}
