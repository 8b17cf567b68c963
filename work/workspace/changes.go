package workspace

import (
	"context"
	"fmt"
	"io"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

// Changes returns what to do to a checkout of baseTree to have one of headTree: deletions first, then files and links,
// in path order. Subtrees that are equal are not looked at. Contents are read when they are opened, within ctx and
// the life of the store.
func (s *Store) Changes(ctx context.Context, baseTree, headTree string) ([]tree.Change, error) {
	c := &comparer{store: s, ctx: ctx}
	if err := c.dirs("", baseTree, headTree, 0); err != nil {
		return nil, fmt.Errorf("comparing trees %s and %s: %w", baseTree, headTree, err)
	}
	ids := make([]string, 0, len(c.writes))
	for _, e := range c.writes {
		if e.Mode != modeGitlink {
			ids = append(ids, e.ID)
		}
	}
	blobs, err := s.load(ctx, ids)
	if err != nil {
		return nil, err
	}
	changes := c.deletes
	for _, e := range c.writes {
		change, err := s.change(e, blobs[e.ID])
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func (s *Store) change(e Entry, blob git.Edit) (tree.Change, error) {
	switch e.Mode {
	case modeGitlink:
		return tree.Change{Path: e.Path, Kind: tree.Special, Note: "submodule"}, nil
	case modeSymlink:
		target, err := linkText(blob)
		if err != nil {
			return tree.Change{}, fmt.Errorf("reading the symbolic link %q: %w", e.Path, err)
		}
		return tree.Change{Path: e.Path, Kind: tree.Symlink, Size: blob.Size, Target: target}, nil
	}
	return tree.Change{
		Path: e.Path, Kind: tree.File, Executable: e.Mode == modeExec, Size: blob.Size,
		Open: blob.Content,
	}, nil
}

func linkText(blob git.Edit) (string, error) {
	if blob.Size > maxTarget {
		return "", reason.Errorf(reason.RepositoryInvalid, "its target has %d bytes", blob.Size)
	}
	r, err := blob.Content()
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

type comparer struct {
	store   *Store
	ctx     context.Context
	deletes []tree.Change
	writes  []Entry
	visited int // entries looked at
}

// dirs compares two directories; "" stands for one that is not there.
func (c *comparer) dirs(path, before, after string, depth int) error {
	if before == after {
		return nil
	}
	old, err := c.read(before)
	if err != nil {
		return err
	}
	now, err := c.read(after)
	if err != nil {
		return err
	}
	if c.visited += len(old) + len(now); depth > MaxTreeDepth || c.visited > MaxTreeEntries {
		return reason.Errorf(reason.RepositoryInvalid, "the trees have more than %d levels or differ in more than %d entries",
			MaxTreeDepth, MaxTreeEntries)
	}
	was := make(map[string]treeEntry, len(old))
	for _, e := range old {
		was[e.name] = e
	}
	is := make(map[string]bool, len(now))
	for _, e := range now {
		is[e.name] = true
	}
	dir := treeDir{path: path}
	for _, e := range old {
		if !is[e.name] {
			c.deletes = append(c.deletes, tree.Change{Path: dir.join(e.name), Kind: tree.Delete})
		}
	}
	for _, e := range now {
		if err := c.entry(dir.join(e.name), was[e.name], e, depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one name that is in the new directory; before has mode 0 if it was not in the old one.
func (c *comparer) entry(path string, before, after treeEntry, depth int) error {
	if before.id == after.id && plainMode(before.mode) == plainMode(after.mode) {
		return nil
	}
	if err := checkEntryName(path, after.name); err != nil {
		return err
	}
	if before.mode != 0 && before.mode != after.mode && (before.mode == modeDir || after.mode == modeDir || before.mode == modeGitlink) {
		c.deletes = append(c.deletes, tree.Change{Path: path, Kind: tree.Delete})
		before = treeEntry{}
	}
	if after.mode != modeDir {
		c.writes = append(c.writes, Entry{Path: path, Mode: plainMode(after.mode), ID: after.id})
		return nil
	}
	return c.dirs(path, before.id, after.id, depth+1)
}

func (c *comparer) read(id string) ([]treeEntry, error) {
	if id == "" {
		return nil, nil
	}
	return c.store.readDir(c.ctx, id)
}
