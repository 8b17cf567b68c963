package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"remit/law/job"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/image"
	"remit/work/sandbox"
	"remit/work/session"
)

// inImage returns a sandbox whose root is the image that the environment names,
// and what there is to say of it: d itself and nil where it names none. Nothing is
// fetched: a file in a repository could otherwise have this machine ask any host.
func inImage(ctx context.Context, home session.Home, d sandbox.Driver,
	env task.Environment) (sandbox.Driver, *evidence.EnvironmentImage, error) {
	if env.Image == "" {
		return d, nil, nil
	}
	in, img, err := rootOf(ctx, home, d, env)
	if err != nil {
		if e, ok := errors.AsType[*reason.Error](err); ok && e.Code == reason.ImageMissing {
			err = e.WithHint("`remit env image pull %s` gets it; then start again", env.Image)
		}
		return nil, nil, fmt.Errorf("environment.image: %w", err)
	}
	out := &evidence.EnvironmentImage{Name: env.Image, Digest: img.Digest, Platform: img.Platform}
	for _, l := range img.Layers {
		out.Layers = append(out.Layers, l.DiffID)
	}
	return in, out, nil
}

func rootOf(ctx context.Context, home session.Home, d sandbox.Driver, env task.Environment) (sandbox.Driver, *image.Mounted, error) {
	store, err := image.Open(home.ImagesDir())
	if err != nil {
		return nil, nil, err
	}
	img, err := store.Find(env.ImageDigest())
	if err != nil {
		return nil, nil, err
	}
	in, err := sandbox.Rooted(d, sandbox.Root{Digest: img.Digest, Layers: img.Dirs, Env: img.Env, User: img.User})
	if err != nil {
		return nil, nil, err
	}
	return in, img, tryShell(ctx, store, img, in)
}

// tryShell refuses an image in which no command line runs, before anything that
// costs is started. What it found is kept: the image stays the same.
func tryShell(ctx context.Context, store *image.Store, img *image.Mounted, in sandbox.Driver) error {
	if store.HasShell(img.Digest) {
		return nil
	}
	empty, err := os.MkdirTemp("", "remit-image-")
	if err != nil {
		return fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(empty) }() // a temporary directory
	if err := sandbox.HasShell(ctx, in, empty); err != nil {
		return err
	}
	return store.KeepShell(img.Digest)
}

// CheckImage tries an image of the store as the root of a sandbox.
func CheckImage(ctx context.Context, home session.Home, d sandbox.Driver, digest string) error {
	_, _, err := rootOf(ctx, home, d, task.Environment{Image: "image@" + digest})
	return err
}

// imageText names an image in a comparison.
func imageText(i *evidence.EnvironmentImage) string {
	if i == nil {
		return "the host"
	}
	return i.Digest
}

// rootImage is what a job says of the root of its commands.
func (r *run) rootImage() string {
	if e := r.environmentSoFar(); e != nil && e.Image != nil {
		return e.Image.Digest
	}
	return hostImage
}

// environmentSoFar is the environment of the run, nil for none. It is read from the
// journal, so that a run that was cut off has it too.
func (r *run) environmentSoFar() *evidence.EnvironmentPrepared {
	if r.recorder == nil {
		return nil
	}
	var out *evidence.EnvironmentPrepared
	for _, e := range r.w.Entries() {
		var p evidence.EnvironmentPrepared
		if e.Name == evidence.StepEnvironment && e.Status == journal.Completed && json.Unmarshal(e.Outputs, &p) == nil {
			out = &p
		}
	}
	return out
}

// environmentOfJob is what a job says of the environment of its commands, nil where
// the policy of the base has none.
func (r *run) environmentOfJob() *job.Environment {
	e := r.environmentSoFar()
	if e == nil {
		return nil
	}
	out := &job.Environment{Base: job.Base{Source: "git-tree:" + string(r.opened.BaselineTree), GitRef: string(r.opened.BaselineCommit)}}
	out.Layers = jobLayers(e.Layers)
	if head := r.dependenciesOfHead(); head != nil {
		out.Head = jobLayers(head.Layers)
	}
	for _, s := range e.Services {
		out.Services = append(out.Services, job.Service{Name: s.Name, SHA256: s.SHA256})
	}
	return out
}

func jobLayers(layers []evidence.EnvironmentLayer) []job.Layer {
	var out []job.Layer
	for _, l := range layers {
		out = append(out, job.Layer{Key: l.Key, ContentSHA256: l.ContentSHA256})
	}
	return out
}
