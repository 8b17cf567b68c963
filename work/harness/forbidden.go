package harness

import (
	"slices"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// forbiddenAction is one action of the contract in proofs/forbidden-actions.json.
type forbiddenAction struct {
	Action      string `json:"action"`
	CouldHappen bool   `json:"could_happen"`
	Why         string `json:"why"`
}

// Why an action cannot happen in the sandbox: by what it would need there.
const (
	noRoute  = "it needs a way to another machine: the sandbox has no network, no remote and no credential"
	noForge  = "it needs an account at a forge: the sandbox has no network and no credential"
	onlyCopy = "it needs a repository to write to: the engine has a copy, and the delivery adds one new branch, which is not checked out anywhere"
	unseen   = "it needs files that the sandbox does not show: keys, admissions and the books of the authority"
	notLent  = "it needs a credential, and the sandbox is lent none"
	readOnly = "it needs to write outside of the copy: all that is lent is read-only, and every changed path was held against the contract"
)

var whyNot = map[string]string{
	"push": noRoute, "merge": onlyCopy, "deploy": noRoute, "close": noForge, "pr_open": noForge, "issue_close": noForge,
	"public_publication": noRoute, "credential_change": notLent, "vendor_source_mutation": readOnly, "authority_mutation": unseen,
}

// forbiddenProof says of each action that no agent does by itself, and of those
// that the contract adds, whether it could have happened, and why not.
func (r *run) forbiddenProof() map[string]any {
	actions := task.DefaultForbiddenActions()
	for _, action := range r.Contract.ForbiddenActions {
		if !slices.Contains(actions, action) {
			actions = append(actions, action)
		}
	}
	started := slices.ContainsFunc(r.w.Entries(), func(e journal.Entry) bool { return e.Name == evidence.StepEngine })
	confined := r.opened.Host.Sandbox.KeepsOut()
	out := make([]forbiddenAction, len(actions))
	for i, action := range actions {
		a := forbiddenAction{Action: action, Why: whyNot[action]}
		switch {
		case !started:
			a.Why = "no engine was started"
		case !confined:
			a.CouldHappen, a.Why = true, "no sandbox confined what the run started"
		case a.Why == "":
			a.CouldHappen, a.Why = true, "Remit does not know what this action needs; the sandbox had no credential, and no route but the one below"
		}
		out[i] = a
	}
	return map[string]any{"actions": out, "engine_started": started, "sandbox": r.opened.Host.Sandbox.Driver, "network": string(r.Contract.Network),
		"route": map[bool]string{true: "the gateway to the admitted model", false: "none"}[r.Contract.Network == task.NetworkGateway]}
}
