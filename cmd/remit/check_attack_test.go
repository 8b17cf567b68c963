package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
)

const checkPolicy = "allowed_paths: [src/**]\nverification_commands: [\"sh tests/run.sh\"]\n"

// checkRepo is a repository whose one test wants a word in src/a.txt, on the branch
// trunk.
func checkRepo(t *testing.T) string {
	t.Helper()
	repo := gitRepo(t, map[string]string{"remit.yaml": checkPolicy, "src/a.txt": "one\n", "src/b.txt": "b\n", "tests/run.sh": "grep -q one src/a.txt && ! grep -q bad src/a.txt\n"})
	gitIn(t, repo, "branch", "-M", "trunk")
	return repo
}

// branch commits what change does to the work tree on a new branch that goes on from
// another one, and goes back to trunk.
func branch(t *testing.T, repo, name, from, script string) {
	t.Helper()
	gitIn(t, repo, "checkout", "-q", "-b", name, from)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir, cmd.Env = repo, plainEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gitIn(t, repo, "add", "-A")
	gitIn(t, repo, "commit", "-qm", name)
	gitIn(t, repo, "checkout", "-q", "-f", "trunk")
}

func blockedAs(codes ...reason.Code) outcome { return outcome{3, codes} }

// refuses runs remit check on what it refuses before there is a session.
func refusesCheck(t *testing.T, repo string, exit int, says string, flags ...string) {
	t.Helper()
	cmd := cli(t, t.TempDir(), append([]string{"check", "--repo", repo}, flags...)...)
	out, _ := cmd.CombinedOutput() // its exit code is looked at
	if got := cmd.ProcessState.ExitCode(); got != exit || !strings.Contains(string(out), says) {
		t.Errorf("check %v: exit %d, want %d with %q: %s", flags, got, exit, says, out)
	}
}

// TestCheckUnderTheBase holds a check to the rules of the base: neither the head nor
// the commit that it was made from can bring others.
func TestCheckUnderTheBase(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	requireSandbox(t)
	repo, home := checkRepo(t), t.TempDir()
	branch(t, repo, "own-rules", "trunk", "echo bad >>src/a.txt; printf 'allowed_paths: [\"**\"]\\nverification_commands: [\"true\"]\\n' >remit.yaml")
	branch(t, repo, "no-rules", "trunk", "echo more >>src/a.txt; rm remit.yaml")
	branch(t, repo, "linked-rules", "trunk", "echo more >>src/a.txt; rm remit.yaml; ln -s src/a.txt remit.yaml")
	branch(t, repo, "broken-rules", "trunk", "echo more >>src/a.txt; echo 'nonsense: 1' >remit.yaml")
	// Made when the rules were weaker: the base has moved on.
	branch(t, repo, "old", "trunk", "echo more >>src/b.txt")
	write(t, repo, "remit.yaml", "allowed_paths: [src/a.txt]\nverification_commands: [\"sh tests/run.sh\"]\n")
	gitIn(t, repo, "commit", "-qam", "stricter")
	write(t, repo, "src/a.txt", "uncommitted\n", "remit.yaml", "verification_commands: [\"true\"]\n") // counts for nothing
	untouched(t, repo)

	got := checks(t, home, repo, blockedAs(reason.ReviewRequired), "--base", "trunk~1", "--head", "own-rules")
	if len(got.Blockers) != 2 || got.Blockers[1].Code != reason.VerificationFailed || got.PolicyChange == nil || !got.PolicyChange.Readable {
		t.Errorf("blockers %+v, policy %+v", got.Blockers, got.PolicyChange)
	}
	if c := got.PolicyChange; c != nil && !slices.ContainsFunc(c.Changes, func(c task.PolicyChange) bool {
		return c.Effect == task.Allows && c.Key == "verification_commands" && strings.Contains(c.Sentence, "sh tests/run.sh")
	}) {
		t.Errorf("changes %+v", c.Changes)
	}
	audited(t, home, got.SessionDir)
	got = checks(t, home, repo, blockedAs(reason.ReviewRequired), "--base", "trunk~1", "--head", "no-rules")
	if got.PolicyChange == nil || len(got.Blockers) != 1 || got.Verification[0].Command != "sh tests/run.sh" {
		t.Errorf("%+v, policy %+v", got.Blockers, got.PolicyChange)
	}
	checks(t, home, repo, failsAs(reason.SymlinkRefused), "--base", "trunk~1", "--head", "linked-rules")
	refusesCheck(t, repo, 3, "contract_unreadable", "--base", "linked-rules", "--head", "trunk")
	if got = checks(t, home, repo, blockedAs(reason.ReviewRequired), "--base", "trunk~1", "--head", "broken-rules"); got.PolicyChange == nil || got.PolicyChange.Readable {
		t.Errorf("policy %+v", got.PolicyChange)
	}
	got = checks(t, home, repo, failsAs(reason.DisallowedFileChange), "--base", "trunk", "--head", "old")
	if got.Checked.MergeBase != gitIn(t, repo, "rev-parse", "trunk~1") {
		t.Errorf("checked %+v", got.Checked)
	}
}

