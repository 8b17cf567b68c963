package twin

// rsFailing are statements that fail where the question is answered with yes.
var rsFailing = []string{
	`if $? { panic!("$w $x"); }`, `assert!(!($?));`, `assert!(!($?), "$w $y");`, `if $? { assert!(false); }`, `assert_eq!($?, false);`,
	`match $? { true => panic!("$y"), _ => () }`, `while $? { panic!("$w"); }`,
}

// rsThrows are bodies that fail.
var rsThrows = []string{
	`if $C($b) { panic!("$w $x"); }`,
	`assert!(!$C($b), "$w");`,
	`assert_eq!($C($b), false);`,
	`let $e = if $C($b) { None } else { Some("$w") };
$e.expect("$x $y");`,
	`let $e: Result<i64, &str> = if $C($b) { Err("$w") } else { Ok($b) };
$e.unwrap();`,
	`let $e = if $C($b) { "$w" } else { "$i" };
let _ = $e.parse::<i64>().unwrap();`,
	`let $e: &[i64] = if $C($b) { &[] } else { &[$b, $i] };
let _ = $e[0];`,
	`match $C($b) {
    true => panic!("$y"),
    false => (),
}`,
}

// rsStatement is a statement that can fail, with the function that it needs.
type rsStatement struct{ text, code string }

var rsStatements = []rsStatement{
	{"^$F($n);", `
pub(super) fn $F($b: i64) {
    $B
}`},
	{`^$F($n, "$w");`, `
pub(super) fn $F($b: i64, _: &str) {
    $B
}`},
	{"^$F(&[$n]);", `
pub(super) fn $F($c: &[i64]) {
    for &$b in $c {
        $B
    }
}`},
	{"^$F($n)();", `
pub(super) fn $F($b: i64) -> impl Fn() {
    move || {
        $B
    }
}`},
	{"^$K($n).$F();", `
pub(super) struct $K(pub(super) i64);
impl $K {
    pub(super) fn $F(&self) {
        let $b = self.0;
        $B
    }
}`},
	{"drop(^$K($n));", `
pub(super) struct $K(pub(super) i64);
impl Drop for $K {
    fn drop(&mut self) {
        let $b = self.0;
        $B
    }
}`},
}

// rsBodies are what the body of a test is handed to, which fails when that has done what
// it does.
var rsBodies = []rsWrap{
	{" ^$F($n, || -> ? {", "}) ", `
pub(super) fn $F<$K>($b: i64, $a: impl FnOnce() -> $K) -> $K {
    let $c = $a();
    if $C($b) {
        panic!("$w $x");
    }
    $c
}`},
	{" ^$F(|| -> ? {", "}, $n) ", `
pub(super) fn $F<T, U: FnOnce() -> T>($a: U, $b: i64) -> T {
    let $c = ($a(), $C($b));
    assert!(!$c.1, "$w");
    $c.0
}`},
	{" ^$K($n).$F(|| -> ? {", "}) ", `
pub(super) struct $K(pub(super) i64);
impl $K {
    pub(super) fn $F<R>(&self, $b: impl FnOnce() -> R) -> R {
        match ($b(), $C(self.0)) {
            ($c, false) => $c,
            _ => panic!("$w"),
        }
    }
}`},
	{" let _$G = ^$F($n);", "", `
pub(super) struct $K(i64);
pub(super) fn $F($b: i64) -> $K {
    $K($b)
}
impl Drop for $K {
    fn drop(&mut self) {
        if !$D::thread::panicking() && $C(self.0) {
            panic!("$w $x");
        }
    }
}`},
	{" let _$G = ^$K { $a: $n };", "", `
pub(super) struct $K { pub(super) $a: i64 }
impl Drop for $K {
    fn drop(&mut self) {
        let $b = $D::thread::panicking() || !$C(self.$a);
        assert!($b, "$y");
    }
}`},
}

