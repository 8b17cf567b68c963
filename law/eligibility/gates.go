package eligibility

import (
	"cmp"
	"fmt"

	"remit/law/task"
	"remit/proof/reason"
)

// builtin reports whether an engine is part of Remit and asks no model.
func builtin(name string) bool { return name == "fake" || name == "command" }

// AdmissionRequired reports whether an engine needs source and model admission
// records: every engine but those that are built in.
func AdmissionRequired(engine string) bool { return !builtin(engine) }

// gate is the result of one gate; it passed when it has no code.
type gate struct {
	name   string
	code   reason.Code
	detail string
	remedy string
}

func passed(name string) gate { return gate{name: name} }

func missing(name string, code reason.Code, remedy, format string, args ...any) gate {
	return gate{name: name, code: code, remedy: remedy, detail: fmt.Sprintf(format, args...)}
}

// The names of the gates.
const (
	gateAvailable = "engine:available"
	gateEnabled   = "engine:enabled"
	gateSource    = "source:admitted"
	gateModel     = "model:admitted"
	gateNetwork   = "network:gateway"
	gateMode      = "mode:within-stage"
	gateFixture   = "fixture:shipped"
	gateTarget    = "target:admitted"
	gateConfined  = "sandbox:confined"
	gateApproval  = "approval:granted"
)

// gates evaluates all gates that the request requires, in their order. notAsked
// are those that need more than is known.
func gates(r Request, approval bool) (results []gate, notAsked []string) {
	ask := func(known bool, name string, evaluate func() gate) {
		if known {
			results = append(results, evaluate())
		} else {
			notAsked = append(notAsked, name)
		}
	}
	if r.checks() {
		ask(r.Known == KnownAll, gateConfined, r.Sandbox.confined)
		return results, notAsked
	}
	policy, here := r.Known != KnownRecords, r.Engine.Unavailable == nil
	if !here {
		results = append(results, r.Engine.available())
	}
	ask(policy || !r.Engine.Registered || r.Engine.Disabled, gateEnabled, r.Engine.enabled)
	if !builtin(r.Engine.Name) {
		ask(here, gateSource, r.Engine.source)
		ask(here || r.Network != "", gateModel, r.Engine.model)
		ask(policy, gateNetwork, func() gate { return network(r) })
	}
	// Where nothing is proved, no mode is open that a policy could lower to.
	ask(here && (policy || !r.ModeOpen || r.limit() < task.CopiedFixture), gateMode, func() gate { return mode(r) })
	if r.MutationMode == task.CopiedFixture {
		ask(r.Known == KnownAll, gateFixture, func() gate { return fixture(r) })
	}
	if r.MutationMode.Exceeds(task.SandboxRepo) {
		ask(policy || !r.ModeOpen, gateTarget, func() gate { return target(r) })
	}
	ask(r.Known == KnownAll, gateConfined, r.Sandbox.confined)
	// A denial is terminal, also for a contract that did not ask.
	if approval || r.Approval == ApprovalDenied {
		decided := r.Approval == ApprovalDenied || r.Approval == ApprovalExpired
		ask(r.Known == KnownAll || decided, gateApproval, func() gate { return r.Approval.granted(r.ApprovalDetail) })
	}
	return results, notAsked
}

func (e Engine) available() gate {
	return missing(gateAvailable, e.Unavailable.Code, cmp.Or(e.Unavailable.Remedy, "install the engine's program; `remit doctor` says where it is looked for"),
		"%s", e.Unavailable.Detail)
}

func (e Engine) enabled() gate {
	switch {
	case !e.Registered || e.Name == "" || e.Name == None:
		return missing(gateEnabled, reason.EngineUnknown, "choose an engine that `remit doctor` lists",
			"this build of Remit has no engine %q", e.Name)
	case e.Disabled:
		return missing(gateEnabled, reason.EngineNotEnabled, "ask the owner of remit.yaml to enable the engine, or take another",
			"the policy switches engine %q off", e.Name)
	case e.Enabled || builtin(e.Name):
		return passed(gateEnabled)
	}
	return missing(gateEnabled, reason.EngineNotEnabled, fmt.Sprintf("set engines.%s.enabled: true in remit.yaml", e.Name),
		"engine %q is registered but off", e.Name)
}

func (e Engine) source() gate {
	if e.SourceAdmitted {
		return passed(gateSource)
	}
	return missing(gateSource, reason.SourceNotAdmitted, cmp.Or(e.SourceRemedy, "a source admission record for "+e.Name), "%s",
		cmp.Or(e.SourceDetail, fmt.Sprintf("no source admission record holds for engine %q", e.Name)))
}

func (e Engine) model() gate {
	switch e.ModelStatus {
	case ModelAdmitted:
		return passed(gateModel)
	case ModelMismatch:
		return missing(gateModel, reason.ModelMismatch, cmp.Or(e.ModelRemedy, "ask for what the admission record names, or change the record"), "%s",
			cmp.Or(e.ModelDetail, fmt.Sprintf("the requested model is not the one that the admission record of engine %q names", e.Name)))
	}
	return missing(gateModel, reason.ModelNotAdmitted, cmp.Or(e.ModelRemedy, "a model admission record"), "%s",
		cmp.Or(e.ModelDetail, fmt.Sprintf("the model admission of engine %q is %q", e.Name, e.modelStatus())))
}

