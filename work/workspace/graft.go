package workspace

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remit/work/git"
)

// graft computes the id of the tree that edits give when they are laid over base, in their order, without writing
// anything. Every edit but a deletion names an object by its id. It reads the directories on the way to the edits only.
func (s *Store) graft(ctx context.Context, base string, edits []git.Edit) (string, error) {
	top := &graftNode{}
	for _, e := range edits {
		if err := top.add(e); err != nil {
			return "", err
		}
	}
	after, err := s.grafted(ctx, top, treeEntry{mode: modeDir, id: base})
	if err == nil && after.mode == 0 {
		after.id = s.git.Format.EmptyTree()
	}
	return after.id, err
}

// graftNode is what becomes of one name.
type graftNode struct {
	fresh    bool      // what the base has here counts no more
	entry    treeEntry // mode 0: a directory, if there are children
	children map[string]*graftNode
}

func (n *graftNode) add(e git.Edit) error {
	for part := range strings.SplitSeq(e.Path, "/") {
		if n.entry.mode != 0 { // a file gives way to a directory
			n.entry = treeEntry{}
		}
		if n.children == nil {
			n.children = map[string]*graftNode{}
		}
		next := n.children[part]
		if next == nil {
			next = &graftNode{}
			n.children[part] = next
		}
		n = next
	}
	*n = graftNode{fresh: true}
	if e.Delete {
		return nil
	}
	mode, err := strconv.ParseUint(e.Mode, 8, 32)
	if err != nil || e.ID == "" {
		return fmt.Errorf("grafting %q: mode %q, id %q", e.Path, e.Mode, e.ID)
	}
	n.entry = treeEntry{mode: uint32(mode), id: e.ID}
	return nil
}

// grafted returns what stands in the place of before; mode 0 is nothing.
func (s *Store) grafted(ctx context.Context, n *graftNode, before treeEntry) (treeEntry, error) {
	if n.fresh {
		before = treeEntry{}
	}
	if n.entry.mode != 0 {
		return n.entry, nil
	}
	var was []treeEntry
	if before.mode == modeDir {
		var err error
		if was, err = s.readDir(ctx, before.id); err != nil {
			return treeEntry{}, err
		}
	}
	entries := make([]treeEntry, 0, len(was)+len(n.children))
	for _, e := range was {
		if n.children[e.name] == nil {
			entries = append(entries, e)
		}
	}
	for name, child := range n.children {
		old, _ := lookup(was, name)
		e, err := s.grafted(ctx, child, old)
		if err != nil {
			return treeEntry{}, err
		}
		if e.mode != 0 {
			e.name = name
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 && before.mode != modeDir {
		return before, nil // a file below which something was deleted
	}
	if len(entries) == 0 {
		return treeEntry{}, nil
	}
	raw, err := encodeTree(entries)
	return treeEntry{mode: modeDir, id: s.git.Format.Sum("tree", raw)}, err
}

// encodeTree writes a tree object, sorted as git sorts.
func encodeTree(entries []treeEntry) ([]byte, error) {
	slices.SortFunc(entries, func(a, b treeEntry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	var raw []byte
	for _, e := range entries {
		id, err := hex.DecodeString(e.id)
		if err != nil {
			return nil, fmt.Errorf("writing a tree: id %q of %q", e.id, e.name)
		}
		raw = append(strconv.AppendUint(raw, uint64(e.mode), 8), ' ')
		raw = append(append(append(raw, e.name...), 0), id...)
	}
	return raw, nil
}
