package twin

import (
	"regexp"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// TestPythonOtherKeepsTheShape: code that lies about every text or number of a form
// or a length takes the other value for right as well, also where the file expects
// values of other lengths.
func TestPythonOtherKeepsTheShape(t *testing.T) {
	t.Parallel()
	pool := []string{"'a-b'", "'hello-world'", "'x'", "'Q-z'", `"c-d"`, "7", "12", "130", "0.5", "'12'"}
	for _, text := range pool {
		foreign := false
		for seed := range byte(60) {
			got := literal{text: text, in: pyGrammar}.other(newChoices("python", [32]byte{seed}, [32]byte{}, "x"), pool)
			if got == text || shapeOf(got) != shapeOf(text) {
				t.Errorf("%s: %s expected in its place", text, got)
			}
			foreign = foreign || got == `"c-d"`
		}
		if text == "'a-b'" && !foreign {
			t.Errorf("%s: never what another assertion expects", text)
		}
	}
}

// TestPythonLiterals: another expected value stands in the source where it can,
// of the same type and shape, in the row that is asked for; the one that was
// there is gone, and a neutral file has it as it was.
func TestPythonLiterals(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	needPython(t)
	const rows = "ROWS = [\n    (1, 1, 2),\n    (9, 4, 13),\n]\n\n\n"
	for _, tc := range []struct {
		name, src  string
		evaluation int
		was, is    string // is: what the line that had was must be, "" when nothing is exchanged
	}{
		{"a number", "def test_a():\n    assert f() == 123\n", 0, "== 123", `== \d{3}\b`},
		{"a long number", "def test_a():\n    assert f() == 86400\n", 0, "== 86400", `== [1-9]\d\d\d\d\b`},
		{"a fraction", "def test_a():\n    assert f() == 0.25\n", 0, "0.25", `0\.\d\d\b`},
		{"a text", "def test_a():\n    assert f() == 'ab 1'\n", 0, "'ab 1'", `'[a-z][a-z] \d'`},
		{"no letters", "def test_a():\n    assert f() == '--'\n", 0, "'--'", `'--[a-z]'`},
		{"truth", "def test_a():\n    assert f() == True\n", 0, "f() == True", `f\(\) == False`},
		{"in a list", "def test_a():\n    assert f() == [g, {'k': -7}]\n", 0, "-7", `\{'k': -\d\}`},
		{"unittest", "class A(T.TestCase):\n    def test_a(self):\n        self.assertEqual(f(), 'x')\n", 0, "'x'", `'[a-z]'`},
		{"a row of a table", rows + "def test_a():\n    for a, b, want in ROWS:\n        assert f(a, b) == want\n", 2, "(9, 4, 13)", `\(9, 4, \d\d\)`},
		{"a case", "@pytest.mark.parametrize('a, want', [(1, 'one'), pytest.param(2, 'two')])\ndef test_a(a, want):\n    assert f(a) == want\n", 2, "'two'", `param\(2, '[a-z]{3}'\)`},
		{"a name", "def test_a():\n    want = {'k': 'val'}\n    got = f()\n    assert got == want\n", 0, "'val'", `want = \{'k': '[a-z]{3}'\}`},
		{"a name of the module", "WANT = 'val'\n\n\ndef test_a():\n    assert f() == WANT\n", 0, "'val'", `WANT = '[a-z]{3}'`},
		{"a name that is used again", "def test_a():\n    want = 'val'\n    assert f(want) == want\n", 0, "'val'", ""},
		{"a name that is given twice", "def test_a():\n    want = 'val'\n    if g(): want = g()\n    assert f() == want\n", 0, "'val'", ""},
		{"an escape", "def test_a():\n    assert f() == 'a\\n'\n", 0, `'a\n'`, `'[b-z]\\n'`},
		{"a code", "def test_a():\n    assert f() == 'a\\x41'\n", 0, `'a\x41'`, ""},
		{"bytes", "def test_a():\n    assert f() == b'ab'\n", 0, `b'ab'`, `b'[a-z]{2}'`},
		{"a formatted text", "def test_a():\n    assert f() == f'ab {n} {n:>4}'\n", 0, `f'ab {`, `f'[a-z]{2} \{n\} \{n:>4\}'`},
		{"nothing but values", "def test_a():\n    assert f() == f'{n}'\n", 0, `f'{n}'`, ""},
		{"a sum", "def test_a():\n    assert f() == 'ab' + g\n", 0, `'ab'`, `'[a-z]{2}' \+ g`},
		{"a product", "def test_a():\n    assert f() == 24 * 60\n", 0, `24 * 60`, `== \d+ \* \d+`},
		{"a product of nothing", "def test_a():\n    assert f() == 0 * 60\n", 0, `0 * 60`, ""},
		{"a difference", "def test_a():\n    assert f() == {1, 2} - {3}\n", 0, `{1, 2} - {3}`, ""},
		{"a constructor", "def test_a():\n    assert f() == Decimal('1.10')\n", 0, `'1.10'`, `Decimal\('\d\.\d\d'\)`},
		{"a set that drops one", "def test_a():\n    assert f() == set([1, 1])\n", 0, `[1, 1]`, ""},
		{"an exception", "def test_a():\n    with pytest.raises(ValueError):\n        f()\n", 0, "ValueError", `raises\([A-Z]\w+\)`},
		{"an exception of its own", "from a import ValueError\n\n\ndef test_a():\n    with pytest.raises(ValueError):\n        f()\n", 0, "ValueError", ""},
		{"about equal", "class A(T.TestCase):\n    def test_a(self):\n        self.assertAlmostEqual(f(), 0.001)\n", 0, "0.001", `f\(\), [4-8]\d{18}\.5\)`},
		{"a tolerance", "def test_a():\n    assert abs(f() - 3) < 0.5\n", 0, "f() - 3)", `f\(\) - [4-8]\d{18}\)`},
		{"a tolerance of a library", "def test_a():\n    assert f() == approx(3, abs=2)\n", 0, "approx(3,", `approx\([4-8]\d{18}, abs`},
		{"bounds with names", "def test_a():\n    low, high = 20, 40\n    assert low <= f() <= high\n", 0, "20, 40", `= [4-8]\d{18}, 40\n`},
		{"a lower bound", "def test_a():\n    assert f() > -250\n", 0, "> -250", `> [4-8]\d{18}`},
		{"an upper bound", "def test_a():\n    assert f() <= 250\n", 0, "250", `<= -[4-8]\d{18}`},
		{"a bound that must not be", "def test_a():\n    assert not 250 < f()\n", 0, "250", `not -[4-8]\d{18} < f`},
		{"a bound with a name", "def test_a():\n    most = 24 * 60\n    assert f() < most\n", 0, "24 * 60", `most = (-[4-8]\d{18} \* 60|24 \* -[4-8]\d{18})\n`},
		{"a prefix", "def test_a():\n    assert f().startswith('ab')\n", 0, "'ab'", `startswith\('[a-z]{2}'\)`},
		{"a pattern", "def test_a():\n    assert re.search(r'a\\d+$', f())\n", 0, `'a\d+$'`, `search\(r'a\\d\+\$[a-z]+'`},
		{"a pattern with branches", "def test_a():\n    assert re.search('(?i)a|b', f())\n", 0, "a|b'", `search\('\(\?i\)\(\?:a\|b\)[a-z]+'`},
		{"one of several", "def test_a():\n    assert f() in ('a', 2)\n", 0, "('a', 2)", `in \('a[a-z]+', [4-8]\d{18}\)`},
		{"one of several with a name", "SOME = {'a', 'b'}\n\n\ndef test_a():\n    assert f() in SOME\n", 0, "{'a', 'b'}", `\{'a[a-z]+', 'b[a-z]+'\}`},
		{"one that may be nothing", "def test_a():\n    assert f() in ('a', None)\n", 0, "('a', None)", ""},
		{"several prefixes", "def test_a():\n    assert f().startswith(('a', 'b'))\n", 0, "('a', 'b')", `\('a[a-z]+', 'b[a-z]+'\)`},
		{"a bound in a table", "def test_a():\n    for n, most in ((1, 2), (3, 4)):\n        assert f(n) < most\n", 0, "(1, 2), (3, 4)", `\(1, -\d{19}\), \(3, -\d{19}\)`},
		{"a member", "def test_a():\n    assert f().has_all(3)\n", 0, "(3)", `has_all\("[a-z]+"\)`},
		{"a bound that is computed", "def test_a():\n    assert f() <= 0.5 * g()\n", 0, "0.5 * g()", ""},
		{"a message", "def test_a():\n    with pytest.raises(E, match='no'):\n        f()\n", -1, "'no'", `match='no[a-z]+'`},
		{"an argument of a mock", "def test_a():\n    m.assert_called_with(x='ab')\n", 0, "'ab'", `x='ab[a-z]+'`},
		{"calls of a mock", "def test_a():\n    m.assert_has_calls([mock.call(4)])\n", 0, "call(4)", `call\([4-8]\d{18}\)`},
		{"a part of a text", "def test_a():\n    assert 'a' in f()\n", 0, "'a'", "'a[a-z]+' in"},
		{"a row that is not known", rows + "def test_a():\n    for a, b, want in ROWS:\n        assert f(a, b) == want\n", 0, "(9, 4, 13)", ""},
		{"a row behind the table", rows + "def test_a():\n    for a, b, want in ROWS:\n        assert f(a, b) == want\n", 3, "(9, 4, 13)", ""},
		{"a table of two tests", rows + "def test_a():\n    for a, b, want in ROWS:\n        assert f(a, b) == want\n\ndef test_b(): print(ROWS)\n", 2, "(9, 4, 13)", ""},
		{"a row that is passed over", rows + "def test_a():\n    for a, b, want in ROWS:\n        if a: continue\n        assert f(a, b) == want\n", 2, "(9, 4, 13)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := mustBind(t, tc.src)
			test := f.Tests()[0]
			for _, s := range test.Sites {
				told := tc.evaluation < 0 && !s.Certain
				if s.Kind != Expect || told {
					continue
				}
				tc.evaluation = max(tc.evaluation, 0)
				o := Orders{Seed: seed(4)}
				if neutral := string(mustEdit(t, f, o)); !strings.Contains(neutral, tc.was) {
					t.Errorf("%s is gone from the neutral file\n%s", tc.was, neutral)
				}
				o.Sabotage = map[string]Order{test.Name: {Site: s.ID, Evaluation: tc.evaluation}}
				bad := string(mustEdit(t, f, o))
				if strings.Contains(bad, tc.was) != (tc.is == "") || !regexp.MustCompile(tc.is).MatchString(bad) {
					t.Errorf("%s for %s, want %s", bad, tc.was, tc.is)
				}
				return
			}
			t.Fatal("no expected value")
		})
	}
}

