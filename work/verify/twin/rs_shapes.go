package twin

// The catalogue of Rust. The words are those of py_shapes.go, and:
//
//	$D      the standard library, $A and $R an atomic number and its ordering
//	^       at a site: the path of the module that has the functions
//	$?      at a site: a question whether it is sabotaged, see rsAsk
//	@ ~     of a comparison: its macro and the one of the contrary; $= is its sign
//	?       what the function of a test returns
//	$t      the type of what a function returns, and $# the number of sites
//
// What is written at a site takes values of any type. Functions are those of a module,
// and local names at a site are ones that the file does not have.

// rsReserved are words that are none for a variable.
var rsReserved = map[string]bool{"fn": true, "box": true, "where": true}

// rsCores are ways to decide of a number whether its site is sabotaged now.
var rsCores = []siteCore{
	{"($n, $A::new($1), $2, $3, $4),", `
static $G: [(i64, $A, i64, i64, i64); $#] = [
    $T
];
pub(super) fn $C($a: i64) -> bool {
    for $b in $G.iter() {
        if $b.0 == $a {
            let $c = $b.1.fetch_add($b.2, $R) + $b.2;
            return $Q{$c|$b.3|$b.4};
        }
    }
    false
}`},
	{"$n => { static $G: $A = $A::new($1); $F(&$G, $2, $3, $4) }", `
pub(super) fn $C($a: i64) -> bool {
    match $a {
        $T
        _ => false,
    }
}
fn $F($a: &$A, $b: i64, $c: i64, $d: i64) -> bool {
    let $e = $a.fetch_add($b, $R) + $b;
    $Q{$e|$c|$d}
}`},
	{"$K { $a: $n, $b: $A::new($1), $c: [$2, $3, $4] },", `
struct $K { $a: i64, $b: $A, $c: [i64; 3] }
impl $K {
    fn $F(&self) -> bool {
        let $d = self.$b.fetch_add(self.$c[0], $R) + self.$c[0];
        $Q{$d|self.$c[1]|self.$c[2]}
    }
}
static $G: [$K; $#] = [
    $T
];
pub(super) fn $C($a: i64) -> bool {
    $G.iter().any(|$e| $e.$a == $a && $e.$F())
}`},
	{`("$n $2 $3 $4", $A::new($1)),`, `
pub(super) fn $C($a: i64) -> bool {
    static $G: [(&str, $A); $#] = [
        $T
    ];
    for ($b, $c) in $G.iter() {
        let mut $d = $b.split(' ').filter_map(|$e| $e.parse::<i64>().ok());
        if $d.next() != Some($a) {
            continue;
        }
        if let (Some($e), Some($f), Some($d)) = ($d.next(), $d.next(), $d.next()) {
            let $b = $c.fetch_add($e, $R) + $e;
            return $Q{$b|$f|$d};
        }
    }
    false
}`},
}

// rsWindows are comparisons: $1 is in the window that begins at $2 and ends before $3.
var rsWindows = []string{
	"$2 <= $1 && $1 < $3",
	"!($1 < $2 || $1 >= $3)",
	"$2 - 1 < $1 && $1 <= $3 - 1",
	"($2..$3).contains(&$1)",
	"0 <= $1 - $2 && $1 - $2 < $3 - $2",
	"($1 < $2) != ($1 < $3)",
	"($1 >= $2) ^ ($1 >= $3)",
	"$3 > $1 && $1 >= $2",
}

// rsWrap is how something is handed to a function, with the site's number: the body
// finds the value in $a and the number in $b.
type rsWrap struct{ open, close, code string }

var rsWraps = []rsWrap{
	{"^$F(", ", $n)", `
pub(super) fn $F($a: bool, $b: i64) -> $t {
    $B
}`},
	{"^$F($n, ", ")", `
pub(super) fn $F($b: i64, $a: bool) -> $t {
    $B
}`},
	{"^$F($n)(", ")", `
pub(super) fn $F($b: i64) -> impl Fn(bool) -> $t {
    move |$a| {
        $B
    }
}`},
	{"^$F((", ", $n))", `
pub(super) fn $F($c: (bool, i64)) -> $t {
    let ($a, $b) = $c;
    $B
}`},
	{"^$F(", `, "$w", $n)`, `
pub(super) fn $F($a: bool, _: &str, $b: i64) -> $t {
    $B
}`},
	{"^$K($n).$F(", ")", `
pub(super) struct $K(pub(super) i64);
impl $K {
    pub(super) fn $F(&self, $a: bool) -> $t {
        let $b = self.0;
        $B
    }
}`},
	{"^$K { $c: (", "), $d: $n }.$F()", `
pub(super) struct $K { pub(super) $c: bool, pub(super) $d: i64 }
impl $K {
    pub(super) fn $F(self) -> $t {
        let ($a, $b) = (self.$c, self.$d);
        $B
    }
}`},
}

