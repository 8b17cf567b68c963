package provider

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"remit/law/job"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// tree is the checked out repository of a job.
type tree struct {
	dir   string
	id    string // its name in git
	close func()
}

// checkout makes the tree of a job from its source. Errors with a reason code
// are the job's but for those that blamesJob leaves out, others this machine's.
func (d *Daemon) checkout(ctx context.Context, runID string, repo job.Repo, scratch string) (*tree, error) {
	if repo.Source == "" {
		return nil, reason.Errorf(reason.JobInvalid, "the job names no repository")
	}
	if repo.MountPath != sandbox.WorkspacePath {
		return nil, reason.Errorf(reason.JobInvalid, "the tree can only be mounted at %s", sandbox.WorkspacePath)
	}
	digest, sent := strings.CutPrefix(repo.Source, artifactScheme)
	var source *workspace.Source
	var err error
	if sent {
		source, err = d.received(ctx, runID, digest, repo, scratch)
	} else {
		source, err = d.lent(ctx, repo.Source)
	}
	if err != nil {
		return nil, err
	}
	revision := "HEAD"
	if repo.GitRef != nil {
		revision = *repo.GitRef
	}
	if t := d.known.find(ctx, d.cache, source, revision); t != nil {
		return t, nil
	}
	base, err := source.Resolve(ctx, revision)
	if err != nil {
		return nil, err
	}
	store, err := workspace.NewStore(ctx, filepath.Join(scratch, "store"), source, base)
	if err != nil {
		return nil, err
	}
	c, err := d.cache.Checkout(ctx, store, base.Tree)
	if err != nil {
		_ = store.Close() // its directory goes with the scratch directory
		return nil, err
	}
	if !sent {
		d.known.keep(source, base)
	}
	return &tree{c.Dir, base.Tree, func() {
		c.Release()
		_ = store.Close()
		if sent {
			d.trimTrees(ctx)
		}
	}}, nil
}

// lent opens a repository below one of the allowed directories.
func (d *Daemon) lent(ctx context.Context, source string) (*workspace.Source, error) {
	path, err := d.allowed(source)
	if err != nil {
		return nil, err
	}
	s, err := workspace.OpenSourceIn(ctx, path, d.sources)
	if err != nil {
		return nil, err
	}
	// A directory inside a larger repository is not a repository of its own: git
	// climbs, and what it finds further up was never opened to anybody.
	if _, err := d.allowed(s.Root()); err != nil {
		return nil, reason.Errorf(reason.Forbidden, "this provider may not read the repository that %q is a part of", source).
			WithHint("the provider's operator allows directories with --source")
	}
	return s, nil
}

// allowed resolves a source and holds it against the directories that the
// operator opened. The message does not tell what lies elsewhere.
func (d *Daemon) allowed(source string) (string, error) {
	refused := reason.Errorf(reason.Forbidden, "this provider may not read the repository %q", source).
		WithHint("the provider's operator allows directories with --source")
	source = strings.TrimPrefix(source, "file://")
	if !filepath.IsAbs(source) {
		return "", refused
	}
	path, err := filepath.EvalSymlinks(source)
	if err != nil {
		return "", refused
	}
	if slices.ContainsFunc(d.sources, func(root string) bool {
		rel, err := filepath.Rel(root, path)
		return err == nil && filepath.IsLocal(rel)
	}) {
		return path, nil
	}
	return "", refused
}

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
