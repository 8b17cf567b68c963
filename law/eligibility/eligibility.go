// Package eligibility makes the decision that comes before every run: may this
// engine do this task, in this mode, now?
//
// [Decide] is a pure function of a [Request]. It walks a fixed list of gates;
// each either is not required, passes, or is missing. One missing gate is
// enough: no backend is selected, the allowed mutation mode is none, and the
// run is blocked. An engine can recommend, never decide: nothing an engine says
// is part of a Request, and the policy can switch an engine off but not switch
// a gate off.
//
// The gates, in order:
//
//	engine:available   the engine's program is on this machine
//	engine:enabled     the engine is switched on (fake and command are, unless the policy switches them off)
//	source:admitted    a source admission record holds for this build of the engine
//	network:gateway    the contract gives the engine a way to a model
//	model:admitted     a model admission record holds for the exact provider and model
//	mode:within-stage  the requested mode is not above what the engine has proved
//	fixture:shipped    a fixture is a repository that comes with Remit, by its tree
//	target:admitted    modes that touch a real repository need a target admission record
//	sandbox:DRIVER     a confinement driver works; without one the user must have asked for none by name
//	approval:granted   a person, not the engine, approved this contract
//
// fake and command ask no model and are built in, so the source and model gates
// do not exist for them. How far any engine may go is what is proved of it on the
// ladder, the engines that are built in included.
//
// What records decide is asked before anything of the repository is looked at,
// what its policy decides before more than that file is. Such a request says in
// [Request.Known] how much is known, the gates that need more are in not_asked,
// and its answer is final only where it refuses.
//
// A [Decision] is recorded in eligibility.json. decision_id is the digest of
// the canonical request: the same question has the same answer and the same id.
package eligibility

import (
	"fmt"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
)

// Schema names the decision record.
const Schema = "remit.eligibility.v1"

// None is the selected_backend of a decision that selects no backend.
const None = "none"

// Request is everything that the decision depends on.
type Request struct {
	TaskID           string            `json:"task_id"`
	ContractDigest   string            `json:"contract_digest"`
	PolicyBundleID   string            `json:"policy_bundle_id"`
	RiskClass        task.RiskClass    `json:"risk_class"`
	MutationMode     task.MutationMode `json:"mutation_mode"`     // requested
	ApprovalRequired bool              `json:"approval_required"` // by the contract
	Approval         Approval          `json:"approval"`
	ApprovalDetail   string            `json:"approval_detail,omitempty"` // what the authority says of it, in words
	TargetAdmitted   bool              `json:"target_admitted"`
	Fixture          string            `json:"fixture,omitempty"`       // the shipped case that the baseline is, "" for none
	TargetCode       reason.Code       `json:"target_code,omitempty"`   // of what the target record lacks
	TargetDetail     string            `json:"target_detail,omitempty"` // in words that name no path
	Engine           Engine            `json:"engine"`
	Sandbox          Sandbox           `json:"sandbox"`
	Network          task.Network      `json:"network,omitempty"` // the contract's, of a run that asks a model
	Known            Known             `json:"known,omitempty"`
	ModeOpen         bool              `json:"mode_open,omitempty"` // the policy, which is not known, may lower MutationMode
	Purpose          string            `json:"purpose,omitempty"`   // PurposeProof, PurposeCheck, or "" for an ordinary run
}

// PurposeProof is the purpose of a run by which an engine shows a stage of the
// ladder, on a repository that its prover made or its owner named for that.
const PurposeProof = "proof"

// PurposeCheck is the purpose of a run that checks a change which was there before
// it. Its engine is [None]: nothing is started but the verification commands, so
// the gates of engines, modes and approvals are not asked.
const PurposeCheck = "check"

// checks reports whether the run has no engine.
func (r Request) checks() bool { return r.Purpose == PurposeCheck && r.Engine.Name == None }

// Known is how much of a run is known when its gates are asked.
type Known string

// What can be known. The zero value is everything.
const (
	KnownAll     Known = ""
	KnownPolicy  Known = "policy"  // records, contract and policy: no repository and no sandbox was opened
	KnownRecords Known = "records" // records and contract: no file of the repository was opened
)

