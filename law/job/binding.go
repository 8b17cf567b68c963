package job

import (
	"strings"
	"unicode"
	"unicode/utf8"

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
	TargetSHA256   string `json:"target_sha256"` // stands for the repository; the path itself is not sent
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

// Asker is what the run that asks for an approval says of itself, for who decides.
// It is its client's word, and nothing is bound to it: see [Binding].
type Asker struct {
	SessionID     string         `json:"session_id"`
	Engine        string         `json:"engine"`
	EngineVersion string         `json:"engine_version"`
	ModelProvider string         `json:"model_provider"` // "" of an engine that asks no model
	Model         string         `json:"model"`
	Lowered       []task.Lowered `json:"lowered"` // limits that the policy lowers
}

// Bounds of an asker.
const (
	maxAskerWord = 200
	maxLowered   = 16
)

// Text is the canonical form, "" for none.
func (a *Asker) Text() (string, error) {
	if a == nil {
		return "", nil
	}
	text, err := canon.Marshal(a)
	return string(text), err
}

// Check returns a *reason.Error with request_invalid for what is too long, or has
// characters that are unseen.
func (a *Asker) Check() error {
	words := map[string]string{"session_id": a.SessionID, "engine": a.Engine, "engine_version": a.EngineVersion, "model_provider": a.ModelProvider, "model": a.Model}
	for _, l := range a.Lowered {
		words["lowered"] += l.Limit
	}
	for field, word := range words {
		if len(word) > maxAskerWord || !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
			e := reason.Errorf(reason.RequestInvalid, "must be at most %d bytes of characters that are seen", maxAskerWord)
			e.Field = "asker." + field
			return e
		}
	}
	if len(a.Lowered) > maxLowered {
		e := reason.Errorf(reason.RequestInvalid, "names %d limits, may name %d", len(a.Lowered), maxLowered)
		e.Field = "asker.lowered"
		return e
	}
	return nil
}
