package twin

// pyOthers make another value of the type of $a, the number $b decides which: one
// that is like it where $b is even, so that $a is compared as a whole, and else one
// that no part and no tolerance covers. A plain object is the answer for None, and
// for what they do not know.
var pyOthers = []string{`
def $O($a, $b):
    $c = $b % 1000 + $i
    try:
        if $a is None:
            return object()
        if isinstance($a, bool):
            return not $a
        if isinstance($a, type):
            if issubclass($a, Warning):
                $a = Warning
            elif issubclass($a, Exception):
                $a = Exception
            elif issubclass($a, BaseException):
                return object()
            for $d in (ZeroDivisionError, EOFError, ImportError):
                if not issubclass($a, $d) and not issubclass($d, $a):
                    return $d
            return type($a)("$w", ($a,), {})
        if hasattr(type($a), "__members__"):
            return [$d for $d in type($a) if $d is not $a][0]
        if isinstance($a, str):
            for $d in range(len($a)) if $b % 2 == 0 else ():
                $d = ($d + $c) % len($a)
                for $e in ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"):
                    if $a[$d] in $e:
                        return $a[:$d] + $e[($e.index($a[$d]) + 1 + $c % 9) % len($e)] + $a[$d + 1:]
            return $a + "$x$w"[$b % 4:]
        if isinstance($a, (bytes, bytearray)):
            return type($a)($O($a.decode("latin-1"), $b).encode("latin-1"))
        if isinstance($a, int) and $b % 2 == 0:
            return $a + 1 + $c % 5
        if $a and $b % 2 == 0 and isinstance($a, (tuple, list)) and not isinstance($a[-1], type):
            if isinstance($a[-1], (str, int, tuple, list)) and not hasattr($a, "_replace"):
                return $a[:-1] + type($a[:-1])([$O($a[-1], $b)])
        if hasattr($a, "_replace") and hasattr($a, "_fields"):
            return $a._replace(**{$a._fields[0]: $O($a[0], $b)})
        if isinstance($a, tuple):
            if $a and not [$d for $d in $a if not isinstance($d, type)]:
                return tuple([$O($d, $b) for $d in $a])
            return $a + ($a[:1] or ($c,))
        if isinstance($a, list):
            return $a + ($a[:1] or [$c])
        if isinstance($a, (set, frozenset)):
            return $a | {$O(next(iter($a)), $b) if $a else $c}
        if isinstance($a, dict):
            $d = $a.copy()
            $d[$O(next(iter($a)), $b) if $a else "$w"] = next(iter($a.values()), 0) or $c
            return $d
        if isinstance($a, range):
            return range($a.start, $a.start + (len($a) + 1) * $a.step, $a.step)
        if hasattr($a, "resolution"):
            return $a + $a.resolution * $c
        if hasattr($a, "joinpath"):
            return $a.joinpath("$x")
        $d = $a + abs($a) + $c
        return -$a if ($d == $a) is True else $d
    except Exception:
        return object()`, `
def $O($a, $b):
    $c = $i + $b % 997

    def $F():
        for $d in (Warning, Exception, BaseException):
            if issubclass($a, $d):
                for $e in (ImportError, ZeroDivisionError, EOFError) if $d is Exception else ():
                    if not issubclass($a, $e) and not issubclass($e, $a):
                        return $e
                return object() if $d is BaseException else type("$w", ($d,), {})
        return type($a)("$w", ($a,), {})

    def $G():
        $d = $a.copy()
        $d[$O(next(iter($a)), $b) if $a else "$x"] = next(iter($a.values()), 0) or $c
        return $d

    def $K():
        if $a and len([$d for $d in $a if isinstance($d, type)]) == len($a):
            return tuple([$O($d, $b) for $d in $a])
        if hasattr($a, "_fields"):
            return $a._replace(**{$a._fields[-1]: $O($a[-1], $b)})
        return $L()

    def $L():
        if $b % 2 == 0 and $a and isinstance($a[0], (str, int, tuple, list)):
            return type($a[1:])([$O($a[0], $b)]) + $a[1:]
        return $a + type($a[:0])($a[-1:] or ($c,))

    def $S():
        $d = [$e for $e in range(len($a)) if $a[$e].isalnum() and $a[$e].isascii()]
        if $d and $b % 2 == 0:
            $e = $d[$c % len($d)]
            $d = "0" if $a[$e].isdigit() else "a" if $a[$e].islower() else "A"
            $f = ord($a[$e]) - ord($d) + 1 + $c % 9
            return $a[:$e] + chr(ord($d) + $f % (10 if $d == "0" else 26)) + $a[$e + 1:]
        return $a + "$w$y"[$b % 3:]

    for $e, $f in (
        (type(None), object),
        (bool, lambda: not $a),
        (type, $F),
        (str, lambda: [$d for $d in type($a) if $d is not $a][0] if hasattr(type($a), "__members__") else $S()),
        ((bytes, bytearray), lambda: type($a)($O($a.decode("latin-1"), $b).encode("latin-1"))),
        (tuple, $K),
        (list, $L),
        ((set, frozenset), lambda: $a | {$O(next(iter($a)), $b) if $a else $c}),
        (dict, $G),
        (range, lambda: range($a.start, $a.start + (len($a) + 1) * $a.step, $a.step)),
        (object, lambda: [$d for $d in type($a) if $d is not $a][0] if hasattr(type($a), "__members__")
         else $a + $a.resolution * $c if hasattr($a, "resolution")
         else $a.joinpath("$y") if hasattr($a, "joinpath")
         else $a + 1 + $c % 5 if isinstance($a, int) and $b % 2 == 0
         else -$a if ($a + abs($a) + $c == $a) is True else $a + abs($a) + $c),
    ):
        if isinstance($a, $e):
            try:
                return $f()
            except Exception:
                return object()`}

