package workspace

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
)

// MaxHistory bounds the commits that are looked at between a base and a head.
const MaxHistory = 1000

// History is how a commit came from the baseline.
type History struct {
	Head, HeadTree string
	Base, BaseTree string       // the commit from which the two have gone apart; the baseline itself where the head goes on from it
	Authors        []git.Signed // of the commits between, the newest first, each once
	Commits        int          // at most MaxHistory
}

// History looks up how the commit head came from the baseline. The error is
// base_not_found where the store has no such commit, or the two none in common.
func (s *Store) History(ctx context.Context, head string) (History, error) {
	h := History{}
	if !s.git.Format.IsID(head) {
		return h, reason.Errorf(reason.BaseNotFound, "%.100q is not a full commit id", head)
	}
	commit := func(id string) (commit, tree string, err error) {
		err = s.with(ctx, func(b *git.Batch) error {
			commit, tree, err = readCommit(b, s.git.Format, id)
			return err
		})
		if errors.Is(err, errNoCommit) {
			err = reason.Errorf(reason.BaseNotFound, "%s is not a commit", id)
		}
		return commit, tree, err
	}
	var err error
	if h.Head, h.HeadTree, err = commit(head); err != nil {
		return h, err
	}
	if h.Base, err = s.git.MergeBase(ctx, s.base.Commit, h.Head); errors.Is(err, git.ErrNotFound) {
		e := reason.Errorf(reason.BaseNotFound, "the head %s has no commit in common with the base %s", h.Head, s.base.Commit)
		if s.base.Shallow {
			return h, e.WithHint("the clone is shallow: `git fetch --unshallow` gets the rest of its history (actions/checkout: fetch-depth: 0)")
		}
		return h, e.WithHint("name a base that the head was made from")
	}
	if err != nil {
		return h, err
	}
	if h.Base, h.BaseTree, err = commit(h.Base); err != nil {
		return h, err
	}
	authors, err := s.git.Authors(ctx, h.Base, h.Head, MaxHistory)
	if err != nil {
		return h, err
	}
	h.Commits = len(authors)
	seen := map[git.Signed]bool{}
	for _, a := range authors {
		if !seen[a] {
			seen[a], h.Authors = true, append(h.Authors, a)
		}
	}
	return h, nil
}

// Rebase lays the difference between the trees from and to over the baseline, as a
// patch without fuzz, and returns the new tree. A difference of more than limit bytes
// is change_too_large; one that does not apply is patch_invalid.
func (s *Store) Rebase(ctx context.Context, from, to string, limit int64) (string, error) {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		_, err := s.Diff(ctx, from, to, &bounded{w, limit})
		w.CloseWithError(err)
		written <- err
	}()
	tree, err := s.Apply(ctx, s.base.Tree, r)
	r.CloseWithError(io.ErrClosedPipe)
	if diffErr := <-written; diffErr != nil && !errors.Is(diffErr, io.ErrClosedPipe) {
		return "", diffErr
	}
	return tree, err
}

type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, reason.Errorf(reason.ChangeTooLarge, "the change is larger than a run takes")
	}
	return b.w.Write(p)
}

// Receive checks a pack of commits from elsewhere strictly and keeps it in the store.
func (s *Store) Receive(ctx context.Context, pack io.Reader) error {
	var first [4]byte
	if _, err := io.ReadFull(pack, first[:]); err != nil || string(first[:]) != "PACK" {
		return reason.Errorf(reason.RepositoryInvalid, "what was fetched is not a pack")
	}
	if err := s.git.IndexPack(ctx, io.MultiReader(bytes.NewReader(first[:]), pack)); err != nil {
		return fmt.Errorf("checking the commits that were fetched: %w", err)
	}
	return nil
}

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
