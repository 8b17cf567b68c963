package provider

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/harness"
	"remit/work/image"
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

// surroundings are what the commands of a job find beside its tree.
type surroundings struct {
	sandbox  sandbox.Driver
	prepared *depend.Prepared
	layers   []job.Layer
	services []job.Service
	base     *tree // what services see, nil for the tree of the commands
}

func (s *surroundings) close() {
	s.prepared.Release()
	if s.base != nil {
		s.base.close()
	}
}

// surround makes the environment of a job, whose commands run in its sandbox over a
// tree that is checked out.
func (r *sandboxRun) surround(ctx context.Context, head *tree, scratch string) (*surroundings, error) {
	e := r.req.Environment
	if e == nil {
		in, err := r.inImage()
		return &surroundings{sandbox: in, prepared: &depend.Prepared{}}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout,
		reason.Errorf(reason.Timeout, "the environment took longer than %s", prepareTimeout))
	defer cancel()
	dir := filepath.Join(scratch, "base")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "making a work directory: %w", err)
	}
	base, err := r.checkout(ctx, r.runID, job.Repo{Source: e.Base.Source, GitRef: &e.Base.GitRef, MountPath: sandbox.WorkspacePath}, dir)
	if err != nil {
		return nil, err
	}
	out, err := r.prepare(ctx, base, head, scratch)
	if err != nil {
		base.close()
		return nil, err
	}
	return out, nil
}

// prepare makes what the policy of the base says.
func (r *sandboxRun) prepare(ctx context.Context, base, head *tree, scratch string) (*surroundings, error) {
	env, err := harness.EnvironmentAt(base.dir, false)
	if reason.CodeOf(err) != "" { // the requester sees the message alone
		return nil, reason.Errorf(reason.JobInvalid, "the policy of the job's base cannot be used, correct it there: %v", err)
	}
	if err != nil {
		return nil, err
	}
	if env.Empty() {
		return nil, reason.Errorf(reason.JobInvalid, "the base of the job states no environment")
	}
	if err := r.obtain(ctx, env); err != nil {
		return nil, blameless(err)
	}
	p := harness.Preparation{Home: r.homeFor(scratch), Sandbox: cappedAt(r.driver, preparing(r.caps)), Registries: r.registries,
		Scratch: scratch, Clock: r.clock, Tell: func(line string) { r.log.Info(line) }}
	failed := func(err error) error {
		r.log.Warn("an environment could not be made", "error", err, "hint", hintOf(err))
		return blameless(err)
	}
	made, err := p.Make(ctx, env, depend.Base{Dir: base.dir, Tree: base.id})
	if err != nil {
		return nil, failed(err)
	}
	out := &surroundings{prepared: made.Prepared, base: base}
	if err := r.asAsked(made); err != nil {
		made.Prepared.Release()
		return nil, err
	}
	p.Sandbox = made.Sandbox
	ofHead, facts, err := p.OfHead(ctx, env, made.Prepared, depend.Base{Dir: head.dir, Tree: head.id})
	if err != nil {
		made.Prepared.Release()
		return nil, failed(err)
	}
	layers := made.Facts.Layers
	var wanted []evidence.EnvironmentLayer
	if facts != nil {
		made.Prepared.Release()
		out.prepared, layers, wanted = ofHead, facts.Layers, facts.Layers
	}
	if err := sameKeys("of the change", r.req.Environment.Head, wanted); err != nil {
		out.prepared.Release()
		return nil, err
	}
	for _, l := range layers {
		out.layers = append(out.layers, job.Layer{Key: l.Key, ContentSHA256: l.ContentSHA256})
	}
	for _, s := range made.Facts.Services {
		out.services = append(out.services, job.Service{Name: s.Name, SHA256: s.SHA256})
	}
	out.sandbox = made.Sandbox.(*capped).Inner() // the commands have the limits of the job, and no others
	return out, nil
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
	want := r.req.Environment.Services
	if len(want) != len(made.Facts.Services) {
		return reason.Errorf(reason.EnvironmentDiffers, "the job names %d service(s), and the policy of its base %d", len(want),
			len(made.Facts.Services))
	}
	for i, s := range made.Facts.Services {
		if s.Name != want[i].Name || s.SHA256 != want[i].SHA256 {
			return reason.Errorf(reason.EnvironmentDiffers, "service %s is defined otherwise in the policy of the job's base", s.Name)
		}
	}
	return sameKeys("of the base", r.req.Environment.Layers, made.Facts.Layers)
}

