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
// function with an assertion or a statement with one, and "main" is what asks for the
// failures of others, with the end. It executes nothing. What it cannot be sure to read is
// an error.
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
	p.file.prefix = "u_" + strings.Trim(notAlphanumeric().ReplaceAllString(path.Base(strings.TrimSuffix(name, path.Ext(name))), "_"), "_")
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
	strict bool            // a command that fails ends the script
	status map[string]bool // variables by which the script says whether something failed
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
		last := b.lastEffect(body.Stmts)
		for i, s := range body.Stmts {
			b.undone = i < last
			b.statement(s, true)
		}
		b.undone = false
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
	p.status = map[string]bool{}
	for _, m := range shStatus().FindAllStringSubmatch(p.src, -1) {
		p.status[m[1]+m[2]+m[3]] = true
	}
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
	if runs(tree.Stmts) {
		p.main(tree.Stmts)
	}
}

// main notes what is in no function: each assertion is a test, and what asks for the
// failures of others, with the end of the script, is one more.
func (p *shParser) main(stmts []*syntax.Stmt) {
	last := stmts[len(stmts)-1]
	end := scriptTest{Test: Test{Name: "main", Line: int(stmts[0].Pos().Line())}}
	b := &shBody{p: p, t: &end, direct: p.strict, main: true, tests: true}
	if !p.strict {
		b.last = last
	}
	some := false
	for _, s := range stmts {
		t := scriptTest{Test: Test{Name: fmt.Sprintf("line %d", s.Pos().Line()), Line: int(s.Pos().Line())}}
		b.t, b.asking, b.some = &t, &end, false
		b.statement(s, true)
		some = some || b.some
		if len(t.places) > 0 {
			p.found = append(p.found, t)
		}
	}
	if len(p.found) == 0 && len(end.places) == 0 && !some {
		return
	}
	at, lead := len(p.src), "\n"
	if ends(last) {
		at, lead = offset(last.Pos()), ""
	}
	b.t = &end
	b.end(at, lead, scriptStrict)
	p.found = append(p.found, end)
}

// function notes a function if there is an assertion in it.
func (p *shParser) function(name string, at syntax.Node, stmts []*syntax.Stmt, end int, lead string) {
	t := scriptTest{Test: Test{Name: name, Line: int(at.Pos().Line())}}
	b := &shBody{p: p, t: &t, direct: p.strict, tests: shTests().MatchString(name)}
	b.statements(stmts, true)
	if len(t.places) == 0 && !b.some {
		return
	}
	if last := stmts[len(stmts)-1]; ends(last) {
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
