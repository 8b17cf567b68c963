package twin

var pyCores = []siteCore{
	{"$n: [$1, $2, $3, $4],", `
$F = {
    $T
}


def $C($a):
    $b = $F[$a]
    $b[0] += $b[1]
    return $Q{$b[0]|$b[2]|$b[3]}`},
	{"$n: $K($1, $2, $3, $4),", `
class $K:
    def __init__($a, $b, $c, $d, $e):
        $a.$m, $a.$w, $a.$x, $a.$y = $b, $c, $d, $e

    def __call__($a):
        $a.$m += $a.$w
        return $Q{$a.$m|$a.$x|$a.$y}


$F = {
    $T
}


def $C($a):
    return $F[$a]()`},
	{"$n: ([$1], $2, $3, $4),", `
def $C($a, $b={
    $T
}):
    $c, $d, $e, $f = $b[$a]
    $c.append($c.pop() + $d)
    return $Q{$c[0]|$e|$f}`},
	{`$n: "$1 $2 $3 $4",`, `
$F = {
    $T
}
$G = {}


def $C($a):
    $b, $c, $d, $e = [int($f) for $f in $F[$a].split()]
    $G[$a] = $G.get($a, $b) + $c
    return $Q{$G[$a]|$d|$e}`},
	{"($n, $1, $2, $3, $4),", `
$F = [
    $T
]
$G = {$a: [$b, $c] for $a, $b, $c, $d, $e in $F}


def $C($a):
    $G[$a][0] += $G[$a][1]
    $b = $G[$a][0]
    $c, = [$d for $d in $F if $d[0] == $a]
    return $Q{$b|$c[3]|$c[4]}`},
	{"$n: $F($1, $2, $3, $4),", `
def $F($a, $b, $c, $d):
    $e = [$a]

    def $f():
        $e[0] += $b
        return $Q{$e[0]|$c|$d}
    return $f


$G = {
    $T
}


def $C($a):
    return $G[$a]()`},
	{"$n: (($1, $2), ($3, $4)),", `
$F = {
    $T
}


def $C($a):
    ($b, $c), ($d, $e) = $F[$a]
    $b += $c
    $F[$a] = (($b, $c), ($d, $e))
    return $Q{$b|$d|$e}`},
	{`$n: {"$w": $1, "$x": $2, "$y": $3, "$m": $4},`, `
$F = {
    $T
}


def $C($a):
    $b = $F[$a]
    $b["$w"] = $b["$w"] + $b["$x"]
    return $Q{$b["$w"]|$b["$y"]|$b["$m"]}`},
	{"[$n, $1, $2, $3, $4],", `
def $C($a):
    for $b in $F:
        if $b[0] == $a:
            $b[1] += $b[2]
            return $Q{$b[1]|$b[3]|$b[4]}


$F = [
    $T
]`},
}

// pyWindows are comparisons: $1 is in the window that begins at $2 and ends
// before $3. Each is a bool.
var pyWindows = []string{
	"$2 <= $1 < $3",
	"not ($1 < $2 or $1 >= $3)",
	"$1 in range($2, $3)",
	"$2 - 1 < $1 <= $3 - 1",
	"$1 >= $2 and $1 < $3",
	"0 <= $1 - $2 < $3 - $2",
	"($1 < $2) != ($1 < $3)",
	"($1 >= $2) is not ($1 >= $3)",
	"$3 > $1 >= $2",
}
