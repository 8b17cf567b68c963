package twin

// pyRow is what decides whether an evaluation is sabotaged. A site counts from
// at in steps of by, and is sabotaged while low <= count < high. The values of
// a neutral and of a sabotaged site are drawn from the same ranges.
type pyRow struct{ number, at, by, low, high int }

// newPyRow draws the values of one site. Its number comes from number.
func newPyRow(d *pyDraw, number int, order *Order) pyRow {
	r := pyRow{number: number, by: d.between(2, 9)}
	middle := d.between(200, 899)
	before := d.below(r.by)
	after := d.below(r.by - before)
	// Which evaluation a neutral site would be closest to, and on which side of
	// its hits the window is, is drawn for every site, needed or not.
	round, still, side := d.between(1, 9), d.below(2) == 0, d.below(2)*2-1
	always := order != nil && order.Evaluation == 0
	switch {
	case always || order == nil && still:
		r.by = 0
		r.at, r.low, r.high = middle, middle-before, middle+after+1
		if !always {
			move := side * d.between(10, 90)
			r.low, r.high = r.low+move, r.high+move
		}
	case order != nil:
		r.at, r.low, r.high = middle, middle+order.Evaluation*r.by-before, middle+order.Evaluation*r.by+after+1
	default:
		// The window lies between two hits, or where the count never comes.
		hit := middle + round*r.by
		r.at, r.low, r.high = middle, hit+1, max(hit+r.by-after, hit+2)
		if side < 0 {
			r.low, r.high = middle-round*r.by-before, middle-round*r.by+after+1
		}
	}
	return r
}

// pyCore is the function $C with its table: $T stands for the rows, in which $1
// to $4 are the values, and $Q{x|low|high} for a comparison.
type pyCore struct{ row, code string }

var pyCores = []pyCore{
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
