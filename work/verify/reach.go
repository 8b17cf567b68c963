package verify

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"remit/work/verify/results"
	"remit/work/verify/shell"
)

// steering is what decides what the commands mean besides the tests and the
// configuration of their runners: makefiles, scripts, plugins. The patch may not
// redefine the question that it has to answer, so these files are treated like
// tests.
//
// A file that a command names is followed to the files that it names, and so
// on, as far as they are files of the base. A script that is called may be the
// product as well: sh run_tests.sh calls slug.sh, which the patch is to mend. So
// what is called counts only when it is a part of the machinery: it runs tests,
// its name says that it checks something, or it lies in a directory for tools.
// What a script reads into itself (an include, a sourced file) always counts.
type steering struct {
	makefiles bool                // every file that make may read
	files     map[string]bool     // by path; true: also when the base does not have it
	targets   []target            // what the commands make of nothing, or read if it is there
	suffixes  map[string]bool     // of files that makefiles include
	searched  map[string]bool     // names of sources, where a makefile has make search directories for them
	cmake     bool                // its modules and presets
	standing  []string            // targets that are files of the base, so that make does nothing for them
	sourced   map[string]bool     // of the files those that count for nothing but that shell scripts of the tests read them
	scripts   []shell.Script      // the shell scripts of the tests
	readDirs  map[string]bool     // directories of which such scripts read all
	pathDirs  map[string]bool     // and from which they take programs
	bats      []shell.Script      // the files of bats, and what they load among the tests
	batsReads map[string]bool     // the other files that they read
	reads     map[string][]string // by a file of a patch, what of the base it did not read before
	outputs   map[int]bool        // which of the outputs count
	// commands are the commands of the plan, and the calls of npm scripts that
	// were found behind them.
	commands []string
}

// covers says whether a path is one of the files. A script that is new where the
// base has none was never called, unless it is read where it exists; a makefile
// of another name can take the place of the one that is there.
func (s *steering) covers(p string, inBase bool) bool {
	evenNew, named := s.files[p]
	return named && (inBase || evenNew) || s.makefiles && makefile().MatchString(p) || s.cmake && inBase && cmakeFile().MatchString(p)
}

// Bounds of the search. What lies beyond them is code like any other.
const (
	maxReachFiles = 200
	maxReachDepth = 8
	maxReachWords = 4000   // of one text
	maxReachLooks = 20_000 // for files, in all
	maxReachDirs  = 16     // that a text changes into
)

// how a file was named.
type how int

const (
	called  how = iota
	named       // by a command itself, in a way that leaves no doubt
	readIn      // part of the text that names it
	sourced     // read by a shell script, and a part of the tests if that is one
)

// reacher follows the names in commands and scripts.
type reacher struct {
	root *os.Root
	out  *steering
	seen map[string]bool // whether it counts; false also while it is looked at
	// listed are the directories that were looked at: of each its names.
	listed map[string]map[string]bool
	opens  int
	looks  int
	makes  map[string]*rules // by the directory that make runs in
	// vpath says that a makefile has directories searched.
	vpath bool
	// included are read in every one of them.
	included []included
	goals    map[string]bool // words that may be targets
	// isTest says which paths hold tests.
	isTest func(string) bool
	// readers are the scripts that read a file, "" for a command; texts are the shell
	// scripts that were looked at.
	readers map[string][]string
	texts   map[string]string
	all     []string // the files of the base
	bound   int      // how many files may be opened
}

func newReacher(root *os.Root, commands []string, isTest func(string) bool) *reacher {
	out := &steering{
		files: map[string]bool{}, outputs: map[int]bool{}, suffixes: map[string]bool{}, searched: map[string]bool{},
		sourced: map[string]bool{}, batsReads: map[string]bool{}, readDirs: map[string]bool{}, pathDirs: map[string]bool{}, commands: slices.Clone(commands),
	}
	return &reacher{
		root: root, out: out, seen: map[string]bool{}, listed: map[string]map[string]bool{}, makes: map[string]*rules{}, goals: map[string]bool{},
		isTest: isTest, bound: maxReachFiles, readers: map[string][]string{}, texts: map[string]string{},
	}
}

