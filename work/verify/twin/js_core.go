package twin

// jsCores are ways to decide of a number whether its site is sabotaged now.
var jsCores = []siteCore{
	{"$n: [$1, $2, $3, $4],", `
var $G;
function $C($a) {
  $G = $G || {
    $T
  };
  const $b = $G[$a];
  $b[0] += $b[1];
  return $Q{$b[0]|$b[2]|$b[3]};
}`},
	{"[$n, { $w: $1, $x: $2, $y: $3, $m: $4 }],", `
function $F() {
  return new Map([
    $T
  ]);
}

var $G;

function $C($a) {
  if (!$G) $G = $F();
  const $b = $G.get($a);
  $b.$w += $b.$x;
  return $Q{$b.$w|$b.$y|$b.$m};
}`},
	{"$n: $F($1, $2, $3, $4),", `
function $F($a, $b, $c, $d) {
  return () => {
    $a += $b;
    return $Q{$a|$c|$d};
  };
}
function $C($a) {
  if (!$G) {
    $G = {
      $T
    };
  }
  return $G[$a]();
}
var $G;`},
	{`$n: "$1 $2 $3 $4",`, `
var $G, $L;
function $C($a) {
  $L = $L || {
    $T
  };
  $G = $G || {};
  const [$b, $c, $d, $e] = $L[$a].split(" ").map(Number);
  $G[$a] = ($G[$a] || $b) + $c;
  return $Q{$G[$a]|$d|$e};
}`},
	{"[$n, $1, $2, $3, $4],", `
var $G;
function $C($a) {
  if ($G === undefined) $G = [
    $T
  ];
  const $b = $G.find(($c) => $c[0] === $a);
  $b[1] += $b[2];
  return $Q{$b[1]|$b[3]|$b[4]};
}`},
	{"case $n: return $F($a, $1, $2, $3, $4);", `
var $G;
function $C($a) {
  switch ($a) {
    $T
  }
}
function $F($a, $b, $c, $d, $e) {
  if (!$G) $G = new Map();
  $b = ($G.get($a) || $b) + $c;
  $G.set($a, $b);
  return $Q{$b|$d|$e};
}`},
	{"$n: [[$1, $2], [$3, $4]],", `
function $F() {
  return $G || ($G = {
    $T
  });
}
var $G;
function $C($a) {
  const [[$b, $c], [$d, $e]] = $F()[$a];
  $F()[$a] = [[$b + $c, $c], [$d, $e]];
  return $Q{$b + $c|$d|$e};
}`},
}

// jsWindows are comparisons: $1 is in the window that begins at $2 and ends before
// $3. Each is a boolean.
var jsWindows = []string{
	"$2 <= $1 && $1 < $3",
	"!($1 < $2 || $1 >= $3)",
	"$2 - 1 < $1 && $1 <= $3 - 1",
	"$1 >= $2 && $1 < $3",
	"0 <= $1 - $2 && $1 - $2 < $3 - $2",
	"($1 < $2) !== ($1 < $3)",
	"($1 >= $2) !== ($1 >= $3)",
	"$3 > $1 && $1 >= $2",
}

