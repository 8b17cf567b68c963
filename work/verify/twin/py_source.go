package twin

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// PythonSites is the program that finds the tests and sites of Python files. It
// is run in the sandbox as
//
//	python3 -I -S -c PythonSites PATH...
//
// with at most [MaxPythonFiles] paths relative to the working directory, and
// writes one line of JSON for each path as soon as it has looked at it;
// [ReadPython] reads them. It parses the files and executes nothing of them. It
// needs Python 3.8 or later, and should be run by the interpreter that runs the
// tests, since each version accepts a grammar of its own.
//
// Out of reach are: doctests (named "doctest:" and what has them, with a reason),
// tests that are made at run time, assertions in functions that tests share, and
// tests that read their own source (inspect). A test that several classes of its
// file run has only sites of the kind fail, for each class its own; if classes of
// other files inherit a test they may fail with it, which a run on the base shows.
//
//go:embed py_sites.py
var PythonSites string

// Bounds of what the program may say, in files, bytes, tests and sites.
const (
	MaxPythonFiles = 2000

	maxPythonOutput = 64 << 20
	maxPythonLine   = 16 << 20
	maxPythonSource = 2 << 20
	maxPythonTests  = 5000
	maxPythonSites  = 20000
	maxPythonName   = 200
	maxPythonError  = 300
)

// PythonSource is what the program said of one file. Nothing in it is believed
// before [PythonSource.Bind] compared it with the text.
type PythonSource struct {
	path    string
	digest  string
	problem string
	helpers int
	tests   []pyTest
}

// pyTest is one test function as the program describes it.
type pyTest struct {
	Name  string   `json:"name"`
	At    int      `json:"at"`
	Why   string   `json:"why"`
	End   bool     `json:"end"` // the last site is reached only if the test passed
	Sites []pySite `json:"sites"`
}

// pySite is one place; py_sites.py explains the forms.
type pySite struct {
	Kind     Kind   `json:"kind"`
	Form     string `json:"form"`
	Place    string `json:"place"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Negative bool   `json:"negative"`
	Self     string `json:"self"`
	Owner    string `json:"owner"`
	Indent   []int  `json:"indent"`
	Certain  bool   `json:"certain"`
	// Of a value: the literals in it, and for a name those of each row of its table
	// or of the one value that it stands for.
	Leaves [][]int   `json:"leaves"`
	Rows   [][][]int `json:"rows"`
	Origin [][]int   `json:"origin"`
	// Way is how another literal differs from the one that is there.
	Way way `json:"way"`
	// Whole says that a value is compared for equality, with no tolerance.
	Whole bool `json:"whole"`
	// All says that each of the literals is another one.
	All   bool `json:"all"`
	Loose bool `json:"loose"`
	// Of a comparison, or two arguments: where its operator is, and what another pair
	// of sides does not fulfil.
	Operator []int  `json:"operator"`
	Fails    string `json:"fails"`
}

// pyLine is a line of the program's output.
type pyLine struct {
	Path    string   `json:"path"`
	SHA256  string   `json:"sha256"`
	Error   string   `json:"error"`
	Helpers int      `json:"helpers"`
	Tests   []pyTest `json:"tests"`
}

// ReadPython reads the output of [PythonSites], at most 64 MiB, and returns what
// it says by path. A path without an entry was not looked at. A line that is not
// what the program writes is an error: what else the process said is then not
// worth having.
func ReadPython(out io.Reader) (map[string]*PythonSource, error) {
	limited := &io.LimitedReader{R: out, N: maxPythonOutput + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 64<<10), maxPythonLine)
	found := make(map[string]*PythonSource)
	for lines.Scan() {
		if limited.N <= 0 {
			break
		}
		s, err := readPythonLine(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("read Python sites, line %d: %w", len(found)+1, err)
		}
		if found[s.path] != nil {
			return nil, fmt.Errorf("read Python sites, line %d: a path that was there before", len(found)+1)
		}
		if len(found) == MaxPythonFiles {
			return nil, fmt.Errorf("read Python sites: more than %d files", MaxPythonFiles)
		}
		found[s.path] = s
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read Python sites: %w", err)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("read Python sites: more than %d bytes", maxPythonOutput)
	}
	return found, nil
}

// readPythonLine decodes one line and holds it to the bounds.
func readPythonLine(line []byte) (*PythonSource, error) {
	var l pyLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("text behind the object")
	}
	if l.Path == "" || len(l.Path) > 4096 {
		return nil, errors.New("no path, or one that is too long")
	}
	if len(l.Tests) > maxPythonTests {
		return nil, fmt.Errorf("more than %d tests", maxPythonTests)
	}
	sites := 0
	for _, t := range l.Tests {
		sites += len(t.Sites)
	}
	if sites > maxPythonSites {
		return nil, fmt.Errorf("more than %d sites", maxPythonSites)
	}
	return &PythonSource{path: l.Path, digest: l.SHA256, problem: printable(l.Error), helpers: l.Helpers, tests: l.Tests}, nil
}

// printable makes text of the process fit for a message: one line, no control
// characters, bounded.
func printable(s string) string {
	if len(s) > maxPythonError {
		s = s[:maxPythonError]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || (r >= 0x80 && r < 0xa0) || (r >= 0x2028 && r <= 0x202e) {
			return ' '
		}
		return r
	}, s)
}

// Bind returns the file that can be edited. It refuses a text that is not the
// one that was parsed, and places that cannot be there: outside of the text or
// of their test, within a character, or overlapping.
func (p *PythonSource) Bind(src []byte) (File, error) {
	if p.problem != "" {
		return nil, fmt.Errorf("edit %s: %s", p.path, p.problem)
	}
	sum := sha256.Sum256(src)
	if hex.EncodeToString(sum[:]) != p.digest {
		return nil, fmt.Errorf("edit %s: the text is not the one that was parsed", p.path)
	}
	if len(src) > maxPythonSource || !utf8.Valid(src) {
		return nil, fmt.Errorf("edit %s: the text is too long, or not UTF-8", p.path)
	}
	f, err := bindPython(p, bytes.Clone(src), sum)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", p.path, err)
	}
	return f, nil
}
