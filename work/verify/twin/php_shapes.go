package twin

// The catalogue of PHP, in the words of js_shapes.go; $$a is a variable of the name $a.

// phpLanguage is how test files of PHP are edited.
var phpLanguage = &scriptLanguage{name: "PHP", join: camel, cores: phpCores, windows: jsWindows, others: phpOthers, trace: phpTrace, traceRow: arrowRow, quote: singleQuoted, shape: phpShape}

// phpShape draws a shape for a form, and defines what it needs.
func phpShape(e *scriptEdit, form scriptForm) scriptShape {
	switch form {
	case scriptTurn:
		return e.wrapped(one(e.draw, phpTurners), e.body(one(e.draw, phpTurns), "$N($$b, 'turn');"))
	case scriptValue:
		return e.wrapped(one(e.draw, phpWraps), e.body(one(e.draw, phpExpects), "$N($$b, '');"))
	case scriptState, scriptStrict:
		s := e.wrapped(one(e.draw, phpCalls), e.body(phpThrow(e, form == scriptStrict), "$N($$b, '');"))
		return scriptShape{open: " " + s.open + ";"}
	}
	note := "$N($$b, 'end');"
	if form == scriptSealed {
		note = "$N($$b, 'sealed');"
	}
	s := e.wrapped(one(e.draw, phpCalls), e.body(phpThrow(e, form == scriptSealed), note))
	open, caught := " try {", ""
	if e.orders.Trace != "" {
		caught = " catch (\\Throwable $remitThrown) { " + e.note + "($n, $remitThrown); throw $remitThrown; }"
	}
	return scriptShape{open, " }" + caught + " finally { " + s.open + "; } "}
}

// phpThrow is a body that fails: in a strict place by what PHPUnit never takes for an
// exception that a test waits for.
func phpThrow(e *scriptEdit, strict bool) string {
	if strict {
		return one(e.draw, phpStrictThrows)
	}
	return one(e.draw, phpThrows)
}

// phpTurners are how the name of an assertion, %, is chosen: the body finds it in $a,
// that of its contrary, ^, in $c and the number in $b.
var phpTurners = []scriptWrap{
	{"{$F('%', '^', $n)}", "", `
function $F($$a, $$c, $$b)
{
    $B
}`},
	{"{$F($n, '^', '%')}", "", `
function $F($$b, $$c, $$a)
{
    $B
}`},
	{"{$F(['%', '^'], $n)}", "", `
function $F($$d, $$b)
{
    [$$a, $$c] = $$d;
    $B
}`},
	{"{$F($n)('^', '%')}", "", `
function $F($$b)
{
    return function ($$c, $$a) use ($$b) {
        $B
    };
}`},
	{"{$F('% ^', $n)}", "", `
function $F($$d, $$b)
{
    [$$a, $$c] = \explode(' ', $$d);
    $B
}`},
	{"{$F(['$w' => '^', '$x' => '%'], $n)}", "", `
function $F($$d, $$b)
{
    ['$x' => $$a, '$w' => $$c] = $$d;
    $B
}`},
}

var phpTurns = []string{`
return $C($$b) ? $$c : $$a;`, `
if (!$C($$b)) {
    return $$a;
}
return $$c;`, `
return [$$a, $$c][(int) $C($$b)];`, `
foreach ([$$c, $$a] as $$e) {
    if ($C($$b) === ($$e === $$c)) {
        return $$e;
    }
    return $$a;
}`, `
switch ($C($$b)) {
    case true:
        return $$c;
    default:
        return $$a;
}`, `
while ($C($$b)) {
    return $$c;
}
return $$a;`}

// phpWraps hand a value to a function.
var phpWraps = []scriptWrap{
	{"$F(", ", $n)", `
function $F($$a, $$b)
{
    $B
}`},
	{"$F($n, ", ")", `
function $F($$b, $$a)
{
    $B
}`},
	{"$F($n)(", ")", `
function $F($$b)
{
    return function ($$a) use ($$b) {
        $B
    };
}`},
	{"$F([", ", $n])", `
function $F($$d)
{
    [$$a, $$b] = $$d;
    $B
}`},
	{"$F(['$m' => ", ", '$w' => $n])", `
function $F($$d)
{
    ['$m' => $$a, '$w' => $$b] = $$d;
    $B
}`},
	{"$F(", ", '$w', $n)", `
function $F($$a, $$d, $$b)
{
    $B
}`},
}

