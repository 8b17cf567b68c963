package provider

import (
	"remit/proof/reason"
	"remit/work/image"
	"remit/work/sandbox"
	"remit/work/session"
)

// inImage is the sandbox of a job: with the host's root, or with that of an image
// which the operator has pulled. A job pulls nothing: it could otherwise have this
// machine ask any host.
func (r *sandboxRun) inImage() (sandbox.Driver, error) {
	digest := r.req.Sandbox.ImageDigest
	if digest == hostImage {
		return r.driver, nil
	}
	none := func() error {
		return reason.Errorf(reason.JobInvalid, "this provider has no image %q: its operator has pulled none of that digest", digest)
	}
	if r.home == "" {
		return nil, none()
	}
	store, err := image.Open(session.Home{Dir: r.home}.ImagesDir())
	if err != nil {
		return nil, err
	}
	img, err := store.Find(digest)
	switch reason.CodeOf(err) {
	case "":
	case reason.ImageMissing, reason.ImageReference:
		return nil, none()
	default:
		return nil, reason.Errorf(reason.InfrastructureFault, "the image %q cannot be used: %w", digest, err)
	}
	if err != nil {
		return nil, err
	}
	return sandbox.Rooted(r.driver, sandbox.Root{Digest: img.Digest, Layers: img.Dirs, Env: img.Env, User: img.User})
}
