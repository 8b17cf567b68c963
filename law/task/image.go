package task

import (
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
)

// maxImageText bounds the name of an image.
const maxImageText = 500

// ImageDigest is the digest of the environment's image, "" for none.
func (e Environment) ImageDigest() string {
	_, digest, _ := strings.Cut(e.Image, "@")
	return digest
}

// checkImage wants a digest: what a tag means changes, and a verdict is about one
// image.
func checkImage(r *report, field, image string) {
	if image == "" {
		return
	}
	strange := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"'`\\$", c) }
	name, digest, _ := strings.Cut(image, "@")
	if name == "" || len(image) > maxImageText || strings.ContainsFunc(image, strange) || !canon.ValidDigest(digest) {
		r.field(field, reason.ContractValue, "write NAME@sha256:DIGEST; `remit env image pull NAME:TAG` prints it",
			"%.200q is no image with its digest", image)
	}
}
