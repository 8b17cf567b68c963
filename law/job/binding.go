package job

import (
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// Binding is what an approval is for besides the contract, of a run whose mode
// touches a repository: the engine's build, the model, the commit and the
// repository. An approval that has one is good for nothing else.
type Binding struct {
	Engine         string `json:"engine"`
	EngineVersion  string `json:"engine_version"`
	EngineSHA256   string `json:"engine_sha256"`
	ModelProvider  string `json:"model_provider"` // "" of an engine that asks no model
	Model          string `json:"model"`
	BaselineCommit string `json:"baseline_commit"`
	TargetSHA256   string `json:"target_sha256"` // stands for the repository, whose path is not told
}

// Bound reports whether an approval of a contract of this mode needs a binding:
// whether the mode touches a repository.
func Bound(mode task.MutationMode) bool { return mode.Exceeds(task.CopiedRepo) }

// Digest is that of the canonical form, "" for no binding.
func (b *Binding) Digest() (string, error) {
	if b == nil {
		return "", nil
	}
	return canon.DigestOf(b)
}

// Text is the canonical form, "" for no binding.
func (b *Binding) Text() (string, error) {
	if b == nil {
		return "", nil
	}
	text, err := canon.Marshal(b)
	return string(text), err
}

var (
	commitID = form.Lazy(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	visible  = form.Lazy(`^[!-~]{1,200}$`)
)

// Check returns a *reason.Error with request_invalid for what binds nothing.
func (b *Binding) Check() error {
	bad := func(field string) error {
		e := reason.Errorf(reason.RequestInvalid, "does not say what the approval is for")
		e.Field = "binding." + field
		return e
	}
	switch {
	case !visible().MatchString(b.Engine):
		return bad("engine")
	case !visible().MatchString(b.EngineVersion):
		return bad("engine_version")
	case !canon.ValidDigest(b.EngineSHA256):
		return bad("engine_sha256")
	case (b.Model == "") != (b.ModelProvider == ""), b.Model != "" && !visible().MatchString(b.Model):
		return bad("model")
	case b.ModelProvider != "" && !visible().MatchString(b.ModelProvider):
		return bad("model_provider")
	case !commitID().MatchString(b.BaselineCommit):
		return bad("baseline_commit")
	case !canon.ValidDigest(b.TargetSHA256):
		return bad("target_sha256")
	}
	return nil
}