// reach finds what steers the commands. It reads the base only: what the patch
// says is never followed.
func reach(root *os.Root, commands []string, isTest func(string) bool) *steering {
	r := newReacher(root, commands, isTest)
	unnamed := false // whether a command does not name its tests
	for _, command := range commands {
		command = linted().ReplaceAllString(command, "")
		r.goal(command)
		r.builds(r.dirsOf(command, "."), command)
		_, runner, _ := results.Augment(command)
		plain := results.NamesTests(runner)
		readBy := sources.all(command, maxReachWords)
		unnamed = unnamed || !plain
		for i, w := range splitWords().Split(command, -1) {
			base := path.Base(w)
			// The arguments of a known runner are tests, which have their own rule.
			read := slices.ContainsFunc(readBy, func(m []string) bool { return m[1] == w })
			if !plain && !read && scriptWord().MatchString(w) && (scriptName().MatchString(base) || i == 0 && strings.HasPrefix(w, "./")) {
				r.visit(path.Clean(w), named, 0, false)
			}
		}
		r.options(r.dirsOf(command, "."), command)
		if !plain {
			for _, w := range fileWords(command) {
				r.tool(r.dirsOf(command, "."), path.Base(w), 0)
			}
			r.follow(command, "", ".", 0, false)
		}
	}
	r.plugins(commands)
	r.settleMake()
	if unnamed {
		r.shellTests()
	}
	r.settleSourced(commands)
	r.batsTests()
	return r.out
}

// follow visits everything that a text names, that of a file or of a command. It
// reports whether the text runs tests, itself or by what it calls.
func (r *reacher) follow(text, file, dir string, depth int, isTest bool) bool {
	text = linted().ReplaceAllString(callsMake.Replace(text), "")
	runs := runsTests.in(text)
	dirs := r.dirsOf(text, dir)
	r.builds(dirs, text)
	runs = r.sources(text, file, dirs, depth, isTest) || runs
	for _, m := range includes.all(text, maxReachWords) {
		for _, w := range fileWords(strings.Join(m[1:], " ")) {
			runs = r.visitAll(dirs, w, readIn, depth, isTest) || runs
		}
	}
	r.options(dirs, text)
	for _, m := range callsTool.all(text, maxReachWords) {
		runs = r.tool(dirs, m[1], depth) || runs
	}
	for _, w := range fileWords(text) {
		runs = r.visitAll(dirs, w, called, depth, isTest) || runs
	}
	for _, m := range goRun.all(text, maxReachDirs) {
		for _, d := range dirs {
			runs = r.program(path.Join(d, m[1]), depth) || runs
		}
	}
	for _, m := range runModule.all(text, maxReachDirs) {
		for _, file := range moduleFiles(m[1]) {
			runs = r.visitAll(dirs, file, called, depth, isTest) || runs
		}
	}
	for _, m := range npmScript.all(text, maxReachWords) {
		runs = r.npm(dirs, m[1], depth) || runs
	}
	return runs
}

// options takes in the files that options of runners name.
func (r *reacher) options(dirs []string, text string) {
	for _, m := range namesConfig.all(text, maxReachWords) {
		for _, d := range dirs {
			if p := path.Join(d, m[1]); inside(p) && r.exists(p) {
				r.note(p, false)
			}
		}
	}
}

// tool looks at what a program reads by itself.
func (r *reacher) tool(dirs []string, program string, depth int) (runs bool) {
	reads := ownFiles[program]
	makes := strings.HasSuffix(program, "make")
	r.out.makefiles = r.out.makefiles || makes
	if program == "rake" {
		r.out.suffixes[".rake"] = true
	}
	for _, d := range dirs {
		for _, name := range reads {
			p := path.Join(d, name)
			if !makes {
				r.note(p, true) // a new one can come before the one that is there
			}
			if r.exists(p) {
				runs = r.visit(p, named, depth, false) || runs
			}
		}
	}
	return runs
}

// ownFiles are the files that programs read by themselves, as they look for them.
var ownFiles = map[string][]string{
	"make":  {"GNUmakefile", "makefile", "Makefile"},
	"gmake": {"GNUmakefile", "makefile", "Makefile"},
	"just":  {"justfile", "Justfile", "JUSTFILE", ".justfile", ".Justfile", ".JUSTFILE"},
	"task": {"Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml",
		"Taskfile.dist.yml", "taskfile.dist.yml", "Taskfile.dist.yaml", "taskfile.dist.yaml", ".taskrc.yml", ".taskrc.yaml"},
	"rake": {"rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"},
	"tox":  {"tox.ini", "tox.toml"},
	"nox":  {"noxfile.py"},
	"mix":  {"mix.exs"},
	"sbt":  {"build.sbt"},
}

