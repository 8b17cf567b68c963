package twin

import "strings"

// The catalogue of C and C++, in the words of js_shapes.go; % is the statement by which a
// function fails. What is added stands in front of the first test, as C wants it, in the
// oldest form of the language, and nothing of a library is needed but for a trace.

// cLanguage is how test files of C and C++ are edited.
var cLanguage = &scriptLanguage{
	name: "C", join: underscores, cores: cCores, many: cCores[:2], windows: cWindows, trace: cTrace, traceRow: `{%d, "%t", %d, "%s"},`,
	quote: func(s string) string { return quoteText(s, "?") }, shape: cShape, literal: true,
	open: "static __attribute__((unused)) int $C(int);\n", announce: "static __attribute__((unused)) int $N(int, int);\n",
	reserved: map[string]bool{"auto": true, "case": true, "char": true, "const": true, "do": true, "double": true, "else": true, "enum": true, "extern": true, "float": true, "for": true, "goto": true,
		"if": true, "int": true, "long": true, "new": true, "register": true, "short": true, "signed": true, "static": true, "struct": true, "switch": true, "this": true, "union": true, "void": true, "while": true},
}

// cQuiet has a build that takes warnings for errors take none that an edit brings.
func cQuiet() string {
	var out strings.Builder
	for name := range strings.FieldsSeq(cWarnings) {
		out.WriteString("#pragma GCC diagnostic ignored \"-W" + name + "\"\n")
	}
	return out.String()
}

// cWarnings are of what edits are like, and of what a compiler finds out where it cannot
// see that an assertion ends a test. The first two are of names that it does not know.
const cWarnings = `pragmas unknown-warning-option
	switch-default switch-enum implicit-fallthrough covered-switch-default declaration-after-statement missing-declarations missing-variable-declarations missing-field-initializers
	unused unused-value unused-variable unused-const-variable unused-parameter unused-function unreachable-code return-type missing-noreturn suggest-attribute=noreturn
	maybe-uninitialized uninitialized null-dereference nonnull nonnull-compare tautological-compare format-truncation stringop-truncation stringop-overflow array-bounds restrict
	conversion sign-conversion sign-compare strict-prototypes undef float-equal c++-compat pedantic long-long shadow old-style-cast zero-as-null-pointer-constant useless-cast
	bool-compare enum-compare type-limits tautological-constant-out-of-range-compare sizeof-pointer-memaccess address aggregate-return larger-than= frame-larger-than= stack-usage= strict-overflow suggest-attribute=const suggest-attribute=pure suggest-attribute=cold padded unused-macros
	inline stack-protector parentheses extra-semi comma unsafe-buffer-usage`

// cShape draws a shape for a form, and defines what it needs.
func cShape(e *scriptEdit, form scriptForm) scriptShape {
	traced := e.orders.Trace != ""
	switch form {
	case scriptTurn + heldForm:
		return e.wrapped(cWraps[0], []string{"(void)$a;", "(void)$b;", "return 1;"})
	case scriptFalse + heldForm:
		return e.wrapped(cWraps[0], []string{"(void)$a;", "(void)$b;", "return 0;"})
	case scriptTurn, scriptFalse:
		if traced {
			holds := map[scriptForm]string{scriptTurn: "$f", scriptFalse: "!$f"}[form]
			return e.wrapped(cWraps[0], []string{"int $f = $C($b) ? !$a : $a;", "$N($b, " + holds + ");", "return $f;"})
		}
		return e.wrapped(one(e.draw, cWraps), e.body(one(e.draw, cTurns), ""))
	case scriptValue:
		if !traced {
			return scriptShape{} // another literal takes its place
		}
		return e.wrapped(scriptWrap{"($F($n), ", ")", `
static __attribute__((unused)) int $F(int $b) {
    $N($b, -1);
    return 0;
}`}, nil)
	}
	s := e.wrapped(one(e.draw, cAsks), e.body(one(e.draw, cAnswers), "$N($b, -1);"))
	if !traced {
		return scriptShape{"", " " + s.open + " "}
	}
	t := e.wrapped(cTracedBody, nil)
	if form == scriptSealed { // it may be left before its end, and nothing is wrong
		t.open = strings.Replace(t.open, ", 0);", ", 1);", 1)
	}
	return scriptShape{" " + t.open + " ", " " + t.close + " " + s.open + " "}
}

