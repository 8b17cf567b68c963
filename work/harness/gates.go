package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/shipped"
)

// maxNamed bounds how many paths a message names.
const maxNamed = 10

// admit journals the contract and asks every gate. Nothing has been started
// when it refuses.
func (r *run) admit(ctx context.Context) error {
	done := r.times.Begin(evidence.StepEligibility)
	defer done()
	raw, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	dirty, visible, lookErr := r.mayStart(ctx)
	against := slices.Concat(dirty, visible)
	// Entry 0 names the contract, so it stands in the journal whatever the look
	// at the source gave.
	r.note(evidence.StepContract, "contract", status(against),
		evidence.ContractCreated{ContractSHA256: r.opened.ContractSHA256, Contract: raw}, blockersOnly{against})
	if lookErr != nil {
		return lookErr
	}
	// There is a contract either way; what stands against the start is said by the
	// gate that denies it.
	r.tell(evidence.StepContract, string(journal.Completed), r.Contract.TaskID)
	if len(against) == 0 {
		// Without an answer nothing is approved; the decision says so after this.
		if err := r.seekApproval(ctx); err != nil && ctx.Err() == nil {
			r.stop(ctx, err)
		}
	}

	decision := eligibility.Decide(r.eligibilityRequest())
	encoded, err := canon.Marshal(decision)
	if err != nil {
		return fmt.Errorf("encoding the eligibility decision: %w", err)
	}
	blockers := decisionBlockers(decision)
	r.note(evidence.StepEligibility, "eligibility", status(blockers), nil, evidence.EligibilityDecided{Decision: encoded, Blockers: blockers})
	gate, code := "", reason.Code("")
	switch {
	case len(dirty) > 0:
		gate, code = "clean-start", dirty[0].Code
	case len(visible) > 0:
		gate, code = "held-out", visible[0].Code
	case len(blockers) > 0:
		gate, code = "eligibility", blockers[0].Code
		if len(decision.MissingGates) > 0 {
			gate = decision.MissingGates[0]
		}
	}
	if gate == "" {
		r.plan()
	}
	r.noteApproval()
	if gate != "" {
		return r.gateBlocked(gate, code)
	}
	if len(r.Contract.VerificationCommands) == 0 {
		return r.missingTestCommand()
	}
	return nil
}

// blockersOnly are the outputs of a step that has nothing else to say.
type blockersOnly struct {
	Blockers []evidence.Blocker `json:"blockers"`
}

// cleanStart looks for uncommitted changes: the agent works on a commit, and a
// user who has changed something would not expect it to be left out.
func (r *run) cleanStart() ([]evidence.Blocker, error) {
	if !r.Contract.RequireClean {
		return nil, nil
	}
	paths, err := r.dirty()
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	return []evidence.Blocker{{
		Code:     reason.DirtyStartingTree,
		Message:  fmt.Sprintf("%d tracked path(s) differ from HEAD: %s", len(paths), named(paths)),
		Evidence: evidence.ContractFile,
	}}, nil
}

func (r *run) eligibilityRequest() eligibility.Request {
	c := r.Contract
	driver := ""
	if r.Sandbox != nil {
		driver = r.opened.Host.Sandbox.Driver
	}
	asked, detail, remedy := task.Network(""), "", ""
	if r.Model != nil {
		asked, detail, remedy = c.Network, r.Model.Detail, r.Model.Remedy
	}
	fixture := ""
	if c.MutationMode == task.CopiedFixture {
		fixture, _ = shipped.IsFixture(r.base.Tree)
	}
	engine := eligibility.Engine{Name: r.opened.Engine.Name, Registered: true, Disabled: r.Disabled, Enabled: r.Admission.Enabled,
		SourceAdmitted: r.Admission.SourceStatus == sourceAdmitted, SourceDetail: r.Admission.Detail, SourceRemedy: r.Admission.Remedy,
		ModelStatus: r.modelStatus(), ModelDetail: detail, ModelRemedy: remedy,
		ProvenMode: r.Admission.ProvenMode, ModeDetail: r.Admission.Unproved, ModeRemedy: r.Admission.Prove}
	if r.Admission.Unavailable != nil {
		engine.Unavailable = r.unavailable(r.Admission.Unavailable)
	}
	if r.recalled != nil {
		engine = *r.recalled
	}
	return eligibility.Request{
		Network: asked, Fixture: fixture, Purpose: r.Purpose,
		TaskID: c.TaskID, ContractDigest: r.opened.ContractSHA256, PolicyBundleID: c.PolicyBundleID, RiskClass: c.RiskClass,
		TargetAdmitted: r.Target.Admitted, TargetCode: r.Target.Code, TargetDetail: r.Target.Detail,
		MutationMode: c.MutationMode, ApprovalRequired: c.ApprovalRequired || c.MutationMode.Delivers(),
		Approval: r.approved.state, ApprovalDetail: r.approved.detail,
		Engine:  engine,
		Sandbox: eligibility.Sandbox{Driver: driver, ExplicitNone: r.ExplicitNone},
	}
}

