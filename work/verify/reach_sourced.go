package verify

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/tree"
	"remit/work/verify/shell"
)

// A shell script that reads a file into itself lends it its shell. Such a file is a
// part of the tests where the script is one, and of the product where the script is
// that. One that only shells read is code that the tests try, whatever it does in their
// shell, but for what takes the place of their commands: package shell says so.

// Bounds of the search in shell scripts that no command names: a loop calls them.
const maxShellTests = 1000

var (
	shellName   = whenUsed(`\.(?:sh|bash|ash|dash)$`)
	shellOrNone = whenUsed(`(?:^|/)[^./]+$|\.(?:sh|bash|ash|dash|t|te?st)$`)
	mayBeRead   = whenUsed(`^[^.]+$|\.(?:[a-z]*sh|inc|lib|env|rc|conf)$`)
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
	said := shell.Sources(text)
	for _, m := range sources.all(text, maxReachWords) {
		said = append(said, m[1:]...)
	}
	for _, word := range said {
		found := false
		readWord := func(w string) {
			for _, p := range wordPaths(dirs, w) {
				found = found || r.isFile(p)
				read(p)
			}
		}
		words := fileWords(shellVariable().ReplaceAllString(word, " "))
		for _, w := range words {
			readWord(w)
			// A script that goes to another directory first, or is read from one.
			if up := strings.LastIndex("/"+w, "/../"); up >= 0 && !found {
				readWord(w[up+len("../"):])
			}
		}
		if !found && strings.ContainsAny(word, "$`*?[") {
			for _, p := range r.behindVariable(text, dirs, words) {
				read(p)
			}
		}
	}
	r.takesFrom(text, dirs)
	return runs
}

// takesFrom notes the directories that a text takes programs from.
func (r *reacher) takesFrom(text string, dirs []string) {
	for _, m := range setsPath.all(text, maxReachWords) {
		for _, w := range fileWords(shellVariable().ReplaceAllString(m[1], " ")) {
			for _, p := range wordPaths(dirs, w) {
				r.out.pathDirs[p] = true
			}
		}
	}
}

// shellVariable is a variable in a word, behind which the name of a file may go on.
var shellVariable = form.Lazy(`\$\{[^}]*\}|\$[A-Za-z_0-9@*#?]+|~`)

// allOf finds directories of which a script takes all files, or some.
var allOf = inLines(`([A-Za-z0-9._/-]*[A-Za-z0-9._-])/[^\s;&|"']*\*`, "*")

// setsPath finds the directories that a script takes programs from.
var setsPath = inLines(`\bPATH=("[^"\n]*"|'[^'\n]*'|[^\s;&|]*)`, "PATH=")

// behindVariable guesses what a text reads by a variable or a pattern: the files with the
// end of the name that stands there; or else all in the directories that stand there or
// that the text has all files of, and what is new there; or the scripts that the text
// names anywhere and those in directories that it names; or all scripts.
func (r *reacher) behindVariable(text string, dirs, words []string) (paths []string) {
	for _, w := range words {
		name := strings.TrimLeft(w, "./@+!-")
		for _, p := range r.files() {
			if name != "" && name[0] != '.' && strings.HasSuffix("/"+p, "/"+name) {
				paths = append(paths, p)
			}
		}
	}
	if len(paths) > 0 {
		return paths
	}
	for _, m := range allOf.all(text, maxReachDirs) {
		words = append(words, m[1])
	}
	for _, w := range words {
		for _, dir := range wordPaths(dirs, w) {
			if in := r.in(dir, func(string) bool { return true }); len(in) > 0 {
				r.out.readDirs[dir] = true
				paths = append(paths, in...)
			}
		}
	}
	if len(paths) > 0 {
		return paths
	}
	for _, w := range fileWords(shellVariable().ReplaceAllString(text, " ")) {
		for _, p := range wordPaths(dirs, w) {
			if shellName().MatchString(p) && r.isFile(p) {
				paths = append(paths, p)
			}
			paths = append(paths, r.in(p, shellName().MatchString)...)
		}
	}
	if len(paths) > 0 {
		return paths
	}
	for _, p := range r.files() {
		if shellName().MatchString(p) && len(paths) < maxReachFiles {
			paths = append(paths, p)
		}
	}
	return paths
}