// cWindows are comparisons: $1 is in the window that begins at $2 and ends before $3.
var cWindows = []string{
	"$2 <= $1 && $1 < $3",
	"!($1 < $2 || $1 >= $3)",
	"$2 - 1 < $1 && $1 <= $3 - 1",
	"$1 >= $2 && $1 < $3",
	"0 <= $1 - $2 && $1 - $2 < $3 - $2",
	"($1 < $2) != ($1 < $3)",
	"($1 >= $2) ^ ($1 >= $3)",
	"$3 > $1 && $1 >= $2",
}

// cWraps hand a condition, $a, to a function with the site's number, $b.
var cWraps = []scriptWrap{
	{"$F(!!(", "), $n)", `
static __attribute__((unused)) int $F(int $a, int $b) {
    $B
}`},
	{"$F($n, !!(", "))", `
static __attribute__((unused)) int $F(int $b, int $a) {
    $B
}`},
	{"$F((", `) ? 1 : 0, "$w", $n)`, `
static __attribute__((unused)) int $F(int $a, const char *$c, int $b) {
    (void)$c;
    $B
}`},
	{"($F($n, (", ") ? $j : $i) == $i)", `
static __attribute__((unused)) int $S(int $a, int $b) {
    $B
}
static __attribute__((unused)) int $F(int $b, int $a) {
    return $S($a == $j, $b) ? $i : $j;
}`},
	{"!$F($n, !(", "))", `
static __attribute__((unused)) int $S(int $a, int $b) {
    $B
}
static __attribute__((unused)) int $F(int $b, int $a) {
    return !$S(!$a, $b);
}`},
	{"$F[$S($n, !!(", "))]", `
static __attribute__((unused)) const unsigned char $F[] = {0, 1};
static __attribute__((unused)) int $S(int $b, int $a) {
    $B
}`},
}

var cTurns = []string{`
return $C($b) != $a;`, `
return $C($b) ? !$a : $a;`, `
if (!$C($b)) {
    return $a;
}
return !$a;`, `
int $f = $C($b);
return ($f && !$a) || (!$f && $a);`, `
return $a ^ $C($b);`, `
int $f[2];
$f[0] = $a;
$f[1] = !$a;
return $f[$C($b)];`,
}

// cAsks are statements that fail when a function says so of a number, $b.
var cAsks = []scriptWrap{
	{"if ($F($n)) { % }", "", `
static __attribute__((unused)) int $F(int $b) {
    $B
}`},
	{`if ($F("$w", $n)) { % }`, "", `
static __attribute__((unused)) int $F(const char *$a, int $b) {
    (void)$a;
    $B
}`},
	{"if ($F($n) > $i) { % }", "", `
static __attribute__((unused)) int $S(int $b) {
    $B
}
static __attribute__((unused)) int $F(int $b) {
    return $S($b) ? $j : $i;
}`},
	{"switch ($F($n)) { case $j: { % } }", "", `
static __attribute__((unused)) int $S(int $b) {
    $B
}
static __attribute__((unused)) int $F(int $b) {
    return $S($b) ? $j : $i;
}`},
}

var cAnswers = []string{`
return $C($b);`, `
if ($C($b)) {
    return 1;
}
return 0;`, `
return $C($b) != 0;`, `
return !!$C($b);`,
}

