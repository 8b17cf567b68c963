package verify

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"remit/work/sandbox"
	"remit/work/tree"
)

// rewritten lists the test files and runner configuration that are not the
// same after a run as they were laid out before it: code under test that edits
// the tests between two commands, or a process that waits for its moment. Data
// below testdata and the like may change, since updating a snapshot is what
// some tests do.
func (p *Plan) rewritten(changes, laid []tree.Change) []string {
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		return nil // the run itself could not have started
	}
	defer root.Close()
	before := make(map[string]tree.Change, len(laid))
	for _, c := range laid {
		before[c.Path] = c
	}
	steers := p.steers()
	var out []string
	for _, c := range changes {
		if c.Kind == tree.Delete {
			out = append(out, p.deletedTests(root, before, c.Path, steers)...)
			continue
		}
		if !p.watched(c.Path, steers) || inMetadata(c.Path) && !namesPlugin(c) {
			continue
		}
		same, existed := sameAsBefore(root, before, c)
		if !same && (existed || runnerConfig(c.Path)) {
			out = append(out, c.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// replaced lists what a command changed of the installed dependencies that a later
// command of the same view could start or load. Caches, which tools keep below a
// name with a dot, are no such thing.
func replaced(l sandbox.LayerChanges) []string {
	out := slices.Clone(l.Replaced)
	for _, p := range l.Added {
		if !slices.ContainsFunc(strings.Split(p, "/"), func(part string) bool { return strings.HasPrefix(part, ".") && part != ".bin" }) {
			out = append(out, p)
		}
	}
	return out
}

// watched says whether a file is the source of a test or steers a runner.
// Caches that runners write are neither.
func (p *Plan) watched(name string, steers *steering) bool {
	for _, cache := range []string{"__pycache__", ".pytest_cache", "node_modules"} {
		if slices.Contains(strings.Split(name, "/"), cache) {
			return false
		}
	}
	if inMetadata(name) && path.Base(name) != "entry_points.txt" {
		return false // a build writes it
	}
	if strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, ".snap") {
		return false
	}
	return testNames().MatchString(path.Base(name)) || runnerConfig(name) || steers.covers(name, true) || p.isTest(name)
}

// inMetadata says whether a file belongs to the metadata of a Python package.
func inMetadata(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), metadata().MatchString)
}

// pluginGroups are the entry points that a test runner loads by itself.
var pluginGroups = whenUsed(`\b(?:pytest11|nose\.plugins|hypothesis)\b`)

// namesPlugin says whether a file that a run left registers a plugin, or cannot
// be read. Builds leave entry points of programs, too.
func namesPlugin(c tree.Change) bool {
	if c.Kind != tree.File || c.Open == nil {
		return true
	}
	f, err := c.Open()
	if err != nil {
		return true
	}
	defer f.Close()
	text, err := readCapped(f)
	return err != nil || pluginGroups().Match(text)
}

// sameAsBefore compares a file after the run with what was laid out: the
// change over the base, or the base. existed is false when neither had it.
func sameAsBefore(root *os.Root, before map[string]tree.Change, after tree.Change) (same, existed bool) {
	was, laid := before[after.Path]
	switch {
	case laid && was.Kind == tree.Delete:
		return false, false
	case laid && was.Kind != after.Kind:
		return false, true
	case laid && was.Kind == tree.Symlink:
		return was.Target == after.Target, true
	case laid:
		return sameContent(was.Open, after.Open), true
	}
	info, err := root.Lstat(after.Path)
	if err != nil {
		return false, false
	}
	if !info.Mode().IsRegular() {
		target, err := root.Readlink(after.Path)
		return err == nil && after.Kind == tree.Symlink && target == after.Target, true
	}
	return after.Kind == tree.File && sameContent(func() (io.ReadCloser, error) { return root.Open(after.Path) }, after.Open), true
}

// deletedTests are the watched files that went away with one: itself, or
// everything below it.
func (p *Plan) deletedTests(root *os.Root, before map[string]tree.Change, name string, steers *steering) []string {
	gone := make(map[string]bool)
	if info, err := root.Lstat(name); err == nil {
		gone[name] = !info.IsDir()
		if info.IsDir() {
			files, _ := filesBelow(root, name)
			for _, f := range files {
				gone[f] = true
			}
		}
	}
	for path, c := range before {
		if path == name || strings.HasPrefix(path, name+"/") {
			gone[path] = c.Kind != tree.Delete // the patch deleted it, not the run
		}
	}
	var out []string
	for f, is := range gone {
		if is && p.watched(f, steers) {
			out = append(out, f)
		}
	}
	return out
}

func sameContent(a, b func() (io.ReadCloser, error)) bool {
	if a == nil || b == nil {
		return false
	}
	x, err := a()
	if err != nil {
		return false
	}
	defer x.Close()
	y, err := b()
	if err != nil {
		return false
	}
	defer y.Close()
	return equalReaders(bufio.NewReader(x), bufio.NewReader(y))
}

func equalReaders(x, y io.ByteReader) bool {
	for {
		a, errA := x.ReadByte()
		b, errB := y.ReadByte()
		switch {
		case errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF):
			return true
		case errA != nil || errB != nil || a != b:
			return false
		}
	}
}