// network holds the one way out against the contract: an engine that asks a
// model is lent it only where the policy says so.
func network(r Request) gate {
	if r.Network == task.NetworkGateway {
		return passed(gateNetwork)
	}
	return missing(gateNetwork, reason.NetworkNotAllowed, "write network: gateway into the task file, or into remit.yaml for contracts that are made from issues and flags",
		"engine %q asks a model, and the contract gives it no way to one (network: %s)", r.Engine.Name, task.NetworkNone)
}

// mode holds the mode that is asked for against what is proved of the engine. A
// run that may change nothing still gets a copy of the repository to read, so it
// needs what such a copy needs.
func mode(r Request) gate {
	needed, limit := r.MutationMode, r.limit()
	if needed == task.ModeNone {
		needed = task.CopiedRepo
	}
	if needed.Valid() && limit.Valid() && !needed.Exceeds(limit) {
		return passed(gateMode)
	}
	proved := fmt.Sprintf("%s is the widest that engine %q has proved", limit, r.Engine.Name)
	if limit == task.ModeNone {
		proved = fmt.Sprintf("nothing is proved of engine %q, as it is here", r.Engine.Name)
	}
	if r.Engine.ModeDetail != "" {
		proved += ": " + r.Engine.ModeDetail
	}
	return missing(gateMode, reason.ModeExceedsStage, cmp.Or(r.Engine.ModeRemedy, "prove the engine: `remit ladder status` says with which command"),
		"mutation mode %s is not open: %s", r.MutationMode, proved)
}

// limit is the widest mode that is open. A run that is part of a proof may go one
// further than is proved: to the mode that it is to prove.
func (r Request) limit() task.MutationMode {
	if limit := r.Engine.ProvenMode; r.Purpose == PurposeProof && limit.Valid() {
		return min(limit+1, task.ScopedRealRepo)
	}
	return r.Engine.ProvenMode
}

func fixture(r Request) gate {
	if r.Fixture != "" {
		return passed(gateFixture)
	}
	return missing(gateFixture, reason.NotAFixture, "run with --mutation-mode copied-repo",
		"mutation mode %s is for the repositories that come with Remit, and the baseline is none of them", r.MutationMode)
}

func target(r Request) gate {
	if r.TargetAdmitted {
		return passed(gateTarget)
	}
	return missing(gateTarget, cmp.Or(r.TargetCode, reason.TargetNotAdmitted), "a target admission record: `remit admit target --template` prints one to fill in", "%s",
		cmp.Or(r.TargetDetail, fmt.Sprintf("mutation mode %s needs a target admission record", r.MutationMode)))
}

func (s Sandbox) confined() gate {
	switch {
	case s.Driver == NoDriver && s.ExplicitNone:
		// Recorded under its own name: a reader of the evidence must see that
		// nothing confined the agent.
		return passed("sandbox:none-explicit")
	case s.Driver == NoDriver:
		return missing(gateConfined, reason.SandboxUnavailable, "install bubblewrap; `remit doctor` says what is missing",
			"no confinement, and the request does not ask for that by name")
	case s.Driver == "":
		return missing(gateConfined, reason.SandboxUnavailable, "install bubblewrap; `remit doctor` says what is missing",
			"no confinement driver works on this machine")
	}
	return passed("sandbox:" + s.Driver)
}

// granted asks whether the approval holds; detail says more of it than its state.
func (a Approval) granted(detail string) gate {
	refused := func(code reason.Code, remedy, otherwise string) gate {
		return missing(gateApproval, code, remedy, "%s", cmp.Or(detail, otherwise))
	}
	switch a {
	case ApprovalGranted:
		return passed(gateApproval)
	case ApprovalDenied:
		return refused(reason.ApprovalDenied, "denial is terminal: write a new contract", "the approval was denied")
	case ApprovalExpired:
		return refused(reason.ApprovalExpired, "ask for a new approval", "the approval has expired")
	case ApprovalOtherWork:
		return refused(reason.ApprovalOtherWork, "ask for a new approval", "the approval is for another engine, model, commit or target")
	case ApprovalConsumed:
		return refused(reason.ApprovalConsumed, "ask for a new approval", "the approval was used up by an earlier run")
	}
	return refused(reason.ApprovalMissing, "a grant by a person who may decide, or --approve", "this contract has no approval")
}

func (e Engine) modelStatus() ModelStatus {
	switch e.ModelStatus {
	case ModelAdmitted, ModelMismatch, ModelInvalid, ModelNotAdmitted, ModelMissing:
		if !builtin(e.Name) {
			return e.ModelStatus
		}
	}
	if builtin(e.Name) {
		return ModelNotRequired
	}
	return ModelMissing
}

func (e Engine) sourceStatus() string {
	switch {
	case builtin(e.Name):
		return "not_required"
	case e.SourceAdmitted:
		return "admitted"
	}
	return "not_admitted"
}