// cCores are ways to decide of a number whether its site is sabotaged now.
var cCores = []siteCore{
	{"case $n: { static long $G = $1; return $F(&$G, $2, $3, $4); }", `
static __attribute__((noinline)) int $F(long *$a, long $b, long $c, long $d) {
    long $e = __atomic_add_fetch($a, $b, 5);
    return $Q{$e|$c|$d};
}
static __attribute__((unused)) int $C(int $a) {
    switch ($a) {
        $T
    }
    return 0;
}`},
	{"case $n: { static long $L[] = {$1, $4, $3}; $b = $L; $c = $2; break; }", `
static __attribute__((unused)) int $C(int $a) {
    long *$b, $c, $d;
    switch ($a) {
        $T
        default: return 0;
    }
    $d = __atomic_add_fetch(&$b[0], $c, 5);
    return $Q{$d|$b[2]|$b[1]};
}`},
	{"{$n, $1, $2, $3, $4},", `
static volatile long $G[][5] = {
    $T
};
static __attribute__((unused)) int $C(int $a) {
    unsigned long $b;
    for ($b = 0; $b < sizeof $G / sizeof $G[0]; $b++) {
        if ($G[$b][0] == $a) {
            long $c = __atomic_add_fetch(&$G[$b][1], $G[$b][2], 5);
            return $Q{$c|$G[$b][3]|$G[$b][4]};
        }
    }
    return 0;
}`},
	{"{$4, $n, {$1, $2}, $3},", `
struct $K {
    long $a;
    int $b;
    long $c[2];
    long $d;
};
static struct $K $G[] = {
    $T
};
static __attribute__((unused)) int $C(int $a) {
    struct $K *$e = $G;
    long $f;
    while ($e->$b != $a) {
        $e++;
    }
    $f = __atomic_add_fetch(&$e->$c[0], $e->$c[1], 5);
    return $Q{$f|$e->$d|$e->$a};
}`},
}

// cTracedBody is written at the beginning of a function, and at its end: what is said
// there is said whichever way it is left, but not where the program ends.
var cTracedBody = scriptWrap{"struct $K $L __attribute__((cleanup($F))) = $S($n, 0);", "$L.$d = 1;", `
struct $K {
    int $b, $c, $d;
};
static __attribute__((unused)) struct $K $S(int $b, int $d) {
    struct $K $a;
    $a.$b = $b;
    $a.$c = $N(0, 0);
    $a.$d = $d;
    return $a;
}
static __attribute__((unused)) void $F(struct $K *$a) {
    $N($a->$b, $a->$d ? 2 + $a->$c : -2);
}`}

// cTrace is the function $N, $p is the path and $k the key. What is noted of a site is 1
// or 0, of a condition that holds or not, -1 where a place is only come by, and of a
// function that ends 2 and how many assertions had failed when it began, or -2 where an
// assertion has left it.
const cTrace = `
#include <stdio.h>
#if defined(__cplusplus)
#include <exception>
#endif
static const struct {
    int $a;
    const char *$b;
    int $c;
    const char *$d;
} $G[] = {
    $T
};
static __attribute__((unused)) int $N(int $e, int $f) {
    enum { $e_n = sizeof $G / sizeof $G[0] };
    static int $F[$e_n][4], $L, $e_x[4 * $e_n];
    int $S = $e % (4 * $e_n), $e_w = 0;
    FILE *$K;
    if ($e == 0) {
        return $L;
    }
    while ($e_x[$S] > 0 && $G[$e_x[$S] - 1].$a != $e) {
        $S = ($S + 1) % (4 * $e_n);
    }
    while ($e_x[$S] == 0 || $G[$e_x[$S] - 1].$a != $e) {
        $e_x[$S]++;
    }
    $S = $e_x[$S] - 1;
    if ($f >= 2 || $f == -2) {
        $e_w = $L + 2 != $f;
#if defined(__cplusplus) && __cplusplus >= 201703L
        $e_w |= std::uncaught_exceptions() > 0;
#elif defined(__cplusplus)
        $e_w |= std::uncaught_exception();
#endif
#if defined(GTEST_SUCCEED)
        $e_w |= ::testing::Test::HasFailure();
#endif
        if (++$F[$S][2 + $e_w] > 16) {
            return 0;
        }
    } else {
        $F[$S][0]++;
        $F[$S][1] += $f == 0;
        $L += $f == 0 || ($f == -1 && $C($e));
        if ($f ? $F[$S][0] > 1 : $F[$S][1] > 16) {
            return 0;
        }
    }
    $K = fopen($p, "a");
    if (!$K) {
        return 0;
    }
    if ($f >= 2 || $f == -2) {
        fprintf($K, "$k T %s %s\n", $G[$S].$d, $e_w ? "fail" : "pass");
    } else if ($f < 0) {
        fprintf($K, "$k R %d\n", $G[$S].$c);
    } else {
        fprintf($K, "$k E %d %d %s\n", $G[$S].$c, $F[$S][0], $f ? "ok" : "failed");
    }
    fclose($K);
    return 0;
}`
