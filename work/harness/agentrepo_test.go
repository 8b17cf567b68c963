package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// launched is a published agent as far as its start goes; what it does is a
// line of shell.
type launched struct {
	talker
	line string
}

func (l launched) Invocation(context.Context, engine.Task) (*engine.Invocation, error) {
	return &engine.Invocation{Argv: agent.Launch{Home: "agent", Argv: []string{"/bin/sh", "-c", l.line}}.Words(), Scratch: []string{agent.GitDir}}, nil
}

// TestAgentRepository: an agent has git to look at its work with, knows nothing
// of the source's history, and whatever it does to its repository, the patch is
// the change of the files and no program of its choosing runs outside.
func TestAgentRepository(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 6, 8)
	repo := newRepo(t, map[string]string{"a.txt": "history-of-the-source\n"})
	canary := filepath.Join(t.TempDir(), "canary")
	for _, args := range [][]string{
		{"remote", "add", "origin", "https://user:password-of-the-remote@example.org/x"}, {"config", "alias.x", "!config-of-the-source"},
		{"config", "core.hooksPath", filepath.Dir(canary)}, {"config", "user.name", "t"}, {"config", "user.email", "t@t"},
	} {
		gitIn(t, repo, args...)
	}
	if err := os.WriteFile(filepath.Join(repo, "a.txt"), []byte("bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, repo, "commit", "-qam", "subject-of-the-source")
	head := strings.TrimSpace(gitIn(t, repo, "rev-parse", "HEAD"))
	const fix = "echo good >a.txt\n"
	attack := `program='touch ` + canary + `; cat'
for hook in post-checkout post-index-change pre-commit reference-transaction pre-applypatch; do
  printf '#!/bin/sh\n%s\n' "$program" >.git/hooks-$hook; mkdir -p .git/hooks; cp .git/hooks-$hook .git/hooks/$hook; chmod +x .git/hooks/$hook
done
git config core.hooksPath .git/hooks
git config filter.x.clean "$program"; git config filter.x.smudge "$program"; git config filter.x.required true
git config diff.x.textconv "$program"; git config core.sshCommand "$program"; git config core.editor "$program"; git config core.pager "$program"
git config core.fsmonitor "$program"; git config core.worktree /; git config include.path "` + repo + `/.git/config"
git config extensions.worktreeConfig true; git config core.gitProxy "$program"
echo '* filter=x diff=x' >.git/info/attributes; echo a.txt >>.git/info/exclude
mkdir -p .git/objects/info; echo "` + repo + `/.git/objects" >.git/objects/info/alternates
echo "` + head + `" >.git/refs/heads/main
`
	for _, test := range []struct{ name, line string }{
		{"it looks", fix + `test "$(git log --all --format=%s)" = baseline && test "$(git status --porcelain)" = " M a.txt" && git diff | grep -q '^+good' &&
			! git cat-file -e ` + head + ` && ! grep -rqE '(history|subject|config).of.the.source|password.of' .git "$HOME" && ! git stash list | grep . && test -z "$(git remote)"`},
		{"it commits", fix + "git commit -qam fixed && git gc -q --prune=now && git checkout -q --detach && git branch -D main"},
		{"it hides its change", fix + "git update-index --assume-unchanged a.txt; echo '*' >.git/info/exclude; git rm -rq --cached ."},
		{"it arms the repository", fix + attack},
		{"it makes a huge one", fix + "head -c 60000000 /dev/zero >.git/index; mkdir .git/d; cd .git/d; i=0; while [ $i -lt 3000 ]; do : >$i; i=$((i+1)); done"},
		{"it makes a link of it", fix + "rm -rf .git; ln -s " + repo + "/.git .git"},
		{"it makes a file of it", fix + "rm -rf .git; echo 'gitdir: " + repo + "/.git' >.git"},
		{"it makes a pipe of it", fix + "rm -rf .git; mkfifo .git"},
		{"it removes it", fix + "rm -rf .git"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			req := newRun(t, repo, nil, nil)
			hangs(t, &req, "", false, 0, 120)
			req.Contract.VerificationCommands = []string{"grep -q good a.txt", "test ! -e .git"}
			req.Engine = launched{line: test.line}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if rep := out.Report; rep.Status != evidence.StatusPass || len(rep.ChangedFiles) != 1 || rep.ChangedFiles[0] != "a.txt" || rep.SourceRepositoryMutated {
				said, _ := os.ReadFile(filepath.Join(out.Session.Dir, evidence.BackendDir, "stderr.log"))
				t.Errorf("%s %v %+v\n%s", rep.Status, rep.ChangedFiles, rep.Blockers, said)
			}
			leakFree(t, out.Session, "of-the-source", "password-of-the-remote")
			if _, err := os.Stat(canary); err == nil {
				t.Error("a program of the agent's choosing ran outside")
			}
		})
	}
	t.Run("another repository below", func(t *testing.T) {
		t.Parallel()
		req := newRun(t, repo, nil, nil)
		hangs(t, &req, "", false, 0, 120)
		req.Engine = launched{line: fix + "git init -q sub"}
		out, err := Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if out.Report.Status == evidence.StatusPass {
			t.Errorf("%+v", out.Report)
		}
	})
}

// gitIn runs git in a repository of the test.
func gitIn(t *testing.T, repo string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}
