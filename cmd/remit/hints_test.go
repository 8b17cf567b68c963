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

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

var (
	// mention finds a command of ours in a text for users.
	mention = regexp.MustCompile("[`']remit ([^`']+)[`']")
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

// TestHintsCanBeFollowed keeps every hint from sending a user to a flag, key, file
// or target that does not exist. Commands are for TestDocumentsNameWhatThereIs.
func TestHintsCanBeFollowed(t *testing.T) {
	t.Parallel()
	h := newHintBook(t)
	for _, info := range reason.All() {
		h.hint(info.String(), info.Hint)
	}
	found := 0
	for _, dir := range []string{"cmd", "forge", "law", "nexus", "proof", "provider", "work"} {
		found += hintsIn(t, filepath.Join("../..", dir), h.hint)
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
	flags          []string
	policy, format string
	proofs         string // the source that records them
	make           string
}

func newHintBook(t *testing.T) *hintBook {
	h := &hintBook{TB: t, policy: fileText(t, "../../docs/policy.md"), format: fileText(t, "../../docs/format.md"), make: fileText(t, "../../Makefile")}
	names, err := filepath.Glob("../../work/harness/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		h.proofs += fileText(t, name)
	}
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
	walk(newRoot())
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

func (h *hintBook) hint(where, text string) {
	h.Helper()
	for _, bad := range h.badHint(text) {
		h.Errorf("%s: %s", where, bad)
	}
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

// hintsIn shows the hints of a wing, and returns how many there are.
func hintsIn(t *testing.T, dir string, show func(name, text string)) (hints int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".gen.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
				sel, _ := call.Fun.(*ast.SelectorExpr)
				if lit, ok := call.Args[0].(*ast.BasicLit); ok && sel != nil && sel.Sel.Name == "WithHint" {
					text, _ := strconv.Unquote(lit.Value) // the parser has checked it
					hints++
					show(name, text)
				}
			}
			if pair, ok := n.(*ast.KeyValueExpr); ok {
				key, _ := pair.Key.(*ast.Ident)
				if lit, ok := pair.Value.(*ast.BasicLit); ok && key != nil && key.Name == "Hint" {
					text, _ := strconv.Unquote(lit.Value)
					hints++
					show(name, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hints
}

// ofCheck are the domains whose reasons a check can meet: it has no engine, no model and
// no authority, and reads no evidence of others.
var ofCheck = []string{"run", "policy", "verify", "sandbox", "repository", "contract", "environment", "registry", "image", "forge", "path"}

// runOnlyFiles have hints that a check never prints: of engines, approvals, resumed and
// reproduced runs.
var runOnlyFiles = []string{"approve.go", "authority.go", "ending.go", "lifecycle.go", "model.go", "notstarted.go", "gates.go", "resume.go", "reproduce.go", "followup.go", "adopt.go",
	"load.go", "sign.go"}

// runOnlyHints begin hints of the other files that are about a nexus or a task file.
var runOnlyHints = []string{"run without --nexus", "a provider prepares no dependencies", "lower mutation_mode in the task file"}

// notOfCheckCodes are the reasons of other domains that a check never meets.
var notOfCheckCodes = []reason.Code{
	reason.MissingRequiredEvent, reason.SessionNotFound, reason.SessionNotContinuable, reason.SessionBusy, reason.OperatorOutcomeMissing, reason.RefMoved,
	reason.PatchOutdated, reason.OutcomeGiven, reason.NotAcceptable,
	reason.GateMissing, reason.ApprovalMissing, reason.ApprovalDenied, reason.ApprovalExpired, reason.ApprovalConsumed, reason.ApprovalOtherWork, reason.InvalidAdmission,
	reason.ReviewerRejected, reason.HeldOutVisible, reason.DirtyStartingTree, reason.BaselineMismatch, reason.ForgeConflict, reason.IssueClaimed,
}

// runOnly finds what only a run has.
var runOnly = regexp.MustCompile(`(?i)\b(?:task file|the contract|run (?:it )?again|run the task|run without|run with|the run|agent|engine|bundle)\b`)

// rubyBundle is a command of Ruby's bundler, which has nothing to do with bundles.
var rubyBundle = regexp.MustCompile("`bundle [^`]*`")

// TestHintsOfACheck keeps hints of `remit check` from what only a run has: its flags,
// its task file, its engine. It reads the table of reasons, and every hint that is
// written in a package which a check goes through.
func TestHintsOfACheck(t *testing.T) {
	t.Parallel()
	h := newHintBook(t)
	check, _, err := newRoot().Find([]string{"check"})
	if err != nil {
		t.Fatal(err)
	}
	h.flags = nil
	for _, f := range option.FindAllStringSubmatch(check.UsageString(), -1) {
		h.flags = append(h.flags, f[1])
	}
	hold := func(where, text string) {
		bad := h.badHint(text)
		if word := runOnly.FindString(rubyBundle.ReplaceAllString(mention.ReplaceAllString(text, ""), "")); word != "" {
			bad = append(bad, "a check has no "+strconv.Quote(word))
		}
		for _, b := range bad {
			t.Errorf("%s: %s: %s", where, b, text)
		}
	}
	held := 0
	for _, info := range reason.All() {
		if slices.Contains(ofCheck, info.Domain) && !slices.Contains(notOfCheckCodes, info.Code) && !strings.HasPrefix(string(info.Code), "target_") {
			held++
			hold(info.String(), info.HintFor(true))
		}
	}
	if held < 50 {
		t.Errorf("only %d reasons are held", held)
	}
	for _, dir := range []string{"law/task", "work/depend", "work/git", "work/harness", "work/image", "work/sandbox", "work/verify", "work/workspace"} {
		hintsIn(t, filepath.Join("../..", dir), func(name, text string) {
			if !slices.Contains(runOnlyFiles, filepath.Base(name)) && !slices.ContainsFunc(runOnlyHints, func(s string) bool { return strings.HasPrefix(text, s) }) {
				hold(name, text)
			}
		})
	}
}

// TestHintsOfARunNameIt: what is printed under a run is typed as it stands.
func TestHintsOfARunNameIt(t *testing.T) {
	t.Parallel()
	rep := &evidence.Report{SessionID: "20260101T000000Z-x-1", Status: evidence.StatusFail, Verification: []evidence.CommandRun{{Phase: "base"}, {Phase: "head", Passed: true}}}
	for _, info := range reason.All() {
		if hint := hintOf(rep, evidence.Blocker{Code: info.Code}); strings.Contains(hint, "SESSION") {
			t.Errorf("%s: %s", info.Code, hint)
		}
	}
	if got := hintOf(rep, evidence.Blocker{Code: reason.VerificationFailed}); !strings.Contains(got, "`remit logs 20260101T000000Z-x-1`") {
		t.Errorf("%q", got)
	}

	// A failure beside commands that passed says which check it was.
	rep.Blockers = []evidence.Blocker{{Code: reason.DisallowedFileChange}}
	var b strings.Builder
	printReport(&b, session.Session{}, rep)
	if !strings.Contains(b.String(), "  check     disallowed_file_change is why the run is FAIL; the commands themselves passed") {
		t.Errorf("%s", b.String())
	}
	rep.Verification[1].Passed = false
	if got := failedBeside(rep); got != "" {
		t.Errorf("%q", got)
	}
	rep.Verification[1].Passed, rep.Status = true, evidence.StatusPass
	if got := failedBeside(rep); got != "" {
		t.Errorf("%q", got)
	}
}

// placeholder finds what a hint leaves to its reader, and the verbs of what is filled in.
var placeholder = regexp.MustCompile(`%(?:\[\d\])?[a-z]|\b(?:N|MSATS|USD)\b`)

// TestHintsAreCommands parses every command that a hint gives against the command tree:
// one that is typed as it stands has its arguments and the flags that it needs.
func TestHintsAreCommands(t *testing.T) {
	t.Parallel()
	commands := 0
	hold := func(where, text string) {
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			commands++
			if wrong := unparsed(t, m[1]); wrong != "" {
				t.Errorf("%s: `remit %s`: %s", where, m[1], wrong)
			}
		}
	}
	for _, info := range reason.All() {
		hold(info.String(), info.Hint)
	}
	for _, dir := range []string{"cmd", "forge", "law", "nexus", "proof", "provider", "work"} {
		hintsIn(t, filepath.Join("../..", dir), hold)
	}
	if commands < 80 {
		t.Errorf("only %d commands were found in hints", commands)
	}
	for line, wrong := range map[string]bool{
		"ladder prove --engine NAME --through N": false, "resume": true, "resume %s": false, "doctor": false, "runs show %s --no-such": true,
		"admit target --template > target.json": false,
	} {
		if got := unparsed(t, line); (got != "") != wrong {
			t.Errorf("remit %s: %q", line, got)
		}
	}
}

// unparsed says why a command cannot be typed like that, "" if it can.
func unparsed(t *testing.T, line string) string {
	line, _, _ = strings.Cut(line, " > ")
	line, after, dashes := strings.Cut(strings.ReplaceAll(line, "…", ""), " -- ")
	words := strings.Fields(placeholder.ReplaceAllString(line, "1"))
	if dashes {
		words = append(append(words, "--"), strings.Fields(after)...)
	}
	for i := range words {
		words[i] = strings.Trim(words[i], `'"`)
	}
	c, rest, err := newRootAt(func() (session.Home, error) { return session.Home{Dir: t.TempDir()}, nil }, words).Find(words)
	if err == nil {
		c.InitDefaultHelpFlag()
		err = c.ParseFlags(rest)
	}
	if err == nil && c.Flags().Changed("help") {
		return ""
	}
	if err == nil && c.HasSubCommands() && !c.Runnable() {
		return "it is a group of commands"
	}
	if err == nil {
		err = c.ValidateRequiredFlags()
	}
	if err == nil {
		err = c.ValidateFlagGroups()
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
