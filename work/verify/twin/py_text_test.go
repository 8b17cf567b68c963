package twin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// describe writes the sites of a file as "kind/form text", one a line, below the
// names of their tests.
func describe(f File) string {
	var b strings.Builder
	p := f.(*pyFile)
	for _, t := range f.Tests() {
		fmt.Fprintf(&b, "%s@%d %s\n", t.Name, t.Line, t.Why)
		for _, s := range t.Sites {
			place := p.sites[s.ID]
			text := p.src[place.Start:place.End]
			if s.Kind == Fail {
				text = fmt.Appendf(nil, "%s@%d", place.Place, s.Line)
			}
			fmt.Fprintf(&b, "  %s/%s %s\n", s.Kind, place.Form, text)
		}
	}
	return b.String()
}

// TestPythonSites: which places are found, and which are left alone.
func TestPythonSites(t *testing.T) {
	t.Parallel()
	needPython(t)
	for name, c := range map[string]struct{ src, want string }{
		"assert": {"def test_a():\n    x = f()\n    assert x == 3, 'why'\n", `
test_a@1 
  fail/after first@2
  flip/cond x == 3
  expect/value 3
  fail/after end@3`},
		"expected on the left": {"def test_a():\n    assert 'want' == f() and g() is None\n", `
test_a@1 
  flip/cond 'want' == f() and g() is None
  expect/value 'want'
  expect/value None
  fail/after first@2`},
		"no expected value": {"def test_a():\n    assert f() == g()\n    assert x != 3\n    assert x < 3\n    assert False, 'never'\n", `
test_a@1 
  flip/cond f() == g()
  fail/after first@2
  flip/cond x != 3
  flip/cond x < 3
  expect/value 3
  fail/after end@5`},
		"raises": {"def test_a():\n    with pytest.raises(E) as e:\n        f()\n    with pytest.raises(SystemExit):\n        f()\n", `
test_a@1 
  expect/value E
  fail/newline end@5`},
		"swallowed": {"def test_a():\n    try:\n        assert a\n    except Exception:\n        pass\n    with suppress(AssertionError):\n        assert b\n    try:\n        assert c\n    except KeyError:\n        assert d\n    else:\n        assert e\n    finally:\n        g()\n\n\nx = 1\n", `
test_a@1 
  flip/cond c
  flip/cond d
  flip/cond e
  fail/line end@16`},
		"nested": {"def test_a():\n    def inner():\n        assert x\n    class C:\n        assert y\n    return inner()\n", `
test_a@1 
  fail/before end@6`},
		"testcase": {"class A(TestCase):\n    def test_a(this):\n        'doc'\n        with x:\n            this.assertEqual(f(), want)\n        raise SkipTest\n", `
A.test_a@2 
  fail/after cleanup@3
  flip/call this.assertEqual
  expect/value want
  fail/after first@5`},
		"other arguments": {"class A(TestCase):\n    def test_a(self):\n        self.assertEqual(*x)\n        self.assertEqual(first=1, second=2)\n        self.assertAlmostEqual(a, b, delta=3)\n        self.assertTrue(x for x in y)\n", `
A.test_a@2 
  fail/before cleanup@3
  fail/after first@3
  fail/after end@6`},
		"own assertion": {"class A(TestCase):\n    def assertIn(self, a, b): pass\n    def test_a(self):\n        self.assertIn(1, x)\n", `
A.test_a@3 
  fail/before cleanup@4
  fail/after first@4`},
		"generator and marks": {"def test_a():\n    yield 1\n@xfail\ndef test_b(): pass\nclass TestC:\n    pytestmark = [pytest.mark.flaky]\n    def test_c(self): pass\n", `
test_a@1 a generator: its body is not run as a test
test_b@4 it is marked as expected to fail, or to be run again
TestC.test_c@7 it is marked as expected to fail, or to be run again`},
		"inherited": {"class M:\n    def test_m(self): f()\nclass N:\n    def test_n(self): f()\nclass A(M, N, TestCase): pass\nclass B(N, TestCase): pass\nclass O:\n    def test_o(self): f()\n", `
A.test_m@2 
  fail/after first@2
A.test_n@4 
  fail/after first@4
B.test_n@4 
  fail/after first@4
O.test_o@8 its class is run only through classes that inherit from it`},
		"called": {"def test_a(): f()\ndef test_b(): test_a()\nclass T(TestCase):\n    def test_c(self): f()\n    def test_d(self): self.test_c()\nif __name__ == '__main__':\n    test_b()\n", `
test_a@1 other code of the file calls it
test_b@2 
  fail/after first@2
T.test_c@4 other code of the file calls it
T.test_d@5 
  fail/before cleanup@5
  fail/after first@5`},
		"loaded": {"def test_a(): f()\ndef test_b(): f()\nC = test_a(1)\nif x:\n    test_b()\n", `
test_a@1 other code of the file calls it
test_b@2 
  fail/after first@2`},
		"twice": {"def test_a(): f()\ndef test_a(): g()\n", `
test_a@1 it is defined more than once`},
		"doctest": {"\"\"\"\n>>> 1\n1\n\"\"\"\ndef f():\n    \"\"\"\n    >>> f()\n    \"\"\"\n", `
doctest:__doc__@1 a doctest
doctest:f@5 a doctest`},
		"byte order mark": {"\ufeffdef test_ü():\n    assert 'ü' == f('ö') # ä\n", `
test_ü@1 
  flip/cond 'ü' == f('ö')
  expect/value 'ü'
  fail/after first@2`},
		"mock and numpy": {"def test_a():\n    m.assert_called_once_with(1, x=2)\n    np.testing.assert_allclose(f(), [1, 2])\n", `
test_a@1 
  expect/value 1
  expect/value 2
  fail/after first@2
  expect/value [1, 2]
  fail/after end@3`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mustBind(t, c.src)
			if got := describe(f); got != strings.TrimPrefix(c.want, "\n")+"\n" {
				t.Errorf("got:\n%s\nwant:%s", got, c.want)
			}
			mustEdit(t, f, Orders{})
		})
	}
}