// jsOthers make another value of the type of $a, the number $b decides which: one
// that is like it where $b is even, so that $a is compared as a whole, and else one
// that no part and no tolerance covers.
var jsOthers = []string{`
function $O($a, $b) {
  const $c = $b % 1000 + $i;
  if ($a === null || $a === undefined) return { $w: $c };
  if (typeof $a === "boolean") return !$a;
  if (typeof $a === "number") return !Number.isFinite($a) ? $c : $b % 2 === 0 && Math.abs($a) < 1e12 ? $a + 1 + $c % 5 : $a + Math.abs($a) + $c;
  if (typeof $a === "bigint") return $a + BigInt($c);
  if (typeof $a === "symbol") return Symbol("$w");
  if (typeof $a === "function") return [TypeError, RangeError, SyntaxError].find(($d) => $d !== $a && !($a.prototype instanceof $d));
  if (typeof $a === "string") {
    for (let $d = 0; $b % 2 === 0 && $d < $a.length; $d++) {
      const $e = ($d + $c) % $a.length;
      for (const $f of ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"]) {
        if ($f.includes($a[$e])) return $a.slice(0, $e) + $f[($f.indexOf($a[$e]) + 1 + $c % 9) % $f.length] + $a.slice($e + 1);
      }
    }
    return $a + "$x$w".slice($b % 4);
  }
  if (Array.isArray($a)) {
    if ($a.length > 0 && $b % 2 === 0) return [...$a.slice(0, -1), $O($a[$a.length - 1], $b)];
    return $a.concat([$a.length > 0 ? $a[0] : $c]);
  }
  if ($a instanceof Date) return new Date(Number($a) + $c * 1000);
  if ($a instanceof RegExp) return new RegExp("$w$x" + $c);
  if ($a instanceof Map) return new Map([...$a, ["$w", $c]]);
  if ($a instanceof Set) return new Set([...$a, "$w" + $c]);
  if (ArrayBuffer.isView($a)) return ($a).constructor.from([...($a), $c % 100 + 1]);
  const $d = Object.assign(Object.create(Object.getPrototypeOf($a)), $a);
  const $e = Object.keys($a).find(($f) => ["string", "number", "boolean"].includes(typeof $a[$f]));
  if ($e !== undefined && $b % 2 === 0) $d[$e] = $O($a[$e], $b);
  else $d.$w = $c;
  return $d;
}`, `
function $O($a, $b) {
  const $c = $i + $b % 997;
  const $d = ($e) => {
    const $f = $e.search(/[a-z0-9]/i);
    if ($f < 0 || $b % 2 !== 0) return $e + "$w$y".slice($b % 3);
    const $G = $e[$f] === "9" || $e[$f] === "z" || $e[$f] === "Z" ? -1 : 1;
    return $e.slice(0, $f) + String.fromCharCode($e.charCodeAt($f) + $G) + $e.slice($f + 1);
  };
  const $L = {
    undefined: () => ["$w", $c],
    boolean: () => !$a,
    number: () => Number.isFinite($a) ? ($b % 2 === 0 && Math.abs($a) < 1e12 ? $a + 2 + $c % 4 : Math.abs($a) * 2 + $c) : -$c,
    bigint: () => $a + BigInt($c),
    symbol: () => Symbol("$x"),
    string: () => $d($a),
    function: () => [RangeError, SyntaxError, TypeError].find(($e) => $e !== $a && !($a.prototype instanceof $e)),
  };
  const $S = [
    [Array, () => ($b % 2 === 0 && $a.length > 0 ? [$O($a[0], $b), ...$a.slice(1)] : [...$a, ...($a.length > 0 ? $a.slice(-1) : [$c])])],
    [Date, () => new Date($a.getTime() - $c * 1000)],
    [RegExp, () => new RegExp("$y$x" + $c)],
    [Map, () => new Map([["$x", $c], ...$a])],
    [Set, () => new Set(["$x" + $c, ...$a])],
    [Uint8Array, () => $a.constructor.from([$c % 100 + 1, ...$a])],
    [Object, () => Object.assign(Object.create(Object.getPrototypeOf($a)), $a, { $m: $c })],
  ];
  if ($a === null) return ["$y"];
  const $e = $L[typeof $a] || ($S.find(([$f]) => $a instanceof $f) || [0, () => ({ ...$a, $m: $c })])[1];
  return $e();
}`}

// jsPairs are statements that make another pair of the one in $a, jsCompares what
// returns how its sides compare: $k says what the other pair does not fulfil, $o is
// the operator.
var (
	jsPairs = []string{`
if ($C($b)) $a = $M($a[0], $a[1], $k);`, `
$a = $C($b) ? $M($a[0], $a[1], $k) : $a;`, `
for (let $e = $C($b); $e; $e = false) $a = $M($a[0], $a[1], $k);`, `
switch ($C($b)) {
  case true:
    $a = $M($a[0], $a[1], $k);
}`}
	jsCompares = []string{`
return $a[0] $o $a[1];`, `
const [$e, $f] = $a;
return $e $o $f;`, `
return (($e, $f) => $e $o $f)($a[0], $a[1]);`}
)

// jsMates make a pair of $a and $b whose first side is not more than its second where
// $c is true, or not less. Of values that cannot lie ($S) it is known what they
// fulfil, and so it is of an object that stays infinite; one of the others is asked
// for what is far from all ($L).
var jsMates = []string{`
function $M($a, $b, $c) {
  if (!$S($a)) return [$a, $L($b, $c)];
  if (!$S($b)) return [$L($a, !$c), $b];
  return $c ? [$i, $j] : [$j, $i];
}

function $S($a) {
  if (typeof $a !== "object" && typeof $a !== "function") return $a === $a;
  const $b = Number($a);
  return ($b === Infinity || $b === -Infinity) && Number($a) === $b;
}

function $L($a, $b) {
  if (typeof $a === "string") return $b ? "\u{10fffd}$w" : "";
  return ($b ? $i : -$i) * 1e18;
}`, `
function $M($a, $b, $c) {
  const $d = ($e, $f) => typeof $e === "string" ? "\u{10fffe}$x".slice(0, $f ? 9 : 0) : ($f ? 1 : -1) * $j * 1e18;
  const $L = ($e) => {
    if (typeof $e !== "object" && typeof $e !== "function") return $e === $e;
    const [$f, $G] = [Number($e), Number($e)];
    return $f === $G && 1 / $f === 0;
  };
  switch (true) {
    case $L($a) && $L($b):
      return $c ? [$i, $j] : [$j, $i];
    case $L($a):
      return [$d($a, !$c), $b];
    default:
      return [$a, $d($b, $c)];
  }
}`}