// Engine is what the records say about the engine that was asked for.
type Engine struct {
	Name           string            `json:"name"`
	Registered     bool              `json:"registered"`      // this build of Remit has it
	Enabled        bool              `json:"enabled"`         // the policy says enabled: true
	Disabled       bool              `json:"disabled"`        // the policy says enabled: false
	SourceAdmitted bool              `json:"source_admitted"` // a source admission record holds
	ModelStatus    ModelStatus       `json:"model_status"`
	SourceDetail   string            `json:"source_detail,omitempty"` // what the record says, in words
	SourceRemedy   string            `json:"source_remedy,omitempty"` // what would make one hold
	ModelDetail    string            `json:"model_detail,omitempty"`
	ModelRemedy    string            `json:"model_remedy,omitempty"`
	ProvenMode     task.MutationMode `json:"proven_mode"`           // the widest mode its proven stages allow
	ModeDetail     string            `json:"mode_detail,omitempty"` // why no further stage is proven, in words
	ModeRemedy     string            `json:"mode_remedy,omitempty"` // the command that would prove it
	Unavailable    *Unavailable      `json:"unavailable,omitempty"`
}

// Unavailable is why an engine cannot run on this machine.
type Unavailable struct {
	Code   reason.Code `json:"code"`
	Detail string      `json:"detail"`
	Remedy string      `json:"remedy,omitempty"`
}

// ModelStatus is the model_admission_status of a report.
type ModelStatus string

// The model admission states. Only admitted passes; not_required is for the
// engines that ask no model.
const (
	ModelAdmitted    ModelStatus = "admitted"
	ModelMissing     ModelStatus = "missing_admission"
	ModelMismatch    ModelStatus = "mismatch"
	ModelInvalid     ModelStatus = "invalid_admission"
	ModelNotAdmitted ModelStatus = "not_admitted"
	ModelNotRequired ModelStatus = "not_required"
)

// Approval is the state of the approval for this contract digest.
type Approval string

// The approval states. Only granted passes.
const (
	ApprovalNone      Approval = ""
	ApprovalRequested Approval = "requested"
	ApprovalGranted   Approval = "granted"
	ApprovalDenied    Approval = "denied"
	ApprovalExpired   Approval = "expired"
	ApprovalConsumed  Approval = "consumed"
	ApprovalOtherWork Approval = "other_work" // it is for another engine, model, commit or target
)

// Sandbox is the confinement that the run would have.
type Sandbox struct {
	Driver       string `json:"driver"`        // "" when none works, NoDriver for no confinement
	ExplicitNone bool   `json:"explicit_none"` // the user asked for NoDriver by name
}

// NoDriver is the sandbox driver that confines nothing.
const NoDriver = "none"

// Decision is the eligibility decision record.
type Decision struct {
	Schema                string            `json:"schema"`
	DecisionID            string            `json:"decision_id"`
	TaskID                string            `json:"task_id"`
	ContractDigest        string            `json:"contract_digest"`
	PolicyBundleID        string            `json:"policy_bundle_id"`
	SelectedBackend       string            `json:"selected_backend"` // engine name, or None
	DeniedBackends        []Denial          `json:"denied_backends"`
	RiskClass             task.RiskClass    `json:"risk_class"`
	RequiredGates         []string          `json:"required_gates"`
	PassedGates           []string          `json:"passed_gates"`
	MissingGates          []string          `json:"missing_gates"`
	RequestedMutationMode task.MutationMode `json:"requested_mutation_mode"`
	AllowedMutationMode   task.MutationMode `json:"allowed_mutation_mode"` // none when blocked
	ApprovalRequired      bool              `json:"approval_required"`
	ModelAdmissionStatus  ModelStatus       `json:"model_admission_status"`
	SourceAdmissionStatus string            `json:"source_admission_status"` // admitted|not_admitted|not_required
	Reasons               []Reason          `json:"reasons"`
	EscalationPath        []string          `json:"escalation_path"` // what would open each missing gate
	// NotAsked are the gates that need more than was known, see [Known].
	NotAsked []string `json:"not_asked,omitempty"`
}

