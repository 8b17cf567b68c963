package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/work/git"
)

// Looked is what a commit has at a path.
type Looked struct {
	Mode uint32 // as in [Entry]; 0o040000 for a directory, 0 for nothing
	ID   string // of the object
}

// Dir reports whether there is a directory.
func (l Looked) Dir() bool { return l.Mode == modeDir }

// Look says what the commit that rev names has at some paths, in their order. It
// reads the directories on the way and nothing else, so it is cheap in a large
// repository, and does not notice what [Source.Resolve] would refuse. The errors
// are those of Resolve.
func (s *Source) Look(ctx context.Context, rev string, paths []string) ([]Looked, error) {
	looked := make([]Looked, len(paths))
	err := s.glance(ctx, rev, func(b *git.Batch, _, tree string) (err error) {
		for i, p := range paths {
			if looked[i], err = lookAt(b, s.config.format, tree, p); err != nil {
				return err
			}
		}
		return nil
	})
	return looked, err
}

// ReadFile returns the content of a file of the commit that rev names, at most
// MaxReadFile bytes. A path that is not there, or is not a regular file, is an
// error that wraps ErrNoFile, the second ErrNotRegular too; the others are those of
// [Source.Look].
func (s *Source) ReadFile(ctx context.Context, rev, path string) (content []byte, err error) {
	err = s.glance(ctx, rev, func(b *git.Batch, _, tree string) error {
		at, err := lookAt(b, s.config.format, tree, path)
		if err != nil {
			return err
		}
		switch at.Mode {
		case modeFile, modeExec:
		case 0:
			return fmt.Errorf("%q in tree %s: %w", path, tree, ErrNoFile)
		default:
			return fmt.Errorf("%q in tree %s: %w", path, tree, ErrNotRegular)
		}
		_, content, err = b.Read(at.ID, MaxReadFile)
		return err
	})
	return content, err
}

// CommitText returns the commit that rev names as git keeps it: headers, an empty line and
// the message, together at most MaxReadFile bytes. The errors are those of [Source.Look].
func (s *Source) CommitText(ctx context.Context, rev string) (text []byte, err error) {
	err = s.glance(ctx, rev, func(b *git.Batch, commit, _ string) error {
		_, text, err = b.Read(commit, MaxReadFile)
		return err
	})
	return text, err
}

// glance finds the commit that rev names, and calls f with it and its tree.
func (s *Source) glance(ctx context.Context, rev string, f func(b *git.Batch, commit, tree string) error) error {
	return s.at(rev, func(d git.Dir, refs *refSnapshot, rev string) error {
		_, id, err := s.lookup(ctx, d, refs, rev)
		if err != nil {
			return err
		}
		b, err := d.Batch(ctx)
		if err != nil {
			return err
		}
		defer b.Close()
		commit, tree, err := s.commit(b, refs, rev, id)
		if err != nil {
			return err
		}
		return f(b, commit, tree)
	})
}

func lookAt(b *git.Batch, format git.Format, tree, path string) (Looked, error) {
	at := Looked{Mode: modeDir, ID: tree}
	for name := range strings.SplitSeq(path, "/") {
		if !at.Dir() {
			return Looked{}, nil
		}
		dirs, err := readTrees(b, format, []string{at.ID})
		if err != nil {
			return Looked{}, err
		}
		e, _ := lookup(dirs[at.ID], name)
		at = Looked{Mode: plainMode(e.mode), ID: e.id}
	}
	return at, nil
}

// Holding finds contents in the tree of a baseline, by the ids of their blobs
// ([git.Format.Sum]). It returns the path of the first file, in bytewise order,
// for each id that the tree has. Links hold their target, not what it names.
func (s *Source) Holding(ctx context.Context, base Baseline, ids []string) (map[string]string, error) {
	paths := map[string]string{}
	err := s.probe(nil, func(d git.Dir) error {
		b, err := d.Batch(ctx)
		if err != nil {
			return err
		}
		defer b.Close()
		dirs, err := walkTree(b, d.Format, base.Tree)
		if err != nil {
			return err
		}
		for _, e := range flatten(dirs) {
			if _, found := paths[e.ID]; !found && slices.Contains(ids, e.ID) && (e.Mode == modeFile || e.Mode == modeExec) {
				paths[e.ID] = e.Path
			}
		}
		return nil
	})
	return paths, err
}

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
