package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// hazards are the parts of a function that can do more to the shell that calls it
// than give output and a status: each as it is printed, with its lines.
type hazards map[string][]uint

// setsPrefix begins a hazard that is a variable which is set.
const setsPrefix = "sets "

// Builtin commands of sh, dash, busybox and bash. Those that are true have no effect
// on the shell beyond what a function may have.
var builtins = map[string]bool{
	"echo": true, "true": true, "false": true, ":": true, "pwd": true, "return": true, "test": true, "[": true, "printf": true, "shift": true, "local": true, "read": true,
	".": false, "source": false, "alias": false, "bg": false, "bind": false, "break": false, "builtin": false, "caller": false, "cd": false, "chdir": false, "command": false,
	"compgen": false, "complete": false, "compopt": false, "continue": false, "declare": false, "dirs": false, "disown": false, "enable": false, "eval": false, "exec": false,
	"exit": false, "export": false, "fc": false, "fg": false, "getopts": false, "hash": false, "help": false, "history": false, "jobs": false, "kill": false, "let": false,
	"logout": false, "mapfile": false, "newgrp": false, "popd": false, "print": false, "pushd": false, "readarray": false, "readonly": false, "set": false, "shopt": false,
	"suspend": false, "times": false, "trap": false, "type": false, "typeset": false, "ulimit": false, "umask": false, "unalias": false, "unset": false, "wait": false,
	"[[": false, "coproc": false, "time": false, "env": false, "nohup": false, "setopt": false, "nameref": false,
}

func isBuiltin(name string) bool {
	_, is := builtins[name]
	return is
}

var (
	commandName = form.Lazy(`^[A-Za-z0-9_./:+@%,-]+$|^\[$`)
	constant    = form.Lazy(`^[A-Z_][A-Z0-9_]*$`)
	number      = form.Lazy(`^-?[0-9]+$`)
	// Variables that a shell or a program acts on, however harmless they look.
	ownVariable = form.Lazy(`^(?:BASH.*|LD_.*|LC_.*|GLIBC_.*|PS[0-4]|PATH|IFS|ENV|CDPATH|HOME|TMPDIR|LANG|LANGUAGE|SHELL.*|POSIXLY_CORRECT|GLOBIGNORE|EXECIGNORE|PROMPT_.*|FUNCNEST|TMOUT|TIMEFORMAT|OPT.*|MAIL.*|HIST.*|PWD|OLDPWD)$`)
)

// hazardsOf finds the hazards of a function, but for what only gives its output.
func (c *change) hazardsOf(f *syntax.FuncDecl) hazards {
	h := hazardous{change: c, found: hazards{}, locals: map[string]bool{}}
	walk(f.Body, func(n syntax.Node, _ bool) { h.declare(n) })
	walk(f.Body, func(n syntax.Node, output bool) {
		if !output {
			h.visit(n)
		}
	})
	return h.found
}

type hazardous struct {
	*change
	found  hazards
	locals map[string]bool
}

func (h *hazardous) note(n syntax.Node, what string) {
	if what == "" {
		what = printed(n)
	}
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
		if len(n.Args) == 0 {
			return
		}
		if name, _ := literal(n.Args[0]); name == "local" {
			for _, a := range n.Args[1:] {
				if lit, ok := a.Parts[0].(*syntax.Lit); ok {
					declared, _, _ := strings.Cut(lit.Value, "=")
					h.locals[declared] = true
				}
			}
		}
	}
}

// sets is a variable that is set.
func (h *hazardous) sets(n syntax.Node, name string) {
	switch {
	case h.locals[name]:
	case !plainName().MatchString(name), ownVariable().MatchString(name), h.words[name], h.change.sets[name],
		constant().MatchString(name) && !strings.Contains(h.base.topText, name) && !h.inBase(name):
		h.note(n, setsPrefix+name)
	}
}

