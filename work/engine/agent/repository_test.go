package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// launched runs a line of shell as an agent would be, outside of a sandbox.
func launched(t *testing.T, dir, path, line string) string {
	t.Helper()
	words := Launch{Home: "some", Argv: []string{"/bin/sh", "-c", line}}.Words()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + t.TempDir(), "PATH=" + path, "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestRepository: an agent has a repository with one commit of exactly what is
// there, whatever the tree says of attributes and of what is ignored.
func TestRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitattributes": "* text=auto eol=crlf ident filter=lfs working-tree-encoding=no-such-encoding\n",
		".gitignore":     "*.log\nkept/\n",
		"a.txt":          "one $Id$\ntwo\n", "crlf.txt": "one\r\ntwo\r\n", "x.log": "tracked all the same\n", "kept/b": "", "-odd\nname": "x",
		"big": strings.Repeat("0123456789abcdef", 100_000),
	} {
		write(t, filepath.Join(dir, name), text)
	}
	path := os.Getenv("PATH")
	for line, want := range map[string]string{
		"git status --porcelain && git diff HEAD && git stash list && git remote -v && git tag": "",
		"git log --format='%an %ae %s' --all":                                                   "agent agent@localhost baseline\n",
		"git ls-files | wc -l":                                                                  "8\n",
		"git show HEAD:crlf.txt | cmp - crlf.txt && git fsck":                                   "",
		"ls .git/hooks 2>/dev/null; git config --get remote.x; :":                               "",
		"git rev-parse --abbrev-ref HEAD && git branch --list":                                  "main\n* main\n",
		"echo x >>a.txt; git diff --stat | tail -1; git checkout a.txt":                         " 1 file changed, 1 insertion(+)\nUpdated 1 path from the index\n",
	} {
		// Each begins with a tree that has no repository, as a workspace is.
		if err := os.RemoveAll(filepath.Join(dir, GitDir)); err != nil {
			t.Fatal(err)
		}
		if got := launched(t, dir, path, line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestNoRepository: an agent works all the same where there is no git, or where
// git does not come to its end, and finds no half of a repository.
func TestNoRepository(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, tool := range []string{"mkdir", "rm"} {
		file, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(file, filepath.Join(bin, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := launched(t, t.TempDir(), bin, "test ! -e .git && echo here"); !strings.Contains(out, "has no git") || !strings.HasSuffix(out, "here\n") {
		t.Errorf("%q", out)
	}
	write(t, filepath.Join(bin, "git"), "#!/bin/sh\nmkdir -p .git\n[ \"$1\" = init ] || { echo no space >&2; exit 1; }\n")
	if out := launched(t, t.TempDir(), bin, "test ! -e .git && echo here"); !strings.Contains(out, "no git repository could be made") || !strings.HasSuffix(out, "here\n") {
		t.Errorf("%q", out)
	}
}