// rsFlip is what is done with a condition: before and after are written around the
// wrapped one, so that the whole is true when the condition holds and its site is not
// sabotaged, or the other way round.
type rsFlip struct{ before, after, result, body string }

var rsFlips = []rsFlip{
	{"", "", "bool", "$C($b) != $a"},
	{"", "", "bool", "if $C($b) { !$a } else { $a }"},
	{"", "", "bool", "$a ^ $C($b)"},
	{"!", "", "bool", "$a == $C($b)"},
	{"!", "", "bool", "if !$C($b) { return !$a; }\n$a"},
	{"", ` == "$w"`, "&'static str", `if $a == $C($b) { "$x" } else { "$w" }`},
	{"", ` != "$w"`, "&'static str", `match ($a, $C($b)) { (true, true) | (false, false) => "$w", _ => "$x" }`},
	{"", " > $i", "i64", "if $a != $C($b) { $j } else { $i }"},
	{"", ".is_some()", "Option<i64>", "if $a != $C($b) { Some($b) } else { None }"},
	{"", ".is_none()", "Option<&'static str>", `if $a == $C($b) { Some("$w") } else { None }`},
	{"", ".is_ok()", "Result<i64, &'static str>", `match $C($b) { true if $a => Err("$w"), false if !$a => Err("$w"), _ => Ok($i) }`},
	{"!", ".is_empty()", "&'static str", `if $a ^ $C($b) { "$w" } else { "" }`},
}

// rsAsk is a question whether a site is sabotaged: a call of a function with what is
// written around it.
type rsAsk struct{ before, after, result, body string }

const rsAskFunction = `
pub(super) fn $F($b: i64) -> $t {
    $B
}`

var rsAsks = []rsAsk{
	{"", "", "bool", "$C($b)"},
	{"!", "", "bool", "!$C($b)"},
	{"", " > $i", "i64", "if $C($b) { $j } else { $i }"},
	{"", ` == "$w"`, "&'static str", `if $C($b) { "$w" } else { "$x" }`},
	{"", ` != "$w"`, "&'static str", `match $C($b) { true => "$x", false => "$w" }`},
	{"", ".is_some()", "Option<&'static str>", `if $C($b) { Some("$w") } else { None }`},
	{"", ".is_none()", "Option<i64>", "if !$C($b) { Some($b) } else { None }"},
	{"", ".is_empty()", "&'static str", `if $C($b) { "" } else { "$w" }`},
	{"", ".is_err()", "Result<i64, i64>", "if $C($b) { Err($i) } else { Ok($j) }"},
}

// rsUse is a text that has a question in it: in front of the first value of a comparison,
// behind the second one and behind the whole.
type rsUse struct{ open, tail, close string }

// The values are borrowed as the macros themselves do it. The contrary is asked of the
// same library, and of the same macro.
var rsCompares = []rsUse{
	{"match (&(", ")) { ($G, $L) => if $? { ~!(*$G, *$L) } else { @!(*$G, *$L", " } }"},
	{"match (&(", ")) { ($G, $L) => if $? { @!(*$G == *$L, false) } else { @!(*$G, *$L", " } }"},
	{"match (&(", ")) { $G => if $? { ~!(*$G.0, *$G.1) } else { @!(*$G.0, *$G.1", " } }"},
	{"match (&(", ")) { ($G, $L) => match $? { true => ~!(*$G, *$L), _ => @!(*$G, *$L", ", } }"},
	{"match (&(", ")) { ($G, $L) => match $? { true => assert!(!(*$G $= *$L)), _ => @!(*$G, *$L", ", } }"},
	{"match (&(", ")) { ($G, $L) if $? => ~!(*$G, *$L), ($G, $L) => @!(*$G, *$L", ", }"},
	{"match (&(", ")) { ($G, $L) if $? => @!(*$G == *$L, false), ($L, $G) => @!(*$L, *$G", ", }"},
}

var rsTracedCompare = rsUse{"match (&(", ")) { ($G, $L) => { ^$N($n, *$G $= *$L); if $? { ~!(*$G, *$L) } else { @!(*$G, *$L", " } } }"}
