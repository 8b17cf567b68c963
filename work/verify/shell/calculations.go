package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

var (
	// What a calculation looks like as it is printed.
	calculation = form.Lazy(`^\$?\(\(|^\$\[|^\S+ -(?:eq|ne|le|ge|lt|gt) \S+$|^(?:\[|test) `)
	// It sets a variable.
	setsWithin = form.Lazy(`\+\+|--|[^=!<>]=[^=]`)
	operators  = form.Lazy(`(?:^test| -(?:eq|ne|le|ge|lt|gt)) `)
	operand    = form.Lazy(`[A-Za-z_]\w*`)
)

// calculatesAlike says whether a calculation of a changed function is one that the base has
// there as well, but for its numbers and operators. A calculation does what its variables
// say, so that none of them may have another text: the function gives no variable one with
// what a calculation sets or calls.
func (c *change) calculatesAlike(was hazards, what string, before, now *syntax.FuncDecl) bool {
	if !calculation().MatchString(what) {
		return false
	}
	operands := func(text string) []string {
		names := operand().FindAllString(operators().ReplaceAllString(text, " "), -1)
		slices.Sort(names)
		return slices.Compact(names)
	}
	known := was[what] != nil
	for text := range was {
		known = known || calculation().MatchString(text) && !setsWithin().MatchString(what) && slices.Equal(operands(text), operands(what))
	}
	return known && !c.tells(before, now)
}

// tells says whether a changed function gives a variable a text that a calculation would
// run, or one of which that cannot be seen: from a file, a command, a pattern, or a variable
// that the function did not use.
func (c *change) tells(before, now *syntax.FuncDecl) bool {
	had, is := c.texts(before), c.texts(now)
	for _, text := range slices.Sorted(maps.Keys(is)) {
		if had[text] || calculation().MatchString(text) || slices.Contains([]string{"[", "]", "=", "==", "!="}, text) {
			continue // a calculation is judged by itself
		}
		if strings.ContainsAny(text, "=[(`*?{") || slices.Contains([]string{"read", "mapfile", "readarray", "getopts"}, text) {
			return true
		}
		for _, m := range variableIn().FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(had)), func(was string) bool { return strings.Contains(was, "$"+m[1]) || strings.Contains(was, "${"+m[1]) }) {
				return true
			}
		}
	}
	return false
}

var variableIn = form.Lazy(`\$\{?([A-Za-z_]\w*|[0-9@*#!?-])`)

// texts are the words of a function that variables may get: what is assigned, the arguments
// of commands, and those of loops.
func (c *change) texts(f *syntax.FuncDecl) map[string]bool {
	out := map[string]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Value != nil {
				out[printed(n.Value)] = true
			}
			if n.Array != nil {
				out[printed(n.Array)] = true
			}
		case *syntax.CallExpr:
			for _, a := range n.Args {
				out[printed(a)] = true
			}
		case *syntax.WordIter:
			for _, w := range n.Items {
				out[printed(w)] = true
			}
		}
		return true
	})
	return out
}
