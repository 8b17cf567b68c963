package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// gitEscapes are the ways in which a repository, or an agent that writes into
// one, can make git start a program on the host. The whole command line is
// walked over each trap: run, show, diff, logs, audit, verify, reproduce,
// accept, export.
var gitEscapes = &tally.Table{Name: "escape suite, git", Rows: []string{
	"hooks",
	"core.hooksPath",
	"core.fsmonitor",
	"filter drivers",
	"textconv and external diff",
	"attributes that change bytes",
	"submodules",
	"alternates",
	"include.path",
	"config.worktree",
	"gitdir redirect",
	"environment of git",
	"git directory made by the agent",
	"attributes made by the agent",
}}

// A trap is a repository that names a program which leaves a file.
type trap struct {
	t      testing.TB
	dir    string
	canary string // directory of the files
}

// plainEnv is what a person's git has: an environment, and no configuration.
func plainEnv(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "REMIT_") && !strings.HasPrefix(v, sandbox.EnvBuildCache+"=")
	})
	return append(env, append([]string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com", "GIT_ALLOW_PROTOCOL=file:ext"}, extra...)...)
}

// shell runs a script of trusted commands in a directory; $1 is the canary.
func (tr *trap) shell(dir, script string) {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), "sh", "-ec", script, "sh", tr.canary)
	cmd.Dir, cmd.Env = dir, plainEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// newTrap makes a harmless repository.
func newTrap(t testing.TB) *trap {
	t.Helper()
	tr := &trap{t: t, dir: filepath.Join(t.TempDir(), "repo"), canary: t.TempDir()}
	tr.shell(filepath.Dir(tr.dir), `
		mkdir repo && cd repo && git init -q -b main
		echo a >a.txt; echo 'never changed' >other.txt; printf '$Id$ \303\244\n' >bytes.txt
		git add -A && git commit -qm base && git commit -q --allow-empty -m more`)
	return tr
}

// leave is the path of a program that leaves a canary of that name.
func (tr *trap) leave(name string) string {
	tr.t.Helper()
	path := filepath.Join(filepath.Dir(tr.dir), "leave-"+name)
	if err := os.WriteFile(path, []byte(fmt.Sprintf("#!/bin/sh\n: >%s/%s\nexit 1\n", tr.canary, name)), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	return path
}

// sprung returns the canaries, and takes them away.
func (tr *trap) sprung() (names []string) {
	tr.t.Helper()
	entries, err := os.ReadDir(tr.canary)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if err := os.Remove(filepath.Join(tr.canary, e.Name())); err != nil {
			tr.t.Fatal(err)
		}
	}
	return names
}

// plainGitFalls is the control: on a copy of the trap plain git starts the
// program of that name.
func (tr *trap) plainGitFalls(name string, env []string, commands ...string) {
	tr.t.Helper()
	copied := filepath.Join(tr.t.TempDir(), "copy")
	tr.shell(filepath.Dir(copied), "cp -a '"+tr.dir+"' copy")
	tr.sprung()
	for _, words := range commands {
		cmd := exec.CommandContext(tr.t.Context(), "sh", "-c", words)
		cmd.Dir, cmd.Env = copied, plainEnv(env...)
		_ = cmd.Run() // the programs of the trap fail
	}
	if got := tr.sprung(); !slices.Contains(got, name) {
		tr.t.Errorf("plain git does not start %s with %q (but %q), so the trap shows nothing", name, commands, got)
	}
}

// walk takes the whole command line over the trap and counts for each row the
// commands that did not start its program. It returns the exit code of the run.
func (tr *trap) walk(rows map[string]*tally.Count, env []string, agent string, more ...string) int {
	tr.t.Helper()
	s := newScene(tr.t, tr.dir)
	bundle := filepath.Join(s.tmp, "bundle.zip")
	run := append([]string{"run", "--repo", tr.dir, "--allow", "**", "--verify", "test -s a.txt"}, more...)
	code := -1
	walk := [][]string{
		append(run, "--", "sh", "-c", agent), {"show", "latest"}, {"diff", "latest"}, {"logs", "latest"}, {"audit", "latest"}, {"verify", "latest"},
		{"accept", "latest", "--reason", "r"}, {"export", "latest", "--to", "zip", "--out", bundle}, {"reproduce", bundle, "--repo", tr.dir},
		{"export", "latest", "--to", "branch", "--branch", "remit/out"},
	}
	if os.Getenv(givenProgram) != "" { // as another user once more: those that have to do with the repository
		walk = [][]string{walk[0], walk[7], walk[8], walk[9]}
	}
	for i, words := range walk {
		cmd := s.command(tr.t, program(), words...)
		cmd.Env = append(cmd.Env, env...)
		out, _ := cmd.CombinedOutput() // refusals are answers, too
		if i == 0 {
			if code = cmd.ProcessState.ExitCode(); code == 1 {
				tr.t.Errorf("the run ended with exit code 1\n%s", out)
			}
			if code == 0 != (len(more) == 0 && !strings.Contains(agent, ".git/")) {
				tr.t.Logf("the run ended with exit code %d\n%s", code, out)
			}
		}
		got := tr.sprung()
		for name, c := range rows {
			c.Check(!slices.Contains(got, name), "remit %s started %s", words[0], name)
		}
	}
	return code
}

