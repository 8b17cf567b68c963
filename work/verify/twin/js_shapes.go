package twin

// The catalogue of JavaScript. An edit draws for each form a few of these shapes
// and spreads them over the sites. To add one is to add a row; the run test tries
// each of them in both forms.
//
// The words are those of py_shapes.go, and:
//
//	$:      the type of a variable: nothing in JavaScript, ": any" in TypeScript
//	$!      " as any" in TypeScript
//	$this   the parameter that TypeScript wants for "this"
//	$q      of a test that calls back: which argument that is
//	@       of an assertion: what is in front of the value that it is about
//
// A test may run while its file is still being read, so that of what stands at the
// end only functions are there: tables are made when they are first needed.

// jsWrap is how an expression is handed to a function, with the site's number: the
// body finds the value in $a and the number in $b, and returns.
type jsWrap struct{ open, close, code string }

var jsWraps = []jsWrap{
	{"$F(", ", $n)", `
function $F($a$:, $b$:)$: {
  $B
}`},
	{"$F($n, ", ")", `
function $F($b$:, $a$:)$: {
  $B
}`},
	{"$F($n)(", ")", `
function $F($b$:)$: {
  return ($a$:)$: => {
    $B
  };
}`},
	{"$F([", ", $n])", `
function $F($S$:)$: {
  let [$a, $b] = $S;
  $B
}`},
	{"$F({ $m: ", ", $w: $n })", `
function $F({ $m: $a, $w: $b }$:)$: {
  $B
}`},
	{"$F(", `, "$w", $n)`, `
function $F($a$:, $S$:, $b$:)$: {
  $B
}`},
	{"$F().$m(", ", $n)", `
function $F()$: {
  return { $m($a$:, $b$:)$: {
    $B
  } };
}`},
}

// jsTurner is how an assertion is handed to a function: the value that it is about
// comes first, then the assertion as a function of that value. The body finds the
// value in $a, the number in $b and the function in $c.
type jsTurner struct{ open, middle, close, code string }

var jsTurners = []jsTurner{
	{"$F(", ", ($L$:) => @$L", ", $n)", `
function $F($a$:, $c$:, $b$:)$: {
  $B
}`},
	{"$F($n, ", ", ($L$:) => @$L", ")", `
function $F($b$:, $a$:, $c$:)$: {
  $B
}`},
	{"$F($n)(", ", ($L$:) => @$L", ")", `
function $F($b$:)$: {
  return ($a$:, $c$:)$: => {
    $B
  };
}`},
	{"$F({ $m: ", ", $w: ($L$:) => @$L", ", $x: $n })", `
function $F({ $m: $a, $w: $c, $x: $b }$:)$: {
  $B
}`},
	{"$F([", ", $n], ($L$:) => @$L", ")", `
function $F([$a, $b]$:, $c$:)$: {
  $B
}`},
	{"$F().$m(", ", ($L$:) => @$L", ", $n)", `
function $F()$: {
  return { $m($a$:, $c$:, $b$:)$: {
    $B
  } };
}`},
	{"$F(", `, "$w", ($L$:) => @$L`, ", $n)", `
function $F($a$:, $S$:, $c$:, $b$:)$: {
  $B
}`},
}

// jsTurns are bodies that do what an assertion does, or the contrary.
var jsTurns = []string{`
if (!$C($b)) return $c($a);
let $e$:;
try {
  $e = $c($a);
} catch ($f) {
  return undefined;
}
if ($e && typeof $e.then === "function") return $e.then(() => { throw new Error("$w $x"); }, () => undefined);
throw new Error("$w $x");`, `
const $e = $C($b);
let $f$:;
try {
  $f = $c($a);
} catch ($G) {
  if ($e) return;
  throw $G;
}
if (!$e) return $f;
if ($f && typeof $f.then === "function") return $f.then(() => Promise.reject(new Error("$w $x")), () => "$y");
throw new RangeError("$w $x");`, `
const $e = ($f$:) => { if ($f) throw new Error("$w $x"); };
if ($C($b)) {
  let $f$: = [];
  try {
    $f.push($c($a));
  } catch {
    return $f;
  }
  return $f[0] && typeof $f[0].then === "function" ? $f[0].then(() => $e("$y"), () => $f) : $e("$y");
}
return $c($a);`, `
let $e$: = "$w";
if (!$C($b)) $e = $c;
if ($e !== "$w") return $e($a);
try {
  $e = $c($a);
} catch {
  return "$x";
}
if ($e && $e.then instanceof Function) return $e.then(() => { throw new TypeError("$w $y"); }, () => "$x");
throw new TypeError("$w $y");`, `
switch ($C($b)) {
  case false:
    return $c($a);
}
let $e$:;
try {
  $e = $c($a);
} catch ($f) {
  $e = "$w";
}
if ($e === "$w") return $e;
if (typeof ($e || "").then !== "function") throw new Error("$x $y");
return $e.then(() => { throw new Error("$x $y"); }, () => "$w");`,
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
return ($C($b) ? $O : ($e$:) => $e)($a, $b);`, `
return [() => $a, () => $O($a, $b)][Number($C($b))]();`, `
for (let $e = $C($b); $e; $e = false) $a = $O($a, $b);
return $a;`, `
while ($C($b)) return $O($a, $b);
return $a;`, `
const $e$: = $C($b) && [$O($a, $b)];
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
const $e = ($f$:) => { if ($C($b)) throw new Error("$w $x"); return $f; };
return $a && typeof $a.then === "function" ? $a.then($e) : $e($a);`, `
if ($a && typeof $a.then === "function") return $a.then(($e$:) => $C($b) ? Promise.reject(new RangeError("$w $x")) : $e);
if (!$C($b)) return $a;
throw new RangeError("$w $x");`, `
const $e = $C($b) ? () => { throw new TypeError("$w $x"); } : () => $a;
return typeof ($a || "").then === "function" ? $a.then($e) : $e();`,
}