// decisionBlockers lists why a decision refuses, the specific codes first: the
// first blocker is the root cause that a user acts on.
func decisionBlockers(d eligibility.Decision) []evidence.Blocker {
	var specific, general []evidence.Blocker
	for _, f := range d.Findings() {
		b := evidence.Blocker{Code: f.Code, Message: f.Detail, Evidence: evidence.EligibilityFile}
		switch f.Code {
		case reason.EngineUnknown, reason.NotAFixture, reason.EngineNotEnabled, reason.SourceNotAdmitted, reason.ModelNotAdmitted,
			reason.ModelMismatch, reason.NetworkNotAllowed, reason.ModeExceedsStage, reason.ProviderUnavailable:
			b.Hint = d.Remedy(f.Gate) // it names the very engine, record or mode
		}
		if f.Code == reason.GateMissing {
			general = append(general, b)
		} else {
			specific = append(specific, b)
		}
	}
	return append(specific, general...)
}

// gateBlocked journals that a gate refused before any process was started.
func (r *run) gateBlocked(gate string, code reason.Code) error {
	r.note(evidence.StepGate, "gate", journal.Denied, nil, evidence.GateBlocked{
		Backend: r.opened.Engine.Name, Gate: gate, Reason: code, MutationMode: r.opened.MutationMode})
	r.tell(evidence.StepGate, "denied", string(code))
	return errStopped
}

// missingTestCommand refuses a run that nothing could prove, before it costs
// anything.
func (r *run) missingTestCommand() error {
	blocker := evidence.Blocker{Code: reason.MissingTestCommand,
		Message: "the contract names no verification command, so no change could be proved", Evidence: evidence.TestLogFile}
	r.note(evidence.StepVerification, "verify", journal.Denied, nil, evidence.VerificationCompleted{
		Status: evidence.StatusBlocked, TestsRule: string(r.Contract.Tests), Verifier: verifierIdentity(), Blockers: []evidence.Blocker{blocker}})
	r.tell(evidence.StepVerification, "denied", string(reason.MissingTestCommand))
	return errStopped
}

// plan journals what is about to be done.
func (r *run) plan() {
	change := evidence.PlanStep{ID: evidence.PlanEngine, Title: "let engine " + r.opened.Engine.Name + " change the copy in the sandbox"}
	if r.checks() {
		change = evidence.PlanStep{ID: evidence.PlanTake, Title: "apply the change that is checked to the baseline"}
	}
	r.note(evidence.StepPlan, "plan", journal.Completed, nil, evidence.Plan{Steps: []evidence.PlanStep{
		{ID: evidence.PlanWorkspace, Title: "copy the baseline into a workspace"},
		change,
		{ID: evidence.PlanPatch, Title: "capture the difference as a patch and check every path"},
		{ID: evidence.PlanVerify, Title: "verify on a fresh checkout, before and after: " + strings.Join(r.Contract.VerificationCommands, "; ")},
	}})
}

// named lists some paths for a message.
func named(paths []string) string {
	shown := make([]string, 0, maxNamed)
	for _, p := range paths[:min(len(paths), maxNamed)] {
		shown = append(shown, evidence.DisplayPath(p))
	}
	text := strings.Join(shown, ", ")
	if more := len(paths) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
