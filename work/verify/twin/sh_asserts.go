package twin

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

var (
	// A word of the name says that it is an assertion.
	shAsserts = form.Lazy(`(?i)(?:^|[_.:-])(?:assert\w*|refute\w*|check|checks|expect\w*|require\w*|verify|ensure|should\w*|must|is|isnt|like|unlike|cmp_ok|ok|eq|equals?|same)(?:[_.:-]|$)|^(?:assert|refute|check|expect|verify)\w*$|^is_\w+$`)
	// Such an assertion is that something is not so, or only nearly so.
	shContrary = form.Lazy(`(?i)(?:^|[_.:-])(?:not?|ne|neq|isnt|unlike|refute\w*|false|fails?|null|empty|match\w*|regex\w*|gt|lt|ge|le|greater|less)(?:[_.:-]|$)|^assert(?:Not|False|Null)|NotEquals?|^refute`)
	// Commands that say by their status whether something is so.
	shCompares = form.Lazy(`^(?:\[|test|e?grep|fgrep|rg|diff|cmp)$`)
	// Commands of a condition that have to be done by the script itself, or whose end says nothing.
	shKeeps    = form.Lazy(`^(?:cd|pushd|popd|read|shift|set|unset|trap|wait|kill|exec|return|exit|eval|\.|source|local|declare|typeset|export|readonly|let|getopts|break|continue|command|builtin|type|hash|which|mkdir|rm|cp|mv|touch|mktemp|sleep|run|skip|:|true|alias|mapfile|readarray|shopt|ulimit|umask)$`)
	shFailCall = form.Lazy(`(?i)(?:^|[_.:-])(?:fail\w*|failure|die|bail|abort|flunk|bad|mismatch|not_?ok|nok|err(?:or)?(?:_?exit)?|fatal|panic)(?:[_.:-]|$)`)
	shCounter  = form.Lazy(`(?i)(?:^|_)(?:n|num)?(?:fail\w*|err(?:s|ors?|cnt|count)?|bad|wrong|miss\w*|nok|broken)(?:_|$)`)
	shResult   = form.Lazy(`(?i)(?:^|_)(?:status|result|rc|ret|retval|res|exit_?code|ec)$`)
	shNonZero  = form.Lazy(`^[1-9][0-9]*$`)
	shSets     = form.Lazy(`\+\+|--|[^=!<>]=[^=]`) // a calculation sets a variable
	shTidies   = form.Lazy(`^(?:rm|rmdir|mv|kill|unlink|git|umount|truncate|ln|chmod)$`)
	shAsks     = form.Lazy(`^(?:echo|printf|local|declare|true|false|:|cat|sort|head|tail|wc|cut|tr|sed|awk|skip|fail|flunk|return|sleep|shift)$`)
	// A variable that is the status of the script, or that is compared with 0.
	shStatus   = form.Lazy(`\bexit[ \t]+"?\$(?:\(\()?[ \t]*[${]*(\w+)|(?:\[|test)[ \t]+"?\$\{?(\w+)\}?"?[ \t]+(?:-eq|-ne|-gt|=|==|!=)[ \t]+"?0\b|\(\([ \t]*(\w+)[ \t]*(?:==|!=|>)[ \t]*0\b`)
	shVariable = form.Lazy(`\$\{?(\w+)|\b([A-Za-z_]\w*)\b`)
	// Functions that may end a test which finds nothing wrong.
	shLeaves = form.Lazy(`(?i)(?:^|[_.:-])(?:skip\w*|todo|done\w*|finish\w*|exit\w*|quit|summary|pass_?all)(?:[_.:-]|$)`)
)

// leaves says whether a command may end the test where nothing is wrong.
func (b *shBody) leaves(cmd *syntax.CallExpr) bool {
	switch name := cmd.Args[0].Lit(); name {
	case "exit", "return":
		return len(cmd.Args) < 2 || !shNonZero().MatchString(cmd.Args[1].Lit())
	case "exec":
		return len(cmd.Args) > 1
	default:
		return shLeaves().MatchString(name)
	}
}

// others says whether a command runs a script that is not named here: it may be one that
// has tests of its own.
func (b *shBody) others(cmd *syntax.CallExpr) bool {
	if !slices.Contains([]string{"sh", "bash", "dash", "ash", "timeout", "env", "time"}, cmd.Args[0].Lit()) {
		return false
	}
	return slices.ContainsFunc(cmd.Args[1:], func(w *syntax.Word) bool { return w.Lit() == "" })
}

// lastEffect is the last of some statements that does more than to ask something, -1 where
// none does. What fails before it leaves a state that other tests may not know.
func (b *shBody) lastEffect(stmts []*syntax.Stmt) int {
	for i, s := range slices.Backward(stmts) {
		effect := false
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.FuncDecl:
				return false
			case *syntax.CallExpr:
				effect = effect || len(n.Args) > 0 && b.effective(n)
			}
			return true
		})
		if effect {
			return i
		}
	}
	return -1
}

