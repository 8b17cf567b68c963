package verify

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"remit/work/tree"
	"remit/work/verify/shell"
)

// A shell script that reads a file into itself lends it its shell. Such a file is a
// part of the tests where the script is one, and of the product where the script is
// that. Of a part of the tests a change may still be one of the product alone, as a
// library is tried by scripts that read it: package shell says so.

// Bounds of the search in shell scripts that no command names: a loop calls them.
const maxShellTests = 1000

var (
	shellName   = whenUsed(`\.(?:sh|bash|ash|dash)$`)
	shellOrNone = whenUsed(`(?:^|/)[^./]+$|\.(?:sh|bash|ash|dash|t|te?st)$`)
	shellLine   = whenUsed(`^#![^\n]*\b(?:[a-z]*sh)\b`)
)

func isShell(p, text string) bool { return shellName().MatchString(p) || shellLine().MatchString(text) }

// sources follows what a text reads into the shell that it runs in: that of a file, or
// of a command where the name is empty.
func (r *reacher) sources(text, file string, dirs []string, depth int, isTest bool) (runs bool) {
	read := func(p string) {
		if !slices.Contains(r.readers[p], file) {
			r.readers[p] = append(r.readers[p], file)
		}
		runs = r.visit(p, sourced, depth, isTest) || runs
	}
	for _, m := range sources.all(text, maxReachWords) {
		found := false
		words := fileWords(strings.Join(m[1:], " "))
		for _, w := range words {
			for _, p := range wordPaths(dirs, w) {
				found = found || r.isFile(p)
				read(p)
			}
		}
		if !found && strings.ContainsAny(m[1], "$`") {
			for _, p := range r.behindVariable(text, dirs, words) {
				read(p)
			}
		}
	}
	return runs
}

// behindVariable guesses what a text reads by a variable: the files with the end of the
// name that stands there, or else the scripts that it names anywhere and those in
// directories that it names.
func (r *reacher) behindVariable(text string, dirs, words []string) (paths []string) {
	for _, w := range words {
		if name := strings.TrimLeft(w, "./@+!-"); name != "" && strings.Contains(path.Base(name), ".") {
			for _, p := range r.files() {
				if strings.HasSuffix("/"+p, "/"+name) {
					paths = append(paths, p)
				}
			}
		}
	}
	if len(paths) > 0 {
		return paths
	}
	for _, w := range fileWords(text) {
		for _, p := range wordPaths(dirs, w) {
			if shellName().MatchString(p) && r.isFile(p) {
				paths = append(paths, p)
				continue
			}
			for name := range r.names(p) {
				if inner := path.Join(p, name); shellName().MatchString(name) && r.isFile(inner) {
					paths = append(paths, inner)
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// fileWord is a word as the name of a file, "" where it cannot be one.
func fileWord(word string) string {
	if word = strings.TrimLeft(word, "@+!/-"); !scriptWord().MatchString(word) {
		return ""
	}
	return word
}

// wordPaths are the paths that a word may mean.
func wordPaths(dirs []string, word string) (paths []string) {
	if word = fileWord(word); word == "" {
		return nil
	}
	for _, d := range dirs {
		if p := path.Join(d, word); p != "." && inside(p) {
			paths = append(paths, p)
		}
	}
	return paths
}

func (r *reacher) isFile(p string) bool {
	if r.looks++; r.looks > maxReachLooks {
		return false
	}
	info, err := r.root.Stat(p)
	return err == nil && info.Mode().IsRegular()
}

// files are the files of the base, listed at the first use.
func (r *reacher) files() []string {
	if r.all == nil {
		r.all, _ = filesBelow(r.root, ".") // as far as they can be listed
	}
	return r.all
}

// shellTests takes in the shell scripts among the tests, whoever calls them: what they
// read is a part of the tests too.
func (r *reacher) shellTests() {
	left := maxShellTests
	for _, p := range r.files() {
		if !r.isTest(p) || !shellOrNone().MatchString(p) || r.texts[p] != "" {
			continue
		}
		if left--; left < 0 {
			return
		}
		r.bound++
		if text, _, ok := r.read(p); ok && isShell(p, text) {
			r.texts[p] = text
			r.sources(text, p, r.dirsOf(text, path.Dir(p)), 0, true)
		}
	}
}

// settleSourced decides which of the files that scripts read are a part of the tests:
// those that one reads which is. Which of them are looked at by package shell is
// decided too: those that only shell scripts and commands read.
func (r *reacher) settleSourced(commands []string) {
	part := map[string]bool{}
	counts := func(reader string) bool {
		_, noted := r.out.files[reader]
		return reader == "" || path.Base(reader) == "package.json" || noted || part[reader] || r.seen[reader] || r.isTest(reader)
	}
	for again := true; again; {
		again = false
		for p, readers := range r.readers {
			if !part[p] && slices.ContainsFunc(readers, counts) {
				part[p], again = true, true
			}
		}
	}
	for p := range part {
		_, otherwise := r.out.files[p]
		r.out.sourced[p] = !otherwise && !r.seen[p] && !slices.ContainsFunc(r.readers[p], func(reader string) bool {
			return reader != "" && counts(reader) && r.texts[reader] == ""
		})
	}
	for p := range part {
		r.note(p, true)
		r.linkTarget(p)
	}
	for p, text := range r.texts {
		if counts(p) {
			r.out.scripts = append(r.out.scripts, shell.Script{Path: p, Text: text})
		}
	}
	for _, command := range commands {
		r.out.scripts = append(r.out.scripts, shell.Script{Text: command})
	}
	slices.SortFunc(r.out.scripts, func(a, b shell.Script) int { return strings.Compare(a.Path+"\x00"+a.Text, b.Path+"\x00"+b.Text) })
}

// reachesShell says how a change of a file that the shells of the tests read could
// reach them, and "" where it cannot.
func (s *steering) reachesShell(root *os.Root, c tree.Change) string {
	before, err := textBefore(root, c.Path)
	if err != nil {
		return "it cannot be read in the base"
	}
	after, err := textAfter(c)
	if err != nil || after == nil {
		return "it is no file any more"
	}
	others := slices.DeleteFunc(slices.Clone(s.scripts), func(script shell.Script) bool { return script.Path == c.Path })
	return shell.Reaches(string(before), string(after), others)
}

// sourcedDetail tells why a change counts as one of the tests.
func sourcedDetail(why map[string]string) string {
	var said []string
	for _, p := range slices.Sorted(maps.Keys(why)) {
		said = append(said, fmt.Sprintf("%s is read by the shell that runs the tests, and %s", p, why[p]))
	}
	if len(said) == 0 {
		return ""
	}
	return " (" + strings.Join(said, "; ") + ")"
}
