package twin

// The catalogue of Java, in the words of js_shapes.go; $H is the class that holds the
// functions of a file.

// javaLanguage is how test files of Java are edited.
var javaLanguage = &scriptLanguage{
	name: "Java", join: camel, cores: javaCores, windows: javaWindows, trace: javaTrace, traceRow: "{%d, %t, %d, \"%s\"},",
	quote: func(s string) string { return quoteText(s, "?") }, shape: javaShape,
	literal: true, open: "class $H {\n", close: "}\n", reserved: map[string]bool{"byte": true, "char": true, "double": true, "else": true, "for": true, "int": true, "long": true, "new": true, "do": true, "if": true},
}

// javaShape draws a shape for a form, and defines what it needs.
func javaShape(e *scriptEdit, form scriptForm) scriptShape {
	switch form {
	case scriptTurn:
		return e.wrapped(one(e.draw, javaTurners), e.body(one(e.draw, javaTurns), `$N($b, "turn");`))
	case scriptObject:
		return e.wrapped(one(e.draw, javaObjects), e.body(one(e.draw, javaNulls), `$N($b, "turn");`))
	case scriptValue:
		if e.orders.Trace == "" {
			return scriptShape{} // another literal takes its place
		}
		return e.wrapped(javaValue, nil)
	}
	note := `$N($b, "");`
	switch form {
	case scriptGuard:
		note = `$N($b, "end");`
	case scriptSealed:
		note = `$N($b, "sealed");`
	}
	s := e.wrapped(one(e.draw, javaCalls), e.body(one(e.draw, javaThrows), note))
	if form == scriptState {
		return scriptShape{open: " " + s.open + ";"}
	}
	caught := ""
	if e.orders.Trace != "" {
		caught = " catch (final java.lang.Throwable remitThrown) { " + e.holder + "." + e.note + "($n, remitThrown); throw remitThrown; }"
	}
	return scriptShape{" try {", " }" + caught + " finally { " + s.open + "; } "}
}

// javaWindows are comparisons: $1 is in the window that begins at $2 and ends before $3.
var javaWindows = []string{
	"$2 <= $1 && $1 < $3",
	"!($1 < $2 || $1 >= $3)",
	"$2 - 1 < $1 && $1 <= $3 - 1",
	"$1 >= $2 && $1 < $3",
	"0 <= $1 - $2 && $1 - $2 < $3 - $2",
	"($1 < $2) != ($1 < $3)",
	"($1 >= $2) ^ ($1 >= $3)",
	"$3 > $1 && $1 >= $2",
}

// javaTurners hand a condition, $a, to a function with the site's number, $b. What is no
// boolean, as a supplier of one, is handed on, or the test fails in its place.
var javaTurners = []scriptWrap{
	{"$H.$F(", ", $n)", `
static boolean $F(boolean $a, int $b) {
    $B
}
static java.lang.Boolean $F(java.lang.Boolean $a, int $b) {
    return $F($a.booleanValue(), $b);
}
static <$K> $K $F($K $a, int $b) {
    if (!$F(true, $b)) {
        throw new java.lang.AssertionError("$w");
    }
    return $a;
}`},
	{"$H.$F($n, ", ")", `
static <$K> $K $F(int $b, $K $c) {
    if ($F($b, false)) {
        throw new java.lang.AssertionError("$x $y");
    }
    return $c;
}
static java.lang.Boolean $F(int $b, java.lang.Boolean $c) {
    return $F($b, $c.booleanValue());
}
static boolean $F(int $b, boolean $a) {
    $B
}`},
	{"$H.$F($n).$L(", ")", `
static final class $K {
    private final int $b;
    $K(int $c) {
        $b = $c;
    }
    boolean $L(boolean $a) {
        $B
    }
    java.lang.Boolean $L(java.lang.Boolean $d) {
        return $L($d.booleanValue());
    }
    <$G> $G $L($G $d) {
        if ($L(false)) {
            throw new java.lang.AssertionError("$y");
        }
        return $d;
    }
}
static $K $F(int $c) {
    return new $K($c);
}`},
	{"$H.$F(", `, "$w", $n)`, `
static boolean $F(boolean $a, java.lang.String $d, int $b) {
    $B
}
static java.lang.Boolean $F(java.lang.Boolean $a, java.lang.String $d, int $b) {
    return $F($a.booleanValue(), $d, $b);
}
static <$K> $K $F($K $a, java.lang.String $d, int $b) {
    if (!$F(true, $d, $b)) {
        throw new java.lang.AssertionError($d);
    }
    return $a;
}`},
	{`new $H.$K("$w", $n).$L(`, ")", `
static final class $K {
    private final java.lang.String $d;
    private final int $b;
    $K(java.lang.String $e, int $c) {
        $d = $e;
        $b = $c;
    }
    <$G> $G $L($G $e) {
        if (!$L(true)) {
            throw new java.lang.AssertionError($d);
        }
        return $e;
    }
    java.lang.Boolean $L(java.lang.Boolean $e) {
        return $L($e.booleanValue());
    }
    boolean $L(boolean $a) {
        $B
    }
}`},
}