// pyMates make a pair of $a and $b that does not fulfil what $c says: one of the two
// is asked for what is far from all, or for what is there. Of values that cannot lie
// ($S) it is known what they fulfil, and so it is of an empty set, which is a part of
// all; one of the others is as it was.
var pyMates = []string{`
def $M($a, $b, $c):
    if $c == 3:
        if isinstance($b, (str, bytes)):
            return "" if isinstance($b, str) else b"", $b
        $d = list($b)
        return ($d[0], $b) if $d else ($i, [$i])
    if $c == 2:
        if not $S($b):
            return $L($a, True) if isinstance($a, str) else "$w$x", $b
        return $a, [$L($d, True) for $d in $b]
    if not $S($a, $c == 1):
        return $a, $L($b, $c == 0)
    if not $S($b, $c == 0):
        return $L($a, $c == 1), $b
    return ($i, $j) if $c == 0 else ($j, $i)


def $S($a, $e=False):
    $b, $c = __import__("datetime"), __import__("decimal")
    $d = int, float, bool, str, bytes, list, tuple, set, frozenset, dict, range
    if type($a) in $d + ($b.datetime, $b.date, $b.timedelta, $b.time, $c.Decimal):
        return ($a == $a) is True
    if isinstance($a, (set, frozenset)):
        return $e and len($a) == 0
    try:
        return abs(float($a)) == float("inf")
    except Exception:
        return False


def $L($a, $b):
    if isinstance($a, str):
        return chr(1114000 + $i) * 3 if $b else ""
    if isinstance($a, (bytes, bytearray)):
        return bytes([255] * $j) if $b else b""
    if isinstance($a, (tuple, list)):
        return (tuple if isinstance($a, tuple) else list)([$L($d, $b) for $d in $a])
    if isinstance($a, (set, frozenset)):
        return $a | {object()} if $b else {object()}
    $c = getattr(type($a), "max" if $b else "min", None)
    if $c is not None and not callable($c):
        return $c.replace(tzinfo=$a.tzinfo) if getattr($a, "tzinfo", None) else $c
    return (5 if $b else -5) * 10 ** 18 + $j`, `
def $M($a, $b, $c):
    $d = [[$j, $i], [$i, $j]][$c == 0] if $c < 2 else [$i, [$i] * ($c - 2)]
    if $c < 2 and not ($S($a, $c == 1) and $S($b, $c == 0)):
        $d = [$L($a, $c == 1), $b] if $S($a, $c == 1) else [$a, $L($b, $c == 0)]
    elif $c == 2 and $S($b):
        $d = [$a, tuple([$L($e, True) for $e in $b])]
    elif $c == 2:
        $d = [$L($a, True) if isinstance($a, str) else "$y$x", $b]
    elif isinstance($b, (str, bytes)):
        $d = ["" if isinstance($b, str) else b"", $b]
    else:
        for $e in list($b):
            return $e, $b
    return tuple($d)


def $S($a, $d=False):
    $b = [getattr(__import__("datetime"), $c) for $c in ("datetime", "date", "time", "timedelta")]
    $b += [__import__("decimal").Decimal, int, float, bool, str, bytes, list, tuple, set, frozenset, dict, range]
    if [$c for $c in $b if type($a) is $c]:
        return bool($a == $a)
    try:
        return $d and len($a) < 1 if isinstance($a, (set, frozenset)) else float($a) in (float("inf"), float("-inf"))
    except Exception:
        return False


def $L($a, $b):
    if isinstance($a, (str, bytes, bytearray)):
        $c = chr(1113900 + $j) * 2 if isinstance($a, str) else bytes([255] * $i)
        return $c if $b else $c[:0]
    if isinstance($a, (set, frozenset)):
        return set([object()]) | ($a if $b else set())
    if isinstance($a, (tuple, list)):
        $c = [$L($d, $b) for $d in $a]
        return tuple($c) if isinstance($a, tuple) else $c
    for $c in [getattr(type($a), "max" if $b else "min", len)]:
        if $c is not None and not callable($c):
            return $c.replace(tzinfo=$a.tzinfo) if getattr($a, "tzinfo", None) else $c
    return 6 * 10 ** 18 + $i if $b else -7 * 10 ** 18 - $j`}

