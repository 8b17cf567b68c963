package shell

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// hazards are the parts of a function that can do more to the shell that calls it
// than give output and a status: each as it is printed, with its lines.
type hazards map[string][]uint

// setsPrefix begins a hazard that is a variable which is set.
const setsPrefix = "sets "

// hazardsOf finds the hazards of a function, but for what only gives its output.
func (c *change) hazardsOf(f *syntax.FuncDecl) hazards {
	if known, done := c.hazards[f]; done {
		return known
	}
	if _, own := f.Body.Cmd.(*syntax.Subshell); own { // f() ( … ): it has a shell of its own
		c.hazards[f] = hazards{}
		return hazards{}
	}
	h := hazardous{change: c, found: hazards{}, locals: map[string]bool{}, steps: map[syntax.Node]bool{}, breaks: map[syntax.Node]bool{}}
	if block, ok := f.Body.Cmd.(*syntax.Block); ok {
		for _, s := range block.Stmts {
			h.steps[s.Cmd] = true
		}
	}
	walk(f.Body, func(n syntax.Node, output bool) {
		if !output {
			h.loop(n)
			h.visit(n)
			if h.steps[n] { // from here on, and for sure
				h.declare(n)
			}
		}
	})
	c.hazards[f] = h.found
	return h.found
}

// loop notes what leaves a loop of the function itself.
func (h *hazardous) loop(n syntax.Node) {
	var body []*syntax.Stmt
	switch n := n.(type) {
	case *syntax.WhileClause:
		body = n.Do
	case *syntax.ForClause:
		body = n.Do
	}
	for _, s := range body {
		calls(s, func(call *syntax.CallExpr, name string) {
			h.breaks[call] = len(call.Args) == 1 && (name == "break" || name == "continue")
		})
	}
}

type hazardous struct {
	*change
	found  hazards
	locals map[string]bool
	steps  map[syntax.Node]bool // statements of the function that nothing goes round
	breaks map[syntax.Node]bool // break and continue in loops of the function
}

// note takes in a part that is a hazard as it is printed.
func (h *hazardous) note(n syntax.Node) {
	// Some are printed as a part of another one only.
	h.add(n, cmp.Or(strings.TrimSpace(printed(n)), "what it may not have"))
}

func (h *hazardous) add(n syntax.Node, what string) {
	h.found[what] = append(h.found[what], n.Pos().Line())
}

// declare takes in the names that local makes the function's own.
func (h *hazardous) declare(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.DeclClause:
		if n.Variant.Value == "local" {
			for _, a := range n.Args {
				if a.Name != nil {
					h.locals[a.Name.Value] = true
				}
			}
		}
	case *syntax.CallExpr:
		if _, name, _ := commandOf(n); name == "local" {
			for _, a := range n.Args[1:] {
				if lit, ok := a.Parts[0].(*syntax.Lit); ok {
					declared, _, _ := strings.Cut(lit.Value, "=")
					h.locals[declared] = true
				}
			}
		}
	}
}

// sets is a variable that is set. One that stands nowhere else, in the tests or in the
// library, is the function's own affair.
func (h *hazardous) sets(n syntax.Node, name string) {
	if h.locals[name] {
		return
	}
	if !plainName().MatchString(name) || ownVariable().MatchString(name) || h.words[name] || h.change.sets[name] || h.evaluates || h.mentionedInBase(name) {
		h.add(n, setsPrefix+name)
	}
}

func (h *hazardous) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		h.call(n)
	case *syntax.Assign:
		if n.Index != nil && !fixedIndex(n.Index) {
			h.note(n)
		}
	case *syntax.DeclClause:
		h.declaration(n)
	case *syntax.ArrayElem:
		if n.Index != nil {
			h.note(n)
		}
	case *syntax.FuncDecl, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause, *syntax.CoprocClause, *syntax.CStyleLoop:
		h.note(n)
	case *syntax.CmdSubst:
		if n.TempFile || n.ReplyVar {
			h.note(n)
		}
	case *syntax.ForClause:
		if i, ok := n.Loop.(*syntax.WordIter); ok && !n.Select {
			h.sets(n, i.Name.Value)
		} else {
			h.note(n)
		}
	case *syntax.Redirect:
		to := printed(n.Word)
		copies := n.Op == syntax.DplIn || n.Op == syntax.DplOut
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") || copies && to != "0" && to != "1" && to != "2" {
			h.note(n)
		}
	case *syntax.ParamExp:
		h.expansion(n)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar || n.Op == syntax.TsOptSet {
			h.note(n)
		}
	case *syntax.BinaryTest:
		if calculates(n.Op) {
			h.note(n)
		}
	}
}

// calculates says whether an operator of [[ takes what is beside it for a calculation.
func calculates(op syntax.BinTestOperator) bool {
	return slices.Contains([]syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}, op)
}

// expansion is a variable that is read: some forms set one, or calculate.
func (h *hazardous) expansion(n *syntax.ParamExp) {
	if n.Excl && n.Names == 0 || n.Index != nil && !fixedIndex(n.Index) {
		h.note(n)
	}
	if n.Slice != nil && (!fixedIndex(n.Slice.Offset) || n.Slice.Length != nil && !fixedIndex(n.Slice.Length)) {
		h.note(n)
	}
	if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
		h.note(n)
	}
	if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
		h.sets(n, n.Param.Value)
	}
}