// effective says whether a command may do more than to ask something or to print it.
func (b *shBody) effective(cmd *syntax.CallExpr) bool {
	name := cmd.Args[0].Lit()
	if name == "run" {
		return slices.ContainsFunc(cmd.Args[1:], func(w *syntax.Word) bool { return shTidies().MatchString(w.Lit()) })
	}
	return !shAsserts().MatchString(name) && !shCompares().MatchString(name) && !shAsks().MatchString(name)
}

// ignores says whether a command behind "||" only has a failure say nothing.
func (b *shBody) ignores(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"true", ":", "echo", "printf", "return", "exit", "continue", "break"}, call.Args[0].Lit())
}

// fails says whether statements report that something is wrong.
func (b *shBody) fails(stmts []*syntax.Stmt) bool {
	return slices.ContainsFunc(stmts, func(s *syntax.Stmt) bool {
		switch cmd := s.Cmd.(type) {
		case *syntax.Block:
			return b.fails(cmd.Stmts)
		case *syntax.CallExpr:
			return b.failing(cmd)
		case *syntax.ArithmCmd, *syntax.LetClause:
			return b.counts(b.p.text(cmd))
		}
		return false
	})
}

// failing says whether a command reports a failure: it leaves, counts, or is named so.
func (b *shBody) failing(cmd *syntax.CallExpr) bool {
	for _, a := range cmd.Assigns {
		switch {
		case a.Name == nil || a.Value == nil || len(cmd.Args) > 0:
		case shCounter().MatchString(a.Name.Value), b.p.status[a.Name.Value], shResult().MatchString(a.Name.Value) && b.tests:
			value := b.p.text(a.Value)
			return shNonZero().MatchString(strings.Trim(value, `"'`)) || value == "true" || value == "yes" || strings.Contains(value, a.Name.Value) || a.Append
		}
	}
	if len(cmd.Args) == 0 {
		return false
	}
	switch name := cmd.Args[0].Lit(); name {
	case "exit":
		return len(cmd.Args) > 1 && shNonZero().MatchString(cmd.Args[1].Lit())
	case "return":
		return len(cmd.Args) > 1 && shNonZero().MatchString(cmd.Args[1].Lit()) && (b.tests || b.p.bats)
	case "false":
		return b.direct
	default:
		return shFailCall().MatchString(name)
	}
}

// counts says whether a calculation adds to a number of failures.
func (b *shBody) counts(text string) bool {
	name := strings.Trim(strings.TrimPrefix(text, "let"), "()+ =1\t'\"")
	return (shCounter().MatchString(name) || b.p.status[name]) && strings.Contains(text, "+")
}

// asksForOthers says whether a condition is about what was counted.
func (b *shBody) asksForOthers(n syntax.Node) bool {
	text := b.p.text(n)
	for _, m := range shVariable().FindAllStringSubmatch(text, -1) {
		if name := m[1] + m[2]; shCounter().MatchString(name) && m[1] != "" || b.p.status[name] {
			return true
		}
	}
	return false
}

// runs says whether a "run" of bats asks for a status: run ! cmd, run -1 cmd.
func (b *shBody) runs(cmd *syntax.CallExpr) bool {
	if !b.p.bats || len(cmd.Args) < 2 {
		return false
	}
	first := cmd.Args[1].Lit()
	return first == "!" || len(first) > 1 && first[0] == '-' && strings.Trim(first[1:], "0123456789") == ""
}

// values notes the literals that an assertion expects.
func (b *shBody) values(cmd *syntax.CallExpr, name string, holds, certain bool) {
	args := cmd.Args[1:]
	switch {
	case name == "[" && len(args) == 4 && args[3].Lit() == "]", name == "test" && len(args) == 3:
		equal := slices.Contains([]string{"=", "==", "-eq"}, args[1].Lit()) && holds || slices.Contains([]string{"!=", "-ne"}, args[1].Lit()) && !holds
		if !equal {
			return
		}
		if !b.expected(cmd, args[2], wayNear, certain) {
			b.expected(cmd, args[0], wayNear, certain)
		}
	case name == "grep" || name == "fgrep" || name == "egrep":
		if len(args) > 1 && holds && !strings.ContainsAny(strings.TrimPrefix(args[0].Lit(), "-"), "vcLle") {
			for _, a := range args {
				if lit := a.Lit(); lit != "" && lit[0] == '-' {
					if strings.HasPrefix(lit, "--") && lit != "--" && lit != "--quiet" && lit != "--fixed-strings" {
						return
					}
					continue
				}
				b.expected(cmd, a, wayPart, certain)
				return
			}
		}
	case !holds || !shAsserts().MatchString(name) || shContrary().MatchString(name):
	case name == "assert_failure" || name == "assert_exit_code":
		if len(args) > 0 {
			b.expected(cmd, args[len(args)-1], wayNear, certain)
		}
	case strings.HasPrefix(name, "assert_output") || strings.HasPrefix(name, "assert_line") || strings.HasPrefix(name, "assert_stderr"):
		how := wayNear
		for _, a := range args {
			switch lit := a.Lit(); {
			case lit == "-e" || lit == "--regexp" || lit == "-":
				return
			case strings.HasPrefix(lit, "-"):
				how = wayPart
			}
		}
		if len(args) > 0 {
			b.expected(cmd, args[len(args)-1], how, certain)
		}
	default:
		if len(args) > 2 && b.computed(args[1:]) {
			if _, plain := b.literal(args[0], wayNear); plain {
				if _, plain := b.literal(args[1], wayNear); !plain {
					b.expected(cmd, args[0], wayNear, certain) // want, got, message; or name, got, want: the base shows which
				}
				args = args[1:] // a name or a message, it seems
			}
		}
		for _, a := range args[:min(2, len(args))] {
			b.expected(cmd, a, wayNear, certain)
		}
	}
}

