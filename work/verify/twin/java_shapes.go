package twin

// The catalogue of Java, in the words of js_shapes.go; $H is the class that holds the
// functions of a file.

// javaLanguage is how test files of Java are edited.
var javaLanguage = &scriptLanguage{
	name: "Java", join: camel, cores: javaCores, windows: javaWindows, trace: javaTrace, traceRow: "{%d, %t, %d, \"%s\"},", shape: javaShape,
	literal: true, open: "class $H {\n", close: "}\n", reserved: map[string]bool{"byte": true, "char": true, "double": true, "else": true, "for": true, "int": true, "long": true, "new": true, "do": true, "if": true},
}

// javaShape draws a shape for a form, and defines what it needs.
func javaShape(e *scriptEdit, form scriptForm) scriptShape {
	switch form {
	case scriptTurn:
		return e.wrapped(one(e.draw, javaTurners), e.body(one(e.draw, javaTurns), `$N($b, "turn");`))
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
	if form == scriptState || form == scriptStrict {
		return scriptShape{open: " " + s.open + ";"}
	}
	caught := ""
	if e.orders.Trace != "" {
		caught = " catch (final Throwable remitThrown) { " + e.holder + "." + e.note + "($n, remitThrown); throw remitThrown; }"
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

// javaTurners hand a condition, $a, to a function with the site's number, $b.
var javaTurners = []scriptWrap{
	{"$H.$F(", ", $n)", `
static boolean $F(boolean $a, int $b) {
    $B
}`},
	{"$H.$F($n, ", ")", `
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
}
static $K $F(int $c) {
    return new $K($c);
}`},
	{"$H.$F(", `, "$w", $n)`, `
static boolean $F(boolean $a, String $d, int $b) {
    $B
}`},
	{"$H.$F(new boolean[] {", "}, $n)", `
static boolean $F(boolean[] $d, int $b) {
    boolean $a = $d[0];
    $B
}`},
	{`new $H.$K("$w", $n).$L(`, ")", `
static final class $K {
    private final String $d;
    private final int $b;
    $K(String $e, int $c) {
        $d = $e;
        $b = $c;
    }
    boolean $L(boolean $a) {
        $B
    }
}`},
}

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
static void $F(int $b, String $a) {
    $B
}`},
	{`$H.$F("$w", $n)`, "", `
static void $F(Object $a, int $b) {
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
    throw new AssertionError("$w $x");
}`, `
if (!$C($b)) {
    return;
}
throw new AssertionError("$x $y");`, `
while ($C($b)) {
    throw new AssertionError($i);
}`, `
Error $e = new AssertionError("$w $y");
if ($C($b)) {
    throw $e;
}`, `
AssertionError $e = $C($b) ? new AssertionError("$y") : null;
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
private static final java.util.Map<Integer, Long> $G = new java.util.HashMap<Integer, Long>();
static boolean $C(int $a) {
    switch ($a) {
        $T
        default: return false;
    }
}
private static synchronized boolean $F(int $a, long $b, long $c, long $d, long $e) {
    Long $f = $G.get($a);
    long $S = ($f == null ? $b : $f) + $c;
    $G.put($a, $S);
    return $Q{$S|$d|$e};
}`},
	{`"$n $1 $2 $3 $4",`, `
private static final String[] $G = {
    $T
};
private static final java.util.Map<String, Long> $L = new java.util.HashMap<String, Long>();
static synchronized boolean $C(int $a) {
    for (String $b : $G) {
        String[] $c = $b.split(" ");
        if ($c[0].equals("" + $a)) {
            Long $d = $L.get($b);
            long $e = ($d == null ? Long.parseLong($c[1]) : $d) + Long.parseLong($c[2]);
            $L.put($b, $e);
            return $Q{$e|Long.parseLong($c[3])|Long.parseLong($c[4])};
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
private static final Object[][] $G = {
    $T
};
private static final ThreadLocal<Object[]> $L = new ThreadLocal<Object[]>();
private static final java.util.Map<Integer, int[]> $S = new java.util.HashMap<Integer, int[]>();
private static void $F(String $a) {
    try {
        java.nio.file.Files.write(java.nio.file.Paths.get($p), ("$k " + $a + "\n").getBytes("UTF-8"), java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.APPEND);
    } catch (Exception $b) {
        return;
    }
}
static synchronized void $N(int $a, Object $b) {
    Object[] $c = $L.get();
    if ($c == null) {
        $c = new Object[2];
        $L.set($c);
    }
    if ($c[0] != null) {
        Object[] $d = (Object[]) $c[0];
        int[] $e = $S.get($d[0]);
        if ($b instanceof AssertionError) {
            if (++$e[1] <= 16) {
                $F("E " + $d[2] + " " + $e[0] + " failed");
            }
        } else if ($e[0] == 1) {
            $F("E " + $d[2] + " 1 ok");
        }
        $c[0] = null;
    }
    if ($b instanceof Throwable) {
        $c[1] = $b;
        return;
    }
    Object[] $d = null;
    for (Object[] $e : $G) {
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
        String $f = $c[1] == null || "sealed".equals($b) && !($c[1] instanceof AssertionError) ? "pass" : "fail";
        if ($c[1] != null && $c[1].getClass().getName().matches(".*(Assum|Skip|TestAborted).*")) {
            $f = "skip";
        }
        $F("T " + $d[3] + " " + ($C($a) ? "fail" : $f));
        $c[1] = null;
    }
}`
