package twin

import "strings"

// The catalogue of bats and of scripts of sh and bash. The words are those of js_shapes.go:
// $$G is the value of a variable of the name $G. What is needed is written in the forms
// that every sh knows, and on one line: in front of the first command of a script, behind
// the last test of bats.

// Further forms of sites.
const (
	shClause      scriptForm = "clause"       // [[ … ]] or (( … )), which has to be true
	shUnclause    scriptForm = "unclause"     // the same that has to be false
	shClauseValue scriptForm = "clause value" // an expected value in it
)

// shLanguage is how test files of bats and scripts are edited.
var shLanguage = &scriptLanguage{
	name: "shell", join: underscores, cores: shCores, windows: cWindows, trace: shTrace, traceRow: "%[1]d) $G_i=%[3]d; $G_t=%[4]s;;",
	quote: func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }, shape: shShape, literal: true, oneLine: true,
}

// shShape draws a shape for a form, and defines what it needs.
func shShape(e *scriptEdit, form scriptForm) scriptShape {
	traced := e.orders.Trace != ""
	switch form {
	case scriptTurn + heldForm, scriptFalse + heldForm:
		status := map[scriptForm]string{scriptTurn + heldForm: "0", scriptFalse + heldForm: "1"}[form]
		return e.wrapped(shPrefixes[0], []string{"shift;", `if "$@"; then`, "return " + status + ";", "fi;", "return " + status + ";"})
	case shClause + heldForm:
		return e.wrapped(shClauses[0], []string{"return 0;"})
	case shUnclause + heldForm:
		return e.wrapped(shClauses[0], []string{"return 1;"})
	case scriptTurn, scriptFalse:
		if traced {
			holds := map[scriptForm]string{scriptTurn: "$$L", scriptFalse: "$(( ! $$L ))"}[form]
			return e.wrapped(shPrefixes[0], []string{strings.ReplaceAll(shTracedTurn, "$HOLDS", holds)})
		}
		return e.wrapped(one(e.draw, shPrefixes), e.body(one(e.draw, shTurns), ""))
	case shClause, shUnclause:
		if traced {
			holds := map[scriptForm]string{shClause: "$$L", shUnclause: "$(( ! $$L ))"}[form]
			return e.wrapped(shClauses[0], []string{"$L=$2;", "$N \"$1\" began;", "if $C \"$1\"; then $L=$(( ! $2 )); fi;", "$N \"$1\" \"" + holds + "\";", "return \"$$L\";"})
		}
		return e.wrapped(one(e.draw, shClauses), e.body(one(e.draw, shAnswers), ""))
	case scriptValue:
		if !traced {
			return scriptShape{} // another literal takes its place
		}
		return e.wrapped(shPrefixes[0], []string{"$N \"$1\" reached;", "shift;", `"$@";`})
	case shClauseValue:
		if !traced {
			return scriptShape{}
		}
		return e.wrapped(scriptWrap{"{ $F $n; ", "; }", "\n$F() { $N \"$1\" reached; };"}, nil)
	}
	leave := map[scriptForm]string{scriptState: "return", scriptStrict: "exit"}[form]
	if traced {
		return e.wrapped(shStates[0], []string{"$L=$?;", "$N \"$1\" reached;", "if $C \"$1\"; then " + leave + " 1; fi;", "case $$L in 0) $N \"$1\" ended;; esac;", "return \"$$L\";"})
	}
	return e.wrapped(one(e.draw, shStates), []string{strings.ReplaceAll(strings.TrimPrefix(one(e.draw, shEnds), "\n"), "LEAVE", leave)})
}

// shPrefixes have a function do a command, "$@" behind the site's number, $1.
var shPrefixes = []scriptWrap{
	{"$F $n ", "", "\n$F() {\n$B\n};"},
	{"$F $n ", "", "\n$S() {\n$B\n};\n$F() {\n$S \"$@\";\n};"},
	{"$F $w $n ", "", "\n$F() {\nshift;\n$B\n};"},
	{"$F $n $x ", "", "\n$S() {\n$B\n};\n$F() {\n$L=$1;\nshift 2;\n$S \"$$L\" \"$@\";\n};"},
	{"$F $i $n ", "", "\n$F() {\nshift;\n$S \"$@\";\n};\n$S() {\n$B\n};"},
}

// shTurns do a command, and give its status or the contrary.
var shTurns = []string{`
if $C "$1"; then
shift;
if "$@"; then
return 1;
fi;
return 0;
fi;
shift;
"$@";`, `
if ! $C "$1"; then
shift;
"$@";
return;
fi;
shift;
! "$@";`, `
$K=$i;
$C "$1" || $K=$j;
shift;
case $$K in
$j)
"$@";
return;;
esac;
if "$@"; then
return $i;
fi;`, `
$C "$1" && {
shift;
! "$@";
return;
};
shift;
"$@";`}