// TestCheckHeads takes heads that no usual branch is.
func TestCheckHeads(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	requireSandbox(t)
	repo, home := checkRepo(t), t.TempDir()
	branch(t, repo, "beside", "trunk", "echo two >>src/b.txt")
	branch(t, repo, "against", "trunk", "echo two >src/a.txt")
	branch(t, repo, "escape", "trunk", "ln -s ../../../etc/passwd src/link")
	branch(t, repo, "filtered", "trunk", "echo two >>src/b.txt; printf '*.txt filter=evil diff=evil -text\\n' >src/.gitattributes")
	branch(t, repo, "module", "trunk", "git init -q src/sub; git -C src/sub commit -q --allow-empty -m sub; printf '[submodule \"x\"]\\n\\tpath = src/sub\\n\\turl = ../x\\n' >.gitmodules")
	branch(t, repo, "same", "trunk", "rm -rf src/sub; echo x >src/z.txt; git add -A; git commit -qm made; rm src/z.txt")
	gitIn(t, repo, "checkout", "-q", "--orphan", "strange")
	gitIn(t, repo, "commit", "-qm", "strange")
	gitIn(t, repo, "checkout", "-q", "-f", "trunk")
	write(t, repo, "src/a.txt", "one\nthree\n")
	gitIn(t, repo, "commit", "-qam", "the base moves on")
	gitIn(t, repo, "config", "filter.evil.clean", "touch "+filepath.Join(home, "pwned"))
	gitIn(t, repo, "config", "diff.evil.command", "touch "+filepath.Join(home, "pwned"))

	got := checks(t, home, repo, passes, "--base", "trunk", "--head", "beside")
	if got.Checked.MergeBase != gitIn(t, repo, "rev-parse", "trunk~1") || got.Checked.Commits != 1 {
		t.Errorf("checked %+v", got.Checked)
	}
	audited(t, home, got.SessionDir)
	for _, words := range [][]string{{"reproduce", got.SessionDir, "--repo", repo}, {"verify", "latest"}, {"show", "latest"}, {"replay", "latest"}} {
		if out, err := cli(t, home, words...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", words, err, out)
		}
	}
	checks(t, home, repo, failsAs(reason.PatchInvalid), "--base", "trunk", "--head", "against")
	checks(t, home, repo, failsAs(reason.SymlinkRefused), "--base", "trunk~1", "--head", "escape")
	checks(t, home, repo, failsAs(reason.SubmoduleRefused, reason.DisallowedFileChange), "--base", "trunk~1", "--head", "module")
	checks(t, home, repo, passes, "--base", "trunk~1", "--head", "filtered")
	checks(t, home, repo, failsAs(reason.NoDiff), "--base", "trunk~1", "--head", "same")
	checks(t, home, repo, blockedAs(reason.BaseNotFound), "--base", "trunk", "--head", "strange")
	if _, err := os.Lstat(filepath.Join(home, "pwned")); err == nil {
		t.Error("a filter or driver of the repository was started")
	}
	refusesCheck(t, repo, 3, "base_not_found", "--base", "trunk", "--head=--upload-pack=touch")
	refusesCheck(t, repo, 3, "base_not_found", "--base=--all", "--head", "beside")
	refusesCheck(t, repo, 3, "base_not_found", "--head", "nowhere")
	refusesCheck(t, repo, 1, "head", "--base", "trunk")
	refusesCheck(t, repo, 1, "head", "--head", "beside", "--patch", "x")

	// A work tree of its own, and a clone without its history.
	beside := filepath.Join(t.TempDir(), "tree")
	gitIn(t, repo, "worktree", "add", "-q", "--detach", beside, "trunk~1")
	checks(t, home, beside, passes, "--head", "beside")
	shallow := filepath.Join(t.TempDir(), "shallow")
	gitIn(t, repo, "clone", "-q", "--depth", "1", "--no-single-branch", "file://"+repo, shallow)
	if got := checks(t, home, shallow, blockedAs(reason.BaseNotFound), "--base", "trunk", "--head", "origin/beside"); !strings.Contains(got.Blockers[0].Hint, "unshallow") {
		t.Errorf("%+v", got.Blockers)
	}
}

