package bundle

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

// listener answers every command with one exit code and remembers it.
type listener struct {
	exit     int
	commands []string
}

func (l *listener) Run(_ context.Context, _, command string, _, _ io.Writer) (int, error) {
	l.commands = append(l.commands, command)
	return l.exit, nil
}

// TestNamedCommands: a portable bundle names the commands of its two gates; what
// it does not name is not made, and a strict audit blocks on it.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	const imports = `python3 -c 'import importlib; [importlib.import_module(name) for name in "runtime runtime.core runtime.core.journal".split()]'`
	seed := map[string]string{
		"pytest.ini": "[pytest]\n", "runtime/__init__.py": "", "runtime/core/__init__.py": "", "runtime/core/journal.py": "",
		"runtime/__main__.py": "", "runtime/tests/__init__.py": "", "runtime/tests/test_journal.py": "", "runtime/core/test_one.py": "",
		"runtime/not a name.py": "", "runtime/x';rm -rf ~;'.py": "", "scripts/gate.py": "", "setup.py": "", "runtime/data/plain.py": "",
	}
	with := func(name, text string) map[string]string {
		return map[string]string{"pytest.ini": "", "pkg/__init__.py": "", name: text}
	}
	for _, tt := range []struct {
		name           string
		files          map[string]string
		opt            Options
		exit           int
		imports, tests Status
		commands       []string
	}{
		{"nothing is named", map[string]string{"a.txt": "a"}, Options{Named: true}, 0, Skipped, Skipped, nil},
		{"nothing is named, strict", map[string]string{"a.txt": "a"}, Options{Named: true, Strict: true}, 0, Blocked, Blocked, nil},
		{"pytest.ini", seed, Options{Named: true}, 0, Pass, Pass, []string{imports, runPytest}},
		{"pytest.ini, strict", seed, Options{Named: true, Strict: true}, 0, Pass, Pass, []string{imports, runPytest}},
		{"pytest.ini below the top", map[string]string{"d/pytest.ini": "", "d/__init__.py": ""}, Options{Named: true}, 0, Skipped, Skipped, nil},
		{"they fail", seed, Options{Named: true}, 1, Fail, Fail, []string{imports, runPytest}},
		{"no pytest here", seed, Options{Named: true}, notThere, Blocked, Blocked, []string{imports, runPytest}},
		{"not allowed", seed, Options{}, 0, Skipped, Skipped, nil},
		{"not allowed, strict", seed, Options{Strict: true}, 0, Blocked, Blocked, nil},
		{"a flag goes before", seed, Options{Named: true, Run: []string{"make test"}}, 0, Pass, Pass, []string{imports, "make test"}},
		{"a file of commands", with(CommandsName, "# how\n\nimports: python3 -c 'import pkg'\ntests: make a\ntests: make b\n"), Options{Named: true}, 0, Pass, Pass,
			[]string{"python3 -c 'import pkg'", "make a", "make b"}},
		{"a file with one gate", with(CommandsName, "tests: make\n"), Options{Named: true, Strict: true}, 0, Blocked, Pass, []string{"make"}},
		{"a line of another form", with(CommandsName, "tests: make\nrun: make\n"), Options{Named: true}, 0, Blocked, Blocked, nil},
		{"a command that is empty", with(CommandsName, "tests:  \n"), Options{Named: true}, 0, Blocked, Blocked, nil},
		{"too many commands", with(CommandsName, strings.Repeat("tests: make\n", maxNamedCommands+1)), Options{Named: true}, 0, Blocked, Blocked, nil},
		{"too long", with(CommandsName, strings.Repeat("# x\n", maxNamedBytes)), Options{Named: true}, 0, Blocked, Blocked, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := writeFiles(t, tt.files)
			sealPortable(t, dir)
			run := &listener{exit: tt.exit}
			tt.opt.Runner = run
			r := auditPath(t, dir, tt.opt)
			if status(r, GateImports) != tt.imports || status(r, GateTests) != tt.tests || !slices.Equal(run.commands, tt.commands) {
				t.Errorf("ran %q, want %q\n%s", run.commands, tt.commands, details(r))
			}
			for _, gate := range []string{GateImports, GateTests} {
				i := slices.IndexFunc(r.Gates, func(g GateResult) bool { return g.Name == gate })
				loud := strings.HasPrefix(r.Gates[i].Reason, "NOT MADE: ")
				if loud != slices.Contains(r.NotMade, gate) || r.Gates[i].Status == Skipped && !loud {
					t.Errorf("gate %s is %s, reason %q, not made %q", gate, r.Gates[i].Status, r.Gates[i].Reason, r.NotMade)
				}
			}
		})
	}
}

// TestNothingNamedInABundle: a bundle of Remit's own is not checked with what it
// names, and a strict audit wants commands all the same.
func TestNothingNamedInABundle(t *testing.T) {
	t.Parallel()
	dir := sealed(t, map[string]string{"RECEIPT.json": "{}", "journal.jsonl": "{}", CommandsName: "tests: make\n", PytestName: ""})
	run := &listener{}
	if r := auditPath(t, dir, Options{Gates: passing(), Named: true, Runner: run}); r.Status != Pass || len(run.commands)+len(r.NotMade) > 0 {
		t.Errorf("ran %q\n%s", run.commands, details(r))
	}
	if r := auditPath(t, dir, Options{Gates: passing(), Named: true, Runner: run, Strict: true}); r.Status != Blocked {
		t.Errorf("%s", details(r))
	}
}

// TestImportCommandsAreBounded: no command is longer than a shell takes, and no
// module is left out.
func TestImportCommandsAreBounded(t *testing.T) {
	t.Parallel()
	files := []*member{{name: "p/__init__.py"}}
	for i := range 3000 {
		files = append(files, &member{name: fmt.Sprintf("p/%s%04d.py", strings.Repeat("m", 60), i)})
	}
	modules := 0
	commands := importCommands(files)
	for _, c := range commands {
		if len(c) > 100_000 {
			t.Errorf("a command has %d bytes", len(c))
		}
		modules += strings.Count(c, "p.m")
	}
	if modules != 3000 || len(commands) < 2 {
		t.Errorf("%d commands import %d modules", len(commands), modules)
	}
}

// TestByProducts: a listed cache is a finding, whatever its case and depth.
func TestByProducts(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"a/__pycache__/b.txt": true, "__PYCACHE__/x": true, "x.pyc": true, "a/b.PYC": true, "a/b.pyo": true, ".pytest_cache/README.md": true, ".DS_Store": true,
		"docs/.ds_store": true, "node_modules/.cache/x": true, "a/Node_Modules/.cache/b/c": true, "Thumbs.db": true, ".mypy_cache/x": true,
		"pycache/x": false, "a.pyc/b.txt": false, ".cache/x": false, "node_modules/x/.cache/y": false, "src/DS_Store": false, "notes.pyc.md": false,
	} {
		line := strings.Repeat("0", hexLen) + "  " + path + "\n"
		for _, profile := range []Profile{ProfilePortable, ProfileBundle} {
			_, found := ParseManifest(profile, []byte(line))
			got := slices.ContainsFunc(found, func(f reason.Finding) bool { return f.Code == reason.ByProductListed && f.Line == 1 })
			if got != want {
				t.Errorf("%s in profile %s: %v, want a finding: %t", path, profile, found, want)
			}
		}
	}
}
