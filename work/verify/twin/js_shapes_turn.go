package twin

// An assertion is turned round by asking its library for the contrary: what hides
// failures then hides nothing, and with the bug still there the contrary holds. A
// failure that is only caught and left out would look like what hides failures.

// jsTurner is how an assertion is handed to a function: the value that it is about
// comes first, then that which the assertion is taken from (@: expect, assert), and
// the assertion as a function of the two, in which % is the name of a method and a
// parenthesis, and ^ closes one. The body finds the value in $a, the number in $b,
// the function in $c and what it is taken from in $d.
type jsTurner struct{ open, middle, close, code string }

var jsTurners = []jsTurner{
	{"$F(", ", @, ($L, $G) => $G%$L^", ", $n)", `
function $F($a, $d, $c, $b) {
  $B
}`},
	{"$F($n, ", ", @, ($L, $G) => $G%$L^", ")", `
function $F($b, $a, $d, $c) {
  $B
}`},
	{"$F($n)(", ", ($L, $G) => $G%$L^", ", @)", `
function $F($b) {
  return ($a, $c, $d) => {
    $B
  };
}`},
	{"$F({ $m: ", ", $y: @, $w: ($L, $G) => $G%$L^", ", $x: $n })", `
function $F({ $m: $a, $w: $c, $x: $b, $y: $d }) {
  $B
}`},
	{"$F([", ", $n, @], ($L, $G) => $G%$L^", ")", `
function $F([$a, $b, $d], $c) {
  $B
}`},
	{"$F().$m(", ", @, ($L, $G) => $G%$L^", ", $n)", `
function $F() {
  return { $m($a, $d, $c, $b) {
    $B
  } };
}`},
	{"$F(", `, "$w", ($L, $G) => $G%$L^`, ", $n, @)", `
function $F($a, $K, $c, $b, $d) {
  $B
}`},
}

// jsContrary is how the assertions of a kind are turned round.
type jsContrary struct {
	call   string // what is called, when $e says whether it is sabotaged
	rounds []string
}

// jsContraries are the kinds of assertions.
var jsContraries = map[jsForm]jsContrary{
	jsTurnChain:  {"$c($a, $e ? ($f) => $R($d($f)) : $d)", jsRoundChains},
	jsTurnNot:    {"$c($a, $e ? ($f) => $R($d($f)) : $d)", jsRoundNots},
	jsTurnMember: {"$c($a, $e ? $R($d) : $d)", jsRoundMembers},
	jsTurnBare:   {"$c($e ? !$a : $a, $d)", nil},
	jsTurnCall:   {"$c($a, $e ? $R($d) : $d)", jsRoundCalls},
}

// jsTurns are bodies that make the call, $T.
var jsTurns = []string{`
const $e = $C($b);
return $T;`, `
for (const $e of [$C($b)]) return $T;`, `
return (($e) => $T)($C($b));`, `
const $G = ($e) => $T;
if (!$C($b)) return $G(false);
return $G(true);`, `
switch ($C($b)) {
  case true: {
    const $e = true;
    return $T;
  }
  default: {
    const $e = false;
    return $T;
  }
}`, `
const [$e] = ["$w", "$x"].map(() => $C($b) === true).slice(0, 1);
return $T;`}

// jsRoundChains make of what expect returns the contrary, where there is no "not" in
// the chain.
var jsRoundChains = []string{`
function $R($a) {
  return new Proxy({}, {
    get($b, $c) {
      if ($c === "resolves" || $c === "rejects") return $R($a[$c]);
      $b = $a.not;
      return typeof $b[$c] === "function" ? $b[$c].bind($b) : $b[$c];
    },
  });
}`, `
function $R($a) {
  const $b = ($c) => {
    if (["rejects", "resolves"].includes($c)) return $R(Reflect.get($a, $c));
    const $d = $a.not, $e = $d[$c];
    return $e instanceof Function ? (...$f) => Reflect.apply($e, $d, $f) : $e;
  };
  return new Proxy({}, { get: ($c, $d) => $b($d) });
}`}