// in are the files in a directory whose names count.
func (r *reacher) in(dir string, counts func(name string) bool) (paths []string) {
	for name := range r.names(dir) {
		if p := path.Join(dir, name); counts(name) && r.isFile(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
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

// shellTests takes in the shell scripts among the tests, also those that no command names:
// what they read is a part of the tests too.
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
		if real := r.real(p); real != p {
			r.note(real, true)
			r.out.sourced[real] = r.out.sourced[p]
		}
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

// real is a path without links in its directories.
func (r *reacher) real(p string) string {
	at := "."
	for i, part := range strings.Split(p, "/") {
		next := path.Join(at, part)
		if target, err := r.root.Readlink(next); err == nil && i < 40 {
			if next = path.Join(at, target); path.IsAbs(target) || !inside(next) {
				return p
			}
		}
		at = next
	}
	return at
}

// readByShells says whether a path is read into the shells of the tests, and by nothing
// else. One that the base does not have is so because of the directory that it lies in, or
// is a program that the shells would find there.
func (s *steering) readByShells(p string, inBase bool) bool {
	if s.sourced[p] || inBase {
		return s.sourced[p]
	}
	dir, name := path.Dir(p), path.Base(p)
	if s.readDirs[dir] && mayBeRead().MatchString(name) {
		return true
	}
	return s.pathDirs[dir] && slices.ContainsFunc(s.scripts, func(script shell.Script) bool {
		return slices.Contains(fileWords(script.Text), name)
	})
}

// with is the same for a patch: what its libraries read that they have not read before is
// a library too, where the patch brings or changes it.
func (s *steering) with(root *os.Root, patch []tree.Change) *steering {
	out := *s
	out.sourced, out.batsReads, out.reads = maps.Clone(s.sourced), maps.Clone(s.batsReads), map[string][]string{}
	inBase := map[string]bool{}
	for _, c := range patch {
		_, err := root.Lstat(c.Path)
		inBase[c.Path] = err == nil
	}
	for again := true; again; {
		again = false
		for _, c := range patch {
			shells, bats := out.readByShells(c.Path, inBase[c.Path]), out.batsReads[c.Path]
			if !shells && !bats {
				continue
			}
			for _, word := range newlyRead(root, c) {
				for _, p := range wordPaths([]string{".", path.Dir(c.Path)}, word) {
					if info, err := root.Stat(p); err == nil && info.Mode().IsRegular() && !slices.Contains(out.reads[c.Path], p) {
						out.reads[c.Path] = append(out.reads[c.Path], p)
					}
				}
				name := strings.TrimLeft(path.Base(word), ".")
				for p, there := range inBase {
					if name == "" || !strings.HasSuffix(p, name) || p == c.Path || out.covers(p, there) {
						continue
					}
					again = again || shells && !out.sourced[p] || bats && !out.batsReads[p]
					out.sourced[p], out.batsReads[p] = out.sourced[p] || shells, out.batsReads[p] || bats
				}
			}
		}
	}
	return &out
}

// newlyRead are the ends of the names of what a script reads by words that it did not have
// in the base. What cannot be read is said of the script by itself.
func newlyRead(root *os.Root, c tree.Change) (names []string) {
	before, err1 := textBefore(root, c.Path)
	after, err2 := textAfter(c)
	if err1 != nil || err2 != nil {
		return nil
	}
	had := shell.Sources(string(before))
	for _, word := range shell.Sources(string(after)) {
		if words := fileWords(shellVariable().ReplaceAllString(word, " ")); !slices.Contains(had, word) && len(words) > 0 {
			names = append(names, words[len(words)-1])
		}
	}
	return names
}

// takesShell says how a change of a file that the shells of the tests read takes something
// away from them, and "" where it does not: what else it does there is for the control.
// Functions of other files of the product are none of the tests.
func (s *steering) takesShell(root *os.Root, c tree.Change, isTest func(string) bool) string {
	before, err := textBefore(root, c.Path)
	if err != nil {
		return "it cannot be read in the base"
	}
	if c.Kind == tree.Delete {
		return "" // the tests miss it, if they need it
	}
	after, err := textAfter(c)
	if err != nil || after == nil {
		return "it is no file any more"
	}
	tests := slices.DeleteFunc(slices.Clone(s.scripts), func(script shell.Script) bool {
		return script.Path == c.Path || s.sourced[script.Path] && !isTest(script.Path)
	})
	return s.shadowed(root, c.Path, string(before), string(after), tests)
}

// shadowed says how the change of a library takes something away from tests, by itself or
// by a file of the base that it did not read before.
func (s *steering) shadowed(root *os.Root, p, before, after string, tests []shell.Script) string {
	if why := shell.Shadows(before, after, tests); why != "" {
		return why
	}
	for _, read := range s.reads[p] {
		text, err := textBefore(root, read)
		if err != nil {
			return "it reads " + read + " now, which cannot be read"
		}
		if why := shell.Shadows("", string(text), tests); why != "" {
			return "it reads " + read + " now, where " + why
		}
	}
	return ""
}
