package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"remit/proof/reason"
)

var (
	// mention finds a command of ours in a text for users.
	mention = regexp.MustCompile("`remit ([^`]+)`")
	// option finds a flag.
	option = regexp.MustCompile(`(?:^|[\s(,/])(--[a-z][a-z-]+)`)
	// dotted finds a key of a task file or policy, and keyed one with a value.
	dotted = regexp.MustCompile(`\b((?:budget|limits|lifecycle|verify|model|engines|environment)\.[a-zA-Z_.]+[a-zA-Z_])`)
	keyed  = regexp.MustCompile(`\b([a-z]+_[a-z_]+|network|tests): (?:true|false|free|gateway|allow)`)
	// artifact finds a file of a session, document a file of ours, target one of make.
	artifact = regexp.MustCompile(`\b((?:proofs|backend)/[a-z.-]*|test\.log|eligibility\.json|patch\.diff)`)
	document = regexp.MustCompile(`\b(docs/[a-zA-Z/-]+\.md)`)
	foreign  = regexp.MustCompile("`[^`]*`|\\bgit [^;,]*")
	target   = regexp.MustCompile(`\bmake (agents|build|run|setup|test|install)\b`)
)

// TestHintsCanBeFollowed keeps every hint, document and message from sending a
// user to a command, flag, key, file or target that does not exist.
func TestHintsCanBeFollowed(t *testing.T) {
	t.Parallel()
	h := newHintBook(t)
	for _, info := range reason.All() {
		h.commands(info.String(), info.Hint)
		h.hint(info.String(), info.Hint)
	}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(documents, "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		h.commands(name, fileText(t, name))
	}
	found := 0
	for _, dir := range []string{"cmd", "forge", "law", "nexus", "proof", "provider", "work"} {
		found += h.source(filepath.Join("../..", dir))
	}
	if found < 60 {
		t.Errorf("only %d hints found in the source: the test does not read it", found)
	}
}

// TestHintBookCanFail: what the book is there to find is found.
func TestHintBookCanFail(t *testing.T) {
	t.Parallel()
	h := newHintBook(t)
	for text, want := range map[string]int{
		"`remit frobnicate`": 1, "`remit run --no-such-flag`": 1, "`remit ladder show`": 1, "`remit admit source --engine X --decision admitted`": 0,
		"`remit verify ID`": 0, "`remit export --to zip`": 0, "`remit show --model X`": 1, "`remit resume SESSION`": 0,
	} {
		if got := len(h.badCommands(text)); got != want {
			t.Errorf("%s: %d findings", text, got)
		}
	}
	for text, want := range map[string]int{
		"give --no-such-flag": 1, "give --base-url": 0, "set budget.no_such_key": 1, "set budget.wall_seconds": 0, "write no_such: true": 1, "write require_clean: false": 0,
		"see docs/none.md": 1, "see docs/policy.md": 0, "see proofs/no-such-proof.json": 1, "see backend/": 0,
	} {
		if got := len(h.badHint(text)); got != want {
			t.Errorf("%s: %d findings", text, got)
		}
	}
}

// hintBook knows what there is.
type hintBook struct {
	testing.TB
	root           *cobra.Command
	flags          []string
	policy, format string
	proofs         string // the source that records them
	make           string
}

func newHintBook(t *testing.T) *hintBook {
	h := &hintBook{TB: t, root: newRoot(), policy: fileText(t, "../../docs/policy.md"), format: fileText(t, "../../docs/format.md"), make: fileText(t, "../../Makefile")}
	names, err := filepath.Glob("../../work/harness/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		h.proofs += fileText(t, name)
	}
	h.root.InitDefaultHelpCmd()
	h.root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		for _, f := range option.FindAllStringSubmatch(c.UsageString(), -1) {
			h.flags = append(h.flags, f[1])
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(h.root)
	return h
}

func fileText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (h *hintBook) commands(where, text string) {
	h.Helper()
	for _, bad := range h.badCommands(text) {
		h.Errorf("%s: %s", where, bad)
	}
}

func (h *hintBook) hint(where, text string) {
	h.Helper()
	for _, bad := range h.badHint(text) {
		h.Errorf("%s: %s", where, bad)
	}
}

// badCommands are the commands of a text that no user could type.
func (h *hintBook) badCommands(text string) (bad []string) {
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		line, _, _ := strings.Cut(m[1], " -- ") // what follows is somebody else's
		var words []string
		for _, w := range strings.Fields(line) {
			if w == "|" || w == "&&" || strings.HasPrefix(w, "2>") {
				break
			}
			words = append(words, w)
		}
		c, rest, err := h.root.Find(words)
		if err != nil || c == h.root && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
			bad = append(bad, "there is no `remit "+m[1]+"`")
			continue
		}
		if len(rest) > 0 && c.HasSubCommands() && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]) {
			bad = append(bad, "`remit "+m[1]+"`: no command "+rest[0])
		}
		for _, f := range option.FindAllStringSubmatch(" "+strings.Join(rest, " "), -1) {
			name := strings.TrimPrefix(f[1], "--")
			if c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil && name != "version" && name != "help" {
				bad = append(bad, "`remit "+m[1]+"`: no flag "+f[1])
			}
		}
	}
	return bad
}

// badHint is what a hint names beside commands and what is not there.
func (h *hintBook) badHint(text string) (bad []string) {
	plain := foreign.ReplaceAllString(mention.ReplaceAllString(text, ""), "")
	for _, m := range option.FindAllStringSubmatch(plain, -1) {
		if !slices.Contains(h.flags, m[1]) {
			bad = append(bad, "no command has "+m[1])
		}
	}
	for _, m := range dotted.FindAllStringSubmatch(plain, -1) {
		if key := strings.ReplaceAll(m[1], ".NAME.", "."); !strings.Contains(h.policy, key) && !strings.Contains(h.policy, key[strings.LastIndex(key, ".")+1:]) {
			bad = append(bad, "docs/policy.md has no key "+m[1])
		}
	}
	for _, m := range keyed.FindAllStringSubmatch(plain, -1) {
		if !strings.Contains(h.policy, m[1]) {
			bad = append(bad, "docs/policy.md has no key "+m[1])
		}
	}
	for _, m := range artifact.FindAllStringSubmatch(plain, -1) {
		if name := strings.TrimSuffix(strings.TrimPrefix(m[1], "proofs/"), ".json"); !strings.Contains(h.format, name) && !strings.Contains(h.proofs, strconv.Quote(name)) {
			bad = append(bad, "no session has "+m[1])
		}
	}
	for _, m := range document.FindAllStringSubmatch(plain, -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			bad = append(bad, "there is no "+m[1])
		}
	}
	for _, m := range target.FindAllStringSubmatch(plain, -1) {
		if !strings.Contains(h.make, "\n"+m[1]+":") {
			bad = append(bad, "there is no make "+m[1])
		}
	}
	return bad
}

// source checks the texts of a wing: commands in all of them, and everything in
// those that are hints. It returns how many hints there are.
func (h *hintBook) source(dir string) (hints int) {
	h.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".gen.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text, _ := strconv.Unquote(n.Value) // the parser has checked it
					h.commands(name, text)
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "WithHint" && len(n.Args) > 0 {
					if lit, ok := n.Args[0].(*ast.BasicLit); ok {
						text, _ := strconv.Unquote(lit.Value)
						hints++
						h.hint(name, text)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	return hints
}
