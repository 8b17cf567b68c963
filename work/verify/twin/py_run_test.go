package twin

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// module is the code under test of the project that the run test edits.
const pyModule = `
class Boom(Exception):
    pass


def add(a, b):
    return a + b


def boom(x):
    raise Boom(x)


def warn():
    import warnings
    warnings.warn("old", DeprecationWarning)


async def later(x):
    return x
`

// pyProject is a test file with what people write in one.
const pyProject = `# -*- coding: utf-8 -*-
"""Tests of a module: ünïcode."""
from __future__ import annotations

import asyncio
import contextlib
import os
import unittest
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from unittest import mock

import pytest

import mod
from mod import add, boom, Boom

EXPECTED = {"a": [1, 2], "b": (3,)}


class Color(Enum):
    RED = 1
    BLUE = 2


@pytest.fixture
def three():
    return add(1, 2)


@pytest.fixture
def opened(tmp_path):
    yield tmp_path
    assert tmp_path.exists()


def check(x):
    assert x


def test_plain():
    """Adds."""
    assert add(1, 2) == 3


def test_fixture(three):
    assert three == 3, "message with, comma"


def test_opened(opened):
    (opened / "x").write_text("é")
    assert os.listdir(opened) == ["x"]; assert (opened / "x").read_text() == "é"


@pytest.mark.parametrize("a, b, want", [(1, 2, 3), ("a", "b", "ab"), ([1], [2], [1, 2])])
def test_rows(a, b, want):
    got = add(a, b)
    assert got == want


def test_made():
    assert add(1, 1) > add(0.5, 1) * 0.9 and not add(1, 1) <= add(0.5, 1) - 0.9
    assert (add(1, 1)) in (1, 2)
    assert add(1, 1) in add([1], [2]) and add("a", "b") in {"ab": add, None: 1}
    assert "c" not in add("a", "b") and 3 not  in add([1], [2]) and not add(1, 1) in add([], [])
    assert add(1, 1)<=Decimal(3) and date(2024, 1, 2) > date(2024, 1, 1) and {add(1, 1)} <= {1, 2}
    assert add("a", "b").startswith(("x", "a")) and [add(1, 1), 2] < [3]


def test_most():
    for a, most in ((1, 3), (2, 4)):
        assert add(a, 1) < most


def test_raises():
    with pytest.raises(Boom):
        boom(1)


def test_raises_more():
    with pytest.raises((Boom, KeyError)) as info:
        boom(1)
    assert info.value.args == (1,)
    assert isinstance(info.value, Boom) and str(info.value) == "1"


def test_raises_called():
    pytest.raises(Boom, boom, 1)


def test_warns():
    with pytest.warns(DeprecationWarning):
        mod.warn()


def test_parentheses():
    assert (add(1, 2) == 3)
    assert(add(1, 2)) in (3, 4), (
        "a message"
        " on lines")
    assert (
        add("a",
            "b")  # why
        == "ab"
    )
    assert"x"in add("x", "y")
    assert not add(0, 0)


def test_continued():
    x = add(1,
            2); y = 4
    assert x == 3 \
        and y == 4


def test_expressions():
    x, y = add(1, 2), 4
    assert (z := add(1, 1)) == 2 and z
    assert (w := add(1, 1))
    assert (lambda q: q == w)(2)
    assert [i for i in range(3) if i != 1] == [0, 2]
    assert f"{x}{'!' * 2}" == "3!!"
    assert add("""a
b""", "c") == """a
bc"""
    assert x if y else not x


def test_types():
    assert add(Decimal("1"), 1) == Decimal("2")
    assert date(2020, 1, add(1, 1)) == date(2020, 1, 2)
    assert Path("a") / add("b", "c") == Path("a/bc")
    assert {add(1, 1)} == {2}
    assert dict(a=[1, 2], b=(add(1, 2),)) == EXPECTED
    assert add(b"a", b"b") == b"ab"


def test_more_types():
    assert add(0.1, 0.2) == pytest.approx(0.3)
    assert Color(add(1, 1)) == Color.BLUE
    assert type(add(1, 1)) == int
    assert (add(1, 1) > 1) is True
    assert {}.get(add("a", "b")) is None
    assert "b" in add("a", "b")


def test_edges():
    assert add(1, float("inf")) == float("inf") != add(1, 1)
    assert frozenset([add(1, 1)]) == frozenset([2])
    assert add("", "") == ""
    assert add([], []) == []
    assert add(1, 2) == 3 == add(2, 1)


def test_nan():
    nan = float("nan")
    assert not add(nan, 1) == nan
    assert add(nan, 1) != nan


def test_returns():
    if add(1, 1) == 2:
        assert add(1, 1)
        return
    assert False


def test_returns_value():
    x = add(1, 1)
    assert x
    return None


def test_loop():
    for i in range(3):
        assert add(i, 1) == i + 1
        if i == 2:
            break
    # a comment behind the loop


def test_try():
    try:
        assert add(1, 1) == 3
    except AssertionError:
        pass
    try:
        boom(1)
    except Boom as e:
        assert e.args == (1,)
    else:
        pytest.fail("no boom")


def test_shared():
    check(add(1, 1))


def test_mock():
    m = mock.Mock()
    m(add(1, 1), key="x")
    m.assert_called_once_with(2, key="x")


def test_with():
    with contextlib.ExitStack():
        assert add(1, 1) == 2
def test_close(): assert add(1, 1) == 2
def test_return_only(): return mod.warn and None


async def test_async_unsupported():
    assert await mod.later(1) == 1


def test_async_run():
    async def inner():
        assert await mod.later(1) == 1
        return 3
    assert asyncio.run(inner()) == 3


class TestPlain:
    value = 3

    def test_method(self):
        assert add(1, 2) == self.value

    @staticmethod
    def test_static():
        assert add(1, 2) == 3

    @classmethod
    def test_class(cls):
        assert add(1, 2) == cls.value

    class TestInner:
        def test_deep(self):
            assert add("ü", "b") == "üb"

    @pytest.mark.parametrize("n", range(3))
    def test_many(self, n):
        assert add(n, n) == 2 * n


class Calc(unittest.TestCase):
    def setUp(self):
        self.three = add(1, 2)

    def test_equal(self):
        self.assertEqual(add(1, 2), 3, "message")
        self.assertEqual(3, self.three)
        self.assertNotEqual(add(1, 2), 4)

    def test_raises(self):
        """Raises."""
        with self.assertRaises(Boom):
            boom(1)
        self.assertRaises(Boom, boom, 1)
        with self.assertRaisesRegex(Boom, "1"):
            boom(1)
        with self.assertWarns(DeprecationWarning):
            mod.warn()

    def test_truth(self):
        self.assertTrue(add(1, 2) == 3)
        self.assertTrue(add(1, 2), msg="three")
        self.assertFalse(add(0, 0), "zero")

    def test_identity(self):
        self.assertIs(add(1, 1) == 2, True)
        self.assertIsNot(add(1, 1), None)
        self.assertIsNone({}.get(add("a", "b")))
        self.assertIsNotNone(add(1, 1))

    def test_members(self):
        self.assertIn("a", add("a", "b"))
        self.assertNotIn("c", add("a", "b"))
        self.assertIsInstance(add(1, 1), int)
        self.assertIsInstance(add(1, 1), (int, str))
        self.assertNotIsInstance(add(1, 1), str)

    def test_order(self):
        self.assertGreater(add(1, 1), 1)
        self.assertGreaterEqual(add(1, 1), 2)
        self.assertLess(add(1, 1), 3)
        self.assertLessEqual(add(1, 1), 2)
        self.assertAlmostEqual(add(0.1, 0.2), 0.3)
        self.assertAlmostEqual(add(0.1, 0.2), 0.31, places=1)

    def test_made(self):
        self.assertGreater(add(1, 1), add(0, 1) * 1.5)
        self.assertLessEqual(add(0.5, 1), add(1, 1), "message")
        self.assertIn(add(1, 1), (1, 2))
        self.assertIn(add(1, 1), add([1], [2]))

    def test_sequences(self):
        self.assertRegex(add("a", "b"), "a.")
        self.assertNotRegex(add("a", "b"), "c")
        self.assertCountEqual(add([1], [2]), [2, 1])
        self.assertSequenceEqual(add([1], [2]), (1, 2))

    def test_kinds(self):
        self.assertListEqual(add([1], [2]), [1, 2])
        self.assertTupleEqual(add((1,), (2,)), (1, 2))
        self.assertSetEqual({add(1, 1)}, {2})
        self.assertDictEqual({"a": add(1, 1)}, {"a": 2})
        self.assertMultiLineEqual(
            add("a\n", "b"),
            "a\nb",
        )
        self.assertEqual(*[1, 1])

    def test_sub(self):
        for a, b in [(1, 2), (2, 3)]:
            with self.subTest(a=a):
                self.assertEqual(add(a, 1), b)
                assert add(a, 1) == b

    def test_sub_last(self):
        with self.subTest("one"):
            self.assertTrue(add(1, 1))

    def test_start_block(self):
        if add(1, 1):
            self.assertTrue(True)

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(add(1, 1), 3)

    @unittest.skip("not now")
    def test_skipped(self):
        self.assertEqual(add(1, 1), 3)


class Mixin:
    def test_mixed(self):
        self.assertEqual(add(self.one, 1), 2)


class Mixed(Mixin, unittest.TestCase):
    one = 1


class Base(unittest.TestCase):
    def test_base(self):
        self.assertEqual(add(1, 1), 2)


class Heir(Base):
    pass


class Later(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 600  # its warning would stand in the verdict of a slow machine

    async def test_later(self):
        self.assertEqual(await mod.later(2), 2)
        assert await mod.later(3) == 3


if __name__ == "__main__":
    unittest.main()`