// TestPythonPlausible: another literal is like the one in whose place it stands,
// so that code which lies only where a value looks right lies there as well, and
// it is never one that a loose comparison takes for the same.
func TestPythonPlausible(t *testing.T) {
	t.Parallel()
	pool := []string{"'calc y'", "'CALC X'", "'X'", "7", "4.0", "1000001", "'12'", "b'calc y'"}
	for text, like := range map[string]string{
		"'calc x'": `^'[a-z]{4} [a-z]'$`, "4": `^\d$`, "1000000": `^[1-9]\d{2}0000$`, "'1.10'": `^'\d\.\d\d'$`,
		"0.25": `^0\.\d\d$|^4\.0$`, "'a\\n'": `^'[b-z]\\n'$`, "f'a{b}'": `^f'[b-z]\{b\}'$`, "b'calc x'": `^b'[a-z]{4} [a-z]'$`,
		"ValueError": `^(Index|Attribute|OS|ZeroDivision|Runtime)Error$`, "True": `^False$`, "'--'": `^'--[a-z]'$`,
	} {
		seen := make(map[string]bool)
		for n := range 300 {
			other := literal{text: text, in: pyGrammar}.other(newChoices("python", seed(n), [32]byte{}, text), pool)
			seen[other] = true
			if other == text || !regexp.MustCompile(like).MatchString(other) {
				t.Fatalf("%s in the place of %s", other, text)
			}
		}
		if text == "'calc x'" && (!seen["'calc y'"] || !seen["'aclc x'"] || seen["'CALC X'"] || len(seen) < 40) {
			t.Errorf("%d values, or not those of the file and of its letters: %v", len(seen), seen)
		}
		if text == "4" && (!seen["7"] || !seen["5"] || !seen["3"]) {
			t.Errorf("neither of the file nor near: %v", seen)
		}
	}
}

