package prove

import (
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/verify"
)

// KeyOf is the key of an engine as it is now, with the pair that it asks and the
// sandbox that confines it. The program of an engine that is built in is the
// user's, so its key leaves version and digest open.
func KeyOf(e engine.Engine, id evidence.EngineIdentity, provider, model, driver string) ladder.Key {
	k := ladder.Key{Engine: id.Name, AdapterVersion: engine.AdapterVersion(e), VerifierSHA256: verify.Digest(), SandboxDriver: driver}
	if eligibility.AdmissionRequired(id.Name) {
		k.EngineVersion, k.EngineSHA256, k.Provider, k.Model = id.Version, id.SHA256, provider, model
	}
	return k
}
