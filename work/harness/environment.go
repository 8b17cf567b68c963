package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/session"
)

// Registries say where the registry of an ecosystem is, and how it is entered. It
// is asked outside of any sandbox, when something has to be fetched.
type Registries func(context.Context, registry.Ecosystem) (registry.Upstream, error)

// EnvironmentAt reads what the policy in a checkout of the base says of the
// environment. Without a policy there is none, and a check has what is detected. A
// policy that cannot be read is an error: it may set a rule that cannot be read.
func EnvironmentAt(checkout string, checks bool) (none task.Environment, err error) {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return none, err
	}
	defer root.Close()
	info, err := root.Lstat(task.PolicyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if !checks {
			return none, nil
		}
		policy, err := DetectedPolicy(root.FS())
		if err != nil {
			return none, err
		}
		return policy.Surroundings(), nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = &reason.Error{Code: reason.ContractUnreadable, Message: "it is no regular file", File: task.PolicyFile,
			Hint: "a repository's policy is a file of its own: commit one, or remove what is there"}
	}
	if err != nil {
		return none, err
	}
	f, err := root.Open(task.PolicyFile)
	if err != nil {
		return none, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, task.MaxSourceBytes+1))
	if err != nil {
		return none, err
	}
	policy, err := task.ParsePolicy(task.PolicyFile, text)
	if err != nil {
		return none, err
	}
	return policy.Surroundings(), nil
}

// Preparation is what environments are made with.
type Preparation struct {
	Home       session.Home
	Sandbox    sandbox.Driver
	Registries Registries
	Scratch    string
	Clock      func() time.Time
	Tell       func(line string) // nil for nowhere
}

// layers returns the layers of an environment, from the store or made now. It is
// not nil, and holds nothing, where the environment has none.
func (p Preparation) layers(ctx context.Context, env task.Environment, base depend.Base) (*depend.Prepared, error) {
	if err := servable(env, p.Sandbox); err != nil {
		return nil, err
	}
	if len(env.Prepare) == 0 {
		return serve(env, &depend.Prepared{Env: env.Env}), nil
	}
	store, err := depend.OpenStore(p.Home.EnvironmentsDir())
	if err != nil {
		return nil, err
	}
	b := &depend.Builder{Store: store, Sandbox: p.Sandbox, Upstream: p.Registries, Tell: p.Tell, Clock: p.Clock, Scratch: p.Scratch}
	prepared, err := b.Prepare(ctx, env, base)
	if err != nil {
		return nil, err
	}
	return serve(env, prepared), nil
}

// Surroundings are an environment that was made.
type Surroundings struct {
	Sandbox  sandbox.Driver // with the root of the image
	Prepared *depend.Prepared
	Facts    evidence.EnvironmentPrepared
}

// Make makes an environment: its root, its layers, and what there is to say of them.
func (p Preparation) Make(ctx context.Context, env task.Environment, base depend.Base) (*Surroundings, error) {
	in, image, err := inImage(ctx, p.Home, p.Sandbox, env)
	if err != nil {
		return nil, err
	}
	p.Sandbox = in
	services, err := serviceFacts(env.Services)
	if err != nil {
		return nil, err
	}
	prepared, err := p.layers(ctx, env, base)
	if err != nil {
		return nil, fmt.Errorf("preparing the environment: %w", err)
	}
	facts := environmentFacts(env, prepared)
	facts.Image, facts.Services = image, services
	return &Surroundings{in, prepared, facts}, nil
}

