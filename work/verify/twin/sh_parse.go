package twin

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// Bats says whether a path is one of a test file of bats.
func Bats(name string) bool { return path.Ext(name) == ".bats" }

// ParseShell finds what can be edited in a test file of bats, or in a script of sh or
// bash that tests something. The tests of bats are its tests. In a script a "test" is a
// function with an assertion, and what is in none is "main". It executes nothing. What
// it cannot be sure to read is an error.
//
// Out of reach are: functions of a file of bats, tests whose title is computed, and
// conditions of loops.
func ParseShell(name string, src []byte) (File, error) {
	if otherShell().Match(src) {
		return nil, errors.New("edit shell: it is for another shell than sh and bash")
	}
	if bytes.ContainsRune(src, '\r') {
		return nil, errors.New("edit shell: it has carriage returns")
	}
	bats, dialect := Bats(name), syntax.LangBash
	if bats {
		dialect = syntax.LangBats
	}
	tree, err := syntax.NewParser(syntax.Variant(dialect)).Parse(bytes.NewReader(src), "")
	if err != nil {
		return nil, fmt.Errorf("edit shell: %w", err)
	}
	p := &shParser{
		src: string(src), bats: bats, strict: bats,
		file: &scriptFile{textFile: newTextFile(slices.Clone(src), sha256.Sum256(src)), language: shLanguage},
	}
	p.file.prefix = "u_" + strings.Trim(rubyOther().ReplaceAllString(path.Base(strings.TrimSuffix(name, path.Ext(name))), "_"), "_")
	if bats {
		p.file.tail, p.file.lead, p.file.trail = len(src), "\n", "\n"
		for _, s := range tree.Stmts {
			if t, ok := s.Cmd.(*syntax.TestDecl); ok {
				p.batsTest(s, t)
			}
		}
	} else {
		p.script(tree)
	}
	if err := p.file.finish(p.found); err != nil {
		return nil, fmt.Errorf("edit shell: %w", err)
	}
	return p.file, nil
}

// otherShell is the first line of a script for a shell with other rules.
var otherShell = form.Lazy(`^#![^\n]*\b(?:zsh|ksh|mksh|fish|csh|tcsh|rc|python\d*|perl|ruby|node|awk|expect|tclsh)\b`)

// shParser finds the tests in a script.
type shParser struct {
	src    string
	bats   bool
	strict bool // a command that fails ends the script
	file   *scriptFile
	found  []scriptTest
}

// batsTest notes a test of bats.
func (p *shParser) batsTest(s *syntax.Stmt, t *syntax.TestDecl) {
	title, ok := p.title(t.Description)
	test := scriptTest{Test: Test{Name: title, Line: int(s.Pos().Line()), Title: []string{title}}}
	body, block := t.Body.Cmd.(*syntax.Block)
	switch {
	case !ok:
		test.Name, test.Title = p.text(t.Description), []string{p.text(t.Description)}
		test.Why = "its title is computed"
	case !block:
		test.Why = "it has no body in braces"
	default:
		b := &shBody{p: p, t: &test, direct: true}
		b.statements(body.Stmts, true)
		b.end(offset(body.Rbrace), p.separated(body), scriptState)
	}
	p.found = append(p.found, test)
}

// title is the text of a title in which nothing is computed.
func (p *shParser) title(w *syntax.Word) (text string, plain bool) {
	text = p.text(w)
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	return text, !strings.ContainsAny(text, "$`\\\"'\n")
}

// text is a part of the script as it is written.
func (p *shParser) text(n syntax.Node) string { return p.src[offset(n.Pos()):offset(n.End())] }

func offset(at syntax.Pos) int { return int(at.Offset()) }

var (
	shStrict = form.Lazy(`^#![^\n]*\s-[a-zA-Z]*e|(?m)^\s*set\s+(?:-[a-zA-Z]*e|-[a-zA-Z]*o\s+errexit|--?\s*errexit)`)
	// These make a function one that tests something: others may give 1 back for many reasons.
	shTests = form.Lazy(`(?i)test|check|verif|assert|expect|should|case|spec|suite|refute|^main$|^is$|^ok$`)
)