// seed makes a seed of a number.
func seed(n int) (s [32]byte) {
	binary.BigEndian.PutUint64(s[:], uint64(n))
	return s
}

// writeProject writes the module and the test file.
func writeProject(t testing.TB, dir string, tests []byte) {
	t.Helper()
	for name, text := range map[string][]byte{"mod.py": []byte(pyModule), "test_it.py": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pytestVerdicts runs the test file under pytest.
func pytestVerdicts(t *testing.T, dir string) (map[string]string, string) {
	t.Helper()
	out := runPython(t, dir, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=short", "test_it.py")
	return verdicts(out), out
}

// TestPythonNeutral keeps the promise that a neutral edit changes no verdict,
// under pytest, unittest and as a program, with and without a trace.
func TestPythonNeutral(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	needPython(t, "pytest")
	for _, newline := range []string{"\n", "\r\n"} {
		src := strings.ReplaceAll(pyProject, "\n", newline)
		f := mustBind(t, src)
		dir := t.TempDir()
		writeProject(t, dir, []byte(src))
		plain, out := pytestVerdicts(t, dir)
		if len(plain) < 35 || !slices.Equal(failed(plain), nil) {
			t.Fatalf("the plain file: %v\n%s", plain, out)
		}
		unit := unittestVerdicts(runPython(t, dir, "-m", "unittest", "-v", "test_it"))
		for n := range map[string]int{"\n": 3, "\r\n": 1}[newline] {
			t.Run(fmt.Sprintf("%q %d", newline, n), func(t *testing.T) {
				t.Parallel()
				o := Orders{Seed: seed(n)}
				if n%2 == 1 {
					o.Trace, o.Key = filepath.Join(t.TempDir(), "trace \"ü$"), "k1"
				}
				dir := t.TempDir()
				text := mustEdit(t, f, o)
				writeProject(t, dir, text)
				if got, out := pytestVerdicts(t, dir); !maps.Equal(got, plain) {
					t.Errorf("pytest: %v, want %v\n%s\n%s", got, plain, out, text)
				}
				for _, args := range [][]string{{"-m", "unittest", "-v", "test_it"}, {"test_it.py", "-v"}}[n%2:] {
					out := runPython(t, dir, args...)
					if got := unittestVerdicts(out); !slices.Equal(got, unit) {
						t.Errorf("%v: %v, want %v\n%s", args, got, unit, out)
					}
				}
			})
		}
	}
}

// unittestVerdicts are the lines of unittest -v, without modules.
func unittestVerdicts(out string) []string {
	var lines []string
	for line := range strings.SplitSeq(out, "\n") {
		if name, verdict, ok := strings.Cut(line, " ... "); ok && !strings.HasPrefix(name, " ") {
			name, _, _ = strings.Cut(name, " ")
			lines = append(lines, name+" "+verdict)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestPythonSabotage sabotages every site of every test, those of one half of
// the tests in a run: the sabotaged tests fail, and no others.
func TestPythonSabotage(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needPython(t, "pytest")
	f := mustBind(t, pyProject)
	dir := t.TempDir()
	writeProject(t, dir, []byte(pyProject))
	plain, _ := pytestVerdicts(t, dir)
	kinds := make(map[Kind]int)
	var rounds []map[string]Order
	for i, test := range f.Tests() {
		round := i % 2
		for _, site := range test.Sites {
			if plain[test.Name] != "PASSED" || unreached[test.Name] == site.Kind {
				continue
			}
			kinds[site.Kind]++
			for len(rounds) <= round {
				rounds = append(rounds, map[string]Order{})
			}
			rounds[round][test.Name] = Order{Site: site.ID}
			round += 2
		}
	}
	if kinds[Flip] < 70 || kinds[Expect] < 75 || kinds[Fail] < 60 {
		t.Errorf("sites: %v", kinds)
	}
	t.Logf("REMIT_CHEAT_SEED=%d", siteSeed())
	for i, sabotage := range rounds {
		if every := (len(rounds) + sampled - 1) / sampled; !everySite() && uint64(i)%uint64(every) != siteSeed()%uint64(every) {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := mustEdit(t, f, Orders{Seed: seed(i), Sabotage: sabotage})
			writeProject(t, dir, text)
			got, out := pytestVerdicts(t, dir)
			if names, want := failed(got), slices.Sorted(maps.Keys(sabotage)); !slices.Equal(names, want) {
				t.Errorf("failed: %v\nwant: %v\n%v\n%s\n%s", names, want, sabotage, out, text)
			}
		})
	}
}

// unreached names tests of the project with a kind of site that is not reached,
// which a trace of the base tells.
var unreached = map[string]Kind{"test_returns": Fail}

// TestPythonPairs: what cannot lie does not fulfil the pair that it is asked for, and
// what says yes to all does.
func TestPythonPairs(t *testing.T) {
	t.Parallel()
	needPython(t)
	const src = `import datetime, decimal, sys
class Yes(int):
    __hash__ = None
    def __yes(self, other): return True
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __yes
    def __iter__(self): return iter([1])
class No(str):
    def __contains__(self, other): return False
class Empty(set): pass
inf, nan, day = float("inf"), float("nan"), datetime.datetime.max
`
	cases := []struct{ left, operator, right, want string }{
		{"inf", ">", "abs(3.0)", "fails"}, {"inf", ">=", "inf", "fails"}, {"-inf", "<=", "abs(0.0)", "fails"}, {"day", ">=", "day", "fails"},
		{"decimal.Decimal('Infinity')", ">=", "decimal.Decimal(3)", "fails"}, {"'b'", ">", "str('a')", "fails"}, {"Empty()", "<=", "{1}", "fails"},
		{"{}.keys()", "<=", "{1}", "fails"}, {"{1}", ">=", "{}.items()", "fails"}, {"{1: 2}.keys()", ">=", "{1}", "fails"},
		{"(2, 'a')", ">", "(1, 'b')", "fails"}, {"{1}", "<=", "Empty([1])", "fails"}, {"range(3)[0]", "in", "range(3)", "fails"},
		{"'a' + ''", "in", "str('ab')", "fails"}, {"'c'", "not in", "str('ab')", "fails"}, {"'c'", "not in", "[]", "fails"}, {"'c'", "not in", "iter('ab')", "holds"},
		{"Yes()", ">", "abs(3.0)", "holds"}, {"abs(3.0)", "<=", "Yes()", "holds"}, {"Yes()", "in", "(1, None)", "holds"}, {"1 + 1", "in", "Yes()", "holds"},
		{"'a'", "not in", "No('')", "holds"}, {"'a'", "not in", "No('a')", "holds"},
	}
	text := src
	for i, tc := range cases {
		text += fmt.Sprintf("def test_%d():\n    assert %s %s %s\n", i, tc.left, tc.operator, tc.right)
	}
	f := mustBind(t, text+`if __name__ == "__main__":
    for name in [n for n in globals() if n[:5] == "test_"]:
        try:
            globals()[name]()
            print(name, "holds")
        except (AssertionError, TypeError):
            print(name, "fails")
`)
	for n := range 2 {
		o := Orders{Seed: seed(n), Sabotage: map[string]Order{}}
		for _, test := range f.Tests() {
			for _, s := range test.Sites {
				if s.Kind == Expect && s.Loose && s.Certain {
					o.Sabotage[test.Name] = Order{Site: s.ID}
				}
			}
		}
		dir := t.TempDir()
		writeProject(t, dir, mustEdit(t, f, o))
		out := runPython(t, dir, "test_it.py")
		for i, tc := range cases {
			if !strings.Contains(out, fmt.Sprintf("test_%d %s\n", i, tc.want)) {
				t.Errorf("%s %s %s does not end as it %s: %s", tc.left, tc.operator, tc.right, tc.want, out)
			}
		}
	}
}

// TestPythonLoaded: a module that runs its tests while it is loaded finds the
// added functions.
func TestPythonLoaded(t *testing.T) {
	t.Parallel()
	needPython(t)
	for _, run := range []string{"test_a()", "if f():\n    test_a()", "for_all = 1\nrun(test_a)", "print(main() or 'ran')"} {
		src := "def f(): return 1\ndef test_a():\n    assert f() == 1\ndef run(t): t()\ndef main(): test_a()\n" + run + "\nprint('end')\n"
		dir := t.TempDir()
		writeProject(t, dir, mustEdit(t, mustBind(t, src), Orders{}))
		if out := runPython(t, dir, "test_it.py"); !strings.HasSuffix(out, "end\n") || strings.Contains(out, "Error") {
			t.Errorf("%s: %s", run, out)
		}
	}
}
