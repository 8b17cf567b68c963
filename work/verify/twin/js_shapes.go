package twin

// The catalogue of JavaScript. An edit draws for each form a few of these shapes
// and spreads them over the sites. To add one is to add a row; the run test tries
// each of them in both forms.
//
// The words are those of py_shapes.go, and:
//
//	$q      of a test that calls back: which argument that is
//	@ % ^   of an assertion, see jsTurner
//	$R      the function that makes another one of what assertions are taken from
//
// Nothing has a type: checkers of types do not look at an edited file, see uncheck.
//
// A test may run while its file is still being read, so that of what stands at the
// end only functions are there: tables are made when they are first needed.

// jsWrap is how an expression is handed to a function, with the site's number: the
// body finds the value in $a and the number in $b, and returns.
type jsWrap struct{ open, close, code string }

var jsWraps = []jsWrap{
	{"$F(", ", $n)", `
function $F($a, $b) {
  $B
}`},
	{"$F($n, ", ")", `
function $F($b, $a) {
  $B
}`},
	{"$F($n)(", ")", `
function $F($b) {
  return ($a) => {
    $B
  };
}`},
	{"$F([", ", $n])", `
function $F($K) {
  let [$a, $b] = $K;
  $B
}`},
	{"$F({ $m: ", ", $w: $n })", `
function $F({ $m: $a, $w: $b }) {
  $B
}`},
	{"$F(", `, "$w", $n)`, `
function $F($a, $K, $b) {
  $B
}`},
	{"$F().$m(", ", $n)", `
function $F() {
  return { $m($a, $b) {
    $B
  } };
}`},
}

// jsFlip is what is done with a condition: before and after are written around the
// wrapped expression, so that the whole is true when the condition holds and its
// site is not sabotaged, or the other way round.
type jsFlip struct{ before, after, body string }

var jsFlips = []jsFlip{
	{"", "", `
return $C($b) ? !$a : $a;`},
	{"", "", `
if ($C($b)) return !$a;
return $a;`},
	{"", "", `
return Boolean($a) !== $C($b);`},
	{"!", "", `
return Boolean($a) === $C($b);`},
	{"!", "", `
if ($C($b)) return $a;
return !$a;`},
	{"", ` === "$w"`, `
return Boolean($a) === $C($b) ? "$x" : "$w";`},
	{"", ` !== "$w"`, `
return Boolean($a) === $C($b) ? "$w" : "$x";`},
	{"", " > $i", `
return $C($b) === Boolean($a) ? $i : $j;`},
	{"", ".includes($j)", `
return $C($b) === !$a ? [$i, $j] : [$i];`},
	{"", ".length > 1", `
return !$a === $C($b) ? "$w" : "";`},
}

// jsExpects are bodies that return the value, or another one of its type.
var jsExpects = []string{`
return $C($b) ? $O($a, $b) : $a;`, `
if (!$C($b)) return $a;
return $O($a, $b);`, `
const $e = [$a];
if ($C($b)) $e.push($O($a, $b));
return $e.pop();`, `
return ($C($b) ? $O : ($e) => $e)($a, $b);`, `
return [() => $a, () => $O($a, $b)][Number($C($b))]();`, `
for (let $e = $C($b); $e; $e = false) $a = $O($a, $b);
return $a;`, `
while ($C($b)) return $O($a, $b);
return $a;`, `
const $e = $C($b) && [$O($a, $b)];
return $e ? $e[0] : $a;`, `
switch ($C($b)) {
  case true:
    return $O($a, $b);
  default:
    return $a;
}`,
}

// jsResults are bodies that return the value of a test, or fail when it is there.
var jsResults = []string{`
const $e = ($f) => { if ($C($b)) throw new Error("$w $x"); return $f; };
return $a && typeof $a.then === "function" ? $a.then($e) : $e($a);`, `
if ($a && typeof $a.then === "function") return $a.then(($e) => $C($b) ? Promise.reject(new RangeError("$w $x")) : $e);
if (!$C($b)) return $a;
throw new RangeError("$w $x");`, `
const $e = $C($b) ? () => { throw new TypeError("$w $x"); } : () => $a;
return typeof ($a || "").then === "function" ? $a.then($e) : $e();`,
}