// fixedIndex says whether an index is a number, or all of an array. What is
// calculated of a variable can set another one.
func fixedIndex(x syntax.ArithmExpr) bool {
	if x == nil {
		return true
	}
	text := printed(x)
	return number().MatchString(text) || text == "@" || text == "*"
}

func (h *hazardous) declaration(n *syntax.DeclClause) {
	if n.Variant.Value != "local" {
		h.note(n)
		return
	}
	array := false
	for _, a := range n.Args {
		if a.Name != nil {
			continue
		}
		flag, plain := literal(a.Value)
		array = array || flag == "-a" || flag == "-A"
		if !plain || flag != "-a" && flag != "-A" && flag != "-r" && flag != "-u" && flag != "-l" {
			h.note(n)
		}
	}
	for _, a := range n.Args {
		if array && a.Value != nil && a.Name != nil || a.Name != nil && ownVariable().MatchString(a.Name.Value) && a.Name.Value != "IFS" {
			h.note(n) // a text can hold indices, which are calculated
		}
	}
}

func (h *hazardous) call(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		for _, a := range n.Assigns {
			if a.Name != nil {
				h.sets(a, a.Name.Value)
			}
		}
		return
	}
	name, plain := literal(n.Args[0])
	harmless, is := builtin(name)
	switch {
	case h.breaks[n]:
		return
	case name == "exit" && h.fails(n.Args[1:]):
		return
	case !plain || !commandName().MatchString(name) && name != ":" || is && !harmless:
		h.note(n)
		return
	}
	for _, a := range n.Assigns { // before a special builtin or a function they may stay
		if a.Name != nil && name != "read" && name != "printf" && (is || h.head.functions[name] != nil) {
			h.sets(a, a.Name.Value)
		}
	}
	switch args := n.Args[1:]; name {
	case "printf":
		// It may be -v and a name, or have %n, unless it is seen that it is not.
		if len(args) > 0 && !plainFormat(args[0]) {
			h.note(n)
		}
	case "read":
		h.reads(n, args)
	case "local":
		for _, a := range args {
			if lit, ok := a.Parts[0].(*syntax.Lit); !ok || !plainName().MatchString(strings.SplitN(lit.Value, "=", 2)[0]) {
				h.note(n)
			}
		}
	case "test", "[":
		if name == "[" && len(args) > 0 {
			args = args[:len(args)-1]
		}
		if !plainTest(args) {
			h.note(n)
		}
	case "shift": // by more than there is, a shell may end
		if len(args) > 0 {
			h.note(n)
		}
	}
}

// fails says whether exit has a status that is a failure, whatever traps the tests have.
func (h *hazardous) fails(args []*syntax.Word) bool {
	if len(args) != 1 || h.scripts.traps {
		return false
	}
	status, plain := literal(args[0])
	return plain && number().MatchString(status) && strings.Trim(status, "0") != "" && len(status) < 3
}

var formatOfNumber = form.Lazy(`%[^a-zA-Z%]*(?:n|\()`)

// plainFormat says whether a word is a format without what sets a variable.
func plainFormat(w *syntax.Word) bool {
	text := ""
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text += part.Value
		case *syntax.SglQuoted:
			text += part.Value
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return false
				}
				text += lit.Value
			}
		default:
			return false
		}
	}
	return !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, `\`+"-") && !formatOfNumber().MatchString(text)
}

// Operators of test that only look.
var (
	unaryTests  = strings.Fields("-z -n -e -f -d -s -r -w -x -L -h -p -S -b -c -g -k -u -O -G -N -t")
	binaryTests = strings.Fields("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")
)

// plainTest says whether the arguments of test are ones whose operators are seen.
func plainTest(args []*syntax.Word) bool {
	from := 0
	for i := 0; i <= len(args); i++ {
		text := ""
		if i < len(args) {
			text, _ = literal(args[i])
			if !steady(args[i]) {
				return false
			}
		}
		if i < len(args) && text != "-a" && text != "-o" {
			continue
		}
		part := args[from:i]
		from = i + 1
		for len(part) > 0 {
			if word, _ := literal(part[0]); word != "!" {
				break
			}
			part = part[1:]
		}
		switch len(part) {
		case 1:
		case 2:
			if op, _ := literal(part[0]); !slices.Contains(unaryTests, op) {
				return false
			}
		case 3:
			if op, _ := literal(part[1]); !slices.Contains(binaryTests, strings.TrimPrefix(op, `\`)) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// steady says whether a word is one word, whatever its variables hold.
func steady(w *syntax.Word) bool {
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		case *syntax.ParamExp:
			if !part.Length && (part.Param == nil || part.Param.Value != "#" && part.Param.Value != "?") {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// reads takes in the variables that read sets.
func (h *hazardous) reads(n *syntax.CallExpr, args []*syntax.Word) {
	named := false
	for i := 0; i < len(args); i++ {
		text, plain := literal(args[i])
		switch {
		case !plain:
			h.note(n)
			return
		case strings.HasPrefix(text, "-"):
			// An option with a value has it behind it, or as the next word.
			if at := strings.IndexAny(text, "adinNptu"); at == len(text)-1 {
				i++
				if text[at] == 'a' && i < len(args) {
					name, _ := literal(args[i])
					h.sets(n, name)
				}
			} else if at > 0 {
				h.note(n)
				return
			}
		default:
			named = true
			h.sets(n, text)
		}
	}
	if !named {
		h.sets(n, "REPLY")
	}
}
