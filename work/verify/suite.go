package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"remit/proof/form"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// The bounds of a suite. A test file beyond them is not controlled, and the
// report says so.
const (
	maxSuiteFiles = 2000
	maxSuiteBytes = 64 << 20
)

// The languages whose test files can be edited.
const (
	langGo         = "go"
	langPython     = "python"
	langJavaScript = "javascript"
	langRust       = "rust"
	langPHP        = "php"
	langRuby       = "ruby"
	langJava       = "java"
	langC          = "c" // and C++
	langBats       = "bats"
	langShell      = "shell" // scripts of sh and bash
)

// suite is the test files of a tree that can be edited, and what the runs of
// the base have shown about their tests.
type suite struct {
	files []*suiteFile
	// inTree has Go test files edited in the tree. Otherwise the compiler sees
	// the edited file and the running test the original one.
	inTree bool
	// hides are the first commands of the views in which files that are hidden are
	// gone while tests run.
	hides []int
	// framework takes the place of package testing, where the compiler sees edits.
	framework framework
	// left says why files are not part of the suite, one sentence a file, at
	// most maxLeft of them.
	left []string

	byPackage map[string]*suiteTest   // Go: import path, NUL, test
	byMethod  map[string]*suiteTest   // Python: methods of classes; nil where several have the name
	byModule  map[string]*suiteFile   // Python: every suffix of the dotted path; nil where several files have it
	titles    titleIndex              // JavaScript, Ruby and bats
	byPath    map[string][]*suiteTest // Rust: modules and name of a test
	byName    namedIndex              // PHP and Java
}

// maxLeft bounds suite.left.
const maxLeft = 20

// suiteFile is one test file.
type suiteFile struct {
	path, lang, key string
	sha256          string
	src             []byte
	pkg, version    string // Go: import path, and language version; Rust: crate, and the path in its package
	executable      bool
	heldOut         bool               // the agent never saw it
	hidden          bool               // Go: gone while tests run, in the views of suite.hides
	finder          string             // Python: what the finder said about the file
	found           *twin.PythonSource // the same, read
	edit            twin.File
	tests           []*suiteTest
}

// suiteTest is one test function.
type suiteTest struct {
	file  *suiteFile
	name  string
	title []string // JavaScript, Ruby and bats: see twin.Test
	alike int      // the same: how many other tests of the file have the title
	trace string   // its name in a trace
	sites []twin.Site
	why   string // why it has no site
	tried bool   // it was sabotaged on the base, and that had no effect
	baseFacts
}

// baseFacts are what the runs of the base have shown about a test.
type baseFacts struct {
	// Proved are sites that made it fail there, while it passed neutral.
	Proved []int `json:"proved,omitempty"`
	// Reached are the sites that its run comes by.
	Reached []int `json:"reached,omitempty"`
	// Failing is the evaluation of an assertion that failed there.
	Failing *twin.Order `json:"failing,omitempty"`
	// Outcome is what became of it there: pass, fail, skip, or "" where it did not
	// run, as in a package that the base cannot build.
	Outcome results.Outcome `json:"outcome,omitempty"`
	// Broken is set when it ran there, and did not with edits: the editor is the
	// cause, and nothing can be shown by it.
	Broken bool `json:"broken,omitempty"`
}

func (t *suiteTest) String() string { return t.file.path + ": " + t.name }

// goTestFile says whether the go command would compile a file as a test.
func goTestFile(p string) bool {
	if !strings.HasSuffix(p, "_test.go") {
		return false
	}
	for s := range strings.SplitSeq(p, "/") {
		if s == "testdata" || s == "vendor" || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "_") {
			return false
		}
	}
	return true
}

var pythonTestName = form.Lazy(`^(?:test.*|.*_test|.*_tests|tests?)\.py$`)

// pythonTestFile says whether a Python file holds tests, or parts of them, by its
// path or because results of it are known.
func pythonTestFile(p string, known map[string]bool) bool {
	return strings.HasSuffix(p, ".py") && (pythonTestName().MatchString(path.Base(p)) || known[p] || DefaultTestPath(p))
}