const harmless = "echo x >> a.txt"

// sameTime makes the index stale, so that git looks at contents.
const staleIndex = "touch -d '2020-01-01' a.txt other.txt"

func TestGitEscapesOfTheRepository(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	for _, group := range []struct {
		rows map[string]string // canary to row
		arm  func(tr *trap)
		fall map[string][]string // canary to plain commands
	}{
		{
			rows: map[string]string{"hooks": "hooks", "fsmonitor": "core.fsmonitor", "filter": "filter drivers", "diff": "textconv and external diff", "alternates": "alternates"},
			arm: func(tr *trap) {
				tr.shell(tr.dir, `for h in post-checkout post-index-change reference-transaction pre-commit post-commit pre-auto-gc post-rewrite; do cp '`+tr.leave("hooks")+`' .git/hooks/$h; done
					git config core.fsmonitor '`+tr.leave("fsmonitor")+`'
					for k in filter.x.clean filter.x.smudge filter.x.process; do git config $k '`+tr.leave("filter")+`'; done
					for k in diff.x.textconv diff.x.command diff.external; do git config $k '`+tr.leave("diff")+`'; done
					git config core.alternateRefsCommand '`+tr.leave("alternates")+`'
					cp -a . ../foreign && mv ../foreign .git/ && echo ../foreign/.git/objects >.git/objects/info/alternates
					echo '* filter=x diff=x merge=x' >.git/info/attributes; `+staleIndex)
			},
			fall: map[string][]string{"hooks": {"git update-ref refs/heads/new HEAD"}, "fsmonitor": {"git status"}, "filter": {"git diff"}, "diff": {"git -c core.fsmonitor=false -c filter.x.process= -c filter.x.clean=cat -c filter.x.smudge=cat log -p --no-ext-diff"},
				"alternates": {"git fetch -q .git/foreign main", "git clone -q . ../x && git fetch -q ../x main", "cd .. && git clone -q copy x2; cd x2 && git commit -q --allow-empty -m n; cd ../copy && git fetch -q ../x2 HEAD"}},
		},
		{
			rows: map[string]string{"hooksPath": "core.hooksPath", "include": "include.path", "submodule": "submodules"},
			arm: func(tr *trap) {
				tr.shell(tr.dir, `git init -q ../module && git -C ../module commit -q --allow-empty -m m
					git -c protocol.file.allow=always submodule --quiet add "$PWD/../module" mod && git commit -qm sub
					git config -f .git/modules/mod/config core.fsmonitor '`+tr.leave("submodule")+`'; git config submodule.mod.update '!`+tr.leave("submodule")+`'
					mkdir .git/mine; for h in post-checkout post-index-change reference-transaction; do cp '`+tr.leave("hooksPath")+`' .git/mine/$h; done
					git config core.hooksPath "$PWD/.git/mine"
					git config -f .git/more core.fsmonitor '`+tr.leave("include")+`'; git config include.path more; git config includeIf.gitdir:**.path more; `+staleIndex)
			},
			fall: map[string][]string{"hooksPath": {"git checkout -q -b new"}, "include": {"git status"}, "submodule": {"git status", "git submodule update --force"}},
		},
		{
			rows: map[string]string{"worktree": "config.worktree"},
			arm: func(tr *trap) {
				tr.shell(tr.dir, `git config extensions.worktreeConfig true; git config -f .git/config.worktree core.fsmonitor '`+tr.leave("worktree")+`'; `+staleIndex)
			},
			fall: map[string][]string{"worktree": {"git status"}},
		},
		{
			rows: map[string]string{"redirect": "gitdir redirect"},
			arm: func(tr *trap) {
				leave := tr.leave("redirect")
				tr.shell(tr.dir, `git worktree add -q --detach ../linked; git config core.fsmonitor '`+leave+`'; cp '`+leave+`' .git/hooks/post-index-change; cd ../linked; `+staleIndex)
				tr.dir = filepath.Join(filepath.Dir(tr.dir), "linked")
			},
			fall: map[string][]string{"redirect": {"git status"}},
		},
	} {
		t.Run(firstOf(group.rows), func(t *testing.T) {
			t.Parallel()
			rows := map[string]*tally.Count{}
			for canary, name := range group.rows {
				rows[canary] = gitEscapes.Row(t, name)
			}
			tr := newTrap(t)
			group.arm(tr)
			for canary, commands := range group.fall {
				tr.plainGitFalls(canary, nil, commands...)
			}
			if code := tr.walk(rows, nil, harmless); code != 0 {
				t.Errorf("the run over the trap ended with exit code %d", code)
			}
		})
	}
}

func firstOf(rows map[string]string) string {
	names := make([]string, 0, len(rows))
	for name := range rows {
		names = append(names, name)
	}
	return slices.Min(names)
}

