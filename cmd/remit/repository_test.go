package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// gitRepo makes a repository with one commit of the given files.
func gitRepo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commitAll(t, dir)
	return dir
}

// commitAll makes the files of dir a repository with one commit.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, words := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "base"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, words...)...)
		cmd.Env = plainEnv()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", words, err, out)
		}
	}
}

// photograph is all that can be seen of a repository: names, modes, times and
// contents.
func photograph(dir string) (string, error) {
	out, err := exec.Command("sh", "-c", `cd "$1" && find . -printf '%p %m %s %T@ %C@ %i\n' | sort && find . -type f -exec sha256sum {} + | sort`, "sh", dir).Output()
	return string(out), err
}

// untouched fails if the repository is another one at the end of the test.
func untouched(t *testing.T, repo string) {
	t.Helper()
	before, err := photograph(repo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if after, err := photograph(repo); err != nil || after != before {
			t.Errorf("the source repository changed: %v\n%s\nbefore:\n%s", err, after, before)
		}
	})
}
