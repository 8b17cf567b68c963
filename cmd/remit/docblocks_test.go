package main

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"remit/proof/reason"
)

// elsewhere are the shell blocks that TestBlocksPaste does not execute, by
// document and beginning, and why. Every other block has a scene there.
var elsewhere = map[string]string{
	"README.md: make agents ":                              "needs npm's registry",
	"README.md: # a provider's model ":                     "needs keys and agents of others",
	"README.md: unzip -q bundle.zip ":                      "executed by testdata/script/by_hand.txtar",
	"README.md: ssh-keygen -Y verify ":                     "executed by testdata/script/by_hand.txtar",
	"README.md: python3 verify.py ":                        "executed by testdata/script/by_hand.txtar",
	"README.md: make vignette ":                            "TestVignette walks it",
	"engines.md: remit model script":                       "a server: testdata/script/model_script.txtar",
	"engines.md: make agents ":                             "needs npm's registry",
	"engines.md: remit admit model ":                       "needs a key",
	"engines.md: npm install ":                             "needs npm's registry",
	"engines.md: remit admit source ":                      "needs an agent of others",
	"engines.md: remit run --engine acp ":                  "needs an agent of one's own",
	"engines.md: remit compare --engines ":                 "needs agents of others",
	"engines.md: cp -r fixtures/":                          "needs agents of others",
	"engines.md: remit run --engine codex --preset azure ": "needs accounts at three clouds: TestClouds of work/gateway asks servers in their place",
	"engines.md: remit run --continue ":                    "executed by testdata/script/followup.txtar",
	"formats.md: remit keys show ":                         "executed by testdata/script/by_hand.txtar",
	"formats.md: cosign ":                                  "needs cosign: scripts/interop.sh executes it",
	"ladder.md: remit ladder matrix ":                      "half a minute: testdata/script/ladder.txtar, TestShippedMatrix of work/matrix",
	"ladder.md: remit ladder prove ":                       "half a minute: TestBuiltInProofs of work/prove makes the same proofs",
	"ladder.md: remit ladder status":                       "executed by testdata/script/ladder.txtar",
	"governance.md: remit records check ":                  "TestRecordsCheck tries it",
	"governance.md: remit ladder guard ":                   "TestGuard tries it",
	"governance.md: remit ladder refresh ":                 "TestControlSummary tries it",
	"governance.md: remit health":                          "TestHealthNamesFaults and TestHealthHere try it",
	"environments.md: apt-get install ":                    "it asks the archives of the machine: the list that apt writes is read by TestLiveDebian of work/depend",
	"environments.md: remit run ":                          "executed by testdata/script/environment.txtar",
	"images.md: remit env image pull ":                     "needs a registry: testdata/script/image.txtar pulls from an archive",
	"agents.md: ":                                          "TestAgentsPage executes the page",
	"nexus.md: export REMIT_TOKEN_FILE":                    "executed by TestTenMinutes",
	"nexus.md: remit runs receipts ":                       "executed by TestTenMinutes",
	"nexus.md: remit token new ":                           "executed by TestTenMinutes",
	"nexus.md: remit bridge relay ":                        "executed by TestTenMinutes",
	"nexus.md: remit runs list ":                           "executed by TestTenMinutes",
	"nexus.md: remit run --nexus ":                         "asks for a word: TestApprovalsUnderNexus types these commands",
	"nexus.md: remit provider join ":                       "needs ids of a job, or a key: TestEngineRunEndToEnd, testdata/script/provider_agents.txtar",
}

// shellBlock is a block of a document that a reader pastes into a shell.
type shellBlock struct{ document, text string }

func (b shellBlock) String() string {
	first, _, _ := strings.Cut(b.text, "\n")
	return b.document + ": " + first
}

var fenced = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// documents are those for users, by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = string(text)
	}
	return texts
}

func shellBlocks(t *testing.T) (all []shellBlock) {
	t.Helper()
	texts := documents(t)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, m := range fenced.FindAllStringSubmatch(texts[name], -1) {
			all = append(all, shellBlock{name, m[1]})
		}
	}
	return all
}

// TestEveryBlockIsTried: a block of a document is executed, or the table says why
// not, and the table has no line for a block that is gone.
func TestEveryBlockIsTried(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, b := range shellBlocks(t) {
		found := ""
		for key := range elsewhere {
			if strings.HasPrefix(b.String(), key) {
				found, used[key] = key, true
			}
		}
		if _, ok := scenes[b.document+": "+firstWords(b)]; ok == (found != "") {
			t.Errorf("%s: it needs a scene in TestBlocksPaste or a reason in elsewhere, one of both", b)
		}
	}
	for key := range elsewhere {
		if !used[key] {
			t.Errorf("elsewhere has %q, and no document has such a block", key)
		}
	}
}

// firstWords are the first two words of a block, which name its scene.
func firstWords(b shellBlock) string {
	words := strings.Fields(b.text)
	return strings.Join(words[:min(2, len(words))], " ")
}

var (
	// A use of the program in a document or a hint: its words up to the end of the
	// span, of the command or of the line.
	ourCommand = regexp.MustCompile("(?:^|[\\s`(;&|])(?:bin/)?remit ([a-z][^`\n;&|]*)")
	ourSpan    = regexp.MustCompile("`remit [a-z][^`]*`")
	longFlag   = regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z-]*)`)
	makeTarget = regexp.MustCompile("(?m)(?:^|`)(?:sudo )?make ([a-z]+)")
	quotedWord = regexp.MustCompile(`'[^']*'`)
	aScript    = regexp.MustCompile(`\bscripts/[a-z0-9-]+\.(?:sh|go)\b`)
)

