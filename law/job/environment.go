package job

import (
	"fmt"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Environment is what the commands of a sandbox run find beside the tree, as the
// policy (remit.yaml) of a base commit has it: an image as the root, dependency
// layers, variables. The provider reads that policy itself, prepares what it names,
// and holds it against the keys that stand here: a key names how a layer is made.
//
// It is a minor addition to the wire form. A provider that does not know it refuses
// the whole request; none runs the commands without it.
type Environment struct {
	// Base has the policy and the lock files. Its tree is not that of the commands:
	// what a change does to a lock file or to the policy has no effect here.
	Base Base `json:"base"`
	// Layers are those that the requester has, in the order of the policy.
	Layers []Layer `json:"layers,omitempty"`
}

// Base names a commit as [Repo] does.
type Base struct {
	Source string `json:"source"`
	GitRef string `json:"git_ref"`
}

// Layer names a set of installed dependencies. Key is how it is made, ContentSHA256
// what it has: two machines can make other content by one recipe, and then both say so.
type Layer struct {
	Key           string `json:"key"`
	ContentSHA256 string `json:"content_sha256"`
}

// MaxLayers is how many layers a policy can name.
const MaxLayers = 8

func (e *Environment) validate() *reason.Error {
	if e == nil {
		return nil
	}
	at := Repo{Source: e.Base.Source, GitRef: &e.Base.GitRef, MountPath: defaultMountPath}
	if err := at.validate(); err != nil || e.Base.Source == "" {
		return invalid("environment.base", "must name a source and a commit, as repo does")
	}
	return validateLayers("environment.layers", e.Layers)
}

func validateLayers(field string, layers []Layer) *reason.Error {
	if len(layers) > MaxLayers {
		return invalid(field, "has %d entries, may have %d", len(layers), MaxLayers)
	}
	for i, l := range layers {
		if !canon.ValidDigest(l.Key) || !canon.ValidDigest(l.ContentSHA256) {
			return invalid(fmt.Sprintf("%s[%d]", field, i), "must have a key and a content_sha256 of the form sha256:…")
		}
	}
	return nil
}

// checkEnvironment holds the layers that were there against those that were asked
// for. A refused job says nothing of layers; one that claims success has to have
// had them all.
func (v *verdict) checkEnvironment(req SandboxRunRequest, resp SandboxRunResponse) {
	var want []Layer
	if req.Environment != nil {
		want = req.Environment.Layers
	}
	got := resp.EnvInfo.Layers
	if len(got) == 0 && resp.Status != Success {
		return
	}
	if len(got) != len(want) {
		v.fault("environment", "ran with %d layer(s), not with %d", len(got), len(want))
		return
	}
	for i := range got {
		if got[i].Key != want[i].Key || !canon.ValidDigest(got[i].ContentSHA256) {
			v.fault("environment", "layer %d has the key %.80q, not %.80q, or no content", i, got[i].Key, want[i].Key)
		}
	}
}