var phpExpects = []string{`
return $C($$b) ? $O($$a, $$b) : $$a;`, `
if (!$C($$b)) {
    return $$a;
}
return $O($$a, $$b);`, `
$$e = [$$a];
if ($C($$b)) {
    $$e[] = $O($$a, $$b);
}
return \array_pop($$e);`, `
for ($$e = $C($$b); $$e; $$e = false) {
    $$a = $O($$a, $$b);
}
return $$a;`, `
switch ($C($$b)) {
    case true:
        return $O($$a, $$b);
    default:
        return $$a;
}`}

// phpCalls are statements that call a function with their number, in $b.
var phpCalls = []scriptWrap{
	{"$F($n)", "", `
function $F($$b)
{
    $B
}`},
	{"$F($n, '$w')", "", `
function $F($$b, $$a)
{
    $B
}`},
	{"$F('$w', $n)", "", `
function $F($$a, $$b)
{
    $B
}`},
	{"$F($n)()", "", `
function $F($$b)
{
    return function () use ($$b) {
        $B
    };
}`},
	{"$F([$n])", "", `
function $F($$a)
{
    [$$b] = $$a;
    $B
}`},
	{"$F(['$m' => $n, '$w' => $i])", "", `
function $F($$a)
{
    $$b = $$a['$m'];
    $B
}`},
}

// phpThrows are bodies that fail.
var phpThrows = []string{`
if ($C($$b)) {
    throw new \RuntimeException('$w $x');
}`, `
if ($C($$b)) {
    throw new \PHPUnit\Framework\AssertionFailedError('$w $x');
}`, `
while ($C($$b)) {
    throw new \LogicException('$w');
}`, `
if (!$C($$b)) {
    return '$w';
}
throw new \Error('$x $y');`, `
switch ($C($$b)) {
    case true:
        throw new \UnexpectedValueException('$w $x');
}`, `
return \intdiv($i, $C($$b) ? 0 : $j);`, `
return \strtolower($C($$b) ? [] : '$w');`, `
$$e = $C($$b) ? null : new \ArrayObject(['$w']);
return $$e->count();`}

var phpStrictThrows = []string{`
if ($C($$b)) {
    throw new \PHPUnit\Framework\AssertionFailedError('$w $x');
}`, `
if (!$C($$b)) {
    return '$w';
}
throw new \PHPUnit\Framework\AssertionFailedError('$x $y');`, `
\PHPUnit\Framework\Assert::assertThat($C($$b) ? $i : $j, new \PHPUnit\Framework\Constraint\IsIdentical($j));`, `
while ($C($$b)) {
    throw new \PHPUnit\Framework\ExpectationFailedException('$w $y');
}`}

// phpCores are ways to decide of a number whether its site is sabotaged now.
var phpCores = []siteCore{
	{"$n => [$1, $2, $3, $4],", `
function $C($$a)
{
    static $$b = [
        $T
    ];
    $$b[$$a][0] += $$b[$$a][1];
    return $Q{$$b[$$a][0]|$$b[$$a][2]|$$b[$$a][3]};
}`},
	{"case $n: return $F($$a, $1, $2, $3, $4);", `
function $C($$a)
{
    switch ($$a) {
        $T
    }
}
function $F($$a, $$b, $$c, $$d, $$e)
{
    static $$f = [];
    $$f[$$a] = ($$f[$$a] ?? $$b) + $$c;
    return $Q{$$f[$$a]|$$d|$$e};
}`},
	{"$n => '$1 $2 $3 $4',", `
function $C($$a)
{
    static $$b = [];
    $$c = [
        $T
    ];
    [$$d, $$e, $$f, $$c] = \array_map('intval', \explode(' ', $$c[$$a]));
    $$b[$$a] = ($$b[$$a] ?? $$d) + $$e;
    return $Q{$$b[$$a]|$$f|$$c};
}`},
	{"[$n, $1, $2, $3, $4],", `
function $C($$a)
{
    static $$b = [];
    foreach ($F() as [$$c, $$d, $$e, $$f, $$S]) {
        if ($$c === $$a) {
            $$b[$$a] = ($$b[$$a] ?? $$d) + $$e;
            return $Q{$$b[$$a]|$$f|$$S};
        }
    }
}
function $F()
{
    return [
        $T
    ];
}`},
	{"$n => ['$w' => $1, '$x' => $2, '$y' => [$3, $4]],", `
function $F()
{
    return new \ArrayObject([
        $T
    ]);
}
function $C($$a)
{
    static $$b = null;
    $$b = $$b ?? $F();
    $$c = $$b[$$a];
    $$c['$w'] += $$c['$x'];
    $$b[$$a] = $$c;
    return $Q{$$c['$w']|$$c['$y'][0]|$$c['$y'][1]};
}`},
}