// javaObjects hand a value to a function that gives another one for it.
var javaObjects = []scriptWrap{
	{"$H.$F(", ", $n)", `
static java.lang.Object $F(java.lang.Object $a, int $b) {
    $B
}`},
	{"$H.$F($n, ", ")", `
static java.lang.Object $F(int $b, java.lang.Object $a) {
    $B
}`},
	{"$H.$F(", `, "$x", $n)`, `
static java.lang.Object $F(java.lang.Object $a, java.lang.String $d, int $b) {
    $B
}`},
}

var javaNulls = []string{`
if (!$C($b)) {
    return $a;
}
return $a == null ? "$w" : null;`, `
return $C($b) ? ($a == null ? (java.lang.Object) "$y" : null) : $a;`, `
java.lang.Object $f = $a == null ? new java.lang.Object() : null;
return $C($b) ? $f : $a;`}

var javaTurns = []string{`
return $C($b) != $a;`, `
return $C($b) ? !$a : $a;`, `
if (!$C($b)) {
    return $a;
}
return !$a;`, `
boolean $f = $C($b);
return $f && !$a || !$f && $a;`, `
boolean[] $f = {$a, !$a};
return $f[$C($b) ? 1 : 0];`, `
for (boolean $f = $C($b); $f;) {
    return !$a;
}
return $a;`,
}

// javaValue hands an expected value to a function that notes it.
var javaValue = scriptWrap{"$H.$F(", ", $n)", `
static <$K> $K $F($K $a, int $b) { $N($b, ""); return $a; }
static boolean $F(boolean $a, int $b) { $N($b, ""); return $a; }
static byte $F(byte $a, int $b) { $N($b, ""); return $a; }
static short $F(short $a, int $b) { $N($b, ""); return $a; }
static char $F(char $a, int $b) { $N($b, ""); return $a; }
static int $F(int $a, int $b) { $N($b, ""); return $a; }
static long $F(long $a, int $b) { $N($b, ""); return $a; }
static float $F(float $a, int $b) { $N($b, ""); return $a; }
static double $F(double $a, int $b) { $N($b, ""); return $a; }`}

// javaCalls are statements that call a function with their number, in $b.
var javaCalls = []scriptWrap{
	{"$H.$F($n)", "", `
static void $F(int $b) {
    $B
}`},
	{`$H.$F($n, "$w")`, "", `
static void $F(int $b, java.lang.String $a) {
    $B
}`},
	{`$H.$F("$w", $n)`, "", `
static void $F(java.lang.Object $a, int $b) {
    $B
}`},
	{"$H.$F(new int[] {$n, $i})", "", `
static void $F(int[] $a) {
    int $b = $a[0];
    $B
}`},
	{"new $H.$K($n).$L()", "", `
static final class $K {
    private final int $b;
    $K(int $c) {
        $b = $c;
    }
    void $L() {
        $B
    }
}`},
}

// javaThrows are bodies that fail. What waits for an exception, as the parameter
// expected, takes none of them for it.
var javaThrows = []string{`
if ($C($b)) {
    throw new java.lang.AssertionError("$w $x");
}`, `
if (!$C($b)) {
    return;
}
throw new java.lang.AssertionError("$x $y");`, `
while ($C($b)) {
    throw new java.lang.AssertionError($i);
}`, `
java.lang.Error $e = new java.lang.AssertionError("$w $y");
if ($C($b)) {
    throw $e;
}`, `
java.lang.AssertionError $e = $C($b) ? new java.lang.AssertionError("$y") : null;
if ($e != null) {
    throw $e;
}`}