// pyHolds says for each assertion of TestCase when it holds: $a and $b are its
// arguments, $c the other positional ones, $d those with a name. The operators
// are those that the assertion itself uses.
var pyHolds = map[string]string{
	"assertEqual":          "$a == $b",
	"assertNotEqual":       "$a != $b",
	"assertIs":             "$a is $b",
	"assertIsNot":          "$a is not $b",
	"assertIsNone":         "$a is None",
	"assertIsNotNone":      "$a is not None",
	"assertIn":             "$a in $b",
	"assertNotIn":          "$a not in $b",
	"assertIsInstance":     "isinstance($a, $b)",
	"assertNotIsInstance":  "not isinstance($a, $b)",
	"assertGreater":        "$a > $b",
	"assertGreaterEqual":   "$a >= $b",
	"assertLess":           "$a < $b",
	"assertLessEqual":      "$a <= $b",
	"assertAlmostEqual":    `$a == $b or round(abs($a - $b), $c[0] if $c else $d.get("places", 7)) == 0`,
	"assertRegex":          `__import__("re").search($b, $a) is not None`,
	"assertNotRegex":       `__import__("re").search($b, $a) is None`,
	"assertCountEqual":     "(lambda $e, $f: len($e) == len($f) and not [1 for $x in $e if $e.count($x) != $f.count($x)])(list($a), list($b))",
	"assertSequenceEqual":  "list($a) == list($b)",
	"assertListEqual":      "$a == $b",
	"assertTupleEqual":     "$a == $b",
	"assertSetEqual":       "$a == $b",
	"assertDictEqual":      "$a == $b",
	"assertMultiLineEqual": "$a == $b",
}