// TestPythonUnfit: a file that cannot be edited is an error that says why.
func TestPythonUnfit(t *testing.T) {
	t.Parallel()
	needPython(t)
	for name, c := range map[string]struct{ src, want string }{
		"latin 1":         {"# coding: latin-1\ndef test_a(): assert '\xe9'\n", "encoding"},
		"not UTF-8":       {"def test_a(): assert '\xe9'\n", "encoding"},
		"unknown coding":  {"# coding: nonsense\n", "nonsense"},
		"not Python":      {"def test_a(:\n", "not Python"},
		"carriage return": {"x = 1\rdef test_a(): f()\n", "carriage return"},
		"redefined":       {"from x import y as isinstance\ndef test_a(): f()\n", "redefines isinstance"},
		"zero byte":       {"x = 1\x00\n", "null byte"},
		"deep":            {"x = " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + "\n", ""},
		"long name":       {"def test_" + strings.Repeat("a", 300) + "(): f()\n", "name of more"},
		"large":           {"#" + strings.Repeat("a", maxPythonSource), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := bindText(t, c.src); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "test_link.py")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"test_link.py", "missing.py", "."} {
		if _, err := findPython(t, dir, path)[path].Bind(nil); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// TestPythonExecutesNothing: the program parses files and runs nothing of them,
// and takes no module from the tree.
func TestPythonExecutesNothing(t *testing.T) {
	t.Parallel()
	needPython(t)
	dir := t.TempDir()
	trap := []byte("open('trap', 'w')\nraise SystemExit(3)\n")
	for _, name := range []string{"ast.py", "json.py", "sitecustomize.py", "test_it.py", "conftest.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), trap, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := findPython(t, dir, "test_it.py")["test_it.py"].Bind(trap); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "trap")); err == nil {
		t.Error("the tree was executed")
	}
}

// TestPythonOrders: orders for what is not there are errors.
func TestPythonOrders(t *testing.T) {
	t.Parallel()
	needPython(t)
	f := mustBind(t, "def test_a():\n    assert f() == 1\ndef test_b():\n    assert f() == 1\n")
	for name, o := range map[string]Orders{
		"unknown test":        {Sabotage: map[string]Order{"test_c": {}}},
		"site of another":     {Sabotage: map[string]Order{"test_a": {Site: 3}}},
		"negative site":       {Sabotage: map[string]Order{"test_a": {Site: -1}}},
		"large site":          {Sabotage: map[string]Order{"test_a": {Site: 99}}},
		"negative evaluation": {Sabotage: map[string]Order{"test_a": {Evaluation: -1}}},
		"trace without key":   {Trace: "/tmp/x"},
		"key with a quote":    {Trace: "/tmp/x", Key: `a"b`},
		"path with a zero":    {Trace: "/tmp/x\x00", Key: "a"},
	} {
		if _, err := f.Edit(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

var pyDigits = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"|True|False|-?[0-9]+(?:\.[0-9]+)?`)

// TestPythonValuesOnly: with one seed, a neutral and a sabotaged file differ in
// literals only; nothing of the text is removed, and lines keep their numbers.
func TestPythonValuesOnly(t *testing.T) {
	t.Parallel()
	needPython(t)
	f := mustBind(t, pyProject)
	seen := make(map[string]bool)
	for n := range 30 {
		sabotage := make(map[string]Order)
		for i, test := range f.Tests() {
			if len(test.Sites) > 0 && i%2 == n%2 {
				sabotage[test.Name] = Order{Site: test.Sites[n%len(test.Sites)].ID, Evaluation: n % 3}
			}
		}
		neutral, bad := mustEdit(t, f, Orders{Seed: seed(n)}), mustEdit(t, f, Orders{Seed: seed(n), Sabotage: sabotage})
		if bytes.Equal(neutral, bad) {
			t.Fatalf("seed %d: nothing is sabotaged", n)
		}
		a, b := pyDigits.ReplaceAll(neutral, []byte("0")), pyDigits.ReplaceAll(bad, []byte("0"))
		if !slices.Equal(sortedLines(a), sortedLines(b)) {
			t.Errorf("seed %d: the form tells the two apart", n)
		}
		if seen[string(a)] {
			t.Errorf("seed %d: an edit that was there before", n)
		}
		seen[string(a)] = true
		keepsText(t, pyProject, string(neutral))
	}
}

func sortedLines(text []byte) []string {
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	return lines
}

// pyOperators are operators in whose place a comma comes.
var pyOperators = regexp.MustCompile(` (?:not +)?in |[<>]=?`)

// keepsText checks that each character of the old text but those of operators is in
// the new one, in order, and that the first lines of both are the same lines.
func keepsText(t *testing.T, before, after string) {
	t.Helper()
	rest := after
	for line := range strings.SplitSeq(before, "\n") {
		for _, r := range pyOperators.ReplaceAllString(line, "") {
			i := strings.IndexRune(rest, r)
			if i < 0 {
				t.Fatalf("%q is lost", line)
			}
			rest = rest[i+1:]
		}
	}
	head, _, _ := strings.Cut(before, "class Later")
	lines := strings.Split(after, "\n")
	number := strings.Count(head, "\n")
	// Two bodies end in a block with a comment or a definition right behind it.
	if got := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "class Later") }); got != number+2 {
		t.Errorf("line %d became %d", number, got)
	}
}

// pySource makes what the program would say of a text.
func pySource(src string, edit func(*pyLine)) *PythonSource {
	sum := sha256.Sum256([]byte(src))
	l := pyLine{Path: "a.py", SHA256: hex.EncodeToString(sum[:]), Helpers: len(src), Tests: []pyTest{{
		Name: "test_a", Sites: []pySite{
			{Kind: Flip, Form: "cond", Start: 21, End: 27},
			{Kind: Expect, Form: "value", Start: 26, End: 27},
			{Kind: Fail, Form: "after", Place: "end", Start: 27, End: 27},
		}}}}
	edit(&l)
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	s, err := readPythonLine(raw)
	if err != nil {
		panic(err)
	}
	return s
}

// TestPythonBind: what the process says is compared with the text.
func TestPythonBind(t *testing.T) {
	t.Parallel()
	const src = "def test_a(): assert x == 3\n# é\n"
	if _, err := pySource(src, func(*pyLine) {}).Bind([]byte(src)); err != nil {
		t.Fatal(err)
	}
	site := func(i int, f func(*pySite)) func(*pyLine) {
		return func(l *pyLine) { f(&l.Tests[0].Sites[i]) }
	}
	for name, edit := range map[string]func(*pyLine){
		"error":                func(l *pyLine) { l.Error = "broken" },
		"digest":               func(l *pyLine) { l.SHA256 = strings.Repeat("0", 64) },
		"functions outside":    func(l *pyLine) { l.Helpers = 99 },
		"functions in a line":  func(l *pyLine) { l.Helpers = 5 },
		"functions before":     func(l *pyLine) { l.Helpers = -1 },
		"no name":              func(l *pyLine) { l.Tests[0].Name = "" },
		"name with a quote":    func(l *pyLine) { l.Tests[0].Name = "a\"b" },
		"name with a space":    func(l *pyLine) { l.Tests[0].Name = "a b" },
		"long name":            func(l *pyLine) { l.Tests[0].Name = strings.Repeat("a", 201) },
		"name twice":           func(l *pyLine) { l.Tests = append(l.Tests, pyTest{Name: "test_a", Why: "x"}) },
		"test outside":         func(l *pyLine) { l.Tests[0].At = 99 },
		"reason and sites":     func(l *pyLine) { l.Tests[0].Why = "x" },
		"neither":              func(l *pyLine) { l.Tests[0].Sites = nil },
		"site before the test": func(l *pyLine) { l.Tests[0].At = 25 },
		"unknown kind":         site(0, func(s *pySite) { s.Kind = "magic" }),
		"form of another":      site(0, func(s *pySite) { s.Form = "value" }),
		"negative offset":      site(0, func(s *pySite) { s.Start = -1 }),
		"offset outside":       site(0, func(s *pySite) { s.End = 1 << 40 }),
		"backwards":            site(0, func(s *pySite) { s.End = 3 }),
		"within a character":   site(0, func(s *pySite) { s.End = 31 }),
		"overlap":              site(1, func(s *pySite) { s.Start, s.End = 25, 28 }),
		"same place":           site(1, func(s *pySite) { s.Start, s.End = 21, 27 }),
		"empty expression":     site(1, func(s *pySite) { s.End = 26 }),
		"not an assertion":     site(0, func(s *pySite) { s.Form = "call" }),
		"statement inside":     site(2, func(s *pySite) { s.Start, s.End = 23, 23 }),
		"statement of length":  site(2, func(s *pySite) { s.End = 28 }),
		"behind half":          site(2, func(s *pySite) { s.Start, s.End = 12, 12 }),
		"not a blank line":     site(2, func(s *pySite) { s.Form, s.Indent = "line", []int{13, 14} }),
		"no indent":            site(2, func(s *pySite) { s.Form = "newline" }),
		"indent of text":       site(2, func(s *pySite) { s.Form, s.Indent = "newline", []int{3, 6} }),
		"indent backwards":     site(2, func(s *pySite) { s.Form, s.Indent = "newline", []int{14, 13} }),
		"owner without self":   site(2, func(s *pySite) { s.Owner = "A" }),
		"owner that is text":   site(2, func(s *pySite) { s.Self, s.Owner = "self", "a\"b" }),
		"cleanup of nothing":   site(2, func(s *pySite) { s.Place = "cleanup" }),
		"self that is code":    site(2, func(s *pySite) { s.Place, s.Self = "cleanup", "a()" }),
	} {
		if f, err := pySource(src, edit).Bind([]byte(src)); err == nil {
			t.Errorf("%s: no error: %+v", name, f.Tests())
		}
	}
}

// TestReadPythonRefuses: what is not a line of the program is an error.
func TestReadPythonRefuses(t *testing.T) {
	t.Parallel()
	line := `{"path": "a.py", "sha256": "", "error": "", "helpers": 0, "tests": []}` + "\n"
	if got, err := ReadPython(strings.NewReader(line)); err != nil || got["a.py"] == nil {
		t.Fatal(got, err)
	}
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"text":           "hello\n",
		"empty line":     line + "\n",
		"cut off":        line[:20],
		"two objects":    strings.TrimSpace(line) + line,
		"unknown field":  `{"path": "a.py", "more": 1}` + "\n",
		"no path":        `{}` + "\n",
		"twice":          line + line,
		"long path":      `{"path": "` + strings.Repeat("a", 5000) + `"}`,
		"many files":     many(MaxPythonFiles+1, `{"path": "%d"}`+"\n"),
		"many tests":     `{"path": "a", "tests": [` + strings.Repeat(`{},`, maxPythonTests) + `{}]}`,
		"many sites":     `{"path": "a", "tests": [{"sites": [` + strings.Repeat(`{},`, maxPythonSites) + `{}]}]}`,
		"long line":      `{"path": "` + strings.Repeat("a", maxPythonLine) + `"}`,
		"number is text": `{"path": "a", "helpers": "x"}`,
	} {
		if _, err := ReadPython(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
