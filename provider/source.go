package provider

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

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