// jsRoundNots leave the "not" of a chain out.
var jsRoundNots = []string{`
function $R($a) {
  return new Proxy({}, {
    get($b, $c) {
      if ($c === "not" || $c === "never") return $a;
      $b = $a[$c];
      return typeof $b === "function" ? $b.bind($a) : $R($b);
    },
  });
}`, `
function $R($a) {
  const $b = ($c, $d) => {
    if (["never", "not"].indexOf($d) >= 0) return $a;
    const $e = Reflect.get($a, $d);
    return $e instanceof Function ? (...$f) => Reflect.apply($e, $a, $f) : $R($e);
  };
  return new Proxy({}, { get: $b });
}`}

// jsRoundMembers make of a module of assertions one of their contraries. One that
// has none fails when it would not.
var jsRoundMembers = []string{`
function $R($a) {
  const $b = {
    throws: "doesNotThrow", rejects: "doesNotReject", match: "doesNotMatch", doesNotThrow: "throws", doesNotReject: "rejects", doesNotMatch: "match",
    isAbove: "isAtMost", isBelow: "isAtLeast", isAtMost: "isAbove", isAtLeast: "isBelow",
  };
  return new Proxy({}, {
    get($c, $d) {
      if ($d === "ok" && !$a.isNotOk) return ($e, ...$f) => $a.ok(!$e, ...$f);
      $c = [$b[$d], "not" + $d[0].toUpperCase() + $d.slice(1), "isNot" + $d.slice(2), $d.replace(/^not(.)/, ($e, $f) => $f.toLowerCase()), $d.replace("isNot", "is")];
      $c = $c.find(($e) => $e !== $d && typeof $a[$e] === "function");
      return $c ? $a[$c].bind($a) : $G(($e) => $a[$d](...$e));
    },
  });
}
function $G($a) {
  return (...$b) => {
    let $c;
    try {
      $c = $a($b);
    } catch {
      return;
    }
    if ($c && typeof $c.then === "function") return $c.then(() => { throw new Error("$w $x"); }, () => undefined);
    throw new Error("$w $x");
  };
}`, `
function $R($a) {
  const $b = ($c) => {
    const $d = [["throws", "doesNotThrow"], ["doesNotReject", "rejects"], ["match", "doesNotMatch"], ["isAbove", "isAtMost"], ["isAtLeast", "isBelow"]];
    const $e = $d.find(($f) => $f.includes($c));
    const $f = $e ? [$e[1 - $e.indexOf($c)]] : [];
    const $G = $c.charAt(0).toUpperCase() + $c.slice(1);
    if (/^not[A-Z]/.test($c)) $f.push($c.charAt(3).toLowerCase() + $c.slice(4));
    if (/^isNot/.test($c)) $f.push("is" + $c.slice(5));
    $f.push("not" + $G, "isNot" + $G.slice(2));
    return $f.filter(($L) => $L !== $c && $a[$L] instanceof Function)[0];
  };
  return new Proxy({}, { get: ($c, $d) => (...$e) => {
    const $f = $b($d);
    if ($f) return Reflect.apply($a[$f], $a, $e);
    if ($d === "ok") return $a.ok(!$e[0], ...$e.slice(1));
    const $G = [];
    try {
      $G.push($a[$d](...$e));
    } catch ($S) {
      return "$w";
    }
    if (typeof ($G[0] || "").then === "function") return $G[0].then(() => Promise.reject(new Error("$x $y")), () => "$w");
    throw new Error("$x $y");
  } });
}`}

// jsRoundCalls turn an assertion round whose contrary is not known.
var jsRoundCalls = []string{`
function $R($a) {
  return (...$b) => {
    let $c;
    try {
      $c = $a(...$b);
    } catch {
      return undefined;
    }
    if ($c && typeof $c.then === "function") return $c.then(() => { throw new Error("$w $x"); }, () => undefined);
    throw new Error("$w $x");
  };
}`, `
function $R($a) {
  const $b = () => { throw new RangeError("$w $x"); };
  return new Proxy($a, { apply($c, $d, $e) {
    try {
      $d = [Reflect.apply($c, $d, $e)];
    } catch ($f) {
      return $f;
    }
    return typeof ($d[0] || "").then === "function" ? $d[0].then($b, ($f) => $f) : $b();
  } });
}`}
