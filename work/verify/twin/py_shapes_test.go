package twin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The numbers of a site that is neutral, of one that is always sabotaged, and
// of one that is sabotaged at its third evaluation.
const (
	neutralSite = 11
	alwaysSite  = 22
	thirdSite   = 33
)

// pyScript is a program that uses shapes: every line of checks has to hold.
type pyScript struct {
	edit   *pyEdit
	checks []string
}

// newPyScript starts a program with a trace or without one.
func newPyScript(n int) *pyScript {
	f := &pyFile{textFile: textFile{words: map[string]bool{"seen": true}}}
	return &pyScript{edit: newPyEdit(f, Orders{Seed: seed(n)})}
}

// rows are the rows of the three sites.
func (p *pyScript) rows(n int) []siteRow {
	orders := map[int]*Order{neutralSite: nil, alwaysSite: {}, thirdSite: {Evaluation: 3}}
	var rows []siteRow
	for _, number := range []int{neutralSite, alwaysSite, thirdSite} {
		rows = append(rows, newSiteRow(newChoices("python", seed(n), [32]byte{}, strconv.Itoa(number)), number, orders[number]))
	}
	return rows
}

func (p *pyScript) check(format string, args ...any) {
	p.checks = append(p.checks, fmt.Sprintf(format, args...))
}

// run runs the program.
func (p *pyScript) run(t *testing.T) {
	t.Helper()
	text := strings.Join(p.edit.pieces, "\n\n") + `

import unittest

class Case(unittest.TestCase):
    def runTest(self):
        self.cleaned = [0]

def fails(f):
    try:
        f()
    except Exception:
        return True
    return False

def cleanup(f):
    case = Case()
    f(case)
    return fails(lambda: [c[0](*c[1], **c[2]) for c in case._cleanups])

` + strings.Join(p.checks, "\n") + "\nprint('all hold')\n"
	name := filepath.Join(t.TempDir(), "script.py")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := runPython(t, filepath.Dir(name), "-W", "error", name); out != "all hold\n" {
		t.Errorf("%s\n%s", out, text)
	}
}

// TestPythonCores tries each way of deciding with each comparison.
func TestPythonCores(t *testing.T) {
	t.Parallel()
	needPython(t)
	p := newPyScript(1)
	for i, core := range pyCores {
		for j, window := range pyWindows {
			p.edit.core = p.edit.names.global()
			p.edit.defineCore(core, window, p.rows(i*100+j))
			for number, want := range map[int]string{
				neutralSite: "[False] * 5", alwaysSite: "[True] * 5", thirdSite: "[False, False, True, False, False]",
			} {
				p.check("seen = [%s(%d) for _ in range(5)]\nassert seen == %s, (%d, %d, seen)", p.edit.core, number, want, i, j)
			}
		}
	}
	p.run(t)
}

// scripted is a program with $C, $O and the rest of what shapes refer to.
func scripted(n int, other int) *pyScript {
	p := newPyScript(n)
	p.edit.defineCore(pyCores[0], pyWindows[0], p.rows(n))
	p.edit.define(p.edit.scene(), pyOthers[other])
	return p
}

// use writes a shape around an expression.
func use(s pyShape, number int, expression string) string {
	fill := strings.NewReplacer("$n", strconv.Itoa(number), "$s", "case", "$h", `"Case"`)
	return fill.Replace(s.open) + expression + fill.Replace(s.close)
}

// TestPythonFlips tries each condition shape with each way of calling.
func TestPythonFlips(t *testing.T) {
	t.Parallel()
	needPython(t)
	p := scripted(2, 0)
	for i, wrap := range pyWraps {
		for j, flip := range pyFlips {
			s := p.edit.flipped(wrap, flip)
			for _, value := range []string{"1 == 1", "x := 0", "[]", "lambda: 0", "not 1", "1 if 0 else 2", "'a' in 'b'"} {
				p.check("assert bool(%s) is bool((%s)), (%d, %d)", use(s, neutralSite, value), value, i, j)
				p.check("assert bool(%s) is not bool((%s)), (%d, %d)", use(s, alwaysSite, value), value, i, j)
			}
		}
	}
	p.run(t)
}

