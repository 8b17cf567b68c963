package job

import (
	"strings"

	"remit/proof/reason"
)

// Refusal is why an engine run could not begin, for a reason that lies in its
// request: an engine that the provider does not have, a repository that it
// cannot read, a contract that is none. There is no session then, so there is
// no bundle that could tell. A run that did begin and was blocked has one.
type Refusal struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"` // 1 to MaxCmdBytes bytes, for the requester
}

// Refusable reports whether a request can be the reason of a code. A provider
// that says no for the others speaks of itself, and answers with status error.
func Refusable(code reason.Code) bool {
	switch code {
	case reason.SandboxUnavailable, reason.InfrastructureFault, reason.ArtifactWriteFailure, reason.ResourceLimit, reason.TreeMismatch,
		reason.HomeUnusable, reason.FileUnusable, reason.ProviderUnavailable, reason.ProgramNotFound, reason.ProgramNotExecutable, reason.ProgramLineEndings, reason.InterpreterNotFound:
		return false
	}
	_, known := reason.Lookup(code)
	return known
}

// checkRefusal holds a refusal against the rest of the response: what did not
// begin has neither a bundle nor a result. It may have a cost, if a model was
// asked before it turned out that there is nothing to hand in.
func (v *verdict) checkRefusal(resp EngineRunResponse) {
	r := resp.Refusal
	if !Refusable(r.Code) {
		v.fault("refusal", "%.80q is no reason that lies in a request", string(r.Code))
	}
	if strings.TrimSpace(r.Message) == "" || len(r.Message) > MaxCmdBytes {
		v.fault("refusal", "without a message of at most %d bytes", MaxCmdBytes)
	}
	if resp.BundleSHA256 != "" || resp.HeadTree != "" || len(resp.Verification) > 0 || len(resp.Artifacts) > 0 || resp.MicroUSD != 0 && resp.CostKnown == nil {
		v.fault("refusal", "refused, and yet there is a result")
	}
}
