package workspace

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/work/git"
)

// Dirty returns the tracked paths that differ from HEAD, staged or not, in order; empty means clean. Untracked files do
// not count. No hook, filter or driver runs:
//
//   - Index against HEAD is a comparison of ids, made here.
//   - Work tree against index trusts stat data as git does (with git's rule for files as young as the index), and
//     else hashes the file.
//   - A file whose bytes differ still counts as clean if it equals its blob after CRLF became LF (autocrlf and eol
//     attributes do that), or if it is what the LFS pointer in the blob stands for. A change of line ends alone is
//     therefore not seen. Contents that another filter, ident or working-tree-encoding made count as dirty once
//     their stat data is stale; `git status` in the repository refreshes it.
//   - Paths marked skip-worktree or assume-unchanged are only compared in the index. Submodules are compared by the
//     recorded commit; what is in them is not looked at (Baseline names them).
func (s *Source) Dirty(ctx context.Context) ([]string, error) {
	if s.Bare() {
		return nil, nil
	}
	refs, err := readRefs(s.loc, s.config.format)
	if err != nil {
		return nil, err
	}
	var dirty []string
	err = s.probe(nil, func(d git.Dir) error {
		head, err := headEntries(ctx, d, refs)
		if err != nil {
			return err
		}
		blind := d
		blind.Alternates = nil // git writes here: it must not see the source's objects
		rewrite := func() error { return blind.NormalizeIndex(ctx) }
		index, written, err := s.readIndex(rewrite, d.Path)
		if err != nil {
			return err
		}
		dirty, err = s.compareAll(ctx, d, head, index, written)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("comparing the work tree with HEAD: %w", err)
	}
	return dirty, nil
}

// headEntries lists HEAD's tree by path, directories with a trailing slash as in a sparse index; an unborn HEAD has none.
func headEntries(ctx context.Context, d git.Dir, refs *refSnapshot) (map[string]Entry, error) {
	entries := map[string]Entry{}
	_, id := refs.headRef()
	if id == "" {
		return entries, nil
	}
	b, err := d.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	_, tree, err := readCommit(b, d.Format, id)
	if errors.Is(err, errNoCommit) {
		return nil, invalid("HEAD", "%w", err)
	}
	if err != nil {
		return nil, err
	}
	dirs, err := walkTree(b, d.Format, tree)
	for _, dir := range dirs {
		for _, e := range dir.entries {
			path := dir.join(e.name)
			if e.mode == modeDir {
				path += "/"
			}
			entries[path] = Entry{Path: path, Mode: plainMode(e.mode), ID: e.id}
		}
	}
	return entries, err
}

func (s *Source) compareAll(ctx context.Context, d git.Dir, head map[string]Entry, index []indexEntry, written time.Time) ([]string, error) {
	files, err := openDirStack(s.loc.worktree)
	if err != nil {
		return nil, err
	}
	defer files.close()
	c := &treeComparer{source: s, files: files, written: written}
	var dirty []string
	var suspects []indexEntry
	collapsed := map[string]bool{} // directories of a sparse index
	for _, e := range index {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		was, known := head[e.path]
		delete(head, e.path)
		if e.mode == modeDir { // it stands for everything below it
			collapsed[e.path] = true
		}
		switch {
		case e.stage != 0 || e.intentToAdd || !known || was.ID != e.id || was.Mode != plainMode(e.mode):
			dirty = append(dirty, e.path)
		case e.mode == modeDir || e.mode == modeGitlink || e.skipWorktree || e.assumeValid:
		default:
			state, err := c.compare(e)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", e.path, err)
			}
			switch state {
			case differs:
				dirty = append(dirty, e.path)
			case suspicious:
				suspects = append(suspects, e)
			case same:
			}
		}
	}
	for p, e := range head { // in HEAD and not in the index
		if e.Mode != modeDir && !below(collapsed, p) {
			dirty = append(dirty, p)
		}
	}
	changed, err := c.withoutLFS(ctx, d, suspects)
	dirty = append(dirty, changed...)
	slices.Sort(dirty)
	return slices.Compact(dirty), err
}

// below says whether one of the directories, written with a trailing slash, is above p.
func below(dirs map[string]bool, p string) bool {
	for i := range len(p) {
		if p[i] == '/' && dirs[p[:i+1]] {
			return true
		}
	}
	return false
}

// dirStack keeps the directories above the current path open, each opened from its parent without following a
// symbolic link: what is behind one is not the tracked file.
type dirStack struct {
	fds   []int // fds[0] is the top of the work tree
	names []string
}

func openDirStack(root string) (*dirStack, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", root, err)
	}
	return &dirStack{fds: []int{fd}}, nil
}

func (d *dirStack) close() {
	for _, fd := range d.fds {
		closeFD(fd)
	}
}

// enter opens the directory of p and returns it with the last name of p.
func (d *dirStack) enter(p string) (fd int, name string, err error) {
	var want []string
	if dir := path.Dir(p); dir != "." {
		want = strings.Split(dir, "/")
	}
	same := 0
	for same < min(len(want), len(d.names)) && want[same] == d.names[same] {
		same++
	}
	for len(d.names) > same {
		closeFD(d.fds[len(d.fds)-1])
		d.fds, d.names = d.fds[:len(d.fds)-1], d.names[:len(d.names)-1]
	}
	for _, part := range want[same:] {
		fd, err := unix.Openat(d.fds[len(d.fds)-1], part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, "", err
		}
		d.fds, d.names = append(d.fds, fd), append(d.names, part)
	}
	return d.fds[len(d.fds)-1], path.Base(p), nil
}
