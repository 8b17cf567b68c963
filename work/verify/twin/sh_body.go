package twin

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shBody is a test whose places are looked for.
type shBody struct {
	p      *shParser
	t      *scriptTest
	direct bool         // a command that fails is a failure of the test
	main   bool         // it is what is in no function
	tests  bool         // it is named like a test
	last   *syntax.Stmt // the statement whose status is that of the script, nil where it is not
	asking *scriptTest  // takes what asks for the failures of others, which is left out where it is nil
	undone bool         // what comes now has commands behind it that others may need: a file is removed
	early  bool         // what comes now may not be reached, and nothing is wrong
	some   bool         // it has assertions, be there something in them to edit or not
}

// statements looks for places in statements that are done one after the other. Certain
// says that they are reached where nothing ends the test before.
func (b *shBody) statements(stmts []*syntax.Stmt, certain bool) {
	for _, s := range stmts {
		b.statement(s, certain)
	}
}

func (b *shBody) statement(s *syntax.Stmt, certain bool) {
	if s.Background || s.Coprocess || s.Cmd == nil {
		return
	}
	counts := (b.direct || s == b.last) && !s.Negated
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Args) > 0 && b.leaves(cmd) {
			b.early = true
		}
		b.call(s, cmd, counts, certain)
	case *syntax.TestClause, *syntax.ArithmCmd:
		if counts {
			b.clause(s, true, certain)
		}
	case *syntax.BinaryCmd:
		b.binary(s, cmd, counts, certain)
	case *syntax.IfClause:
		b.branches(cmd, certain)
	case *syntax.WhileClause:
		b.statements(cmd.Do, false)
	case *syntax.ForClause:
		b.statements(cmd.Do, false)
	case *syntax.CaseClause:
		for _, item := range cmd.Items {
			b.statements(item.Stmts, false)
		}
	case *syntax.Block:
		if !s.Negated {
			b.statements(cmd.Stmts, certain)
		}
	case *syntax.Subshell:
		if counts {
			early := b.early
			b.statements(cmd.Stmts, false)
			b.early = early
		}
	}
}

// call notes a command whose failure is one of the test, or that is named like an
// assertion.
func (b *shBody) call(s *syntax.Stmt, cmd *syntax.CallExpr, counts, certain bool) {
	name, plain := b.named(cmd)
	switch {
	case !plain:
	case shAsserts().MatchString(name):
		b.some = true
		if counts {
			b.command(cmd, true, certain)
		} else if !b.p.bats && !s.Negated { // it may count what is wrong, and say nothing of it by its status
			b.values(cmd, name, true, certain)
		}
	case counts && (shCompares().MatchString(name) || name == "run" && b.runs(cmd)):
		b.command(cmd, true, certain)
	}
}

// binary notes what two commands together have to do.
func (b *shBody) binary(s *syntax.Stmt, cmd *syntax.BinaryCmd, counts, certain bool) {
	switch {
	case cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll:
		if call, ok := cmd.Y.Cmd.(*syntax.CallExpr); ok && counts {
			b.call(cmd.Y, call, true, certain)
		}
	case s.Negated:
	case b.fails([]*syntax.Stmt{cmd.Y}):
		b.condition(cmd.X, cmd.Op == syntax.OrStmt, certain)
	default:
		b.part(cmd.X) // what is asked decides what is done, and is no assertion
		if cmd.Op == syntax.OrStmt && b.ignores(cmd.Y) {
			b.part(cmd.Y)
		} else {
			b.statement(cmd.Y, false)
		}
	}
}

// part looks at one of two commands for what ends the test.
func (b *shBody) part(s *syntax.Stmt) {
	syntax.Walk(s, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && b.leaves(call) {
			b.early = true
		}
		return true
	})
}

