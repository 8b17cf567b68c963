package provider

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"time"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/harness"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/session"
)

// Environments say what this machine gets for the environments of jobs. The zero
// value gets nothing: images that are there can be used all the same.
type Environments struct {
	// Registries say where the dependencies of jobs are fetched from; nil: none are.
	// A requester of jobs can have every package that they give out.
	Registries harness.Registries
	// Dir is the store of the layers that are made for jobs. It is another one than
	// that of the operator's own runs, whose packages may be for the operator alone.
	Dir string
	// ImageHosts are the registries that images are pulled from, without a credential.
	ImageHosts []string
	// PrivateImages lets these have a private address, and speak plain HTTP.
	PrivateImages bool
}

const (
	// prepareTimeout is how long an environment may take, beside the time of its job.
	prepareTimeout = 15 * time.Minute
	// layerBytes is what the layers for jobs may take on this machine's disk.
	layerBytes = 20 << 30
)

// homeFor is the home of one job, with the stores of this machine.
func (d *Daemon) homeFor(scratch string) session.Home {
	h := session.Home{Dir: filepath.Join(scratch, "home"), KeyDir: d.keyDir}
	if d.home != "" {
		h.Images = session.Home{Dir: d.home}.ImagesDir()
	}
	if d.environments.Registries != nil {
		h.Layers = d.environments.Dir
	}
	return h
}

// obtain refuses an environment that this machine does not prepare, and gets what a
// run would not.
func (d *Daemon) obtain(ctx context.Context, env task.Environment) error {
	if len(env.Prepare) > 0 && d.environments.Registries == nil {
		return reason.Errorf(reason.EnvironmentUnavailable, "this provider prepares no dependencies for jobs").
			WithHint("its operator starts it with --prepare public or --prepare own")
	}
	if env.Image == "" {
		return nil
	}
	return d.obtainImage(ctx, env.Image)
}

// registries are those of the operator. Why one cannot be used may tell of hosts
// that do not concern the requester, so it stands in the log alone.
func (d *Daemon) registries(ctx context.Context, e registry.Ecosystem) (registry.Upstream, error) {
	if d.environments.Registries == nil {
		return registry.Upstream{}, d.obtain(ctx, task.Environment{Prepare: []task.Prepare{{}}})
	}
	return d.environments.Registries(ctx, e)
}

// surround makes the environment of a job, whose commands run in its sandbox.
func (r *sandboxRun) surround(ctx context.Context, scratch string) (*harness.Surroundings, error) {
	e := r.req.Environment
	if e == nil {
		in, err := r.inImage()
		return &harness.Surroundings{Sandbox: in, Prepared: &depend.Prepared{}}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout, reason.Errorf(reason.Timeout, "the environment took longer than %s", prepareTimeout))
	defer cancel()
	dir := filepath.Join(scratch, "base")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "making a work directory: %w", err)
	}
	base, err := r.checkout(ctx, r.runID, job.Repo{Source: e.Base.Source, GitRef: &e.Base.GitRef, MountPath: sandbox.WorkspacePath}, dir)
	if err != nil {
		return nil, err
	}
	defer base.close()
	env := harness.EnvironmentAt(base.dir, false)
	switch {
	case env.Empty():
		return nil, reason.Errorf(reason.JobInvalid, "the base of the job states no environment")
	case len(env.Services) > 0:
		return nil, reason.Errorf(reason.JobInvalid, "the base of the job states services, and this provider runs none")
	}
	if err := r.obtain(ctx, env); err != nil {
		return nil, blameless(err)
	}
	box := cappedAt(r.driver, preparing(r.caps))
	made, err := harness.Preparation{Home: r.homeFor(scratch), Sandbox: box, Registries: r.registries, Scratch: scratch, Clock: r.clock,
		Tell: func(line string) { r.log.Info(line) }}.Make(ctx, env, depend.Base{Dir: base.dir, Tree: base.id})
	if err != nil {
		r.log.Warn("an environment could not be made", "error", err, "hint", hintOf(err))
		return nil, blameless(err)
	}
	if err := r.asAsked(made); err != nil {
		made.Prepared.Release()
		return nil, err
	}
	made.Sandbox = made.Sandbox.(*capped).Inner() // the commands have the limits of the job, and no others
	return made, nil
}

// preparing are the limits of what is made before the commands of a job: its caps,
// where there are some.
func preparing(caps api.Caps) sandbox.Limits {
	return sandbox.Limits{CPUsMilli: bounded(math.MaxInt32, caps.CPUMillis), MemoryMB: bounded(math.MaxInt32, caps.MemoryMb), DiskMB: bounded(math.MaxInt32, caps.DiskMb),
		Pids: bounded(math.MaxInt32, caps.Pids), OutputBytes: sandbox.DefaultOutputBytes, Wall: prepareTimeout}
}

// asAsked holds an environment against the one that the requester had.
func (r *sandboxRun) asAsked(made *harness.Surroundings) error {
	root := hostImage
	if made.Facts.Image != nil {
		root = made.Facts.Image.Digest
	}
	if want := r.req.Sandbox.ImageDigest; root != want {
		return reason.Errorf(reason.EnvironmentDiffers, "the commands are to run in %s, and here the image of the base's policy is %s", want, root)
	}
	want := r.req.Environment.Layers
	if len(want) != len(made.Facts.Layers) {
		return reason.Errorf(reason.EnvironmentDiffers, "the job names %d layer(s), and the policy of its base %d", len(want), len(made.Facts.Layers))
	}
	for i, l := range made.Facts.Layers {
		if l.Key != want[i].Key {
			return reason.Errorf(reason.EnvironmentDiffers, "the layer of %s in %s has another key here: %s, and not %s", l.Ecosystem, l.Dir, depend.Short(l.Key), depend.Short(want[i].Key))
		}
	}
	return nil
}

// blameless is an error of making an environment as a requester may see it: what is
// wrong with a store or a registry of this machine is told to its operator.
func blameless(err error) error {
	switch code := reason.CodeOf(err); code {
	case reason.LayerChanged, reason.ImageChanged:
		return reason.Errorf(reason.InfrastructureFault, "the store of this machine was changed: %w", err)
	case reason.RegistryUnreachable, reason.RegistryUnusable, reason.RegistryAddress, reason.RegistryAnswer:
		return reason.Errorf(code, "a registry that this provider asks cannot be used")
	default:
		return err
	}
}

// trimLayers keeps the layers of jobs from filling the disk. Those in use stay.
func (d *Daemon) trimLayers() {
	if d.environments.Registries == nil {
		return
	}
	store, err := depend.OpenStore(d.environments.Dir)
	if err == nil {
		_, err = store.Trim(layerBytes)
	}
	if err != nil {
		d.log.Warn("layers of finished jobs could not be removed", "error", err)
	}
}