// loadSuite reads the test files of a tree. Python's own parser runs in the
// sandbox, over the tree, and executes nothing of it.
func (p *Plan) loadSuite(ctx context.Context, sb Sandbox, laid []tree.Change, ran []CommandResult) (*suite, error) {
	t, err := openTree(p, laid)
	if err != nil {
		return nil, fmt.Errorf("reading the tests: %w", err)
	}
	defer t.close()
	all, err := t.files()
	if err != nil {
		return nil, fmt.Errorf("reading the tests: %w", err)
	}
	s := &suite{}
	s.inTree = p.unconfined(sb)
	known := pythonFilesOf(ran)
	var python []*suiteFile
	total, bare := 0, ""
	heldOut := make(map[string]bool)
	for _, h := range p.HeldOut {
		heldOut[h.Path] = true
	}
	for _, name := range all {
		var lang string
		switch {
		case goTestFile(name):
			lang = langGo
		case pythonTestFile(name, known):
			lang = langPython
		case javaScriptTestFile(name):
			lang = langJavaScript
		case rustFile(name):
			lang = langRust
		case phpTestFile(name):
			lang = langPHP
		case rubyTestFile(name):
			lang = langRuby
		case javaTestFile(name):
			lang = langJava
		case cTestFile(name):
			lang = langC
		case twin.Bats(name):
			lang = langBats
		case shellTestFile(name):
			lang = langShell
		default:
			continue
		}
		src, err := t.read(name)
		if err == nil && (lang == langRust && !rustTestMark().Match(src) || lang == langShell && !shellScript(name, src)) {
			continue
		}
		if total += len(src); err == nil && (len(s.files) >= maxSuiteFiles || total > maxSuiteBytes) {
			err = errors.New("there are too many test files")
		}
		if err != nil {
			s.leave(name, err)
			continue
		}
		f := &suiteFile{path: name, lang: lang, key: "f" + strconv.Itoa(len(s.files)), src: src, executable: t.executable(name), heldOut: heldOut[name]}
		if lang == langPython {
			python = append(python, f)
		} else {
			switch lang {
			case langGo:
				f.pkg, f.version = t.module(path.Dir(name))
			case langRust:
				f.pkg, f.version = t.crate(name)
			}
			if err := f.parse(); err != nil {
				s.leave(name, err)
				continue
			}
			if lang != langGo && len(f.tests) == 0 {
				bare = cmp.Or(bare, f.path)
				continue // what tests use
			}
		}
		f.sha256 = f.digest(src)
		s.files = append(s.files, f)
	}
	if err := p.findPython(ctx, sb, laid, s, python); err != nil {
		return nil, err
	}
	s.leaveOwnStatus(t, all)
	if len(s.files) == 0 && bare != "" {
		s.leave(bare, errors.New("nothing in it can be edited"))
	}
	s.index()
	return s, nil
}

// has says whether the suite has files of a language.
func (s *suite) has(lang string) bool {
	return slices.ContainsFunc(s.files, func(f *suiteFile) bool { return f.lang == lang })
}

func (s *suite) leave(name string, err error) {
	if len(s.left) < maxLeft {
		s.left = append(s.left, fmt.Sprintf("%s: %v", name, err))
	}
}

