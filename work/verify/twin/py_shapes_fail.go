package twin

// pyStatement is a statement that can fail, with the functions that it needs;
// in the body, the number of the site is $b.
type pyStatement struct {
	text, code string
	body       []string // a choice of pyRaises where it is empty
}

// pyRaises are bodies that fail.
var pyRaises = []string{`
if $C($b):
    raise AssertionError("$w $x")`, `
assert not $C($b), "$w $x"`, `
if $C($b):
    raise LookupError("$w $x")`, `
return ["$w"][$C($b)]`, `
return {False: "$w"}[$C($b)]`, `
for $e in range($C($b)):
    raise AssertionError("$w", $e)`, `
return $i // (1 - $C($b))`, `
assert $C($b) is False, "$w"`, `
if not $C($b):
    return "$w"
raise AssertionError("$x")`}

// pyFails are put behind or in front of a statement, or on a line of their own.
var pyFails = []pyStatement{
	{"$F($n)", `
def $F($b):
    $B`, nil},
	{`$F($n, "$w")`, `
def $F($b, $a):
    $B`, nil},
	{`$F("$w", $b=$n)`, `
def $F($a, $b):
    $B`, nil},
	{"$K.$m($n)", `
class $K:
    @staticmethod
    def $m($b):
        $B`, nil},
	{"$F[$n]", `
class $K:
    def __getitem__($a, $b):
        $B


$F = $K()`, nil},
	{"$F($n)()", `
def $F($b):
    def $c():
        $B
    return $c`, nil},
	{"assert $F($n)", `
def $F($b):
    $B`, []string{"return not $C($b)", "return $C($b) is False", "return [] if $C($b) else [$i]"}},
	{"assert not $F($n)", `
def $F($b):
    $B`, []string{"return $C($b)", "return [$i] if $C($b) else []", `return "$w" if $C($b) else ""`}},
	{`assert $F($n) == "$w"`, `
def $F($b):
    $B`, []string{`return "$x" if $C($b) else "$w"`, `return ("$w", "$x")[$C($b)]`}},
	{`assert $F("$w", $n) != $j, "$x"`, `
def $F($a, $b):
    $B`, []string{"return $j if $C($b) else $i", "return ($i, $j)[$C($b)]"}},
	{"assert $F($n) is None", `
def $F($b):
    $B`, []string{`return "$w" if $C($b) else None`, "return (None, $i)[$C($b)]"}},
	{"assert $i in $F($n)", `
def $F($b):
    $B`, []string{"return [$j] if $C($b) else [$i, $j]", "return ([$j, $i], [$j])[$C($b)]"}},
	{"assert $F[$n] > $i", `
class $K:
    def __getitem__($a, $b):
        $B


$F = $K()`, []string{"return $i if $C($b) else $j", "return ($j, $i)[$C($b)]"}},
}

// pyCleanups are statements of a method of a TestCase after which the test
// fails whatever it does.
var pyCleanups = []pyStatement{
	{"$s.addCleanup($F, $n)", `
def $F($b):
    $B`, nil},
	{`$s.addCleanup($F, $n, "$w")`, `
def $F($b, $a):
    $B`, nil},
	{"$s.addCleanup($F($n))", `
def $F($b):
    def $c():
        $B
    return $c`, nil},
	{"$s.addCleanup($F, $b=$n)", `
def $F($b):
    $B`, nil},
	{"$s.addCleanup($K.$m, $n)", `
class $K:
    @staticmethod
    def $m($b):
        $B`, nil},
	{"$F($s, $n)", `
def $F($a, $b):
    def $c():
        $B
    $a.addCleanup($c)`, nil},
	{"$F($n, $s.addCleanup)", `
def $F($b, $a):
    def $c($b):
        $B
    $a($c, $b)`, nil},
	{"$s.addCleanup(lambda: $F($n))", `
def $F($b):
    $B`, nil},
	{"$s.addCleanup($F, $s, $n)", `
def $F($a, $b):
    $B`, []string{"\nif $C($b):\n    $a.fail(\"$w $x\")", "$a.assertFalse($C($b))", "$a.assertEqual($C($b), False, \"$w\")"}},
	{"$s.addCleanup($F[$n])", `
class $K:
    def __getitem__($a, $b):
        def $c():
            $B
        return $c


$F = $K()`, nil},
}

// pyOwned are statements of a method that several classes run, and fail in one.
var pyOwned = []pyStatement{
	{"$F($s, $n, $h)", `
def $F($a, $b, $c):
    if type($a).__qualname__ == $c:
        $B`, nil},
	{"$F($n, type($s), $h)", `
def $F($b, $a, $c):
    if $c == $a.__qualname__:
        $B`, nil},
	{"$F($s, $h)($n)", `
def $F($a, $c):
    def $d($b):
        if type($a).__qualname__ == $c:
            $B
    return $d`, nil},
	{"$K.$m($h, $n, $s)", `
class $K:
    @staticmethod
    def $m($c, $b, $a):
        if $a.__class__.__qualname__ != $c:
            return
        $B`, nil},
	{"$F[$h](type($s), $n)", `
class $K:
    def __getitem__($d, $c):
        def $f($a, $b):
            if $a.__qualname__ == $c:
                $B
        return $f


$F = $K()`, nil},
	{"$F($n, $a=$s, $c=$h)", `
def $F($b, $a, $c):
    $d = type($a).__qualname__
    if $d == $c:
        $B`, nil},
	{"$F({$h: $n}, $s)", `
def $F($c, $a):
    $b = $c.get(type($a).__qualname__)
    if $b is not None:
        $B`, nil},
	{"$F(($h, $n), $s)", `
def $F($c, $a):
    $d, $b = $c
    if getattr(type($a), "__qualname__") == $d:
        $B`, nil},
}