// TestCheckPatches takes patches, good ones and those that reach for what is not
// theirs.
func TestCheckPatches(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	repo, home := checkRepo(t), t.TempDir()
	branch(t, repo, "good", "trunk", "echo two >>src/b.txt")
	untouched(t, repo)
	mail := filepath.Join(t.TempDir(), "0001.patch")
	if err := os.WriteFile(mail, []byte(gitIn(t, repo, "format-patch", "--stdout", "--no-renames", "trunk..good")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := checks(t, home, repo, passes, "--patch", mail)
	if len(got.Checked.Authors) != 1 || got.Checked.Authors[0].Email != "t@example.com" || got.Checked.PatchSHA256 == "" || got.Checked.HeadCommit != "" {
		t.Errorf("checked %+v", got.Checked)
	}
	audited(t, home, got.SessionDir)
	in := cli(t, home, "check", "--repo", repo, "--patch", "-")
	in.Stdin = strings.NewReader(gitIn(t, repo, "diff", "trunk", "good") + "\n")
	if out, err := in.CombinedOutput(); err != nil {
		t.Errorf("from stdin: %v\n%s", err, out)
	}
	create := func(path string) string {
		return "diff --git a/" + path + " b/" + path + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n"
	}
	patches := map[string]struct {
		patch string
		want  outcome
	}{
		"out of the tree":  {create("../out.txt"), failsAs(reason.PatchInvalid)},
		"absolute":         {create("/tmp/out.txt"), failsAs(reason.PatchInvalid)},
		"git directory":    {create(".git/hooks/post-checkout"), failsAs(reason.ProtectedPath)},
		"git in disguise":  {create("src/.GIT/config"), failsAs(reason.PatchInvalid)},
		"does not apply":   {"diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-other\n+x\n", failsAs(reason.PatchInvalid)},
		"absolute of diff": {"--- /dev/null\n+++ /src/x\n@@ -0,0 +1 @@\n+x\n", failsAs(reason.PatchInvalid)},
		"no patch":         {"\nhello\n", failsAs(reason.PatchInvalid)},
		"empty":            {"", failsAs(reason.NoDiff)},
		"blank":            {" \n\n", failsAs(reason.NoDiff)},
		"rename":           {"diff --git a/src/a.txt b/src/c.txt\nsimilarity index 100%\nrename from src/a.txt\nrename to src/c.txt\n", failsAs(reason.PatchInvalid)},
		"through a link":   {"diff --git a/src/l b/src/l\nnew file mode 120000\n--- /dev/null\n+++ b/src/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n" + create("src/l/passwd"), failsAs(reason.PatchInvalid, reason.SymlinkRefused)},
		"escapes in names": {create("src/\x1b[2Jx"), passes},
	}
	for i, name := range slices.Sorted(maps.Keys(patches)) {
		if !tally.ByTurn(t, i, 3) {
			continue
		}
		c := patches[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, file := t.TempDir(), filepath.Join(t.TempDir(), "x.patch")
			if err := os.WriteFile(file, []byte(c.patch), 0o644); err != nil {
				t.Fatal(err)
			}
			got := checks(t, home, repo, c.want, "--patch", file)
			if where := map[string]string{"no patch": "x.patch:2: ", "absolute of diff": "x.patch:2: "}[name]; len(got.Blockers) > 0 && !strings.HasPrefix(got.Blockers[0].Message, where) {
				t.Errorf("%+v", got.Blockers)
			}
			if strings.Contains(strings.Join(got.ChangedFiles, ""), "\x1b") || len(got.ChangedFiles) > 0 && slices.Equal(c.want.codes, []reason.Code{reason.PatchInvalid}) {
				t.Errorf("changed %v", got.ChangedFiles)
			}
		})
	}
	refusesCheck(t, repo, 3, "--patch", "--patch", filepath.Join(repo, "nowhere.patch"))
	refusesCheck(t, repo, 3, "--patch", "--patch", repo)
}