// TestGitEnvironment: variables of the caller, and programs on its path, reach
// no git of ours.
func TestGitEnvironment(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c := gitEscapes.Row(t, "environment of git")
	tally.AtItsTurn(c, 0, 2)
	tr := newTrap(t)
	leave := tr.leave("env")
	env := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=" + leave, "GIT_EXTERNAL_DIFF=" + leave, "GIT_PAGER=" + leave, "GIT_EDITOR=" + leave,
		"GIT_SSH_COMMAND=" + leave, "GIT_ASKPASS=" + leave, "GIT_TRACE=" + tr.canary + "/env", "GIT_EXEC_PATH=" + filepath.Dir(leave), "GIT_TEMPLATE_DIR=" + tr.canary}
	tr.shell(tr.dir, staleIndex)
	tr.plainGitFalls("env", env[:4], "git status")
	if code := tr.walk(map[string]*tally.Count{"env": c}, env, harmless); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestAttributesChangeNoBytes: what the agent and the verifier see is what the
// commit has, whatever conversions attributes ask for.
func TestAttributesChangeNoBytes(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c := gitEscapes.Row(t, "attributes that change bytes")
	tr := newTrap(t)
	tr.shell(tr.dir, `echo '* text eol=crlf ident export-subst' >.gitattributes; git add -A; git commit -qm attributes; echo 'bytes.txt working-tree-encoding=UTF-16' >.git/info/attributes`)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "rm bytes.txt && git checkout -q bytes.txt && cat bytes.txt")
	copied := filepath.Join(t.TempDir(), "copy")
	tr.shell(filepath.Dir(copied), "cp -a '"+tr.dir+"' copy")
	cmd.Dir, cmd.Env = copied, plainEnv()
	const blob = "$Id$ \u00e4\n"
	if out, err := cmd.Output(); err != nil || string(out) == blob {
		t.Fatalf("plain git converts nothing, so the test shows nothing: %v %q", err, out)
	}
	s := newScene(t, tr.dir)
	same := "printf '$Id$ \\303\\244\\n' | cmp - bytes.txt"
	for _, words := range [][]string{
		{"run", "--repo", tr.dir, "--allow", "**", "--verify", same, "--", "sh", "-c", same + " && printf 'more\\r\\n' >>bytes.txt; echo x >>a.txt; git --version >/dev/null 2>&1; printf '$Id$ \\303\\244\\n' >bytes.txt"},
		{"audit", "latest"}, {"verify", "latest"},
	} {
		out, err := s.command(t, program(), words...).CombinedOutput()
		c.Check(err == nil, "remit %s: %v\n%s", words[0], err, out)
	}
}

// TestGitEscapesOfTheAgent lets the agent write what git would execute.
func TestGitEscapesOfTheAgent(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	t.Run("git directory", func(t *testing.T) {
		t.Parallel()
		c := gitEscapes.Row(t, "git directory made by the agent")
		tally.AtItsTurn(c, 0, 2)
		tr := newTrap(t)
		leave := tr.leave("agentgit")
		plant := `for g in .git sub/.git; do mkdir -p $g/hooks $g/objects/info $g/refs; echo 'ref: refs/heads/main' >$g/HEAD
			printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ` + leave + `\n' >$g/config
			echo /etc >$g/objects/info/alternates; printf '#!/bin/sh\nexec ` + leave + `\n' >$g/hooks/post-index-change; chmod +x $g/hooks/post-index-change; done
			echo y >sub/file; mkdir link; echo "gitdir: $PWD/sub/.git" >link/.git; ` + harmless
		// control: where the agent's tree lies on the host, plain git falls
		host := t.TempDir()
		tr.shell(host, plant+"; git -C sub status >/dev/null 2>&1 || true")
		if got := tr.sprung(); !slices.Contains(got, "agentgit") {
			t.Errorf("plain git does not fall into the agent's directory: %q", got)
		}
		code := tr.walk(map[string]*tally.Count{"agentgit": c}, nil, plant)
		c.Check(code == 2 || code == 3, "the run ended with exit code %d", code)
	})
	t.Run("attributes", func(t *testing.T) {
		t.Parallel()
		c := gitEscapes.Row(t, "attributes made by the agent")
		tally.AtItsTurn(c, 1, 2)
		tr := newTrap(t)
		tr.shell(tr.dir, `for k in filter.x.clean filter.x.smudge diff.x.textconv diff.x.command merge.x.driver; do git config $k '`+tr.leave("agentgit")+`'; done`)
		plant := "echo '* filter=x diff=x merge=x' >.gitattributes; " + harmless
		copied := filepath.Join(t.TempDir(), "copy")
		tr.shell(filepath.Dir(copied), "cp -a '"+tr.dir+"' copy && cd copy && "+plant+" && git diff >/dev/null 2>&1 || true")
		if got := tr.sprung(); !slices.Contains(got, "agentgit") {
			t.Errorf("plain git does not fall into the agent's attributes: %q", got)
		}
		code := tr.walk(map[string]*tally.Count{"agentgit": c}, nil, plant)
		c.Check(code >= 0 && code != 1, "the run ended with exit code %d", code)
	})
}
