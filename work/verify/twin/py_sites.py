"""Find the tests of Python files, and the places where they can be made to fail.

The arguments are paths, at most MAX_FILES. For each of them one line of JSON is
written to the standard output:

    path     the argument
    sha256   the digest of the bytes that were parsed, hexadecimal
    error    why the file cannot be edited; then there are no tests
    helpers  the byte offset at which functions can be added to the module
    tests    name, at (byte offset of its "def"), why, end, sites
    sites    kind, form, start, end (byte offsets), and what the form needs

Forms of a site:

    cond     flip: an expression of which only the truth counts; negative: it has
             to be false
    call     flip: "self.assertEqual", the name of an assertion that is called
    value    expect: an expression that is an expected value; leaves: the literals
             in it of which another one makes another value; rows: for a name that
             is one of the columns of a table, the literals in each row; whole:
             it is compared for equality, with no tolerance; way: the other literal
             is a number above or below all, or a longer text: part, match; far: either;
             word: a text; none: the empty one; all: each of the literals is another one
    compare  expect: a comparison; operator: its byte offsets; fails: what another pair
             of sides does not fulfil: ">", "<", "in" or "not in"
    pair     expect: two arguments; fails: as of a comparison
    after    fail: behind a simple statement; self: in a method of a TestCase
    before   fail: in front of a simple statement
    line     fail: the start of a blank line behind the body of the test
    newline  fail: the end of the last line of the test; indent: byte offsets of
             white space in front of a statement of the body

"place" of a fail site says which one it is: cleanup, first or end. A site that
is certain is reached whenever the test passes; one that is loose shows something only
where the base fails with it. With an owner, a class that shares
the test with others, it fails only where "self" is one.

Nothing of the tree is imported or executed, only parsed. The standard library
of Python 3.8 and later is all that is used.
"""
import ast
import hashlib
import io
import json
import os
import re
import stat
import sys
import tokenize
import warnings

MAX_FILES = 2000
MAX_BYTES = 2 << 20
MAX_TESTS = 5000
MAX_SITES = 20000
MAX_DEPTH = 40
MAX_NAME = 200
MAX_HEIRS = 8
MAX_LEAVES = 8
MAX_ROWS = 500

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPOUND = FUNCTIONS + (ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try) + tuple(
    getattr(ast, n) for n in ("TryStar", "Match") if hasattr(ast, n))
TRIES = (ast.Try,) + ((ast.TryStar,) if hasattr(ast, "TryStar") else ())
WITHS = (ast.With, ast.AsyncWith)
RUNS_CODE = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda,
             ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Assertions of TestCase with the number of arguments that are compared.
METHODS = {
    "assertEqual": 2, "assertNotEqual": 2, "assertIs": 2, "assertIsNot": 2,
    "assertIsNone": 1, "assertIsNotNone": 1, "assertIn": 2, "assertNotIn": 2, "assertIsInstance": 2,
    "assertNotIsInstance": 2, "assertGreater": 2, "assertGreaterEqual": 2, "assertLess": 2,
    "assertLessEqual": 2, "assertAlmostEqual": 2, "assertRegex": 2, "assertNotRegex": 2,
    "assertCountEqual": 2, "assertSequenceEqual": 2, "assertListEqual": 2, "assertTupleEqual": 2,
    "assertSetEqual": 2, "assertDictEqual": 2, "assertMultiLineEqual": 2,
}
EQUALITIES = {"assertEqual", "assertIs", "assertAlmostEqual", "assertCountEqual", "assertSequenceEqual",
              "assertListEqual", "assertTupleEqual", "assertSetEqual", "assertDictEqual", "assertMultiLineEqual"}