// computed says whether one of two words is: what is behind them is a message.
func (b *shBody) computed(args []*syntax.Word) bool {
	return slices.ContainsFunc(args[:min(2, len(args))], func(w *syntax.Word) bool {
		_, plain := b.literal(w, wayNear)
		return !plain
	})
}

// tested notes the literals of a condition in [[ … ]].
func (b *shBody) tested(c *syntax.TestClause, x syntax.TestExpr, holds, certain bool) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		b.tested(c, x.X, holds, certain)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			b.tested(c, x.X, !holds, certain)
		}
	case *syntax.BinaryTest:
		equal := holds
		switch x.Op {
		case syntax.AndTest:
			if holds {
				b.tested(c, x.X, true, certain)
				b.tested(c, x.Y, true, false)
			}
			return
		case syntax.TsMatchShort, syntax.TsMatch, syntax.TsEql:
		case syntax.TsNoMatch, syntax.TsNeq:
			equal = !holds
		default:
			return
		}
		if w, ok := x.Y.(*syntax.Word); ok && equal {
			b.matched(c, w, certain)
		}
	}
}

// matched notes what is compared with in [[ … ]]: a text, or the longest text of a
// pattern, which another one does not match if that is longer.
func (b *shBody) matched(c *syntax.TestClause, w *syntax.Word, certain bool) {
	if len(w.Parts) == 1 {
		if b.expected(c, w, wayNear, certain) {
			return
		}
	}
	for _, part := range w.Parts {
		if quoted, ok := part.(*syntax.DblQuoted); ok {
			if b.expected(c, &syntax.Word{Parts: []syntax.WordPart{quoted}}, wayPart, certain) {
				return
			}
		}
		if lit, ok := part.(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, `\[]()|?!@+`) {
			if run := shRun().FindStringIndex(lit.Value); run != nil {
				at := offset(lit.Pos()) + run[0]
				b.value(c, literal{at: at, text: lit.Value[run[0]:run[1]], in: shGrammar, way: wayPart}, certain)
				return
			}
		}
	}
}

// expected notes a word if it is a literal of which another one is known.
func (b *shBody) expected(n syntax.Node, w *syntax.Word, how way, certain bool) bool {
	l, ok := b.literal(w, how)
	if !ok || !l.changeable() {
		return false
	}
	b.value(n, l, certain)
	return true
}

// literal is a word in which nothing is computed.
func (b *shBody) literal(w *syntax.Word, how way) (literal, bool) {
	if len(w.Parts) != 1 {
		return literal{}, false
	}
	l := literal{at: offset(w.Pos()), text: b.p.text(w), in: shGrammar, way: how}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		if literalNumber().MatchString(l.text) {
			l.way = wayNear
			return l, true
		}
		l.way = wayPart
		return l, shWord().MatchString(l.text)
	case *syntax.SglQuoted:
		return l, !part.Dollar && shText().MatchString(l.text)
	case *syntax.DblQuoted:
		return l, !part.Dollar && shText().MatchString(l.text)
	}
	return literal{}, false
}

// value notes an expected value of a command or a condition.
func (b *shBody) value(n syntax.Node, l literal, certain bool) {
	form := scriptValue
	if _, clause := n.(*syntax.TestClause); clause {
		form = shClauseValue
	}
	b.place(scriptPlace{spot: spot{kind: Expect, value: true, whole: true, leaves: []literal{l}}, form: form}, n, certain)
	b.p.file.pooled(l)
}

var (
	shRun  = form.Lazy(`[A-Za-z0-9_]+`)
	shWord = form.Lazy(`^[A-Za-z_][A-Za-z0-9_.,:/%+-]*$`)
	shText = form.Lazy("^()(?:\"[^\"\\\\\\n$`]*\"|'[^'\\n]*')$")
	// The end of a text, in quotes or without.
	shPattern = form.Lazy("^\"([^\"\\\\\\n$`]+)\"$|^'([^'\\n]+)'$|^([A-Za-z0-9_][A-Za-z0-9_.,:/%+-]*)$")
)

// shGrammar is how literals are written in a script.
var shGrammar = &grammar{yes: "\x00", no: "\x00", text: shText, pattern: shPattern}
