package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxWorktrees bounds what is listed of one repository.
const maxWorktrees = 1_000

// Worktree is one work tree of a repository.
type Worktree struct {
	Path   string // "" where its entry cannot be read
	Main   bool   // it is that of the repository itself, no linked one
	Head   string // the branch by its full name, or a commit; "" where it cannot be read
	Locked bool
	Gone   bool     // what its entry names is not there, or does not point back
	Begun  []string // operations that are not finished, such as a merge
	UID    int      // the owner of the directory, -1 where it is not there
}

// unfinished are files of a git directory that stand there while an operation is not finished.
var unfinished = []struct{ file, what string }{
	{"index.lock", "the index is locked by another process"}, {"MERGE_HEAD", "a merge"}, {"rebase-merge", "a rebase"}, {"rebase-apply", "a rebase"},
	{"CHERRY_PICK_HEAD", "a cherry-pick"}, {"REVERT_HEAD", "a revert"}, {"BISECT_LOG", "a bisection"},
}

// Common is the directory with the refs and objects, which all work trees of a repository share.
func (s *Source) Common() string { return s.loc.common }

// Worktrees lists the work trees of the repository by looking at files: its own first, then those that are linked to it.
func (s *Source) Worktrees() ([]Worktree, error) {
	var all []Worktree
	if filepath.Base(s.loc.common) == ".git" {
		all = append(all, lookAtWorktree(filepath.Dir(s.loc.common), s.loc.common, true))
	} else if !s.Bare() && s.loc.gitDir == s.loc.common { // of a submodule
		all = append(all, lookAtWorktree(s.loc.worktree, s.loc.common, true))
	}
	dir := filepath.Join(s.loc.common, "worktrees")
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, invalid(dir, "listing the work trees: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxWorktrees + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid(dir, "listing the work trees: %w", err)
	}
	if len(names) > maxWorktrees {
		return nil, invalid(dir, "it has more than %d work trees", maxWorktrees)
	}
	slices.Sort(names)
	for _, name := range names {
		entry := filepath.Join(dir, name)
		path := ""
		if back, err := readLine(filepath.Join(entry, "gitdir")); err == nil && back != "" {
			path = filepath.Dir(absolute(entry, back))
		}
		all = append(all, lookAtWorktree(path, entry, false))
	}
	return all, nil
}

func lookAtWorktree(path, gitDir string, main bool) Worktree {
	w := Worktree{Path: path, Main: main, UID: -1}
	w.Head, _ = readHead(gitDir) // "" says that it cannot be read
	w.Head = strings.TrimPrefix(w.Head, "ref: ")
	if _, err := os.Lstat(filepath.Join(gitDir, "locked")); err == nil {
		w.Locked = true
	}
	for _, u := range unfinished {
		if _, err := os.Lstat(filepath.Join(gitDir, u.file)); err == nil {
			w.Begun = append(w.Begun, u.what)
		}
	}
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil {
		w.Gone = true
		return w
	}
	w.UID = int(st.Uid)
	if !main {
		back, err := readLine(filepath.Join(path, ".git"))
		target, ok := strings.CutPrefix(back, "gitdir: ")
		w.Gone = err != nil || !ok || !sameFile(absolute(path, target), gitDir)
	}
	return w
}
