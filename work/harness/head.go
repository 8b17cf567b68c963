package harness

import (
	"context"
	"encoding/json"
	"fmt"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/verify"
	"remit/work/workspace"
)

// maxPackagesTold bounds the packages in the journal; the layers have them all.
const maxPackagesTold = 500

// OfHead makes the layers of a changed tree where the policy of the base wants that,
// and where the change gives reason to. It returns those of the base, and nil, where
// not.
func (p Preparation) OfHead(ctx context.Context, env task.Environment, base *depend.Prepared,
	head depend.Base) (*depend.Prepared, *evidence.DependenciesOfHead, error) {
	if env.Dependencies != task.DependenciesPrepare || len(env.Prepare) == 0 {
		return base, nil, nil
	}
	store, err := depend.OpenStore(p.Home.EnvironmentsDir())
	if err != nil {
		return nil, nil, err
	}
	b := &depend.Builder{Store: store, Sandbox: p.Sandbox, Upstream: p.Registries, Tell: p.Tell, Clock: p.Clock, Scratch: p.Scratch}
	made, changed, err := b.PrepareHead(ctx, env, base, head)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the dependencies of the change: %w", err)
	}
	if !changed {
		made.Release()
		return base, nil, nil
	}
	made = serve(env, made)
	out := &evidence.DependenciesOfHead{HeadTree: head.Tree, Layers: environmentFacts(env, made).Layers, Packages: []evidence.PackageChange{}}
	tell := func(layer *depend.Layer, how string, list []depend.Delivery) {
		for _, d := range list {
			if len(out.Packages) == maxPackagesTold {
				out.More++
				continue
			}
			out.Packages = append(out.Packages, evidence.PackageChange{Ecosystem: layer.Recipe.Ecosystem, Dir: layer.Recipe.Dir, Change: how,
				Name: d.Name, Version: d.Version, SHA256: d.SHA256})
		}
	}
	for i, l := range made.Layers {
		removed, added := depend.Differences(base.Layers[i], l)
		tell(l, evidence.PackageRemoved, removed)
		tell(l, evidence.PackageAdded, added)
	}
	return made, out, nil
}

// prepareHead makes what lies beside the patched tree, if that is to be something
// else than beside the base, and says so in the journal.
func (r *run) prepareHead(ctx context.Context) error {
	env, err := EnvironmentAt(r.checkout.Dir, r.checks())
	if err != nil {
		return err
	}
	if env.Dependencies != task.DependenciesPrepare || len(env.Prepare) == 0 {
		return nil
	}
	cache, err := workspace.OpenCache(r.Home.CacheDir())
	if err != nil {
		return err
	}
	tree := r.patched.imported.Tree
	head, err := cache.Checkout(ctx, r.store, tree)
	if err != nil {
		return err
	}
	defer head.Release()
	p := Preparation{Home: r.Home, Sandbox: r.Sandbox, Registries: r.Registries, Scratch: r.work, Clock: r.clock,
		Tell: func(line string) { r.output([]byte(line)) }}
	begun := r.clock()
	made, facts, err := p.OfHead(ctx, env, r.prepared, depend.Base{Dir: head.Dir, Tree: tree})
	if err == nil && facts == nil {
		return nil // the change has the dependencies of the base: there is no step to tell of
	}
	s := r.begin(evidence.StepHeadDependencies, "dependencies", nil)
	s.started = begun
	if err != nil {
		s.end(journal.Failed, nil, r.scrub(err.Error()))
		return err
	}
	r.headPrepared = made
	if r.headDiffers(facts) {
		s.end(journal.Failed, nil, "the layers of the change are others than before")
		return reason.Errorf(reason.EnvironmentUnavailable, "preparing the dependencies of the change again: the layers are others than before").WithHint("start it again from its beginning")
	}
	s.end(journal.Completed, facts, fmt.Sprintf("%d package(s) added or removed", len(facts.Packages)+facts.More))
	return nil
}

// headDiffers compares with an earlier life of the run.
func (r *run) headDiffers(now *evidence.DependenciesOfHead) bool {
	was := r.dependenciesOfHead()
	return was != nil && !evidence.SameLayers(was.Layers, now.Layers)
}

// dependenciesOfHead is what the change was verified with in the place of the layers of
// its base, nil for nothing, read from the journal.
func (r *run) dependenciesOfHead() *evidence.DependenciesOfHead {
	var out *evidence.DependenciesOfHead
	for _, e := range r.w.Entries() {
		var was evidence.DependenciesOfHead
		if e.Name == evidence.StepHeadDependencies && e.Status == journal.Completed && json.Unmarshal(e.Outputs, &was) == nil {
			out = &was
		}
	}
	return out
}

// withDependencies has the runs of a plan find other layers.
func withDependencies(plan *verify.Plan, prepared *depend.Prepared) {
	if prepared != nil {
		plan.Layers, plan.PathDirs, plan.Env, plan.Services = prepared.Mounts(), prepared.Programs(), prepared.Variables(), prepared.Served()
	}
}

// headAgain prepares what a run that is verified again had beside its patched tree,
// nil for what lies beside the base, and compares the two.
func (rec *sealed) headAgain(ctx context.Context, p Preparation, at headOf, env task.Environment, base *depend.Prepared,
	again *EnvironmentAgain) (*depend.Prepared, error) {
	if env.Dependencies != task.DependenciesPrepare || len(env.Prepare) == 0 {
		return nil, nil
	}
	tree := *rec.receipt.HeadTree
	head, err := at.trees.Checkout(ctx, at.store, tree)
	if err != nil {
		return nil, err
	}
	defer head.Release()
	made, facts, err := p.OfHead(ctx, env, base, depend.Base{Dir: head.Dir, Tree: tree})
	if err != nil {
		return nil, err
	}
	var was, now []evidence.EnvironmentLayer
	if e := rec.receipt.Environment; e != nil && e.Head != nil {
		was = e.Head.Layers
	}
	if facts != nil {
		again.Head, now = facts, facts.Layers
	}
	if !evidence.SameLayers(was, now) {
		again.differs("the dependencies of the change are in other layers than in the run")
	}
	if facts == nil {
		return nil, nil
	}
	return made, nil
}

// headOf is where the patched tree can be laid out from.
type headOf struct {
	trees *workspace.Cache
	store *workspace.Store
}