// Denial is a backend that was not selected, and why.
type Denial struct {
	Backend string        `json:"backend"`
	Reasons []reason.Code `json:"reasons"`
}

// Reason is one gate that is missing.
type Reason struct {
	Gate   string      `json:"gate"`
	Code   reason.Code `json:"code"`
	Detail string      `json:"detail"`
}

// Remedy is what would open a missing gate, "" for another one.
func (d Decision) Remedy(gate string) string {
	if i := slices.Index(d.MissingGates, gate); i >= 0 && i < len(d.EscalationPath) {
		return d.EscalationPath[i]
	}
	return ""
}

// Blocked reports whether the run must not start.
func (d Decision) Blocked() bool { return len(d.MissingGates) > 0 }

// Findings returns the reasons as findings: gate_missing first, then the code
// of each missing gate. It is empty when the run may start.
func (d Decision) Findings() []reason.Finding {
	var findings []reason.Finding
	for _, r := range d.Reasons {
		findings = append(findings, reason.Finding{Gate: r.Gate, Code: r.Code, Path: "eligibility.json", Detail: r.Detail})
	}
	return findings
}

// Decide answers the request. Every gate is evaluated, also after one is
// missing, so that a person sees all that is left to do.
func Decide(r Request) Decision {
	approval := (r.ApprovalRequired || r.RiskClass.NeedsApproval()) && !r.checks()
	d := Decision{
		Schema: Schema, TaskID: r.TaskID, ContractDigest: r.ContractDigest, PolicyBundleID: r.PolicyBundleID,
		SelectedBackend: r.Engine.Name, DeniedBackends: []Denial{}, RiskClass: r.RiskClass,
		RequiredGates: []string{}, PassedGates: []string{}, MissingGates: []string{},
		RequestedMutationMode: r.MutationMode, AllowedMutationMode: r.MutationMode, ApprovalRequired: approval,
		ModelAdmissionStatus: r.Engine.modelStatus(), SourceAdmissionStatus: r.Engine.sourceStatus(),
		Reasons: []Reason{}, EscalationPath: []string{},
	}
	if r.checks() {
		d.ModelAdmissionStatus, d.SourceAdmissionStatus = ModelNotRequired, "not_required"
	}
	results, notAsked := gates(r, approval)
	d.NotAsked = notAsked
	id, err := canon.DigestOf(r)
	if err != nil {
		// A request that cannot be recorded cannot be decided. The id is still
		// a function of the inputs.
		id = canon.Digest(fmt.Appendf(nil, "%+v", r))
		results = append(results, missing("inputs:recordable", reason.GateMissing, "look at the names of task and engine",
			"the request has no canonical form: %v", err))
	}
	d.DecisionID = id
	for _, g := range results {
		d.RequiredGates = append(d.RequiredGates, g.name)
		if g.code == "" {
			d.PassedGates = append(d.PassedGates, g.name)
			continue
		}
		d.MissingGates = append(d.MissingGates, g.name)
		d.Reasons = append(d.Reasons, Reason{Gate: g.name, Code: g.code, Detail: g.detail})
		d.EscalationPath = append(d.EscalationPath, g.remedy)
	}
	if len(d.MissingGates) > 0 {
		d.deny(r.Engine.Name)
	}
	return d
}

// deny turns the decision into a refusal.
func (d *Decision) deny(engine string) {
	denial := Denial{Backend: engine}
	for _, r := range d.Reasons {
		if !slices.Contains(denial.Reasons, r.Code) {
			denial.Reasons = append(denial.Reasons, r.Code)
		}
	}
	d.SelectedBackend = None
	d.AllowedMutationMode = task.ModeNone
	d.DeniedBackends = append(d.DeniedBackends, denial)
	d.Reasons = slices.Insert(d.Reasons, 0, Reason{
		Gate: "eligibility", Code: reason.GateMissing,
		Detail: "missing gates: " + strings.Join(d.MissingGates, ", "),
	})
}