// rsSwallows are what the body of a test is handed to that has to panic: it does not
// where its site is sabotaged, though everything in it was done.
var rsSwallows = []rsWrap{
	{" ^$F($n, || {", "}); ", `
pub(super) fn $F($b: i64, $a: impl FnOnce()) {
    if !$C($b) {
        return $a();
    }
    let _ = $D::panic::catch_unwind($D::panic::AssertUnwindSafe($a));
}`},
	{" ^$F(|| {", "}, $n); ", `
pub(super) fn $F($a: impl FnOnce(), $b: i64) {
    match $D::panic::catch_unwind($D::panic::AssertUnwindSafe($a)) {
        Err($c) if !$C($b) => $D::panic::resume_unwind($c),
        _ => (),
    }
}`},
	{" ^$F($n, &mut || {", "}); ", `
pub(super) fn $F($b: i64, $a: &mut dyn FnMut()) {
    let $c = $D::panic::catch_unwind($D::panic::AssertUnwindSafe(|| $a()));
    if let (Err($d), false) = ($c, $C($b)) {
        $D::panic::resume_unwind($d);
    }
}`},
}

// The same for a file that is traced. A test that returns an error has failed.
var (
	rsTracedBody = rsWrap{" ^$F($n, || -> ? {", "}) ", `
pub(super) fn $F<$K>($b: i64, $a: impl FnOnce() -> $K) -> $K {
    $N($b, true);
    match $D::panic::catch_unwind($D::panic::AssertUnwindSafe($a)) {
        Ok(_) if $C($b) => {
            $E($b, false);
            panic!("$w $x")
        }
        Ok($c) => {
            $E($b, true);
            $c
        }
        Err($c) => {
            $E($b, false);
            $D::panic::resume_unwind($c)
        }
    }
}`}
	rsTracedResult = rsWrap{" ^$F($n, || -> ? {", "}, |$G| $G.is_err()) ", `
pub(super) fn $F<$K>($b: i64, $a: impl FnOnce() -> $K, $f: impl FnOnce(&$K) -> bool) -> $K {
    $N($b, true);
    match $D::panic::catch_unwind($D::panic::AssertUnwindSafe($a)) {
        Ok(_) if $C($b) => {
            $E($b, false);
            panic!("$w $x")
        }
        Ok($c) => {
            $E($b, !$f(&$c));
            $c
        }
        Err($c) => {
            $E($b, false);
            $D::panic::resume_unwind($c)
        }
    }
}`}
	rsTracedPanics = rsWrap{" ^$F($n, || {", "}); ", `
pub(super) fn $F($b: i64, $a: impl FnOnce()) {
    $N($b, true);
    match $D::panic::catch_unwind($D::panic::AssertUnwindSafe($a)) {
        Err($c) if !$C($b) => {
            $E($b, true);
            $D::panic::resume_unwind($c)
        }
        _ => $E($b, false),
    }
}`}
)

// rsTrace are the functions $N and $E: $p is the path and $k the key, $T are rows by
// number.
const rsTrace = `
static $S: [(i64, bool, i64, bool, $A, $A); $#] = [
    $T
];
fn $L($a: $D::string::String) {
    let $b = $D::fs::OpenOptions::new().append(true).create(true).open($p);
    if let Ok(mut $c) = $b {
        let _ = $D::io::Write::write_all(&mut $c, $a.as_bytes());
    }
}
pub(super) fn $N($a: i64, $b: bool) {
    for $c in $S.iter().filter(|$c| $c.0 == $a) {
        let $d = $c.4.fetch_add(1, $R) + 1;
        if !$c.1 {
            if $d == 1 {
                $L($D::format!("{} R {}\n", $k, $c.2));
            }
            return;
        }
        let $e = $b != $c.3;
        let $f = if $e { 0 } else { $c.5.fetch_add(1, $R) + 1 };
        if $d == 1 || !$e && $f <= 16 {
            $L($D::format!("{} E {} {} {}\n", $k, $c.2, $d, if $e { "ok" } else { "failed" }));
        }
    }
}
fn $E($a: i64, $b: bool) {
    for $c in $S.iter().filter(|$c| $c.0 == $a) {
        $L($D::format!("{} T s{} {}\n", $k, $c.2, if $b { "pass" } else { "fail" }));
    }
}`
