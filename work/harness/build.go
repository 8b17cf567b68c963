package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/workspace"
)

// EnvironmentBuild makes the environment of a commit without a run.
type EnvironmentBuild struct {
	Home       session.Home
	Repo       string // only read
	Base       string // revision, "" for HEAD
	Sandbox    sandbox.Driver
	Registries Registries
	Tell       func(line string) // nil for nowhere
	Clock      func() time.Time
}

// BuiltEnvironment is what came of it.
type BuiltEnvironment struct {
	BaselineCommit string                       `json:"baseline_commit"`
	Environment    evidence.EnvironmentPrepared `json:"environment"`
}

// BuildEnvironment makes the layers that the policy of a commit wants, or finds
// them in the store: what a run does before its engine begins.
func BuildEnvironment(ctx context.Context, req EnvironmentBuild) (*BuiltEnvironment, error) {
	source, err := workspace.OpenSource(ctx, req.Repo)
	if err != nil {
		return nil, err
	}
	base, err := source.Resolve(ctx, req.Base)
	if err != nil {
		return nil, err
	}
	if err := req.Home.Prepare(); err != nil {
		return nil, err
	}
	if err := req.Home.Distrust(req.Sandbox); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(req.Home.WorkDir(), "environment-")
	if err != nil {
		return nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a temporary directory
	store, err := workspace.NewStore(ctx, filepath.Join(work, "store.git"), source, base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // its directory goes anyway
	cache, err := workspace.OpenCache(req.Home.CacheDir())
	if err != nil {
		return nil, err
	}
	checkout, err := cache.Checkout(ctx, store, base.Tree)
	if err != nil {
		return nil, err
	}
	defer checkout.Release()
	env := environmentAt(checkout.Dir)
	if len(env.Prepare) == 0 && env.Image == "" {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "remit.yaml of the base commit prepares nothing").
			WithHint("write environment: {prepare: [{ecosystem: npm}]} into remit.yaml and commit it; docs/environments.md has the keys")
	}
	in, image, err := inImage(ctx, req.Home, req.Sandbox, env)
	if err != nil {
		return nil, err
	}
	p := preparation{home: req.Home, sandbox: in, registries: req.Registries, scratch: work, clock: req.Clock, tell: req.Tell}
	prepared, err := p.layers(ctx, env, depend.Base{Dir: checkout.Dir, Tree: base.Tree})
	if err != nil {
		return nil, err
	}
	defer prepared.Release()
	facts := environmentFacts(env, prepared)
	facts.Image = image
	return &BuiltEnvironment{base.Commit, facts}, nil
}