// branches notes the conditions of an "if" behind which something fails.
func (b *shBody) branches(clause *syntax.IfClause, certain bool) {
	for at := clause; at != nil; at = at.Else {
		if len(at.Cond) > 0 {
			last := at.Cond[len(at.Cond)-1]
			good, bad := b.fails(at.Then), at.Else != nil && len(at.Else.Cond) == 0 && b.fails(at.Else.Then)
			switch {
			case good && !bad:
				b.condition(last, false, certain && len(at.Cond) == 1)
			case bad && !good:
				b.condition(last, true, certain && len(at.Cond) == 1)
			}
		}
		b.statements(at.Then, false)
		certain = false
	}
}

// condition notes what is asked, and what it is compared with: holds says that it has to
// be true.
func (b *shBody) condition(s *syntax.Stmt, holds, certain bool) {
	if s.Background || s.Cmd == nil {
		return
	}
	if s.Negated {
		holds = !holds
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		name, plain := b.named(cmd)
		if plain && !shKeeps().MatchString(name) && !b.others(cmd) && (shCompares().MatchString(name) || shAsserts().MatchString(name) || strings.ContainsAny(name, "/") || !b.p.bats) {
			b.command(cmd, holds, certain)
		}
	case *syntax.TestClause, *syntax.ArithmCmd:
		b.clause(s, holds, certain)
	case *syntax.BinaryCmd:
		switch {
		case cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll:
			b.condition(cmd.Y, holds, certain)
		case cmd.Op == syntax.AndStmt && holds, cmd.Op == syntax.OrStmt && !holds:
			b.condition(cmd.X, holds, certain)
			b.condition(cmd.Y, holds, false)
		}
	}
}

// named is the name of a command that stands alone: no variables are set for it.
func (b *shBody) named(cmd *syntax.CallExpr) (name string, plain bool) {
	if len(cmd.Args) == 0 || len(cmd.Assigns) > 0 {
		return "", false
	}
	name = cmd.Args[0].Lit()
	return name, name != "" && !strings.ContainsAny(name, `\*?~`)
}

// command notes an assertion that is a command.
func (b *shBody) command(cmd *syntax.CallExpr, holds, certain bool) {
	form := scriptTurn
	if !holds {
		form = scriptFalse
	}
	b.place(scriptPlace{spot: spot{kind: Flip}, form: form}, cmd, certain)
	b.values(cmd, cmd.Args[0].Lit(), holds, certain)
}

// clause notes an assertion that is [[ … ]] or (( … )).
func (b *shBody) clause(s *syntax.Stmt, holds, certain bool) {
	start, end := offset(s.Cmd.Pos()), offset(s.Cmd.End())
	if _, calculates := s.Cmd.(*syntax.ArithmCmd); len(s.Redirs) > 0 || calculates && shSets().MatchString(b.p.text(s.Cmd)) {
		return
	}
	if start > 0 && b.p.src[start-1] == '{' || b.p.file.inWord(end) { // a word there would be another one
		return
	}
	if b.p.bats && int(s.Pos().Line()) == b.t.Line { // bats looks for the last brace of the line
		return
	}
	form := shClause
	if !holds {
		form = shUnclause
	}
	b.place(scriptPlace{spot: spot{kind: Flip}, form: form}, s.Cmd, certain)
	if c, ok := s.Cmd.(*syntax.TestClause); ok && !strings.Contains(b.p.text(c), "$?") {
		b.tested(c, c.X, holds, certain)
	}
}

// place notes a place round a command.
func (b *shBody) place(s scriptPlace, n syntax.Node, certain bool) {
	s.start, s.end = offset(n.Pos()), offset(n.End())
	s.statement, s.certain = s.start, certain && !b.early && !b.undone
	switch {
	case b.p.bats || !b.asksForOthers(n):
		b.t.places = append(b.t.places, s)
	case b.asking != nil:
		b.asking.places = append(b.asking.places, s)
	}
}

// end notes the end of the test, where it can be made to fail whatever was done.
func (b *shBody) end(at int, lead string, form scriptForm) {
	b.t.places = append(b.t.places, scriptPlace{spot: spot{kind: Fail}, form: form, start: at, end: at, statement: min(at, len(b.p.src)), lead: lead, certain: !b.early && (b.main || b.p.bats)})
}