// findPython asks Python's parser for the places of the files. Files that it
// says nothing usable about leave the suite.
func (p *Plan) findPython(ctx context.Context, sb Sandbox, laid []tree.Change, s *suite, files []*suiteFile) error {
	if len(files) == 0 {
		return nil
	}
	argv := []string{"python3", "-I", "-S", "-c", twin.PythonSites}
	for _, f := range files {
		argv = append(argv, f.path)
	}
	var out cappedBuffer
	limits := p.Limits
	limits.OutputBytes = maxFinder
	res, err := sb.Run(ctx, sandbox.Spec{Lower: p.Lower, Apply: laid, Env: runEnv, Binds: p.Binds, Limits: limits,
		Commands: []sandbox.Command{{Argv: argv, Stdout: &out, Stderr: io.Discard}}})
	if err != nil {
		return fmt.Errorf("looking for the assertions of the tests: %w", err)
	}
	why := errors.New("the parser of Python did not come to its end")
	if len(res.Commands) == 1 && res.Commands[0].Started && res.Commands[0].ExitCode == 0 {
		why = nil
	}
	lines := linesByPath(out.Bytes())
	for _, f := range files {
		f.finder, f.found = lines[f.path].text, lines[f.path].source
		err := why
		if err == nil {
			err = f.parse()
		}
		if err != nil {
			s.leave(f.path, err)
			s.files = slices.DeleteFunc(s.files, func(g *suiteFile) bool { return g == f })
		}
	}
	return nil
}

// maxFinder bounds what Python's parser may print.
const maxFinder = 64 << 20

// index makes the maps from identities to tests.
func (s *suite) index() {
	s.titles, s.byName = titleIndex{}, namedIndex{}
	s.byPackage, s.byModule, s.byMethod = make(map[string]*suiteTest), make(map[string]*suiteFile), make(map[string]*suiteTest)
	s.byPath = make(map[string][]*suiteTest)
	for _, f := range s.files {
		switch f.lang {
		case langGo:
			for _, t := range f.tests {
				if _, twice := s.byPackage[f.pkg+"\x00"+t.name]; !twice {
					s.byPackage[f.pkg+"\x00"+t.name] = t
				}
			}
		case langJavaScript, langRuby, langBats:
			s.titles.add(f)
		case langRust:
			s.addRust(f)
		case langPHP, langJava:
			s.byName.add(f)
		case langPython:
			s.addPython(f)
		}
	}
}

// oldestGo is the language version of a module whose go.mod states none.
const oldestGo = "go1.16"

// module is the Go import path of a directory, and the language version of its
// module, by the go.mod above it.
func (t *laidTree) module(dir string) (importPath, version string) { return moduleOf(t.read, dir) }

// moduleOf reads the go.mod above a directory. Without one the path is the
// directory's own, and the version the oldest.
func moduleOf(read func(path string) ([]byte, error), dir string) (importPath, version string) {
	for at := dir; ; at = path.Dir(at) {
		src, err := read(path.Join(at, "go.mod"))
		if err != nil && at != "." {
			continue
		}
		if err != nil {
			return dir, oldestGo
		}
		version = oldestGo
		if f, err := modfile.ParseLax("go.mod", src, nil); err == nil && f.Go != nil {
			version = "go" + f.Go.Version
		}
		return path.Join(modfile.ModulePath(src), strings.TrimPrefix(strings.TrimPrefix(dir, at), "/")), version
	}
}

// pythonFilesOf are the files that identities of pytest name.
func pythonFilesOf(ran []CommandResult) map[string]bool {
	out := make(map[string]bool)
	for i := range ran {
		for id := range ran[i].PerTest {
			if file, _, ok := strings.Cut(id, "::"); ok {
				out[file] = true
			}
		}
	}
	return out
}

var goTestName = form.Lazy(`\.(?:Test|Example|Fuzz|Benchmark)`)

// foundLine is a line of the finder and what it says.
type foundLine struct {
	text   string
	source *twin.PythonSource
}

// linesByPath are the lines of the finder by the path that they are about.
func linesByPath(out []byte) map[string]foundLine {
	lines := make(map[string]foundLine)
	for line := range bytes.Lines(out) {
		found, err := twin.ReadPython(bytes.NewReader(line))
		if err != nil {
			continue
		}
		for p, source := range found {
			lines[p] = foundLine{string(line), source}
		}
	}
	return lines
}

// cappedBuffer keeps what is written to it up to maxFinder bytes.
type cappedBuffer struct{ bytes.Buffer }

func (b *cappedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxFinder-b.Len())])
	return len(p), nil
}

// randomName is a name that the code under test cannot know before the run.
func randomName(r draw) string { return hex.EncodeToString(r.bytes(6)) }