// sameKeys holds layers against those that the requester has.
func sameKeys(whose string, want []job.Layer, got []evidence.EnvironmentLayer) error {
	if len(want) != len(got) {
		return reason.Errorf(reason.EnvironmentDiffers, "the job names %d layer(s) %s, and here there are %d", len(want), whose, len(got))
	}
	for i, l := range got {
		if l.Key != want[i].Key {
			return reason.Errorf(reason.EnvironmentDiffers, "the layer of %s in %s %s has another key here: %s, and not %s",
				l.Ecosystem, l.Dir, whose, depend.Short(l.Key), depend.Short(want[i].Key))
		}
	}
	return nil
}

// blameless returns an error of making an environment in the form that a requester may
// see. The operator gets the details about a store or a registry of this machine.
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

// noImage refuses an image that this machine does not have and may not get.
func noImage(name string) error {
	return reason.Errorf(reason.JobInvalid, "this provider has no image %q: its operator has pulled none of that digest", name).
		WithHint("the provider's operator pulls it with `remit env image pull REFERENCE`, or names its registry with --image-registry")
}

// inImage is the sandbox of a job that names nothing but a digest: with the host's
// root, or with that of an image which this machine has.
func (r *sandboxRun) inImage() (sandbox.Driver, error) {
	digest := r.req.Sandbox.ImageDigest
	if digest == hostImage {
		return r.driver, nil
	}
	store, err := r.images()
	if err != nil {
		return nil, err
	}
	if store == nil {
		return nil, noImage(digest)
	}
	img, err := store.Find(digest)
	switch reason.CodeOf(err) {
	case "":
	case reason.ImageMissing, reason.ImageReference:
		return nil, noImage(digest)
	default:
		return nil, reason.Errorf(reason.InfrastructureFault, "the image %q cannot be used: %w", digest, err)
	}
	if err != nil {
		return nil, err
	}
	return sandbox.Rooted(r.driver, sandbox.Root{Digest: img.Digest, Layers: img.Dirs, Env: img.Env, User: img.User})
}

// images is the store of this machine, nil for none.
func (d *Daemon) images() (*image.Store, error) {
	if d.home == "" {
		return nil, nil
	}
	return image.Open(session.Home{Dir: d.home}.ImagesDir())
}

// obtainImage sees to it that this machine has the image that a policy names: by its
// digest, from a registry that the operator named, and without a credential. A job
// could otherwise have this machine ask any host, or run in what only its operator
// may read.
func (d *Daemon) obtainImage(ctx context.Context, name string) error {
	store, err := d.images()
	if err != nil {
		return err
	}
	if store == nil {
		return noImage(name)
	}
	ref, err := image.Parse(name)
	if err != nil {
		return err
	}
	_, err = store.Find(ref.Digest)
	if reason.CodeOf(err) != reason.ImageMissing {
		return err
	}
	if ref.Kind != image.Registry || !slices.ContainsFunc(d.environments.ImageHosts, ref.From) {
		return noImage(name)
	}
	d.log.Info("pulling an image for a job", "image", name)
	if _, err := store.Pull(ctx, ref, image.Options{Private: d.environments.PrivateImages, Anonymous: true}); err != nil {
		return fmt.Errorf("pulling the image of the job: %w", err)
	}
	return nil
}