// script notes the tests of a script without titles.
func (p *shParser) script(tree *syntax.File) {
	p.strict = shStrict().MatchString(p.src)
	if len(tree.Stmts) == 0 {
		return
	}
	p.file.tail = offset(tree.Stmts[0].Pos())
	if _, ok := tree.Stmts[0].Cmd.(*syntax.FuncDecl); ok {
		p.file.trail = "\n" // shunit2 looks for functions at the beginning of lines
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.FuncDecl:
			if body, ok := n.Body.Cmd.(*syntax.Block); ok && n.Name != nil {
				p.function(n.Name.Value, n, body.Stmts, offset(body.Rbrace), p.separated(body))
			}
		}
		return true
	})
	at, lead := len(p.src), "\n"
	if last := tree.Stmts[len(tree.Stmts)-1]; ends(last) {
		at, lead = offset(last.Pos()), ""
	}
	if runs(tree.Stmts) {
		p.function("main", tree.Stmts[0], tree.Stmts, at, lead)
	}
}

// function notes a function, or what is in none, if there is an assertion in it.
func (p *shParser) function(name string, at syntax.Node, stmts []*syntax.Stmt, end int, lead string) {
	t := scriptTest{Test: Test{Name: name, Line: int(at.Pos().Line())}}
	b := &shBody{p: p, t: &t, direct: p.strict, main: name == "main", tests: shTests().MatchString(name)}
	if n := len(stmts); n > 0 && b.main && !b.direct {
		b.last = stmts[n-1]
	}
	b.statements(stmts, true)
	if len(t.places) == 0 && !b.some {
		return
	}
	if last := stmts[len(stmts)-1]; !b.main && ends(last) {
		end, lead = offset(last.Pos()), ""
	}
	b.end(end, lead, scriptStrict)
	p.found = append(p.found, t)
}

// separated is what has to be between the last statement of a block and another one.
func (p *shParser) separated(block *syntax.Block) string {
	if n := len(block.Stmts); n > 0 && !strings.ContainsAny(p.src[offset(block.Stmts[n-1].End())-1:offset(block.Rbrace)], ";&\n") {
		return "; "
	}
	return ""
}

// ends says whether a statement leaves the script or the function.
func ends(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"exit", "return", "exec"}, call.Args[0].Lit())
}

// runs says whether statements do more than to define something: a library that others
// read has no end of its own.
func runs(stmts []*syntax.Stmt) bool {
	return slices.ContainsFunc(stmts, func(s *syntax.Stmt) bool {
		switch cmd := s.Cmd.(type) {
		case *syntax.FuncDecl, *syntax.DeclClause, nil:
			return false
		case *syntax.CallExpr:
			return len(cmd.Args) > 0 && !slices.Contains([]string{"set", "shopt", ".", "source", "export", "readonly", "cd", "trap", "umask", ":"}, cmd.Args[0].Lit())
		}
		return true
	})
}

// shBody is a test whose places are looked for.
type shBody struct {
	p      *shParser
	t      *scriptTest
	direct bool         // a command that fails is a failure of the test
	main   bool         // it is what is in no function
	tests  bool         // it is named like a test
	last   *syntax.Stmt // the statement whose status is that of the script, nil where it is not
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
	s.statement, s.certain = s.start, certain && !b.early
	b.t.places = append(b.t.places, s)
}

// end notes the end of the test, where it can be made to fail whatever was done.
func (b *shBody) end(at int, lead string, form scriptForm) {
	b.t.places = append(b.t.places, scriptPlace{spot: spot{kind: Fail}, form: form, start: at, end: at, statement: min(at, len(b.p.src)), lead: lead, certain: !b.early && (b.main || b.p.bats)})
}
