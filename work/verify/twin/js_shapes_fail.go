package twin

// jsThrows are bodies that fail.
var jsThrows = []string{`
if ($C($b)) throw new Error("$w $x");`, `
if ($C($b)) throw new RangeError("$w $x");`, `
for (let $e = $C($b); $e; ) throw new Error("$w $x");`, `
while ($C($b)) throw new TypeError("$w");`, `
const $e = $C($b) ? [] : ["$w"];
return $e[0].length;`, `
if (!$C($b)) return "$w";
throw new Error("$x $y");`, `
switch ($C($b)) {
  case true:
    throw new Error("$w $x");
}`, `
return ["$w"].concat($C($b) ? [] : "$x")[1].length;`, `
return $C($b) ? [$b].slice(1)[0].toFixed() : $b;`,
}

// jsStatement is a statement that can fail, with the function that it needs; in the
// body, the number of the site is $b.
type jsStatement struct {
	text, code string
	body       []string // jsThrows where it is empty
}

var jsStatements = []jsStatement{
	{"$F($n)", `
function $F($b) {
  $B
}`, nil},
	{`$F($n, "$w")`, `
function $F($b, $a) {
  $B
}`, nil},
	{`$F("$w", $n)`, `
function $F($a, $b) {
  $B
}`, nil},
	{"$F($n)()", `
function $F($b) {
  return () => {
    $B
  };
}`, nil},
	{"$F([$n])", `
function $F([$b]) {
  $B
}`, nil},
	{"$F({ $m: $n })", `
function $F({ $m: $b }) {
  $B
}`, nil},
	{"$F().$m($n)", `
function $F() {
  return { $m($b) {
    $B
  } };
}`, nil},
	{`if ($F($n)) throw new Error("$x $y")`, `
function $F($b) {
  $B
}`, []string{"return $C($b);", "return $C($b) ? [$i] : null;", `return $C($b) ? "$w" : "";`}},
	{`if (!$F($n)) throw new RangeError("$x $y")`, `
function $F($b) {
  $B
}`, []string{"return !$C($b);", "return $C($b) ? 0 : $i;", `return $C($b) === false;`}},
	{`if ($F($n) !== "$w") throw new Error("$y")`, `
function $F($b) {
  $B
}`, []string{`return $C($b) ? "$x" : "$w";`, `return ["$w", "$x"][Number($C($b))];`}},
	{`if ($F("$x", $n) > $i) throw new TypeError("$y")`, `
function $F($a, $b) {
  $B
}`, []string{"return $C($b) ? $j : $i;", "return [$i, $j][Number($C($b))];"}},
	{`if ($F([$n]).length === 1) throw new Error("$x")`, `
function $F([$b]) {
  $B
}`, []string{`return $C($b) ? "$w"[0] : "$w";`, "return $C($b) ? [$i] : [$i, $j];"}},
}

// jsCallbacksOf are bodies that return the function of a test in $a, so that it
// fails when it has done what it does. They keep how many parameters it has, by
// which runners know what to hand it. They are no proxies: bun takes none for a test.
var jsCallbacksOf = []string{`
if (typeof $a !== "function") return $a;
const $f = ($c) => { if ($C($b)) throw new Error("$w $x"); return $c; };
return Object.defineProperty(function (...$d) {
  const $e = Reflect.apply($a, this, $d);
  return $e && typeof $e.then === "function" ? $e.then($f) : $f($e);
}, "length", Object.getOwnPropertyDescriptor($a, "length"));`, `
if (typeof $a !== "function") return $a;
function $c(...$d) {
  const $e = $a.apply(this, $d);
  if ($e && typeof $e.then === "function") return $e.then(($f) => $C($b) ? Promise.reject(new RangeError("$w $x")) : $f);
  if (!$C($b)) return $e;
  throw new RangeError("$w $x");
}
return Object.defineProperty($c, "length", { value: $a.length });`, `
const $f = ($c, $d) => {
  const $e = $c(...$d);
  const $G = ($S) => { if ($C($b)) throw new TypeError("$w"); return $S; };
  return typeof ($e || "").then === "function" ? $e.then($G) : $G($e);
};
if (!($a instanceof Function)) return $a;
return $a.length > 0
  ? function ($c) { return $f($a.bind(this), arguments); }
  : function () { return $f($a.bind(this), arguments); };`, `
if (typeof $a !== "function") return $a;
return Object.defineProperties(function () {
  const $f = $a.apply(this, arguments);
  if (!$C($b)) return $f;
  if (typeof ($f || "").then !== "function") throw new Error("$w $x");
  return $f.then(() => { throw new Error("$w $x"); });
}, { length: { value: $a.length } });`,
}

// jsDones are the same for a test that says by a callback that it is at its end.
var jsDones = []string{`
if (typeof $a !== "function") return $a;
return Object.defineProperties(function () {
  const $e = [...arguments];
  $e[$q] = new Proxy($e[$q], { apply: ($c, $d, $f) => Reflect.apply($c, $d, $C($b) && !$f[0] ? [new Error("$w $x")] : $f) });
  return $a.apply(this, $e);
}, { length: { value: $a.length } });`, `
if (typeof $a !== "function") return $a;
function $c(...$d) {
  const $e = $d[$q];
  $d[$q] = Object.assign((...$f) => $e(...($f[0] || !$C($b) ? $f : [new RangeError("$w $x")])), $e);
  return $a.apply(this, $d);
}
return Object.defineProperty($c, "length", { value: $a.length });`, `
if (!($a instanceof Function)) return $a;
const $f = ($c) => new Proxy($c, { apply($d, $e, $f) {
  if (!$C($b) || $f[0]) return Reflect.apply($d, $e, $f);
  return Reflect.apply($d, $e, [new TypeError("$w $x")]);
} });
return Object.defineProperty(function (...$c) {
  return $a.apply(this, Array.from($c, ($G, $S) => $S === $q ? $f($G) : $G));
}, "length", { value: $a.length });`,
}
