package results

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"remit/proof/form"
)

// GoTest is the format of go test -json.
const GoTest = "gotest"

var goTest = &Adapter{
	Name: GoTest, Title: "go test", Tried: "Go 1.26",
	Asked:   "`-json -count=1` in the command",
	Check:   "every test that began has an end, no package passes with a failed test, exit status",
	Forgery: "code in the test process prints the lines of the testing package and exits; the twins show it",
	Config:  []string{`go\.work(?:\.sum)?`},
	Idioms:  []string{"if got != want { t.Error }", "t.Fatal", "require.Equal", "assert.Equal", "cmp.Diff"},
	call:    goCall, ask: askGo, read: readGoTest,
	line: func(line string) bool { _, ok := goEventOf([]byte(line)); return ok },
}

// goEvent is the part of a test2json event that decides. Output is left out on
// purpose: it is written by the code under test.
type goEvent struct {
	Action     string
	Package    string
	Test       string
	ImportPath string // of build events
}

// goPackage is what the events said about one package so far.
type goPackage struct {
	running map[string]bool // tests without an end yet
	failed  bool            // some test of it failed
	ended   string          // the package's own pass, fail or skip
}

// readGoTest reads `go test -json`. A test is "import/path.Test/sub". A package
// that fails without a failed test (it does not build, it panics outside of a
// test, TestMain exits) is a failed test "import/path"; a test that began and
// never ended is failed.
func readGoTest(r io.Reader) (*Report, error) {
	var c collector
	packages := make(map[string]*goPackage)
	in := newLines(r, &c)
	events := 0
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		e, ok := goEventOf(line)
		if !ok {
			continue // the go command may print a line of its own
		}
		events++
		name, _, _ := strings.Cut(cmp.Or(e.Package, e.ImportPath), " ") // "p [p.test]" is p
		if name == "" {
			continue
		}
		p := packages[name]
		if p == nil {
			if len(packages) >= MaxTests {
				c.lose("more than %d packages", MaxTests)
				continue
			}
			p = &goPackage{running: make(map[string]bool)}
			packages[name] = p
		}
		p.apply(&c, name, e)
		if e.Action == "output" && e.Test != "" {
			goMessage(&c, name+"."+e.Test, line)
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		packages[name].finish(&c, name)
	}
	rep := c.report(GoTest)
	rep.Complete = rep.Complete && events > 0
	return rep, nil
}

var goFailure = form.Lazy(`^\s+(\S+\.go:[0-9]+: .*)$`)

// goMessage takes what a test said at one of its lines. A test that passes says
// such things too; only those of failed tests are shown.
func goMessage(c *collector, id string, line []byte) {
	if !bytes.Contains(line, []byte(".go:")) {
		return
	}
	var e struct{ Output string }
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if m := goFailure().FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
		c.message(id, m[1])
	}
}

// goEventOf decodes a line that is an event of a known action.
func goEventOf(line []byte) (goEvent, bool) {
	var e goEvent
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return e, false
	}
	switch e.Action {
	case "start", "run", "pause", "cont", "pass", "bench", "fail", "output", "skip", "attr", "artifacts", "build-output", "build-fail":
		return e, true
	}
	return e, false
}

func (p *goPackage) apply(c *collector, name string, e goEvent) {
	switch e.Action {
	case "run":
		// A benchmark has no event at its end unless it fails.
		if len(p.running) < MaxTests && !strings.HasPrefix(e.Test, "Benchmark") {
			p.running[e.Test] = true
		}
	case "build-fail":
		p.failed = true
		c.fail(name)
	case "pass", "bench", "fail", "skip":
		if e.Test == "" {
			p.ended = e.Action
			return
		}
		delete(p.running, e.Test)
		p.failed = p.failed || e.Action == "fail"
		c.add(name+"."+e.Test, map[string]Outcome{"pass": Pass, "bench": Pass, "fail": Fail, "skip": Skip}[e.Action])
	}
}

func (p *goPackage) finish(c *collector, name string) {
	for _, test := range slices.Sorted(maps.Keys(p.running)) {
		c.problem("%s.%s began and never ended", cleanID(name), cleanID(test))
		c.add(name+"."+test, Fail)
		p.failed = true
	}
	switch {
	case p.ended == "fail" && !p.failed:
		c.fail(name)
	case p.ended == "pass" && p.failed:
		c.lose("package %s passed although a test of it failed", cleanID(name))
	case p.ended == "" && !p.failed:
		c.lose("package %s began and never ended", cleanID(name))
		c.fail(name)
	}
}