// pyHold is a form of the function $H; row is repeated for each assertion that
// the file uses, $n is its name and $T its expression.
var pyHoldForms = []struct{ row, code string }{
	{`"$n": lambda: $T,`, `
def $H($y, $a, $b=None, *$c, **$d):
    return bool({
        $T
    }[$y]())`},
	{"if $y == \"$n\":\n    return bool($T)", `
def $H($y, $a, $b=None, *$c, **$d):
    $T`},
	{`("$n", lambda $a, $b, $c, $d: $T),`, `
def $H($y, $a, $b=None, *$c, **$d):
    for $e, $f in (
        $T
    ):
        if $e == $y:
            return bool($f($a, $b, $c, $d))`},
}

// pyTurns are the function $R: a method that is called as it is, or fails where
// it holds and is silent where it does not.
var pyTurns = []string{`
def $R($a, $b):
    def $c(*$d, **$e):
        if not $C($b):
            return $a(*$d, **$e)
        if $H($a.__name__, *$d, **$e):
            $a.__self__.fail("$w $x")
    return $c`, `
class $R:
    def __init__($a, $b, $c):
        $a.$w, $a.$x = $b, $c

    def __call__($a, *$b, **$c):
        if $C($a.$x):
            return $a.$w.__self__.assertFalse($H($a.$w.__name__, *$b, **$c))
        return $a.$w(*$b, **$c)`, `
def $R($a, $b):
    return lambda *$c, **$d: $F($a, $c, $d) if $C($b) else $a(*$c, **$d)


def $F($a, $b, $c):
    if $H($a.__name__, *$b, **$c):
        raise $a.__self__.failureException("$w $x")`, `
def $R($a, $b):
    def $c(*$d, **$e):
        if $C($b):
            return $a.__self__.assertTrue(not $H($a.__name__, *$d, **$e), "$w")
        return $a(*$d, **$e)
    return $c`}

// pyTracedTurn is $R in a file that records what is reached.
const pyTracedTurn = `
def $R($a, $b):
    def $c(*$d, **$e):
        if $C($b):
            $f = $H($a.__name__, *$d, **$e)
            $N($b, $f)
            return $a.__self__.assertFalse($f)
        try:
            $f = $a(*$d, **$e)
        except AssertionError:
            $N($b, False)
            raise
        $N($b, True)
        return $f
    return $c`

// pyProxies are the class $P.
var pyProxies = []string{`
class $P:
    def __init__($a, $b, $c):
        $a.$w = $b, $c

    def __getattr__($a, $d):
        $b, $c = $a.$w
        return $R(getattr($b, $d), $c)`, `
def $P($a, $b):
    class $K:
        def __getattr__($c, $d):
            return $R(getattr($a, $d), $b)
    return $K()`}

// pyTrace is the function $N, $p is the path. The functions of os are taken when
// the module is loaded, before a test replaces them. $T are rows of number: (kind,
// the line for the site, whether a condition has to be false, the line that says
// that the test passed or "").
const pyTrace = `
$F = {
    $T
}
$G = {$a: [0, 0] for $a in $F}


def $N($a, $b=None):
    $c, $d, $e, $f = $F[$a]
    $x = $G[$a]
    $x[0] += 1
    if $c == "flip":
        $y = bool($b) is not $e
        $x[1] += not $y
        if $x[0] == 1 or not $y and $x[1] <= 16:
            $K($d % ("E", " %d %s" % ($x[0], "ok" if $y else "failed")))
    elif $x[0] == 1:
        if $c == "fail" or $b is None or type($O($b, $a)) is not object:
            $K($d % ("R", ""))
        if $f:
            $K($f)


def $K($a, $b=__import__("os"), $c=__import__("os").open, $d=__import__("os").write, $e=__import__("os").close):
    try:
        $f = $c($p, $b.O_WRONLY | $b.O_APPEND | $b.O_CREAT | $b.O_CLOEXEC, 0o666)
        try:
            $d($f, $a.encode("utf-8"))
        finally:
            $e($f)
    except OSError:
        pass`
