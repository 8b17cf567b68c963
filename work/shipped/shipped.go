// Package shipped holds the repositories that come with the program: the
// artificial cases of fixtures/r1-*, and the greeting over which the failure
// matrix runs. A run may call its baseline a fixture only if its tree is the tree
// of one of these ([IsFixture]); the word of the person who starts it does not
// count.
//
// cases.json is written from fixtures/ by `go test ./work/shipped -update`, and a
// test keeps it equal. The cases cannot be embedded where they lie: those in Go
// are modules of their own, and Go embeds no other module.
package shipped

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"remit/work/git"
)

//go:embed cases.json
var embedded []byte

// Greeting is the name of the case that the failure matrix runs over.
const Greeting = "greeting/sh"

// Case is one repository, with a task and the change that does it.
type Case struct {
	Name  string            `json:"name"`  // FOLDER/LANGUAGE
	Tree  string            `json:"tree"`  // the git id of its files
	Task  string            `json:"task"`  // a complete task contract in YAML
	Patch string            `json:"patch"` // a correct change
	Files map[string]string `json:"files"` // of the repository, by path; none is executable
	// Beside are further files that the task names, by path: held-out tests.
	Beside map[string]string `json:"beside"`
}

// Cases returns every case, sorted by name.
func Cases() []Case { return slices.Clone(cases()) }

var cases = sync.OnceValue(func() []Case {
	var all []Case
	if err := json.Unmarshal(embedded, &all); err != nil {
		panic(fmt.Sprintf("shipped: cases.json: %v", err))
	}
	return all
})

// Named finds a case.
func Named(name string) (Case, bool) {
	i := slices.IndexFunc(cases(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Case{}, false
	}
	return cases()[i], true
}

// IsFixture reports whether a git tree is that of a case, and of which. It does
// not decode the cases: every run asks.
func IsFixture(tree string) (name string, ok bool) {
	name, ok = trees()[tree]
	return name, ok
}

var trees = sync.OnceValue(func() map[string]string {
	var all []struct{ Name, Tree string }
	if err := json.Unmarshal(embedded, &all); err != nil {
		panic(fmt.Sprintf("shipped: cases.json: %v", err))
	}
	out := map[string]string{}
	for _, c := range all {
		out[c.Tree] = c.Name
	}
	return out
})

// made is when the commit of a case was made: the same commit every time.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Write makes a repository at dir with one commit and a clean work tree, as a
// user has one, and returns the tree of the commit.
func (c Case) Write(ctx context.Context, dir string) (tree string, err error) {
	gitDir := filepath.Join(dir, ".git")
	d, err := git.Create(gitDir, git.SHA1)
	if err != nil {
		return "", err
	}
	var edits []git.Edit
	var index []git.IndexEntry
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		content := []byte(c.Files[name])
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), content); err != nil {
			return "", err
		}
		edits = append(edits, git.Edit{Path: name, Mode: "100644", Size: int64(len(content)),
			Content: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }})
		index = append(index, git.IndexEntry{Path: name, Mode: "100644", ID: git.SHA1.Sum("blob", content)})
	}
	commit, err := d.Import(ctx, d.Format.EmptyTree(), edits, git.Commit{Message: c.Name + "\n", When: made})
	if err != nil {
		return "", err
	}
	if err := d.UpdateIndex(ctx, index); err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"HEAD":            "ref: refs/heads/main\n",
		"config":          "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		"refs/heads/main": commit.Commit + "\n",
	} {
		if err := writeFile(filepath.Join(gitDir, filepath.FromSlash(name)), []byte(text)); err != nil {
			return "", err
		}
	}
	return commit.Tree, nil
}

// WriteTask writes the task and what it names into a directory, and returns the
// path of the task.
func (c Case) WriteTask(dir string) (string, error) {
	for name, text := range c.Beside {
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text)); err != nil {
			return "", err
		}
	}
	file := filepath.Join(dir, "task.yaml")
	return file, writeFile(file, []byte(c.Task))
}

func writeFile(path string, content []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing a fixture: %w", err)
	}
	return nil
}