// prepareEnvironment makes what the policy of the base wants beside the tree,
// before the engine begins, and says so in the journal.
func (r *run) prepareEnvironment(ctx context.Context) error {
	env, err := EnvironmentAt(r.checkout.Dir, r.checks())
	if err != nil {
		return err
	}
	if env.Empty() {
		r.prepared = &depend.Prepared{}
		return nil
	}
	if err := servable(env, r.Sandbox); err != nil {
		return err
	}
	s := r.begin(evidence.StepEnvironment, "environment", nil)
	p := Preparation{Home: r.Home, Sandbox: r.Sandbox, Registries: r.Registries, Scratch: r.work, Clock: r.clock,
		Tell: func(line string) { r.output([]byte(line)) }}
	made, err := p.Make(ctx, env, depend.Base{Dir: r.checkout.Dir, Tree: r.base.Tree})
	if err != nil {
		s.end(journal.Failed, nil, r.scrub(err.Error()))
		return err
	}
	r.Sandbox, r.prepared = made.Sandbox, made.Prepared
	if why := r.environmentDiffers(made.Facts); why != "" {
		s.end(journal.Failed, nil, why)
		return reason.Errorf(reason.EnvironmentUnavailable, "preparing the environment again: %s", why).
			WithHint("start it again from its beginning: a change is verified with what was prepared first")
	}
	s.end(journal.Completed, made.Facts, fmt.Sprintf("%d layer(s)", len(made.Prepared.Layers)))
	return nil
}

// environmentDiffers says why the environment is not that of an earlier life of
// the run, "" if it is or there was none.
func (r *run) environmentDiffers(now evidence.EnvironmentPrepared) string {
	for _, e := range r.w.Entries() {
		var was evidence.EnvironmentPrepared
		if e.Name != evidence.StepEnvironment || e.Status != journal.Completed || json.Unmarshal(e.Outputs, &was) != nil {
			continue
		}
		if a, b := imageText(was.Image), imageText(now.Image); a != b {
			return fmt.Sprintf("the image was %s, and is %s here", a, b)
		}
		if len(was.Layers) != len(now.Layers) {
			return fmt.Sprintf("the run had %d layer(s), and here are %d", len(was.Layers), len(now.Layers))
		}
		if why := servicesDiffer(was.Services, now.Services); why != "" {
			return why
		}
		for i := range now.Layers {
			if was.Layers[i].Key != now.Layers[i].Key || was.Layers[i].ContentSHA256 != now.Layers[i].ContentSHA256 {
				return fmt.Sprintf("the layer of %s in %s is another one than before", now.Layers[i].Ecosystem, now.Layers[i].Dir)
			}
		}
	}
	return ""
}

// environmentFacts is an environment as the journal has it.
func environmentFacts(env task.Environment, prepared *depend.Prepared) evidence.EnvironmentPrepared {
	out := evidence.EnvironmentPrepared{Dependencies: string(env.Dependencies), Env: env.Variables(),
		Layers: []evidence.EnvironmentLayer{}, Blockers: []evidence.Blocker{}}
	for i, l := range prepared.Layers {
		layer := evidence.EnvironmentLayer{Ecosystem: l.Recipe.Ecosystem, Dir: l.Recipe.Dir, Key: l.Key, ContentSHA256: l.ContentSHA256, Paths: l.Recipe.Paths,
			LockFiles: displayed(prepared.LockFiles[i]), Packages: len(l.Deliveries), PackagesSHA256: l.DeliveriesSHA256, Imported: l.Imported,
			Tools: []evidence.EnvironmentTool{}}
		for _, t := range l.Recipe.Tools {
			layer.Tools = append(layer.Tools, evidence.EnvironmentTool{Name: t.Name, SHA256: t.SHA256})
		}
		out.Layers = append(out.Layers, layer)
	}
	return out
}

// withEnvironment adds the variables of the environment to those of an engine,
// which win.
func withEnvironment(prepared *depend.Prepared, env map[string]string) map[string]string {
	if prepared == nil || len(prepared.Env) == 0 {
		return env
	}
	out := maps.Clone(prepared.Env)
	maps.Copy(out, env)
	return out
}

