package ladder

import (
	"fmt"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Key names what a proof is about. A proof holds for a run only if the keys are
// equal in every field: another version, digest, model or driver is another key.
//
// EngineVersion and EngineSHA256 are "" for fake and command: the program of
// those is the user's and changes with every run, so the key names the adapter
// that starts it. Provider and Model are "" for an engine that asks no model.
type Key struct {
	Engine         string `json:"engine"`
	EngineVersion  string `json:"engine_version"`
	EngineSHA256   string `json:"engine_sha256"`
	AdapterVersion string `json:"adapter_version"`
	Provider       string `json:"provider"`
	Model          string `json:"model"`
	VerifierSHA256 string `json:"verifier_sha256"`
	SandboxDriver  string `json:"sandbox_driver"`
}

// Digest is the SHA-256 of the canonical key, "sha256:" and 64 hex digits.
func (k Key) Digest() (string, error) {
	digest, err := canon.DigestOf(k)
	if err != nil {
		return "", reason.Errorf(reason.ProofInvalid, "the key of engine %q has no canonical form: %w", k.Engine, err)
	}
	return digest, nil
}

// Differences says in words in which fields a proof's key differs from k, the
// key of what is there now. It is empty for equal keys.
func (k Key) Differences(proved Key) []string {
	var out []string
	differ := func(what, now, then string) {
		if now != then {
			out = append(out, fmt.Sprintf("%s (%s now, %s in the proof)", what, shown(now), shown(then)))
		}
	}
	differ("engine", k.Engine, proved.Engine)
	differ("engine version", k.EngineVersion, proved.EngineVersion)
	differ("engine binary", k.EngineSHA256, proved.EngineSHA256)
	differ("adapter version", k.AdapterVersion, proved.AdapterVersion)
	differ("model pair", pair(k), pair(proved))
	differ("verifier digest", k.VerifierSHA256, proved.VerifierSHA256)
	differ("sandbox driver", k.SandboxDriver, proved.SandboxDriver)
	return out
}

// pair is the model pair as one text, "" without a model.
func pair(k Key) string {
	if k.Provider == "" && k.Model == "" {
		return ""
	}
	return k.Provider + "/" + k.Model
}

// shownDigits is how much of a digest a message repeats.
const shownDigits = len("sha256:") + 12

// shown is a value of a key in a message.
func shown(value string) string {
	switch {
	case value == "":
		return "none"
	case canon.ValidDigest(value):
		return value[:shownDigits]
	}
	return value
}