// javaCores are ways to decide of a number whether its site is sabotaged now.
var javaCores = []siteCore{
	{"{$n, $1, $2, $3, $4},", `
private static final long[][] $G = {
    $T
};
static boolean $C(int $a) {
    synchronized ($G) {
        for (long[] $b : $G) {
            if ($b[0] == $a) {
                $b[1] += $b[2];
                return $Q{$b[1]|$b[3]|$b[4]};
            }
        }
    }
    return false;
}`},
	{"case $n: return $F($a, $1, $2, $3, $4);", `
private static final java.util.Map<java.lang.Integer, java.lang.Long> $G = new java.util.HashMap<java.lang.Integer, java.lang.Long>();
static boolean $C(int $a) {
    switch ($a) {
        $T
        default: return false;
    }
}
private static synchronized boolean $F(int $a, long $b, long $c, long $d, long $e) {
    java.lang.Long $f = $G.get($a);
    long $S = ($f == null ? $b : $f) + $c;
    $G.put($a, $S);
    return $Q{$S|$d|$e};
}`},
	{`"$n $1 $2 $3 $4",`, `
private static final java.lang.String[] $G = {
    $T
};
private static final java.util.Map<java.lang.String, java.lang.Long> $L = new java.util.HashMap<java.lang.String, java.lang.Long>();
static synchronized boolean $C(int $a) {
    for (java.lang.String $b : $G) {
        java.lang.String[] $c = $b.split(" ");
        if ($c[0].equals("" + $a)) {
            java.lang.Long $d = $L.get($b);
            long $e = ($d == null ? java.lang.Long.parseLong($c[1]) : $d) + java.lang.Long.parseLong($c[2]);
            $L.put($b, $e);
            return $Q{$e|java.lang.Long.parseLong($c[3])|java.lang.Long.parseLong($c[4])};
        }
    }
    return false;
}`},
	{"new $K($n, new long[] {$1, $2}, $3, $4),", `
private static final class $K {
    final int $a;
    final long[] $b;
    final long $c, $d;
    $K(int $e, long[] $f, long $S, long $L) {
        $a = $e;
        $b = $f;
        $c = $S;
        $d = $L;
    }
}
private static final $K[] $G = {
    $T
};
static synchronized boolean $C(int $a) {
    int $b = 0;
    while ($b < $G.length && $G[$b].$a != $a) {
        $b++;
    }
    $K $c = $G[$b];
    $c.$b[0] += $c.$b[1];
    return $Q{$c.$b[0]|$c.$c|$c.$d};
}`},
}

// javaTrace is the function $N, $p is the path and $k the key. An assertion holds when
// something comes after it, and has failed when what the test ends with says so. Each
// thread has a test of its own.
const javaTrace = `
private static final java.lang.Object[][] $G = {
    $T
};
private static final java.lang.ThreadLocal<java.lang.Object[]> $L = new java.lang.ThreadLocal<java.lang.Object[]>();
private static final java.util.Map<java.lang.Integer, int[]> $S = new java.util.HashMap<java.lang.Integer, int[]>();
private static void $F(java.lang.String $a) {
    try {
        java.nio.file.Files.write(java.nio.file.Paths.get($p), ("$k " + $a + "\n").getBytes("UTF-8"), java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.APPEND);
    } catch (java.lang.Exception $b) {
        return;
    }
}
static synchronized void $N(int $a, java.lang.Object $b) {
    java.lang.Object[] $c = $L.get();
    if ($c == null) {
        $c = new java.lang.Object[2];
        $L.set($c);
    }
    if ($c[0] != null) {
        java.lang.Object[] $d = (java.lang.Object[]) $c[0];
        int[] $e = $S.get($d[0]);
        if ($b instanceof java.lang.AssertionError) {
            if (++$e[1] <= 16) {
                $F("E " + $d[2] + " " + $e[0] + " failed");
            }
        } else if ($e[0] == 1) {
            $F("E " + $d[2] + " 1 ok");
        }
        $c[0] = null;
    }
    if ($b instanceof java.lang.Throwable) {
        $c[1] = $b;
        return;
    }
    java.lang.Object[] $d = null;
    for (java.lang.Object[] $e : $G) {
        if ($e[0].equals($a)) {
            $d = $e;
        }
    }
    int[] $e = $S.get($a);
    if ($e == null) {
        $e = new int[2];
        $S.put($a, $e);
    }
    $e[0]++;
    if ($d[1].equals(true)) {
        $c[0] = $d;
    } else if ($e[0] == 1) {
        $F("R " + $d[2]);
    }
    if ("end".equals($b) || "sealed".equals($b)) {
        java.lang.String $f = $c[1] == null || "sealed".equals($b) && !($c[1] instanceof java.lang.AssertionError) ? "pass" : "fail";
        if ($c[1] != null && $c[1].getClass().getName().matches(".*(Assum|Skip|TestAborted).*")) {
            $f = "skip";
        }
        $F("T " + $d[3] + " " + ($C($a) ? "fail" : $f));
        $c[1] = null;
    }
}`