// phpOthers make another value of the type of $a, the number $b decides which: one
// that is like it where $b is even, and else one that no part and no tolerance covers.
var phpOthers = []string{`
function $O($$a, $$b)
{
    $$c = $$b % 1000 + $i;
    if ($$a === null) {
        return '$w' . $$c;
    }
    if (\is_bool($$a)) {
        return !$$a;
    }
    if (\is_int($$a)) {
        return $$b % 2 === 0 && \abs($$a) < 1000000000 ? $$a + 1 + $$c % 5 : -$$c - \abs($$a % 1000000000);
    }
    if (\is_float($$a)) {
        return \is_finite($$a) ? $$a + \abs($$a) + $$c : 0.5;
    }
    if (\is_string($$a)) {
        return $$a . '$x' . ($$b % 2 === 0 ? $$c % 10 : '$w');
    }
    if (\is_array($$a)) {
        $$d = \array_key_last($$a);
        if ($$d !== null && $$b % 2 === 0 && \is_scalar($$a[$$d])) {
            $$a[$$d] = $O($$a[$$d], $$b);
            return $$a;
        }
        $$a[] = $$c;
        return $$a;
    }
    return '$y';
}`, `
function $O($$a, $$b)
{
    $$c = $i + $$b % 997;
    switch (\gettype($$a)) {
        case 'boolean':
            return $$a === false;
        case 'integer':
            return $$b % 2 === 0 && \abs($$a) < 1000000000 ? $$a + 2 + $$c % 4 : \abs($$a % 1000000000) + $$c + 1;
        case 'double':
            return \is_finite($$a) ? \abs($$a) * 2 + $$c : -1.5;
        case 'string':
            return $$b % 2 === 0 ? $$a . $$c % 10 : '$w' . $$a . '$x';
        case 'array':
            $$d = $$a === [] || $$b % 2 !== 0 ? '$m' : \array_keys($$a)[0];
            $$a[$$d] = \is_scalar($$a[$$d] ?? []) ? $O($$a[$$d], $$b) : $$c;
            return $$a;
    }
    return ['$y', $$c];
}`}

// phpTrace is the function $N, $p is the path and $k the key. An assertion holds
// when something comes after it, and has failed when what the test ends with says so.
const phpTrace = `
function $N($$a, $$b)
{
    static $$c = [], $$d = null, $$e = null;
    $$f = [
        $T
    ];
    $$L = function ($$S) {
        @\file_put_contents($p, '$k ' . $$S . "\n", FILE_APPEND);
    };
    if ($$d !== null) {
        $$c[$$d][1] += $$b instanceof \PHPUnit\Framework\AssertionFailedError ? 1 : 0;
        if ($$b instanceof \PHPUnit\Framework\AssertionFailedError) {
            if ($$c[$$d][1] <= 16) {
                $$L('E ' . $$f[$$d][1] . ' ' . $$c[$$d][0] . ' failed');
            }
        } elseif ($$c[$$d][0] === 1) {
            $$L('E ' . $$f[$$d][1] . ' 1 ok');
        }
        $$d = null;
    }
    if ($$b instanceof \Throwable) {
        $$e = $$b;
        return;
    }
    $$c[$$a] = [($$c[$$a][0] ?? 0) + 1, $$c[$$a][1] ?? 0];
    if ($$f[$$a][0]) {
        $$d = $$a;
    } elseif ($$c[$$a][0] === 1) {
        $$L('R ' . $$f[$$a][1]);
    }
    if ($$b === 'end' || $$b === 'sealed') {
        $$S = $$e === null || $$b === 'sealed' && !$$e instanceof \PHPUnit\Framework\AssertionFailedError ? 'pass' : 'fail';
        $$S = $$e instanceof \PHPUnit\Framework\SkippedTest ? 'skip' : ($C($$a) ? 'fail' : $$S);
        $$L('T ' . $$f[$$a][2] . ' ' . $$S);
        $$e = null;
    }
}`