// shTracedTurn does the same and says so. A command that fails may end the script here,
// so that it is noted before that it begins; one that does another has a number of its own.
const shTracedTurn = `$N "$1" began;
if $C "$1"; then
$S="$1 ${$S:-}";
shift;
if "$@"; then
$L=1;
else
$L=0;
fi;
else
$S="$1 ${$S:-}";
shift;
"$@";
$L=$?;
fi;
$K=${$S%% *};
$S=${$S#* };
$N "$$K" "$HOLDS";
return "$$L";`

// shClauses have a function give a status, $2, behind the site's number, $1.
var shClauses = []scriptWrap{
	{"{ if ", "; then $F $n 0; else $F $n 1; fi; }", "\n$F() {\n$B\n};"},
	{"if ", "; then $F $n 0; else $F $n 1; fi", "\n$F() {\n$B\n};"},
	{"{ if ! ", "; then $F $n 1; else $F $n 0; fi; }", "\n$F() {\n$B\n};"},
	{"{ if ", "; then $F 0 $n; else $F 1 $n; fi; }", "\n$S() {\n$B\n};\n$F() {\n$S \"$2\" \"$1\";\n};"},
}

var shAnswers = []string{`
if $C "$1"; then
return "$(( ! $2 ))";
fi;
return "$2";`, `
$C "$1" || return "$2";
return "$(( 1 - $2 ))";`, `
$K=$2;
! $C "$1" || $K=$(( ! $2 ));
return "$$K";`, `
case $2 in
0)
! $C "$1";;
*)
$C "$1";;
esac;`}

// shStates call a function with the site's number, $1.
var shStates = []scriptWrap{
	{"$F $n; ", "", "\n$F() {\n$B\n};"},
	{"$F $n $w; ", "", "\n$F() {\n$B\n};"},
	{"$F $n; ", "", "\n$F() {\n$S \"$1\";\n};\n$S() {\n$B\n};"},
}

// shEnds fail, or give the status that was there.
var shEnds = []string{`
$K=$?;
if $C "$1"; then
LEAVE 1;
fi;
return "$$K";`, `
$K=$?;
$C "$1" || return "$$K";
LEAVE 1;`, `
$K=$?;
! $C "$1" || LEAVE 1;
return "$$K";`, `
$K=$?;
$C "$1" && LEAVE 1;
return "$$K";`}

// shCores are ways to decide of a number whether its site is sabotaged now.
var shCores = []siteCore{
	{"$n) $G_$n=$(( ${$G_$n:-$1} + $2 )); $L=$$G_$n; $S=$3; $K=$4;;", `
$C() {
case $1 in
$T
*) return 1;;
esac;
return "$(( ! ($Q{$$L|$$S|$$K}) ))";
};`},
	{"$n) $F $n $1 $2 $3 $4; return;;", `
$C() {
case $1 in
$T
esac;
return 1;
};
$F() {
eval "$G$1=\$(( \${$G$1:-$2} + $3 )); $L=\$$G$1";
return "$(( ! ($Q{$$L|$4|$5}) ))";
};`},
	{"$n) set -- $n $1 $2 $3 $4;;", `
$C() {
case $1 in
$T
*) return 1;;
esac;
eval "$G$1=\$(( \${$G$1:-$2} + $3 )); $L=\$$G$1";
case $(( $Q{$$L|$4|$5} )) in
0) return 1;;
esac;
};`},
	{"$n) $S=$1; $K=$2; $L=$3; shift; set -- $n $4;;", `
$C() {
case $1 in
$T
*) return 1;;
esac;
eval "$G$1=\$(( \${$G$1:-$$S} + $$K )); $F=\$$G$1";
return "$(( 1 - ($Q{$$F|$$L|$2}) ))";
};`},
}

// shTrace is the function $N, $p is the path and $k the key. What is noted of a site is
// that it begins, its status, that it is come by, or that the test ends with it. Only the
// first status and 16 that are not 0 are noted of each.
const shTrace = `
$N() {
case $1 in
$T
*) return 0;;
esac;
case $2 in
began) eval "$G_c$1=\$(( \${$G_c$1:-0} + 1 )); $G_e=\$$G_c$1"; $G_l="E $$G_i $$G_e began";;
reached) $G_l="R $$G_i";;
ended) $G_l="T $$G_t pass";;
0) eval "$G_e=\${$G_c$1:-}"; case $$G_e in ?*) $G_l="E $$G_i $$G_e ok";; *) $G_l="E $$G_i 1 ok";; esac;;
*) eval "$G_e=\${$G_c$1:-1}"; $G_l="E $$G_i $$G_e failed";;
esac;
printf '%s\n' "$k $$G_l" 2>/dev/null >>$p || :;
};`