ARRAYS = {"assert_equal", "assert_array_equal", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal"}
CALLED = {"assert_called_with", "assert_called_once_with", "assert_any_call", "assert_awaited_with",
          "assert_awaited_once_with"}
CALLS = {"assert_has_calls", "assert_has_awaits"}
# Assertions of an order: which operator they use.
ORDERS = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
MORE, LESS = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
# Functions and methods that say whether a value fits their argument.
ENDS = {"startswith", "endswith"}
PATTERNS = {"match", "search", "fullmatch"}
HOLDS = re.compile(r"(has|contains?|includes?)(_|$)")
NEAR = {"isclose", "allclose", "array_equal"}
RAISES = {"raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns", "assertWarnsRegex"}
FATAL = {"SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"}
# Built-in exceptions of which another one can be expected.
ERRORS = {"ValueError", "TypeError", "KeyError", "IndexError", "LookupError", "AttributeError", "RuntimeError",
          "NotImplementedError", "RecursionError", "OSError", "FileNotFoundError", "FileExistsError", "PermissionError",
          "ArithmeticError", "ZeroDivisionError", "OverflowError", "UnicodeDecodeError", "UnicodeEncodeError"}
# Constructors whose value another literal in an argument changes, and those that drop what they have already.
WHOLE = {"call", "Decimal", "Path", "PurePath", "PurePosixPath", "timedelta", "list", "tuple"}
SETS = {"set", "frozenset"}
CONSTRUCTORS = {"call", "Decimal", "Fraction", "datetime", "date", "timedelta", "Path", "PurePath", "PurePosixPath", "set",
                "frozenset", "dict", "list", "tuple", "bytes", "bytearray", "OrderedDict", "Counter"}
# Built-in names that the added functions rely on.
BUILTINS = {"bool", "isinstance", "issubclass", "type", "len", "getattr", "hasattr", "object", "list", "tuple", "dict",
            "set", "frozenset", "str", "bytes", "int", "float", "callable", "range", "iter", "next", "abs", "staticmethod", "AssertionError",
            "LookupError", "Exception", "Warning", "OSError", "ZeroDivisionError", "EOFError", "ImportError", "ord", "chr", "enumerate", "zip", "map"}
# Decorators under which a test passes only at its end.
HARMLESS = re.compile(r"mark\.|patch|skip|given|settings|example|usefixtures|freeze_time|override_settings", re.I)
IMPORTS = re.compile(rb"^\s*from\s+\S+\s+import\s+(\([^)]*\)|[^\n]*)", re.M)
RERUN = re.compile(r"xfail|expected_?failure|flaky|retry|rerun", re.I)
EXPECTED = re.compile(r"expect|want|correct|golden|reference|^ref$|^exp$", re.I)
PASSING = re.compile(r"ignor|suppress|swallow|catch|expect|xfail|retry|raises", re.I)


class Unfit(Exception):
    """A file that cannot be edited, and why."""


def last_name(node):
    """The identifier at the end of a name: C of a.b.C, "" of anything else."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def catches(kind):
    """Whether an except clause for this expression may catch an AssertionError."""
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(catches(e) for e in kind.elts)
    name = last_name(kind)
    if name in ("AssertionError", "Exception", "BaseException", "failureException"):
        return True
    return not name.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt", "StopIteration", "StopAsyncIteration"))


def swallows(item):
    """Whether a context manager may keep an AssertionError from the test."""
    call = item.context_expr
    name = last_name(call)
    if isinstance(call, ast.Call) and name in RAISES:
        return not name.startswith(("warns", "assertWarns")) and (not call.args or catches(call.args[0]))
    if isinstance(call, ast.Call) and name == "suppress":
        return any(catches(a) for a in call.args)
    return bool(PASSING.search(name))


def mentions(nodes, pattern):
    """Whether a name or an attribute in the nodes matches the pattern."""
    for top in nodes:
        for node in ast.walk(top):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name and pattern.search(name):
                return True
    return False


def own_nodes(body):
    """The nodes of a function's body without those of functions within it."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, FUNCTIONS + (ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))


def rank(node):
    """How sure an expression is an expected value: 0 a literal, 3 least, None not at all."""
    if isinstance(node, ast.Constant):
        return None if node.value is Ellipsis else 0
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return worst(node.elts)
    if isinstance(node, ast.Dict):
        return worst([k for k in node.keys if k is not None] + node.values)
    if isinstance(node, ast.UnaryOp):
        return rank(node.operand)
    if isinstance(node, ast.BinOp):
        return worst([node.left, node.right])
    if isinstance(node, ast.Name):
        return 1 if EXPECTED.search(node.id) or node.id.isupper() else 2
    if isinstance(node, ast.Call):
        args = node.args + [k.value for k in node.keywords]
        return 2 if last_name(node) in CONSTRUCTORS and worst(args) == 0 else None
    return None if any(isinstance(n, RUNS_CODE) for n in ast.walk(node)) else 3


def worst(nodes):
    """The rank of a whole that has these parts."""
    ranks = [rank(n) for n in nodes]
    return None if None in ranks else max(ranks, default=0)


def approx(node):
    """The value in pytest.approx(value), or the node itself."""
    if isinstance(node, ast.Call) and last_name(node) == "approx" and len(node.args) == 1:
        return node.args[0]
    return node


def expected(left, right):
    """Which of two sides of an equality is the expected value, or None."""
    left, right = approx(left), approx(right)
    a, b = rank(left), rank(right)
    if b is None:
        return None if a is None else left
    return left if a is not None and a < b else right


def leaves(node):
    """The literals in an expected value of which another one makes another value."""
    if isinstance(node, ast.Constant):
        return [node] if isinstance(node.value, (str, bytes, int, float)) else []
    if isinstance(node, ast.JoinedStr):
        return [node]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return leaves(node.operand)
    parts = []
    if isinstance(node, (ast.Tuple, ast.List)) or isinstance(node, ast.Set) and distinct(node.elts):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = node.values
    elif isinstance(node, ast.BinOp):
        found = leaves(node.left) + leaves(node.right)
        return [leaf for leaf in found if not isinstance(getattr(leaf, "value", ""), float)][:MAX_LEAVES] if computed(node) else []
    elif isinstance(node, ast.Call) and last_name(node) in WHOLE:
        parts = node.args + [k.value for k in node.keywords]
    elif isinstance(node, ast.Call) and last_name(node) in SETS and len(node.args) == 1:
        given = node.args[0]
        parts = [given] if isinstance(given, (ast.Tuple, ast.List, ast.Set)) and distinct(given.elts) else []
    return [leaf for part in parts for leaf in leaves(part)][:MAX_LEAVES]


def bounds(node):
    """The numbers in what something is compared with, of which one far off is past everything."""
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if isinstance(inner, ast.Constant):
        return [node] if type(inner.value) in (int, float) else []
    parts = leaves(node) if isinstance(node, ast.BinOp) else []
    return parts if all(isinstance(n, ast.Constant) and type(n.value) is int and n.value > 0 for n in parts) else []


def members(node):
    """The literals of which something has to be one, nothing where there are others among them."""
    parts = [bounds(e) or texts(e) for e in node.elts] if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [[]]
    found = [leaf for part in parts for leaf in part]
    return found if all(len(part) == 1 for part in parts) and len(found) <= MAX_ROWS else []


def texts(node):
    """The text that something is looked for in something, or is a pattern."""
    return [node] if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and node.value else []


def difference(node):
    """The two sides of abs(a - b), None for anything else."""
    if isinstance(node, ast.Call) and last_name(node) in ("abs", "fabs") and len(node.args) == 1:
        inner = node.args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            return inner.left, inner.right
    return None


def distinct(nodes):
    """Whether no two expressions are the same."""
    return len({ast.dump(n) for n in nodes}) == len(nodes)


def computed(node):
    """Whether another literal in a sum or product makes another value."""
    if isinstance(node.op, ast.Add):
        return True
    known = (ast.Constant, ast.BinOp, ast.List, ast.Tuple, ast.operator, ast.expr_context)
    inner = list(ast.walk(node))
    return isinstance(node.op, ast.Mult) and all(isinstance(n, known) and getattr(n, "value", 1) not in (0, "", b"") for n in inner)


def straight(body):
    """The simple statements of a body that run whenever it does, as far as it says, and the heads of with. Those of
    a loop over rows that stand there are among them: who asks has seen that nothing leaves it early."""
    found = set()
    for node in body:
        if isinstance(node, WITHS):
            found.add(node)
            if not any(swallows(i) for i in node.items):
                found |= straight(node.body)
        elif isinstance(node, ast.For) and isinstance(node.iter, (ast.Tuple, ast.List)) and any(not isinstance(e, ast.Starred) for e in node.iter.elts):
            found |= straight(node.body)
        elif not isinstance(node, COMPOUND):
            found.add(node)
    return found


def leaves_early(body):
    """Whether a body may end before its last statement without a failure."""
    return any(isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)) for n in own_nodes(body))


