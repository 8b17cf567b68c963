package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
)

// Entry is one path of a tree that is not a directory.
type Entry struct {
	Path string
	Mode uint32 // 0o100644, 0o100755, 0o120000 (symbolic link) or 0o160000 (submodule)
	ID   string
}

// MaxReadFile bounds ReadFile.
const MaxReadFile = 64 << 20

// maxParsedTrees bounds the parsed trees that a store remembers.
const maxParsedTrees = 8192

// List returns everything in a tree, in bytewise path order.
func (s *Store) List(ctx context.Context, tree string) ([]Entry, error) {
	var dirs []treeDir
	err := s.with(ctx, func(b *git.Batch) (err error) {
		dirs, err = walkTree(b, s.git.Format, tree)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing tree %s: %w", tree, err)
	}
	return flatten(dirs), nil
}

func flatten(dirs []treeDir) []Entry {
	var entries []Entry
	for _, dir := range dirs {
		for _, e := range dir.entries {
			if e.mode != modeDir {
				entries = append(entries, Entry{Path: dir.join(e.name), Mode: plainMode(e.mode), ID: e.id})
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return entries
}

func plainMode(mode uint32) uint32 {
	if mode == modeGroup {
		return modeFile
	}
	return mode
}

// ReadFile returns the content of a file of a tree, at most MaxReadFile bytes. A path that is not there, or is not a
// regular file, is an error that wraps ErrNoFile.
func (s *Store) ReadFile(ctx context.Context, tree, path string) ([]byte, error) {
	found, err := s.find(ctx, tree, path)
	if err != nil {
		return nil, err
	}
	if m := plainMode(found.entry.mode); m != modeFile && m != modeExec {
		return nil, fmt.Errorf("%q in tree %s: %w", path, tree, ErrNoFile)
	}
	return s.read(ctx, found.entry.id, MaxReadFile)
}

// ErrNoFile reports a path that is not a regular file of a tree.
var ErrNoFile = fmt.Errorf("no such file")

// ErrNotRegular reports a path of a tree that is there and no regular file, such as a
// link. It is an ErrNoFile too.
var ErrNotRegular = fmt.Errorf("not a regular file: %w", ErrNoFile)

// Has says whether a tree has a file or link at path.
func (s *Store) Has(ctx context.Context, tree, path string) (bool, error) {
	at, err := s.find(ctx, tree, path)
	return err == nil && at.entry.mode != 0 && at.entry.mode != modeDir, err
}

// readDir parses one tree object and remembers it: what Import and Apply ask for lies close together.
func (s *Store) readDir(ctx context.Context, id string) ([]treeEntry, error) {
	if id == s.git.Format.EmptyTree() {
		return nil, nil
	}
	s.treesMu.Lock()
	entries, ok := s.trees[id]
	s.treesMu.Unlock()
	if ok {
		return entries, nil
	}
	err := s.with(ctx, func(b *git.Batch) error {
		parsed, err := readTrees(b, s.git.Format, []string{id})
		entries = parsed[id]
		return err
	})
	if err != nil {
		return nil, err
	}
	s.treesMu.Lock()
	defer s.treesMu.Unlock()
	if len(s.trees) >= maxParsedTrees {
		clear(s.trees)
	}
	s.trees[id] = entries
	return entries, nil
}

// lookup finds a name by bisection. Directories are sorted as if a slash followed, so there are two places to look.
func lookup(entries []treeEntry, name string) (treeEntry, bool) {
	for _, key := range []string{name, name + "/"} {
		k, ok := slices.BinarySearchFunc(entries, key, func(e treeEntry, key string) int { return strings.Compare(e.sortKey(), key) })
		if ok {
			return entries[k], true
		}
	}
	return treeEntry{}, false
}

// found is where a path leads in a tree.
type found struct {
	entry treeEntry // mode 0: nothing
	// blocker is set when a component before the last is no directory: its path and entry.
	blockerPath string
	blocker     treeEntry
}

func (s *Store) find(ctx context.Context, tree, path string) (found, error) {
	parts := strings.Split(path, "/")
	id := tree
	for i, name := range parts {
		entries, err := s.readDir(ctx, id)
		if err != nil {
			return found{}, err
		}
		e, ok := lookup(entries, name)
		switch {
		case !ok:
			return found{}, nil
		case i == len(parts)-1:
			return found{entry: e}, nil
		case e.mode != modeDir:
			return found{blockerPath: strings.Join(parts[:i+1], "/"), blocker: e}, nil
		}
		id = e.id
	}
	return found{}, reason.Errorf(reason.PathUnrepresentable, "path %q is empty", path)
}