// TestDocumentsNameWhatThereIs: every command and flag of ours, make target and
// script that a document or a hint names exists.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	texts, root := documents(t), wholeRoot()
	spans := map[string][]string{}
	for _, info := range reason.All() {
		spans["hint of "+string(info.Code)] = ourSpan.FindAllString(info.Hint, -1)
	}
	for name, text := range texts {
		spans[name] = ourSpan.FindAllString(strings.ReplaceAll(text, "\n  ", " "), -1)
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				line, _, _ = strings.Cut(line, " # ")
				spans[name] = append(spans[name], line)
			}
		}
	}
	for name, text := range sources(t) { // what the program says itself
		spans[name] = ourSpan.FindAllString(text, -1)
	}
	seen := 0
	for where, lines := range spans {
		for _, line := range lines {
			for _, m := range ourCommand.FindAllStringSubmatch(line, -1) {
				seen++
				if problem := unknownIn(root, m[1]); problem != "" {
					t.Errorf("%s: remit %s: %s", where, m[1], problem)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d uses of the program were found: the expressions of this test do not see them", seen)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: make %s: no such target", name, m[1])
			}
		}
		for _, script := range aScript.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join("../..", script)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// sources are the texts of all packages that can print a hint.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, wing := range []string{"proof", "law", "work", "nexus", "provider", "forge", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", wing), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// plainName is a word that may be the name of a command, and no placeholder.
var plainName = regexp.MustCompile(`^[a-z]+$`)

// wholeRoot has the commands that cobra adds when it executes, too.
func wholeRoot() *cobra.Command {
	root := newRoot()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	return root
}

// unknownIn says what of a command line the program does not have.
func unknownIn(root *cobra.Command, line string) string {
	line, _, _ = strings.Cut(quotedWord.ReplaceAllString(line, "''"), " -- ")
	words := strings.Fields(line)
	cmd := root
	for _, w := range words {
		next, _, err := cmd.Find([]string{strings.Trim(w, "…`'\".,:)")})
		if err != nil || next == cmd {
			if cmd.HasSubCommands() && (!cmd.HasParent() || plainName.MatchString(w)) {
				return "no such command"
			}
			break
		}
		cmd = next
	}
	cmd.InitDefaultHelpFlag()
	for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
		if cmd.Flag(m[1]) == nil && cmd.InheritedFlags().Lookup(m[1]) == nil {
			return "no flag --" + m[1]
		}
	}
	return ""
}

// A test that finds nothing wrong with anything would be none.
func TestUnknownInDocuments(t *testing.T) {
	t.Parallel()
	root := wholeRoot()
	for line, want := range map[string]string{
		"audit BUNDLE.zip --trust KEY": "no flag --trust", "runn --repo .": "no such command", "admit model --nothing x": "no flag --nothing",
		"ladder show": "no such command", "show --model X": "no flag --model", "run --no-such-flag": "no flag --no-such-flag", "resume SESSION": "",
		"run --repo . --allow 'src/**' -- ./fix.sh --trust": "", "approve ID [--reason TEXT] [--yes] [--json]": "", "completion bash": "",
	} {
		if got := unknownIn(root, line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// byFlag are keys of a contract that a flag of remit run can say as well.
var byFlag = map[string]string{
	"expect_diff": "--allow-no-diff", "require_clean": "--allow-dirty", "mutation_mode": "--mutation-mode", "tests: free": "--tests free",
	"verification_commands": "--verify", "allowed_paths": "--allow", "forbidden_paths": "--forbid", "approval_required": "--require-approval",
}

// TestHintsNameFlags: a hint that names a key of a contract names the flag too,
// which most runs have instead of a file. That the flag exists is for
// TestHintsCanBeFollowed.
func TestHintsNameFlags(t *testing.T) {
	t.Parallel()
	for _, info := range reason.All() {
		for key, flag := range byFlag {
			if strings.Contains(info.Hint, key) && !strings.Contains(info.Hint, flag) {
				t.Errorf("%s: the hint names %s and not %s: %s", info.Code, key, flag, info.Hint)
			}
		}
	}
}

// TestFlagsComplete: a flag whose words are few completes them.
func TestFlagsComplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"run --engine": "codex", "run --tests": "protect", "run --mutation-mode": "copied-fixture", "run --sandbox": "none", "compare --engines": "pi",
		"verify latest --sandbox": "bwrap", "reproduce x.zip --sandbox": "none", "audit x.zip --sandbox": "none", "resume latest --sandbox": "bwrap",
		"admit source --engine": "claude", "ladder matrix --engine": "fake",
	} {
		root := newRoot()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append(append([]string{cobra.ShellCompRequestCmd}, strings.Fields(line)...), ""))
		if err := root.Execute(); err != nil || !slices.Contains(strings.Fields(out.String()), want) {
			t.Errorf("%s completes %q, %v, want %s among them", line, out.String(), err, want)
		}
	}
}

// TestHelpFits: what `remit COMMAND --help` prints fits into a terminal.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		var help strings.Builder
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(help.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}