// otherValues are values of types whose other value is known.
var otherValues = strings.Fields(`None True 0 1 -5 2.5 -1.0 float('inf') 1e300 'a' '' b'a' b'' bytearray(b'a') (1,2) () [1] []
	{1} set() frozenset({'a'}) {'a':1} {} range(3) range(0) range(5,0,-1) ValueError (ValueError,KeyError) int UserWarning
	Decimal('1.5') Fraction(1,3) date(2020,1,1) datetime(2020,1,1) timedelta(1) Path('a') Color.RED Shade.DARK Point(1,2)
	OrderedDict(a=1) Counter('a') 2+3j defaultdict(int) [[1],2] 10**30 (int,1)`)

// TestPythonOthers: another value is of the same type, and differs.
func TestPythonOthers(t *testing.T) {
	t.Parallel()
	needPython(t)
	for other := range pyOthers {
		p := scripted(3, other)
		p.check(`
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
Color = Enum("Color", "RED BLUE")
Point = namedtuple("Point", "x y")
class Shade(str, Enum):
    DARK = "d"
    LIGHT = "l"
`)
		var shapes []pyShape
		for i, wrap := range pyWraps {
			shapes = append(shapes, p.edit.wrapped(wrap, p.edit.body(pyExpects[i%len(pyExpects)], ""), "", ""))
		}
		for i := range pyExpects {
			shapes = append(shapes, p.edit.wrapped(pyWraps[0], p.edit.body(pyExpects[i], ""), "", ""))
		}
		for i, value := range otherValues {
			for j, s := range shapes {
				if j%4 != i%4 && i > 4 {
					continue
				}
				p.check("seen = %s\nassert (%s) is seen, %q", value, use(s, neutralSite, "seen"), value)
				p.check("back = %s\nassert back != seen and (seen is None or type(back) is type(seen)), (seen, back)", use(s, alwaysSite, "seen"))
			}
		}
		p.check("assert not issubclass(KeyError, %s(KeyError, 7))", p.edit.other)
		p.check("assert not issubclass(KeyError, %s((KeyError, LookupError), 7))", p.edit.other)
		p.check("assert %[1]s('ab', 7).startswith('ab') and len(%[1]s('ab', 8)) == 2 and len(%[1]s([1, 2], 8)) == 2", p.edit.other)
		p.check("assert type(%s(SystemExit, 7)) is object", p.edit.other)
		p.check("assert type(%s(Case(), 7)) is object", p.edit.other)
		p.run(t)
	}
}

// pyCalled are calls of each assertion that hold, and that do not.
var pyCalled = map[string][2]string{
	"assertEqual":          {"1, 1", "1, 2"},
	"assertNotEqual":       {"1, 2", "1, 1"},
	"assertIs":             {"None, None", "None, 1"},
	"assertIsNot":          {"None, 1", "1, 1"},
	"assertIsNone":         {"None", "1"},
	"assertIsNotNone":      {"1, 'message'", "None"},
	"assertIn":             {"1, [1]", "2, [1]"},
	"assertNotIn":          {"2, [1]", "1, [1]"},
	"assertIsInstance":     {"1, int", "1, str"},
	"assertNotIsInstance":  {"1, str", "1, int"},
	"assertGreater":        {"2, 1", "1, 1"},
	"assertGreaterEqual":   {"1, 1", "0, 1"},
	"assertLess":           {"1, 2", "1, 1"},
	"assertLessEqual":      {"1, 1", "2, 1"},
	"assertAlmostEqual":    {"1.0, 1.01, places=1", "1.0, 1.01"},
	"assertRegex":          {"'ab', 'a.'", "'ab', 'c'"},
	"assertNotRegex":       {"'ab', 'c'", "'ab', 'a'"},
	"assertCountEqual":     {"[1, [], 1], [[], 1, 1]", "[1, 1], [1, 2]"},
	"assertSequenceEqual":  {"[1], (1,)", "[1], [2]"},
	"assertListEqual":      {"[1], [1]", "[1], [2]"},
	"assertTupleEqual":     {"(1,), (1,)", "(1,), (2,)"},
	"assertSetEqual":       {"{1}, frozenset([1])", "{1}, {2}"},
	"assertDictEqual":      {"{1: 1}, {1: 1}, msg='text'", "{1: 1}, {}"},
	"assertMultiLineEqual": {"'a\\nb', 'a\\nb'", "'a', 'b'"},
}

