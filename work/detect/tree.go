package detect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Bounds of what is read of a repository. What lies beyond them is a note.
const (
	MaxEntries   = 200_000   // files and directories
	MaxDepth     = 40        // directories in each other
	MaxFileBytes = 512 << 10 // of one file
	MaxReadBytes = 32 << 20  // of all files together
)

// tree is the index of a repository.
type tree struct {
	fsys  fs.FS
	files []string        // regular files with printable names, sorted
	has   map[string]bool // the same
	exec  map[string]bool // those that can be executed
	// foreign are directories that hold what the project did not write, or what its
	// tools make: vendored code, installed packages, build results. They are not
	// looked into.
	foreign []string
	notes   []Note
	read    int                       // bytes so far
	parsed  map[string]map[string]any // TOML files
}

// vendored are names of directories with code of others.
var vendored = []string{"node_modules", "vendor", "third_party", "bower_components", "Pods", ".venv", "venv", "site-packages"}

// made are names of directories that tools make.
var made = []string{"dist", "target", "coverage", "__pycache__", ".tox", ".nox", ".eggs"}

// errEnough ends a walk that has reached its bound.
var errEnough = errors.New("enough")

func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, has: map[string]bool{}, exec: map[string]bool{}, parsed: map[string]map[string]any{}}
	seen, odd := 0, 0
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("reading the tree: %w", err)
		}
		if name == "." {
			return nil
		}
		if seen++; seen > MaxEntries {
			t.note("", "the repository has more than %d files: what lies behind them was not looked at", MaxEntries)
			return errEnough
		}
		if !oneLine(name) {
			odd++
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case e.IsDir():
			return t.directory(name)
		case e.Type().IsRegular():
			t.files = append(t.files, name)
			t.has[name] = true
			if info, err := e.Info(); err == nil && info.Mode()&0o111 != 0 {
				t.exec[name] = true
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if odd > 0 {
		t.note("", "%d names are longer than %d bytes or not printable: they were left out", odd, maxLine)
	}
	slices.Sort(t.files)
	return t, nil
}

// directory says whether the walk goes into a directory.
func (t *tree) directory(name string) error {
	base := path.Base(name)
	switch {
	case base == ".git":
		return fs.SkipDir
	case slices.Contains(vendored, base), slices.Contains(made, base):
		t.foreign = append(t.foreign, name)
		return fs.SkipDir
	case strings.Count(name, "/") >= MaxDepth:
		t.note("", "directories lie more than %d deep: what is below was not looked at", MaxDepth)
		return fs.SkipDir
	}
	return nil
}

// text is the content of a file, and whether there is one that could be read. A
// file that is too large, or no text, is a note.
func (t *tree) text(name string) ([]byte, bool) {
	if !t.has[name] {
		return nil, false
	}
	if t.read > MaxReadBytes {
		t.note("", "more than %d MiB of files would have to be read: the rest was not", MaxReadBytes>>20)
		return nil, false
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		t.note(name, "cannot be read")
		return nil, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	t.read += len(b)
	switch {
	case err != nil:
		t.note(name, "cannot be read")
	case len(b) > MaxFileBytes:
		t.note(name, "is larger than %d KiB: it was not read", MaxFileBytes>>10)
	case bytes.IndexByte(b, 0) >= 0:
		t.note(name, "is no text: it was not read")
	default:
		return b, true
	}
	return nil, false
}

// maxLooked bounds how many files are searched for a word.
const maxLooked = 200

// contains reports whether one of the files has one of the words.
func (t *tree) contains(files []string, words ...string) bool {
	for _, name := range files[:min(len(files), maxLooked)] {
		b, ok := t.text(name)
		if ok && slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(b, []byte(w)) }) {
			return true
		}
	}
	return false
}

// below are the files under a directory, of those for which keep is true.
func (t *tree) below(dir string, keep func(name string) bool) []string {
	var out []string
	for _, name := range t.files {
		if (dir == "." || strings.HasPrefix(name, dir+"/")) && keep(name) {
			out = append(out, name)
		}
	}
	return out
}

// data are names of directories whose files are read by tests, and are none.
var data = []string{"testdata", "fixtures", "fixture", "__fixtures__"}

// tests are the test files under a directory that no other of these directories
// holds.
func (t *tree) tests(dir string, others []string, is func(name string) bool) []string {
	return slices.DeleteFunc(t.below(dir, is), func(name string) bool {
		elsewhere := slices.ContainsFunc(others, func(o string) bool {
			return o != dir && o != "." && (dir == "." || strings.HasPrefix(o, dir+"/")) && strings.HasPrefix(name, o+"/")
		})
		return elsewhere || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return slices.Contains(data, part) })
	})
}

// aside are names of directories whose manifests are data, not projects.
var aside = append([]string{"examples", "example", "templates", "template", "docs", "doc"}, data...)

// Bounds of the search for projects below the top.
const (
	maxProjectDepth = 4
	maxProjects     = 24
)

// places are the directories that hold one of the named files, the top first,
// then by depth and name.
func (t *tree) places(names ...string) []string {
	return t.placesWhere(func(base string) bool { return slices.Contains(names, base) })
}

func (t *tree) placesWhere(is func(base string) bool) []string {
	var out []string
	for _, name := range t.files {
		dir := path.Dir(name)
		if !is(path.Base(name)) || slices.Contains(out, dir) {
			continue
		}
		parts := strings.Split(dir, "/")
		if dir != "." && (len(parts) > maxProjectDepth || slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(aside, p) || p[0] == '.' })) {
			continue
		}
		if !shellDir(dir) {
			t.note(dir, "has a name that is not put into command lines: name its tests with --test")
			continue
		}
		out = append(out, dir)
	}
	slices.SortStableFunc(out, func(a, b string) int { return depth(a) - depth(b) })
	if len(out) > maxProjects {
		t.note("", "more than %d directories have a manifest of one kind: the others were not looked at", maxProjects)
		out = out[:maxProjects]
	}
	return out
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}

// first is the first of the names that a directory has, "" for none.
func (t *tree) first(dir string, names ...string) string {
	for _, name := range names {
		if t.has[in(dir, name)] {
			return name
		}
	}
	return ""
}
