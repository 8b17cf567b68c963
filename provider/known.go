package provider

import (
	"context"
	"sync"

	"remit/work/workspace"
)

// maxKnown bounds the memory of known; a commit that was forgotten costs git
// processes again, nothing else.
const maxKnown = 1024

// known remembers the tree of each commit that was laid out from a repository
// of this machine, so that the next job over it starts without git, whose
// processes were half of the time to the first command. A commit is only taken
// from here while a ref of its repository still points at it.
type known struct {
	mu    sync.Mutex
	trees map[commitOf]string
}

// commitOf is a commit of one repository: another one's tree is not lent, even
// if it would be the same.
type commitOf struct{ gitDir, id string }

// find returns the tree of a revision if it is known and still in the cache. All
// that is wrong is left to the long way, which says so.
func (k *known) find(ctx context.Context, cache *workspace.Cache, source *workspace.Source, revision string) *tree {
	id, err := source.Names(revision)
	if err != nil || id == "" {
		return nil
	}
	k.mu.Lock()
	treeID := k.trees[commitOf{source.GitDir(), id}]
	k.mu.Unlock()
	if treeID == "" {
		return nil
	}
	c, err := cache.Find(ctx, treeID)
	if err != nil || c == nil {
		return nil
	}
	return &tree{c.Dir, treeID, c.Release}
}

// keep remembers what a revision was laid out as.
func (k *known) keep(source *workspace.Source, base workspace.Baseline) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trees == nil || len(k.trees) >= maxKnown {
		k.trees = map[commitOf]string{}
	}
	k.trees[commitOf{source.GitDir(), base.Commit}] = base.Tree
}