// TestPythonCalls turns each assertion of TestCase round.
func TestPythonCalls(t *testing.T) {
	t.Parallel()
	needPython(t)
	var methods []string
	for m := range pyHolds {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	for n := range 16 {
		p := scripted(100+n, 0)
		p.edit.defineTurns(slices.Clone(methods))
		p.check("case = Case()")
		for i, m := range methods {
			call, wrap := pyCalls[(i+n)%len(pyCalls)], pyWraps[(i+n)%len(pyWraps)]
			s := p.edit.wrapped(wrap, p.edit.body(call.body, ""), "", "")
			good, bad := pyCalled[m][0], pyCalled[m][1]
			for _, site := range []int{neutralSite, alwaysSite} {
				method := use(s, site, "case."+m)
				if call.receiver {
					method = use(s, site, "case") + "." + m
				}
				first, second := "not ", ""
				if site == alwaysSite {
					first, second = second, first
				}
				p.check("assert %sfails(lambda: %s(%s)), %q", first, method, good, m)
				p.check("assert %sfails(lambda: %s(%s)), %q", second, method, bad, m)
			}
		}
		p.run(t)
	}
}

// TestPythonStatements tries each failing statement with each way of failing.
func TestPythonStatements(t *testing.T) {
	t.Parallel()
	needPython(t)
	p := scripted(5, 0)
	for i, f := range slices.Concat(pyFails, pyCleanups, pyOwned) {
		bodies := f.body
		if bodies == nil {
			bodies = pyRaises
		}
		for j, body := range bodies {
			f.body = []string{body}
			s := p.edit.statement(f)
			if i < len(pyFails) {
				p.check("def neutral(): %s", use(s, neutralSite, ""))
				p.check("def always(): %s", use(s, alwaysSite, ""))
				p.check("assert not fails(neutral) and fails(always), (%d, %d)", i, j)
				continue
			}
			if i >= len(pyFails)+len(pyCleanups) {
				other := strings.ReplaceAll(use(s, alwaysSite, ""), `"Case"`, `"Outer.Case"`)
				p.check("case = Case()\ndef neutral(): %s\ndef always(): %s\ndef other(): %s", use(s, neutralSite, ""), use(s, alwaysSite, ""), other)
				p.check("assert not fails(neutral) and fails(always) and not fails(other), %d", i)
				continue
			}
			p.check("def neutral(case): %s", use(s, neutralSite, ""))
			p.check("def always(case): %s", use(s, alwaysSite, ""))
			p.check("assert not cleanup(neutral) and cleanup(always), (%d, %d)", i-len(pyFails), j)
		}
	}
	p.run(t)
}

// TestPythonRows: the values of a site say what its order says, whatever the seed.
func TestPythonRows(t *testing.T) {
	t.Parallel()
	for n := range 3000 {
		for _, c := range []struct {
			order *Order
			want  func(evaluation int) bool
		}{
			{nil, func(int) bool { return false }},
			{&Order{}, func(int) bool { return true }},
			{&Order{Evaluation: 1}, func(e int) bool { return e == 1 }},
			{&Order{Evaluation: 7}, func(e int) bool { return e == 7 }},
		} {
			r := newSiteRow(newChoices("python", seed(n), [32]byte{}, "row"), 5, c.order)
			if r.low >= r.high || r.low < 0 {
				t.Fatalf("seed %d: an empty window: %+v", n, r)
			}
			count := r.at
			for evaluation := 1; evaluation < 2000; evaluation++ {
				count += r.by
				if got := r.low <= count && count < r.high; got != c.want(evaluation) {
					t.Fatalf("seed %d, order %v, evaluation %d: %v of %+v", n, c.order, evaluation, got, r)
				}
			}
		}
	}
}