def columns(names, table):
    """The literals of each row of a table for each of the names, in their order."""
    rows = table.elts if isinstance(table, (ast.Tuple, ast.List)) else []
    cells = [r.elts if isinstance(r, (ast.Tuple, ast.List)) else r.args if last_name(r) == "param" and isinstance(r, ast.Call) else [] for r in rows]
    if not 0 < len(rows) <= MAX_ROWS or any(len(c) != len(names) for c in cells) or any(isinstance(x, ast.Starred) for c in cells for x in c):
        return {}
    return {name: [leaves(c[i]) for c in cells] for i, name in enumerate(names) if name}


def tables(function, literals):
    """The names in a test that are columns of a table: where they stand for it, and its rows."""
    found = []
    stored = [n.id for n in own_nodes(function.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    for node in function.body:
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and not leaves_early(node.body):
            names = [e.id if isinstance(e, ast.Name) and stored.count(e.id) == 1 else "" for e in node.target.elts]
            table = literals.get(node.iter.id) if isinstance(node.iter, ast.Name) else node.iter
            found.append((straight(node.body), columns(names, table)))
    marks = [d for d in function.decorator_list if isinstance(d, ast.Call) and last_name(d) == "parametrize" and len(d.args) == 2]
    if len(marks) == 1 and not leaves_early(function.body):
        given, table = marks[0].args
        names = []
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            names = [n.strip() for n in given.value.split(",")]
        elif isinstance(given, (ast.Tuple, ast.List)):
            names = [getattr(e, "value", "") for e in given.elts]
        names = [n if isinstance(n, str) and n not in stored else "" for n in names]
        table = literals.get(table.id) if isinstance(table, ast.Name) else table
        if len(names) > 1:
            found.append((straight(function.body), columns(names, table)))
    return found


def origins(function, literals):
    """The values of the names that stand for one value, and that only one place in the test uses."""
    names = [n for top in function.body for n in ast.walk(top) if isinstance(n, ast.Name)]
    stored = [n.id for n in names if not isinstance(n.ctx, ast.Load)] + [a.arg for a in ast.walk(function) if isinstance(a, ast.arg)]
    loaded = [n.id for n in names if isinstance(n.ctx, ast.Load)]
    found = {name: value for name, value in literals.items() if name not in stored}
    for node in own_nodes(function.body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if stored.count(node.targets[0].id) == 1:
                found[node.targets[0].id] = node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, values = node.targets[0].elts, node.value.elts
            if len(names) == len(values) and all(isinstance(n, ast.Name) and stored.count(n.id) == 1 for n in names):
                found.update((n.id, v) for n, v in zip(names, values))
    return {name: value for name, value in found.items() if loaded.count(name) == 1}


class Source:
    """The text of one file: offsets, and segments that are checked by parsing them again."""

    def __init__(self, raw):
        self.raw = raw
        self.base = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        if encoding not in ("utf-8", "utf-8-sig"):
            if encoding not in ("ascii", "us-ascii", "iso-8859-1") or not raw.isascii():
                raise Unfit("the encoding is " + encoding[:40] + ", not UTF-8")
        if re.search(rb"\r(?!\n)", raw):
            raise Unfit("a carriage return that does not end a line")
        text = raw[self.base:].decode("utf-8")
        self.tree = ast.parse(text)
        self.starts = [self.base] + [m.end() for m in re.finditer(rb"\n", raw)]

    def start(self, node):
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node):
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def line_end(self, number):
        """The offset of the end of a line, 1-based, without what terminates it."""
        stop = self.starts[number] if number < len(self.starts) else len(self.raw)
        return self.starts[number - 1] + len(self.raw[self.starts[number - 1]:stop].rstrip(b"\r\n"))

    def is_expression(self, node):
        """Whether the node's offsets hold exactly its text."""
        text = self.raw[self.start(node):self.end(node)].decode("utf-8", "replace")
        try:
            again = ast.parse("(" + text + "\n)", mode="eval").body
            return ast.dump(again) == ast.dump(node)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    def is_statement(self, node):
        """Whether the node is a simple statement, and something can follow it on its line."""
        if isinstance(node, COMPOUND):
            return False
        text = self.raw[self.start(node):self.end(node)].decode("utf-8", "replace")
        try:
            again = ast.parse(text).body
            same = len(again) == 1 and ast.dump(again[0]) == ast.dump(node)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        rest = self.raw[self.end(node):self.line_end(node.end_lineno)].lstrip(b" \t\x0c")
        return same and rest[:1] in (b"", b"#", b";")

    def indent(self, node):
        """The offsets of the white space in front of a statement, None if there is other text."""
        start = self.starts[node.lineno - 1]
        stop = self.start(node)
        return None if self.raw[start:stop].strip(b" \t") or start == stop else [start, stop]


class Finder:
    """Finds the sites of one test function."""

    def __init__(self, source, own, found=(), named=(), certain=(), errors=()):
        self.source = source
        self.own = own  # assertions that the file defines itself: their meaning is not known
        self.sites = []
        self.tables = found
        self.named = named
        self.certain = certain  # statements that run whenever the test passes
        self.errors = errors  # exceptions that have their built-in meaning
        self.statement = None

    def add(self, kind, form, node, **more):
        if any(s["kind"] == kind and s["start"] == self.source.start(node) and s["end"] == self.source.end(node) for s in self.sites[-9:]):
            return
        if self.source.is_expression(node):
            if self.statement in self.certain and (kind == "flip" or more.get("leaves") or more.get("rows") and more.get("all")):
                more["certain"] = True
            self.sites.append(dict(kind=kind, form=form, start=self.source.start(node), end=self.source.end(node), **more))

    def spans(self, nodes):
        """The offsets of literals that are where they seem to be."""
        return [[self.source.start(n), self.source.end(n)] for n in nodes if self.source.is_expression(n)]

    def equal(self, first, second):
        """The expected one of two values that are compared for equality; false if neither is known to be it."""
        side = expected(first, second)
        if side is None:
            return False
        self.same(side, side is first or side is second)
        return True

    def same(self, side, whole):
        """An expected value, which is compared as a whole where no tolerance goes with it."""
        if not whole and self.far(side):
            return
        if not isinstance(side, ast.Name):
            self.add("expect", "value", side, leaves=self.spans(leaves(side)), whole=whole)
            return
        for where, cells in self.tables:
            if self.statement in where and side.id in cells:
                self.add("expect", "value", side, rows=[self.spans(c[:1]) for c in cells[side.id]], whole=whole)
                return
        value = self.named[side.id] if side.id in self.named else None
        self.add("expect", "value", side, origin=self.spans(leaves(value)), whole=whole)

    def walk(self, body, shielded=False, depth=0):
        """Visit the statements of a body; shielded: a failure in it may not reach the runner."""
        if depth > MAX_DEPTH:
            return
        for node in body:
            if isinstance(node, FUNCTIONS + (ast.ClassDef,)):
                continue
            if isinstance(node, TRIES):
                escapes = any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in own_nodes(node.finalbody))
                outer = shielded or escapes
                self.walk(node.body, outer or any(catches(h.type) for h in node.handlers), depth + 1)
                for part in [h.body for h in node.handlers] + [node.orelse]:
                    self.walk(part, outer, depth + 1)
                self.walk(node.finalbody, shielded, depth + 1)
            elif isinstance(node, WITHS):
                within = shielded
                self.statement = node
                for item in node.items:
                    if isinstance(item.context_expr, ast.Call) and not within:
                        self.raising(item.context_expr)
                    within = within or swallows(item)
                self.walk(node.body, within, depth + 1)
            elif hasattr(node, "body"):
                self.walk(node.body, shielded, depth + 1)
                self.walk(node.orelse, shielded, depth + 1)
            elif hasattr(node, "cases"):
                for case in node.cases:
                    self.walk(case.body, shielded, depth + 1)
            elif not shielded:
                self.simple(node)

    def simple(self, node):
        self.statement = node
        if isinstance(node, ast.Assert):
            self.condition(node.test, False)
            return
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call):
            self.raising(value)
            if isinstance(node, ast.Expr):
                self.assertion(value)

    def condition(self, node, negative):
        """An expression of which only the truth counts."""
        if isinstance(node, (ast.Tuple, ast.Yield, ast.YieldFrom, ast.GeneratorExp, ast.Starred, ast.Constant)):
            return
        self.add("flip", "cond", node, negative=negative)
        self.truth(node, negative)

    def truth(self, node, negative):
        """What is expected in a condition that has to be true, or false."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.truth(node.operand, not negative)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or if negative else ast.And):
            for part in node.values:
                self.truth(part, negative)
        elif isinstance(node, ast.Compare):
            sides = [node.left] + node.comparators
            one = node if len(node.ops) == 1 else None
            for left, op, right in zip(sides, node.ops, sides[1:]) if one or not negative else ():
                self.order(left, op, right, negative, one)
            if one and isinstance(node.ops[0], (ast.In, ast.NotIn)) and self.membership(node, negative == isinstance(node.ops[0], ast.In)):
                return
            if one and not negative:
                self.comparison(node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.Call) and negative:
            self.absent(last_name(node), node)
        elif isinstance(node, ast.Call):
            self.matcher(node)

    def order(self, left, op, right, negative=False, whole=None):
        """The bound in a comparison: past every value that keeps it, or of one that must not, before it. Of a bound
        that is computed it is the comparison, or the arguments: left and right of whole, where that is not None."""
        if not isinstance(op, MORE + LESS):
            return
        sides = None if negative or not isinstance(op, LESS) else difference(left)
        if sides and self.near(*sides):
            return
        above = isinstance(op, MORE) != negative
        found = self.bound(right, "above" if above else "below")
        if not found or bounds(left):
            found = self.bound(left, "below" if above else "above") or found
        if not found and whole is not None:
            self.made(whole, left, right, ">" if above else "<")

    def membership(self, node, absent):
        """What has to be one of several values, or must not be: the values, or the comparison; false if it is the
        literal that is looked for."""
        left, right = node.left, node.comparators[0]
        values = members(right) if not absent else []
        if values:
            self.add("expect", "value", right, leaves=self.spans(values), way="far", all=True)
        elif isinstance(right, ast.Name) and not absent and members(self.named.get(right.id)):
            self.add("expect", "value", right, origin=self.spans(members(self.named[right.id])), way="far", all=True)
        elif isinstance(left, ast.Constant) and not absent:
            return False
        else:
            self.made(node, left, right, "not in" if absent else "in")
        return True

    def made(self, node, left, right, fails):
        """A comparison, or a call, of two sides that are asked for another pair."""
        source = self.source
        between = source.raw[source.end(left):source.start(right)]
        if isinstance(node, ast.Call):
            start, end, operator = source.start(left), source.end(right), []
            wanted = ast.Tuple([left, right], ast.Load())
            match = re.fullmatch(rb"\s*,\s*", between)
        else:
            start, end, wanted = source.start(node), source.end(node), node
            match = re.fullmatch(rb"[\s)]*(?:([<>]=?)|(?<=[\s)])(in|not +in)\b)[\s(]*", between)
            operator = [source.end(left) + n for n in (match.span(1) if match and match.group(1) else match.span(2) if match else ())]
        if not match or b"\n" in between:
            return
        text = source.raw[start:end].decode("utf-8", "replace")
        try:
            again = ast.parse("(" + text + "\n)", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        if ast.dump(again) == ast.dump(wanted) and not any(s["start"] == start and s["form"] in ("compare", "pair") for s in self.sites[-9:]):
            more = dict(certain=True) if self.statement in self.certain else {}
            self.sites.append(dict(kind="expect", form="pair" if isinstance(node, ast.Call) else "compare", start=start, end=end,
                                   operator=operator, fails=fails, loose=True, **more))

    def bound(self, node, way):
        """A number that is a bound, or a name that stands for one; false if it is none."""
        if bounds(node):
            self.add("expect", "value", node, leaves=self.spans(bounds(node)), way=way)
            return True
        for where, cells in self.tables if isinstance(node, ast.Name) else ():
            if self.statement in where and any(len(c) == 1 and bounds(c[0]) for c in cells.get(node.id, ())):
                rows = [bounds(c[0]) if len(c) == 1 else [] for c in cells[node.id]]
                self.add("expect", "value", node, rows=[self.spans(c) for c in rows], way=way, all=True)
                return True
        value = self.named.get(node.id) if isinstance(node, ast.Name) else None
        if value is None or not bounds(value):
            return False
        self.add("expect", "value", node, origin=self.spans(bounds(value)), way=way)
        return True

    def near(self, first, second):
        """What a value may differ from by not more than a tolerance: far from all; false if it is not known."""
        return self.far(expected(first, second))

    def far(self, side):
        """An expected number, or some of them, that a tolerance goes with: one far from all."""
        if isinstance(side, (ast.List, ast.Tuple)) and side.elts and all(bounds(e) for e in side.elts):
            self.add("expect", "value", side, leaves=self.spans(side.elts[:MAX_LEAVES]), way="above")
            return True
        return side is not None and self.bound(side, "above")

    def part(self, node, way="part", **more):
        """A text that is looked for, or a pattern: a longer one."""
        if texts(node):
            self.add("expect", "value", node, leaves=self.spans([node]), way=way, **more)

    def absent(self, name, call):
        """What a text must not begin with, or must not match: nothing, which each does."""
        owner = getattr(call.func, "value", None)
        if call.args and owner is not None and (name in ENDS or name in ("match", "search") and getattr(owner, "id", "") in ("re", "regex")):
            self.part(call.args[0], "none", loose=True)

    def matcher(self, call):
        """The argument of a call that says whether a value fits it."""
        name, args = last_name(call), call.args
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not args or name in self.own or any(isinstance(a, ast.Starred) for a in args):
            return
        if name in ENDS and owner is not None and texts(args[0]):
            self.add("expect", "value", args[0], leaves=self.spans(args[:1]))
        elif name in ENDS and owner is not None and members(args[0]):
            self.add("expect", "value", args[0], leaves=self.spans(members(args[0])), way="part", all=True)
        elif HOLDS.match(name) and owner is not None and len(args) == 1 and not call.keywords and (bounds(args[0]) or texts(args[0])):
            self.add("expect", "value", args[0], leaves=self.spans(args), way="part" if texts(args[0]) else "word", loose=True)
        elif name in PATTERNS and isinstance(owner, ast.Name) and owner.id in ("re", "regex"):
            self.part(args[0], "match")
        elif name == "isinstance" and owner is None and len(args) == 2 and rank(args[1]) is not None:
            self.add("expect", "value", args[1])
        elif name in NEAR and len(args) > 1:
            self.near(args[0], args[1])

    def comparison(self, left, op, right):
        side = None
        if isinstance(op, ast.Eq):
            self.equal(left, right)
            return
        if isinstance(left, ast.Call) and isinstance(right, ast.Constant) and right.value in (None, True) and isinstance(op, ast.Is if right.value else ast.IsNot):
            self.matcher(left)
        if isinstance(op, ast.Is):
            side = expected(left, right)
        elif isinstance(op, ast.In):
            side = self.member(left)
            self.part(left)
        if side is not None:
            self.add("expect", "value", side)

    @staticmethod
    def member(node):
        """A literal that is looked for in something, None for what may be there in another form."""
        known = isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes, int, float))
        return node if known and not isinstance(node.value, bool) else None

    def assertion(self, call):
        """A statement that calls an assertion of TestCase, of a mock, or of numpy."""
        name, args = last_name(call), call.args
        if name in self.own or any(isinstance(a, ast.Starred) for a in args):
            return
        if name == "assertAlmostEqual" and len(args) > 1 and any(k.arg == "delta" for k in call.keywords):
            self.near(args[0], args[1])
        if name in CALLED:
            for given in args + [k.value for k in call.keywords]:
                if leaves(given):
                    self.add("expect", "value", given, leaves=self.spans(leaves(given)), way="far")
            return
        if any(k.arg not in ("msg", "places") for k in call.keywords):
            return
        if name in ("assertTrue", "assertFalse") and args:
            self.condition(args[0], name == "assertFalse")
        elif name in METHODS and len(args) >= METHODS[name]:
            self.method(call, name, args)
        elif name in CALLS and args and leaves(args[0]):
            self.add("expect", "value", args[0], leaves=self.spans(leaves(args[0])), way="far")
        elif name in ARRAYS and len(args) > 1 and rank(args[1]) == 0:
            if not self.near(args[0], args[1]):
                self.add("expect", "value", args[1])

    def method(self, call, name, args):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            if self.source.end(call.func) - self.source.start(call.func) == len((call.func.value.id + "." + name).encode()):
                self.add("flip", "call", call.func)
        side = None
        if name in ORDERS:
            self.order(args[0], ORDERS[name](), args[1], False, call)
        elif name == "assertIn" and members(args[1]):
            self.add("expect", "value", args[1], leaves=self.spans(members(args[1])), way="far", all=True)
            return
        elif name == "assertNotIn" or name == "assertIn" and not isinstance(args[0], ast.Constant):
            self.made(call, args[0], args[1], "not in" if name == "assertNotIn" else "in")
            return
        elif name == "assertNotRegex":
            self.part(args[1], "none", loose=True)
        elif name in ("assertRegex", "assertIn"):
            self.part(*((args[1], "match") if name == "assertRegex" else args[:1]))
        elif name == "assertAlmostEqual" and self.near(args[0], args[1]):
            return
        if name in EQUALITIES:
            side = expected(args[0], args[1])
            # Of a text in assertCountEqual the order does not count.
            counted = name == "assertCountEqual" and isinstance(side, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Name))
            if side is not None and name not in ("assertIs", "assertAlmostEqual") and not counted:
                self.equal(args[0], args[1])
                return
        elif name == "assertIn":
            side = self.member(args[0])
        elif name == "assertIsInstance" and rank(args[1]) is not None:
            side = args[1]
        if side is not None:
            self.add("expect", "value", side)

    def raising(self, call):
        """pytest.raises(E), self.assertRaises(E) and their like."""
        name = last_name(call)
        if name not in RAISES or name in self.own or not call.args:
            return
        count = len(self.sites)
        for pattern in [k.value for k in call.keywords if k.arg == "match"] + call.args[1:2 if name.endswith("Regex") else 1]:
            self.part(pattern, "match")
        told = len(self.sites) > count
        kind = call.args[0]
        names = [last_name(e) for e in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
        if rank(kind) is not None and not FATAL.intersection(names):
            known = isinstance(kind, ast.Name) and kind.id in self.errors and "arns" not in name
            self.add("expect", "value", kind, leaves=self.spans([kind] if known else []))
            if told:  # a class that is built in is what it is: the message can lie
                self.sites[-1].pop("certain", None)

    def failing(self, function, case):
        """The places of failing statements: cleanup, behind the first call, at the end."""
        source, body = self.source, function.body
        document = ast.get_docstring(function, clean=False) is not None
        rest = body[1:] if document else body
        if case and rest and source.is_statement(rest[0]):
            self.place("before", "cleanup", source.start(rest[0]), case)
        elif case and document and source.is_statement(body[0]):
            self.place("after", "cleanup", source.end(body[0]), case)
        certain = not leaves_early(body)
        first = self.first_call(rest, 0)
        if first is not None:
            self.place("after", "first", source.end(first), "", certain=certain and first is body[-1])
        last = body[-1]
        if isinstance(last, ast.Return):
            if source.is_statement(last):
                self.place("before", "end", source.start(last), "")
        elif isinstance(last, COMPOUND):
            self.behind(function, last, certain)
        elif last is not first and not isinstance(last, ast.Raise) and source.is_statement(last):
            self.place("after", "end", source.end(last), "", certain=certain)

    def place(self, form, at, offset, case, **more):
        self.sites.append(dict(kind="fail", form=form, place=at, start=offset, end=offset, self=case, **more))

    def first_call(self, body, depth):
        """The first simple statement that calls something, if it is reached whatever happens."""
        for node in body:
            if isinstance(node, WITHS) and any(last_name(i.context_expr) in RAISES for i in node.items):
                continue  # what is behind a call in it may not be reached
            if isinstance(node, WITHS) and depth < MAX_DEPTH and not any(swallows(i) for i in node.items):
                return self.first_call(node.body, depth + 1)
            if isinstance(node, COMPOUND + (ast.Return, ast.Raise)):
                return None
            if any(isinstance(n, ast.Call) for n in ast.walk(node)):
                return node if self.source.is_statement(node) else None
        return None

    def behind(self, function, last, certain):
        """A line behind a body that ends in a block: a blank one that is there, or a new one."""
        source = self.source
        indent = source.indent(function.body[0])
        if indent is None or function.body[0].lineno == function.lineno:
            return
        number = last.end_lineno
        stop = source.line_end(number)
        if source.raw[source.start(last):stop].endswith(b"\\"):
            return
        if number + 1 < len(source.starts) and not source.raw[source.starts[number]:source.starts[number + 1]].strip():
            self.place("line", "end", source.starts[number], "", indent=indent, certain=certain)
        else:
            self.place("newline", "end", stop, "", indent=indent, certain=certain)


class Collector:
    """Finds the tests of one module."""

    def __init__(self, source, shared):
        self.source = source
        self.shared = shared
        self.tests = []
        self.classes = []  # (qualified name, node, enclosing decorators)
        self.own = set()
        self.errors = set()  # built-in exceptions, unless the module gives one another meaning
        self.literals = {}  # tables of the module that one place uses
        self.called = set()  # names of functions and methods that a function of the file refers to

    def run(self):
        tree = self.source.tree
        self.errors = set() if self.check_names(tree) & (ERRORS | {"*"}) else ERRORS
        self.own = {n.name for n in ast.walk(tree) if isinstance(n, FUNCTIONS) and n.name.startswith("assert")}
        used = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        self.literals = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
                         and used.count(n.targets[0].id) == 2 and len(n.targets) == 1 and not {n.targets[0].id, "*"} & self.shared}
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                self.note_called(node)
            if isinstance(node, FUNCTIONS + (ast.ClassDef,)):
                self.note_loaded(node.decorator_list)
        self.note_loaded([n.value for n in own_nodes(tree.body) if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value])
        if self.has_doctest(tree):
            self.tests.append(dict(name="doctest:__doc__", at=0, why="a doctest", end=False, sites=[]))
        self.collect(tree.body, "", self.marks(tree.body), 0)
        for name, node, marks in self.classes:
            self.collect_class(name, node, marks)
        return self.unique()

    @staticmethod
    def check_names(tree):
        """The names that a module binds. It may not give a built-in name of the added functions another meaning."""
        bound = set()
        for node in own_nodes(tree.body):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, FUNCTIONS + (ast.ClassDef,)):
                bound.add(node.name)
            elif isinstance(node, ast.alias):
                bound.add((node.asname or node.name).split(".")[0])
        if bound & BUILTINS:
            raise Unfit("the module redefines " + sorted(bound & BUILTINS)[0])
        return bound

    def note_called(self, function):
        """Note the tests that a function refers to: they may run as a part of it."""
        for node in own_nodes(function.body):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != function.name:
                self.called.add(node.id)
            elif isinstance(node, ast.Attribute):
                self.called.add("." + node.attr)

    def note_loaded(self, nodes):
        """Note the names that are used while the module is loaded, when added functions are not there yet."""
        self.called.update(n.id for top in nodes for n in ast.walk(top) if isinstance(n, ast.Name))

    @staticmethod
    def has_doctest(node):
        return ">>> " in (ast.get_docstring(node, clean=False) or "")

    @staticmethod
    def marks(body):
        """The values of pytestmark in a module or a class."""
        return [n.value for n in body if isinstance(n, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in n.targets)]

    def collect(self, body, prefix, marks, depth):
        """Note the test functions of a module, and the classes of a module or class."""
        for node in body:
            if isinstance(node, FUNCTIONS):
                if not prefix and node.name.startswith("test"):
                    self.function(node, node.name, marks, "")
                elif self.has_doctest(node):
                    self.missed("doctest:" + prefix + node.name, node, "a doctest")
            elif isinstance(node, ast.ClassDef):
                name = prefix + node.name
                if self.has_doctest(node):
                    self.missed("doctest:" + name, node, "a doctest")
                below = marks + node.decorator_list + self.marks(node.body)
                self.classes.append((name, node, below))
                if depth < MAX_DEPTH:
                    self.collect(node.body, name + ".", below, depth + 1)
            elif isinstance(node, (ast.If, ast.With) + TRIES) and depth < MAX_DEPTH:
                parts = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
                for part in parts + [h.body for h in getattr(node, "handlers", [])]:
                    self.collect(part, prefix, marks, depth + 1)

    def collect_class(self, name, node, marks):
        methods = [n for n in node.body if isinstance(n, FUNCTIONS) and n.name.startswith("test")]
        runs = self.runs_as(name, node)
        for method in methods:
            heirs = [n for n, c in runs if c is node or all(getattr(m, "name", "") != method.name for m in c.body)]
            if len(heirs) == 1:
                self.function(method, heirs[0] + "." + method.name, marks, self.case(node, method))
            me = self.first_argument(method)
            for heir in heirs if 1 < len(heirs) <= MAX_HEIRS and me else []:
                self.function(method, heir + "." + method.name, marks, me, heir)
            if len(heirs) > MAX_HEIRS or len(heirs) > 1 and not me:
                self.missed(name + "." + method.name, method, "it is run by several classes")
            if not heirs:
                self.missed(name + "." + method.name, method, "its class is run only through classes that inherit from it")

    def runs_as(self, name, node):
        """The classes of this file that run the tests of a class: itself, and its heirs."""
        family, found = {node.name}, [(name, node)]
        for _ in range(len(self.classes)):
            more = [(n, c) for n, c, _ in self.classes if (n, c) not in found
                    and any(last_name(b) in family for b in c.bases)]
            if not more:
                break
            found.extend(more)
            family.update(c.name for _, c in more)
        return [(n, c) for n, c in found if self.is_run(c)]

    @staticmethod
    def is_run(node):
        """Whether a runner may collect a class: a TestCase, a Test* class, or one with a base of another file."""
        for n in node.body:
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant) and n.value.value is False:
                if any(isinstance(t, ast.Name) and t.id == "__test__" for t in n.targets):
                    return False
        return node.name.startswith("Test") or any(last_name(b) not in ("", "object") for b in node.bases)

    @staticmethod
    def first_argument(method):
        """The name of "self" in a method, "" where there is none."""
        if any(last_name(d) in ("staticmethod", "classmethod") for d in method.decorator_list):
            return ""
        args = getattr(method.args, "posonlyargs", []) + method.args.args
        return args[0].arg if args else ""

    def case(self, node, method):
        """The name of "self" in a method of a TestCase, "" elsewhere."""
        me = self.first_argument(method)
        if me and any(last_name(b).endswith("TestCase") for b in node.bases):
            return me
        uses = any(isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == me
                   and re.match(r"assert[A-Z]|subTest$|addCleanup$", n.attr) for n in ast.walk(node))
        return me if uses else ""

    def missed(self, name, node, why):
        """Note a test that has no sites."""
        if len(name.encode("utf-8")) > MAX_NAME:
            raise Unfit("a name of more than %d bytes" % MAX_NAME)
        self.tests.append(dict(name=name, at=self.source.start(node), why=why, end=False, sites=[]))

    def function(self, node, name, marks, case, owner=""):
        decorators, why = node.decorator_list, ""
        if mentions(marks + decorators, RERUN):
            why = "it is marked as expected to fail, or to be run again"
        elif any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node.body)) and not decorators:
            why = "a generator: its body is not run as a test"
        elif ("." if "." in name else "") + node.name in self.called:
            why = "other code of the file calls it"
        if why or len(name.encode("utf-8")) > MAX_NAME:
            self.missed(name, node, why)
            return
        certain = set() if leaves_early(node.body) else straight(node.body)
        finder = Finder(self.source, self.own, tables(node, self.literals), origins(node, self.literals), certain, self.errors)
        try:
            if not owner:
                finder.walk(node.body)
            finder.failing(node, "" if owner else case)
        except RecursionError:
            self.missed(name, node, "it is nested too deeply")
            return
        if owner:
            for site in finder.sites:
                site.update(self=case, owner=owner)
        if not all(HARMLESS.search(ast.unparse(d) if hasattr(ast, "unparse") else last_name(d)) for d in marks + decorators):
            for site in finder.sites:
                site.pop("certain", None)
        sites = sorted(finder.sites, key=lambda s: (s["start"], -s["end"]))
        end = not owner and not mentions(node.body + decorators, re.compile("^(subTest|subtests|parametrize|given)$"))
        last = [s for s in sites if s["kind"] == "fail" and s["form"] != "before" and s["start"] >= self.source.end(node)]
        self.tests.append(dict(name=name, at=self.source.start(node), why="" if sites else "no place to edit",
                               end=bool(end and last), sites=sites))

    def unique(self):
        """The tests in the order of the text, each name once."""
        tests, seen = [], {}
        for test in sorted(self.tests, key=lambda t: t["at"]):
            first = seen.get(test["name"])
            if first is None:
                seen[test["name"]] = test
                tests.append(test)
            else:
                first.update(why="it is defined more than once", end=False, sites=[])
        if len(tests) > MAX_TESTS:
            raise Unfit("more than %d tests" % MAX_TESTS)
        if sum(len(t["sites"]) for t in tests) > MAX_SITES:
            raise Unfit("more than %d sites" % MAX_SITES)
        return tests


def helpers_at(source, tests):
    """Where functions can be added: the end, or before the module runs its tests itself."""
    first = min((t["at"] for t in tests), default=len(source.raw))
    names = {part for t in tests for part in t["name"].split(".")}
    tested = re.compile("^(" + "|".join(sorted(re.escape(n) for n in names)) + ")$")
    runs = re.compile("^__name__$|main|run")
    for node in source.tree.body:
        executes = isinstance(node, ast.If) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        head = [node.test] if isinstance(node, ast.If) else [node]
        if executes and source.start(node) > first and node.col_offset == 0:
            if mentions(head, runs) or mentions([node], tested):
                return source.start(node)
    return len(source.raw)


def read(path):
    """The bytes of a regular file that is not too large."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Unfit("not a regular file")
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise Unfit("larger than %d bytes" % MAX_BYTES)
    return raw


