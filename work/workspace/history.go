package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

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