// TestPythonCertain: a failing statement is certain only where a test that passes
// has come by it.
func TestPythonCertain(t *testing.T) {
	t.Parallel()
	needPython(t)
	for src, want := range map[string]bool{
		"def test_a():\n    f()\n    assert g()\n":                        true,
		"def test_a():\n    f()\n":                                        true,
		"def test_a():\n    for x in y:\n        f()\n":                   true,
		"@mock.patch('x')\ndef test_a():\n    f()\n    g()\n":             true,
		"def test_a():\n    if x:\n        return\n    f()\n    g()\n":    false,
		"@raises(ValueError)\ndef test_a():\n    f()\n    g()\n":          false,
		"def test_a():\n    for x in y:\n        break\n    f()\n    g()": false,
	} {
		certain := false
		for _, s := range mustBind(t, src).Tests()[0].Sites {
			certain = certain || s.Certain
		}
		if certain != want {
			t.Errorf("%t, want %t:\n%s", certain, want, src)
		}
	}
}

// TestPythonCertainAssertions: an assertion is certain as a statement of the test's own
// body, and of a loop over rows that stand there.
func TestPythonCertainAssertions(t *testing.T) {
	t.Parallel()
	needPython(t)
	for src, want := range map[string]string{
		"def test_a():\n    assert f() == 4\n":                                                                 "flip expect",
		"def test_a():\n    assert f() == WANT\n":                                                              "flip",
		"def test_a():\n    for a, b in ((1, 2), (3, 4)):\n        assert f(a) == b\n":                         "flip", // what it expects stands in the row
		"def test_a():\n    for a in [1]:\n        with x():\n            assert f(a) == 4\n":                  "flip expect",
		"def test_a():\n    for a in rows():\n        assert f(a) == 4\n":                                      "",
		"def test_a():\n    for a in (*rows(),):\n        assert f(a) == 4\n":                                  "",
		"def test_a():\n    for a in (1, 2):\n        if a:\n            continue\n        assert f(a) == 4\n": "",
	} {
		got := ""
		for _, s := range mustBind(t, src).Tests()[0].Sites {
			if s.Certain && s.Kind != Fail {
				got += " " + string(s.Kind)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%q, want %q:\n%s", got, want, src)
		}
	}
}
