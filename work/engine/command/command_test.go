//test:plain-package It only computes: there is one goroutine.

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
)

// TestLentWords: what the command names in the user's directory and the commit
// does not have is lent. Nothing that a link or ".." leads to is.
func TestLentWords(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "here")
	for _, name := range []string{"here/fix.py", "here/sub/data.csv", "here/known.txt", "here/-rf", "outside.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"key": "../outside.txt", "far": "/etc/passwd", "near": "fix.py"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	words := []string{"python3", "fix.py", "sub/data.csv", "known.txt", "absent.txt", "-rf", "sub", "key", "far", "../outside.txt", "near"}
	e := &Engine{Argv: words, Dir: dir, LendWords: true}
	task := engine.Task{InBaseline: func(path string) bool { return path == "known.txt" }}
	inv, err := e.Invocation(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(words)
	want[1], want[2], want[10] = "/opt/remit/bin/1/fix.py", "/opt/remit/bin/2/data.csv", "/opt/remit/bin/10/near"
	if !slices.Equal(inv.Argv, want) || len(inv.Binds) != 3 || len(inv.Notes) != 3 || inv.Program != "python3" {
		t.Errorf("%+v", inv)
	}
	if strings.Contains(strings.Join(inv.Notes, " "), dir) || !strings.Contains(inv.Notes[0], "fix.py is not in the base commit") {
		t.Errorf("%q", inv.Notes)
	}
	before, err := e.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fix.py"), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after, err := e.Identity(t.Context()); err != nil || after.SHA256 == before.SHA256 {
		t.Errorf("another script is the same engine: %v", err)
	}
	// A provider's operator names programs of the machine, not of a directory.
	e.LendWords = false
	if inv, err := e.Invocation(t.Context(), task); err != nil || len(inv.Binds) > 0 {
		t.Errorf("%+v, %v", inv, err)
	}
}

// TestNoProgram: an empty word and a directory are no programs, and the message
// says which of them it was.
func TestNoProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Engine{Argv: []string{"", "x"}, Dir: dir}).Identity(t.Context()); reason.CodeOf(err) != reason.ProgramNotFound || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
	for word, inBase := range map[string]bool{"./tools": false, "tools/": false, dir: false, "./tools/x": true} {
		_, err := (&Engine{Argv: []string{word}, Dir: dir}).Invocation(t.Context(), engine.Task{InBaseline: func(string) bool { return inBase }})
		if refused := reason.CodeOf(err) == reason.ProgramNotExecutable && strings.Contains(err.Error(), "is a directory"); refused == inBase {
			t.Errorf("%s: %v", word, err)
		}
	}
}
