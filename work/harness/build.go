package harness

import (
	"context"
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
	base, err := OpenBase(ctx, req.Home, source, req.Base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }() // its directory is a temporary one
	if err := req.Home.Distrust(req.Sandbox); err != nil {
		return nil, err
	}
	env, err := EnvironmentAt(base.checkout.Dir, false)
	if err != nil {
		return nil, err
	}
	if len(env.Prepare) == 0 && env.Image == "" {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "remit.yaml of the base commit prepares nothing").
			WithHint("write environment: {prepare: [{ecosystem: npm}]} into remit.yaml and commit it; docs/environments.md has the keys")
	}
	p := Preparation{Home: req.Home, Sandbox: req.Sandbox, Registries: req.Registries, Scratch: base.work, Clock: req.Clock, Tell: req.Tell}
	made, err := p.Make(ctx, env, depend.Base{Dir: base.checkout.Dir, Tree: base.Tree})
	if err != nil {
		return nil, err
	}
	defer made.Prepared.Release()
	return &BuiltEnvironment{base.Commit, made.Facts}, nil
}
