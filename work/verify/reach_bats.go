package verify

import (
	"os"
	"path"
	"slices"
	"strings"

	"remit/work/tree"
	"remit/work/verify/shell"
	"remit/work/verify/twin"
)

// Tests of bats read files of the product into their shell. What such a file does there is
// seen by the control, but for what takes the place of their commands: package shell says
// whether a change does that.

// loads finds what a test of bats reads into itself.
var loads = inLines(`(?:^|[\s;&|({])(?:source|\.|load|bats_load_safe|bats_load_library)[ \t]+("[^"\n]*"|'[^'\n]*'|[^\s;&|)]+)`, "source ", ". ", "load ", "bats_load")

// batsTests takes in the files of bats, those that they load among the tests, and which
// other files of the base they read.
func (r *reacher) batsTests() {
	files := r.files()
	if !slices.ContainsFunc(files, twin.Bats) {
		return
	}
	left := maxShellTests
	for _, p := range files {
		if !twin.Bats(p) && (path.Ext(p) != ".bash" || !r.isTest(p)) {
			continue
		}
		if left--; left < 0 {
			return
		}
		r.bound++
		text, _, ok := r.read(p)
		if !ok {
			continue
		}
		r.out.bats = append(r.out.bats, shell.Script{Path: p, Text: text})
		for _, m := range loads.all(text, maxReachWords) {
			r.batsLoads(m[1], files)
		}
		r.takesFrom(text, []string{".", path.Dir(p), path.Dir(path.Dir(p))})
	}
}

// batsLoads notes the files that a word may mean: those with the end of the name that
// stands in it, or all scripts where there is none.
func (r *reacher) batsLoads(word string, files []string) {
	words := fileWords(shellVariable().ReplaceAllString(word, " "))
	for _, p := range files {
		found := len(words) == 0 && shellOrNone().MatchString(p)
		for _, w := range words {
			name := "/" + strings.TrimLeft(path.Clean("/"+w), "/")
			found = found || strings.HasSuffix("/"+p, name) || strings.HasSuffix("/"+p, name+".bash")
		}
		if found && !r.isTest(p) {
			r.out.batsReads[p] = true
		}
	}
}

// shadows says how a change of a file takes the place of a command of the tests, "" where it
// does not: by a function in what tests of bats read, or by a program on their way.
func (s *steering) shadows(root *os.Root, c tree.Change, inBase bool) string {
	dir, name := path.Dir(c.Path), path.Base(c.Path)
	if !inBase && c.Kind != tree.Delete && s.pathDirs[dir] && shell.Program(name) {
		uses := func(script shell.Script) bool { return slices.Contains(fileWords(script.Text), name) }
		if slices.ContainsFunc(s.scripts, uses) || slices.ContainsFunc(s.bats, uses) {
			return "it lies where the tests look for programs, and has the name of one that they use"
		}
	}
	if !s.batsReads[c.Path] {
		return ""
	}
	before, err := textBefore(root, c.Path)
	if err != nil {
		return "the tests read it, and it cannot be read in the base"
	}
	after, err := textAfter(c)
	if err != nil || after == nil {
		return ""
	}
	if why := s.shadowed(root, c.Path, string(before), string(after), s.bats); why != "" {
		return "the tests read it, and " + why
	}
	return ""
}
