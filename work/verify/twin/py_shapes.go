package twin

// The catalogue. An edit draws for each form a few of these shapes and spreads
// them over the sites. To add one is to add a row; the run test tries each of
// them in both forms.
//
// Words that are replaced in the text of a shape, drawn anew for each shape of
// each file, but for $n, $s and $h:
//
//	$n  the number of the site          $s  "self" in the method of a site
//	$h  the name of the class that a site belongs to, quoted
//	$F $G  functions or variables       $K  a class
//	$m  an attribute                    $a to $f  local names
//	$w $x $y  words                     $i < $j   numbers
//	$C  the function that says of a number whether its site is sabotaged now
//	$O  the function that makes another value of the same type
//	$M  the function that makes another pair of two sides; $k says what it does not
//	    fulfil, $o is the operator
//	$H  the function that says whether an assertion of TestCase holds
//	$R  the function that turns a method of TestCase round
//	$P  the class that does so for each method of an object
//	$N  the function that records what is reached
//	$B  on a line of its own: the body, indented like it

// pyWrap is how an expression is handed to a function, with the site's number:
// the body finds the value in $a and the number in $b, and returns.
type pyWrap struct{ open, close, code string }

var pyWraps = []pyWrap{
	{"$F(", ", $n)", `
def $F($a, $b):
    $B`},
	{"$F($n, ", ")", `
def $F($b, $a):
    $B`},
	{"$F($n)(", ")", `
def $F($b):
    def $c($a):
        $B
    return $c`},
	{"$F(", ", $b=$n)", `
def $F($a, $b):
    $B`},
	{"$F($n, $a=(", "))", `
def $F($b, $a):
    $B`},
	{"$F[$n](", ")", `
class $K:
    def __getitem__($c, $b):
        def $d($a):
            $B
        return $d


$F = $K()`},
	{"$K.$m(", ", $n)", `
class $K:
    @staticmethod
    def $m($a, $b):
        $B`},
	{"$F[$n, (", ")]", `
class $K:
    def __getitem__($c, $d):
        $b, $a = $d
        $B


$F = $K()`},
	{"$F((", ", $n))", `
def $F($c):
    $a, $b = $c
    $B`},
	{"$F({$n: (", ")})", `
def $F($c):
    ($b, $a), = $c.items()
    $B`},
	{"$F(", `, "$w", $n)`, `
def $F($a, $c, $b):
    $B`},
	{"$K($n).$m(", ")", `
class $K:
    def __init__($c, $d):
        $c.$x = $d

    def $m($c, $a):
        $b = $c.$x
        $B`},
	{"$F.$m($n)(", ")", `
class $K:
    def $m($c, $b):
        return lambda $a: $c.$x($a, $b)

    def $x($c, $a, $b):
        $B


$F = $K()`},
}

// pyFlip is what is done with a condition: before and after are written around
// the wrapped expression, so that the whole is true when the condition holds
// and its site is not sabotaged, or the other way round.
type pyFlip struct{ before, after, body string }

var pyFlips = []pyFlip{
	{"", "", `
return not $a if $C($b) else $a`},
	{"", "", `
if $C($b):
    return not $a
return $a`},
	{"", "", `
return bool($a) != $C($b)`},
	{"", "", `
return bool($a) is not $C($b)`},
	{"not ", "", `
return bool($a) == $C($b)`},
	{"not ", "", `
if $C($b):
    return $a
return not $a`},
	{"", ` == "$w"`, `
return "$x" if bool($a) is $C($b) else "$w"`},
	{"", ` != "$w"`, `
return "$w" if bool($a) is $C($b) else "$x"`},
	{"", " > $i", `
return $i if $C($b) == bool($a) else $j`},
	{"", " < $j", `
if bool($a) != $C($b):
    return $i
return $j`},
	{"$i in ", "", `
return [$j] if bool($a) == $C($b) else [$i, $j]`},
	{`"$w" in `, "", `
$e = ["$w", "$x"]
return $e[bool($a) == $C($b):]`},
	{"", " is None", `
if $C($b) == bool($a):
    return "$w"`},
	{"", " is not None", `
if $C($b) != bool($a):
    return "$w"`},
}

// pyExpects are bodies that return the value, or another one of its type.
var pyExpects = []string{`
return $O($a, $b) if $C($b) else $a`, `
if not $C($b):
    return $a
return $O($a, $b)`, `
$e = [$a]
if $C($b):
    $e.append($O($a, $b))
return $e.pop()`, `
return ($O if $C($b) else lambda $e, $f: $e)($a, $b)`, `
return (lambda: $a, lambda: $O($a, $b))[$C($b)]()`, `
for $e in range($C($b)):
    $a = $O($a, $b)
return $a`, `
$e = $C($b)
return ($e and [$O($a, $b)] or [$a])[0]`, `
while $C($b):
    return $O($a, $b)
return $a`, `
if $C($b):
    $a = $O($a, $b)
return $a`}

// pyPairs are statements that make another pair of the one in $a, pyCompares what
// returns how its sides compare.
var (
	pyPairs = []string{`
if $C($b):
    $a = $M(*$a, $k)`, `
$a = $M($a[0], $a[1], $k) if $C($b) else $a`, `
for $e in range($C($b)):
    $a = $M(*$a, $k)`, `
$e = [$a]
if $C($b):
    $e.append($M(*$a, $k))
$a = $e.pop()`, `
while $C($b):
    $a = $M(*$a, $k)
    break`}
	pyCompares = []string{`
return $a[0] $o $a[1]`, `
$e, $f = $a
return $e $o $f`, `
return (lambda $e, $f: $e $o $f)(*$a)`}
)

// pyKinds are the numbers by which $M knows what a pair must not fulfil.
var pyKinds = map[string]string{">": "0", "<": "1", "in": "2", "not in": "3"}

// pyCall is what is done with an assertion of TestCase: the method is wrapped,
// or the object in front of the dot is.
type pyCall struct {
	receiver bool
	body     string
}

var pyCalls = []pyCall{
	{false, `
return $R($a, $b)`},
	{false, `
$e = $R($a, $b)
return $e`},
	{false, `
return lambda *$e, **$f: $R($a, $b)(*$e, **$f)`},
	{true, `
return $P($a, $b)`},
	{true, `
$e = $P($a, $b)
return $e`},
}