func (h *hazardous) inBase(name string) bool {
	for _, text := range h.base.texts {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

func (h *hazardous) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		h.call(n)
	case *syntax.Assign:
		if n.Index != nil && !fixedIndex(n.Index) {
			h.note(n, "")
		}
	case *syntax.DeclClause:
		h.declaration(n)
	case *syntax.FuncDecl, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause, *syntax.CoprocClause, *syntax.CStyleLoop:
		h.note(n, "")
	case *syntax.CmdSubst:
		if n.TempFile || n.ReplyVar {
			h.note(n, "")
		}
	case *syntax.ForClause:
		if i, ok := n.Loop.(*syntax.WordIter); ok && !n.Select {
			h.sets(n, i.Name.Value)
		} else {
			h.note(n, "")
		}
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			h.note(n, "")
		}
	case *syntax.ParamExp:
		h.expansion(n)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar || n.Op == syntax.TsOptSet {
			h.note(n, "")
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			h.note(n, "")
		}
	}
}

// expansion is a variable that is read: some forms set one, or calculate.
func (h *hazardous) expansion(n *syntax.ParamExp) {
	if n.Excl && n.Names == 0 || n.Index != nil && !fixedIndex(n.Index) {
		h.note(n, "")
	}
	if n.Slice != nil && (!fixedIndex(n.Slice.Offset) || n.Slice.Length != nil && !fixedIndex(n.Slice.Length)) {
		h.note(n, "")
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
		h.note(n, "")
		return
	}
	for _, a := range n.Args {
		if a.Name != nil {
			continue
		}
		flag, plain := literal(a.Value)
		if !plain || flag != "-a" && flag != "-A" && flag != "-r" && flag != "-u" && flag != "-l" {
			h.note(n, "")
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
	allowed, builtin := builtins[name]
	switch {
	case !plain || !commandName().MatchString(name) && name != ":" || builtin && !allowed:
		h.note(n, "")
		return
	}
	for _, a := range n.Assigns { // before a special builtin or a function they may stay
		if a.Name != nil && name != "read" && name != "printf" && (builtin || h.head.functions[name] != nil) {
			h.sets(a, a.Name.Value)
		}
	}
	switch args := n.Args[1:]; name {
	case "printf":
		// The first argument may be -v and a name, unless it begins otherwise.
		if len(args) > 0 && !beginsPlain(args[0]) {
			h.note(n, "")
		}
	case "read":
		h.reads(n, args)
	case "local":
		for _, a := range args {
			if lit, ok := a.Parts[0].(*syntax.Lit); !ok || !plainName().MatchString(strings.SplitN(lit.Value, "=", 2)[0]) {
				h.note(n, "")
			}
		}
	case "test", "[":
		// -v NAME calculates an index: an operator has to be seen.
		for i, a := range args {
			text, plain := literal(a)
			if plain && (text == "-v" || text == "-R") || !plain && i < 2 && len(args) < 4 && operatorLike(args, i, name == "[") {
				h.note(n, "")
				return
			}
		}
	}
}

// beginsPlain says whether a word begins with a text that is no option.
func beginsPlain(w *syntax.Word) bool {
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		return !strings.HasPrefix(p.Value, "-") && !strings.HasPrefix(p.Value, `\`)
	case *syntax.SglQuoted:
		return p.Value != "" && !p.Dollar && !strings.HasPrefix(p.Value, "-")
	case *syntax.DblQuoted:
		if len(p.Parts) == 0 || p.Dollar {
			return false
		}
		lit, ok := p.Parts[0].(*syntax.Lit)
		return ok && !strings.HasPrefix(lit.Value, "-")
	}
	return false
}

// operatorLike says whether the word at i may be a unary operator: one more word
// follows it, and no more.
func operatorLike(args []*syntax.Word, i int, bracket bool) bool {
	n := len(args)
	if bracket {
		n--
	}
	return n == i+2
}

// reads takes in the variables that read sets.
func (h *hazardous) reads(n *syntax.CallExpr, args []*syntax.Word) {
	named := false
	for i := 0; i < len(args); i++ {
		text, plain := literal(args[i])
		switch {
		case !plain:
			h.note(n, "")
			return
		case strings.HasPrefix(text, "-") && strings.ContainsAny(text, "dnNptui"):
			i++ // its value
		case strings.HasPrefix(text, "-"):
		default:
			named = true
			h.sets(n, text)
		}
	}
	if !named {
		h.sets(n, "REPLY")
	}
}