// dependencyChanges is what an engine changed of the layers, nil if nothing.
func dependencyChanges(l sandbox.LayerChanges) *evidence.DependencyChanges {
	if l.Total == 0 && !l.Bounded {
		return nil
	}
	return &evidence.DependencyChanges{Total: l.Total, Replaced: displayed(l.Replaced), Added: displayed(l.Added), Bounded: l.Bounded}
}

// environmentAgain prepares the environment of a run that is verified again, and
// compares it with what the run had: beside the base, and beside the patched tree
// where that is something else. From then on the request has the sandbox of its image.
func (rec *sealed) environmentAgain(ctx context.Context, req *Reproduction, baseline, lower string,
	at headOf) (base, head *depend.Prepared, again *EnvironmentAgain, err error) {
	env, err := EnvironmentAt(lower, rec.receipt.Checked != nil)
	if err != nil {
		return nil, nil, nil, err
	}
	was := rec.receipt.Environment
	if env.Empty() && was == nil {
		return &depend.Prepared{}, nil, nil, nil
	}
	work, err := os.MkdirTemp("", "remit-environment-")
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // a temporary directory
	p := Preparation{Home: req.Home, Sandbox: req.Sandbox, Registries: req.Registries, Scratch: work, Clock: time.Now, Tell: func(line string) {
		if req.Progress != nil {
			req.Progress.Output(line)
		}
	}}
	if req.Clock != nil {
		p.Clock = req.Clock
	}
	made, err := p.Make(ctx, env, depend.Base{Dir: lower, Tree: baseline})
	if err != nil {
		return nil, nil, nil, err
	}
	req.Sandbox = made.Sandbox
	image := made.Facts.Image
	again = &EnvironmentAgain{Image: image, Layers: made.Facts.Layers, Services: made.Facts.Services, Same: true}
	if was == nil {
		was = &evidence.Environment{}
	}
	if a, b := imageText(was.Image), imageText(image); a != b {
		again.differs("the image of the run is %s, and here it is %s", a, b)
	}
	if why := servicesDiffer(was.Services, again.Services); why != "" {
		again.differs("%s", why)
	}
	for i := range max(len(was.Layers), len(again.Layers)) {
		switch {
		case i >= len(was.Layers) || i >= len(again.Layers):
			again.differs("the run had %d layer(s), and here are %d", len(was.Layers), len(again.Layers))
		case was.Layers[i].Key != again.Layers[i].Key:
			again.differs("the layer of %s in %s is made by another recipe: the tools of this machine, or of that of the run, differ",
				again.Layers[i].Ecosystem, again.Layers[i].Dir)
		case was.Layers[i].ContentSHA256 != again.Layers[i].ContentSHA256:
			again.differs("the layer of %s in %s has the same recipe and another content: %s in the run, %s here", again.Layers[i].Ecosystem,
				again.Layers[i].Dir, was.Layers[i].ContentSHA256, again.Layers[i].ContentSHA256)
		}
	}
	if !maps.Equal(was.Env, env.Variables()) {
		again.differs("the variables are others than those of the run")
	}
	p.Sandbox = made.Sandbox
	if head, err = rec.headAgain(ctx, p, at, env, made.Prepared, again); err != nil {
		made.Prepared.Release()
		return nil, nil, nil, err
	}
	return made.Prepared, head, again, nil
}

// EnvironmentAgain compares the environment of a verification with that of the run.
type EnvironmentAgain struct {
	Image       *evidence.EnvironmentImage    `json:"image,omitempty"`
	Layers      []evidence.EnvironmentLayer   `json:"layers"`
	Services    []evidence.EnvironmentService `json:"services,omitempty"`
	Head        *evidence.DependenciesOfHead  `json:"head,omitempty"`
	Same        bool                          `json:"same"`
	Differences []string                      `json:"differences,omitempty"`
}

func (e *EnvironmentAgain) differs(format string, args ...any) {
	e.Same = false
	e.Differences = append(e.Differences, fmt.Sprintf(format, args...))
}