// dirsOf are the directories that the names in a text may be relative to: the
// top, its own, and those that it changes into.
func (r *reacher) dirsOf(text, dir string) []string {
	dirs := []string{"."}
	add := func(d string) {
		if inside(d) && len(dirs) < maxReachDirs && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	add(path.Clean(dir))
	at := dir
	for _, m := range changesDir.all(text, maxReachDirs) {
		add(path.Clean(m[1]))
		add(path.Join(dir, m[1]))
		at = path.Join(at, m[1])
		add(at)
	}
	return dirs
}

func inside(p string) bool {
	return !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}

func (r *reacher) visitAll(dirs []string, word string, by how, depth int, isTest bool) (runs bool) {
	first, _, _ := strings.Cut(fileWord(word), "/")
	for _, d := range dirs {
		if by == called && !strings.HasPrefix(first, ".") && !r.names(d)[first] {
			continue // most words are no names, and looking at each would take its time
		}
		for _, p := range wordPaths([]string{d}, word) {
			runs = r.visit(p, by, depth, isTest) || runs
		}
	}
	return runs
}

// names are the names in a directory of the base, as far as they are looked at.
func (r *reacher) names(dir string) map[string]bool {
	if known, done := r.listed[dir]; done {
		return known
	}
	names := map[string]bool{}
	if f, err := r.root.Open(dir); err == nil {
		list, _ := f.Readdirnames(maxReachLooks) // what is no directory has none
		f.Close()
		for _, name := range list {
			names[name] = true
		}
	}
	r.listed[dir] = names
	return names
}

// visit looks at one file and decides whether it counts. It reports whether the
// file is a part of the machinery that runs tests.
func (r *reacher) visit(p string, by how, depth int, fromTest bool) bool {
	if by == named || by == readIn {
		r.note(p, by == readIn)
	}
	if counts, done := r.seen[p]; done || depth > maxReachDepth {
		return counts || done && by != called && by != sourced
	}
	text, mode, ok := r.read(p)
	if !ok || by == called && !isScriptFile(p, text, mode) {
		r.seen[p] = false
		return false
	}
	r.seen[p] = by == named || by == readIn
	if isShell(p, text) || by == sourced {
		r.texts[p] = text
	}
	if r.out.makefiles && (by == readIn || makefile().MatchString(p)) {
		r.makefile(p, text, by)
		r.readsOf(r.dirsOf("", path.Dir(p)), text)
	} else {
		r.goal(text)
	}
	asks := asksName().MatchString(path.Base(p)) || testNames().MatchString(path.Base(p))
	if by == sourced { // a library for tests, and not one that checks something
		asks = testLibrary().MatchString(path.Base(p))
		text = remark().ReplaceAllString(text, "$1")
	}
	runs := r.follow(text, p, path.Dir(p), depth+1, asks || r.isTest(p) || fromTest && by != called && by != named)
	counts := by == named || by == readIn || runs || asks || !fromTest && by != sourced && inToolDir(p)
	if counts {
		r.note(p, false)
		r.linkTarget(p)
	}
	r.seen[p] = counts
	return counts
}

// note adds a file to what steers the commands.
func (r *reacher) note(p string, evenNew bool) { r.out.files[p] = r.out.files[p] || evenNew }

// linkTarget takes the file behind a link in as well.
func (r *reacher) linkTarget(p string) {
	if target, err := r.root.Readlink(p); err == nil {
		if t := path.Join(path.Dir(p), target); inside(t) {
			r.note(t, false)
		}
	}
}

func inToolDir(p string) bool {
	segments := strings.Split(path.Dir(p), "/")
	return slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(toolDirs, s) })
}

func isScriptFile(p, text string, mode os.FileMode) bool {
	return strings.HasPrefix(text, "#!") || scriptExt().MatchString(p) || mode.Perm()&0o100 != 0 || makefile().MatchString(p)
}

// program visits the sources of a Go program that is run from the tree.
func (r *reacher) program(dir string, depth int) (runs bool) {
	if !inside(dir) {
		return false
	}
	f, err := r.root.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxReachFiles) // a file has none
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if path.Ext(p) != ".go" || testNames().MatchString(e.Name()) {
			continue
		}
		if text, _, ok := r.read(p); ok && (runsTests.in(text) || inToolDir(p) || asksName().MatchString(path.Base(dir))) {
			r.note(p, false)
			runs = true
		}
	}
	return runs
}

func (r *reacher) exists(p string) bool {
	if r.looks++; r.looks > maxReachLooks {
		return false
	}
	_, err := r.root.Lstat(p)
	return err == nil
}

// read returns a regular file of the base, at most maxConfig bytes, and its
// mode. A link is followed inside of the base only.
func (r *reacher) read(p string) (text string, mode os.FileMode, ok bool) {
	if r.looks++; r.looks > maxReachLooks {
		return "", 0, false
	}
	if info, err := r.root.Stat(p); err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig || r.opens >= r.bound {
		return "", 0, false
	}
	r.opens++
	f, err := r.root.Open(p)
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, false
	}
	src, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(src), info.Mode(), err == nil
}