def imported(paths):
    """The names that the files import from others, as far as a look at the text tells."""
    names = set()
    for path in paths:
        try:
            for words in IMPORTS.findall(read(path)):
                names.update(re.findall(r"\w+|\*", words.decode("utf-8", "replace")))
        except (Unfit, OSError):
            continue
    return names


def look(path, shared):
    """What is to be said of one file."""
    out = dict(path=path, sha256="", error="", helpers=0, tests=[])
    try:
        raw = read(path)
        out["sha256"] = hashlib.sha256(raw).hexdigest()
        source = Source(raw)
        tests = Collector(source, shared).run()
        out.update(helpers=helpers_at(source, tests), tests=tests)
    except Unfit as e:
        out["error"] = str(e)
    except SyntaxError as e:
        out["error"] = "not Python: %s (line %s)" % (str(e.msg)[:200], e.lineno)
    except (OSError, ValueError, RecursionError, MemoryError) as e:
        out["error"] = (type(e).__name__ + ": " + str(e))[:200]
    return out


def main():
    warnings.simplefilter("ignore")
    paths = sys.argv[1:1 + MAX_FILES]
    shared = imported(paths)
    for path in paths:
        sys.stdout.write(json.dumps(look(path, shared)) + "\n")
        sys.stdout.flush()


main()
