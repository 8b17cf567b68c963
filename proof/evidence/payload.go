package evidence

import (
	"encoding/json"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Build names the program that made the evidence.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// EngineIdentity names an engine so that a changed engine is another engine.
type EngineIdentity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // digest of what is executed
}

// MarshalJSON writes null for a digest that nothing was taken of: the program was
// not there, or the run was refused before it was looked at.
func (e EngineIdentity) MarshalJSON() ([]byte, error) {
	var digest *string
	if e.SHA256 != "" {
		digest = &e.SHA256
	}
	return json.Marshal(struct {
		Name    string  `json:"name"`
		Version string  `json:"version"`
		SHA256  *string `json:"sha256"`
	}{e.Name, e.Version, digest})
}

// ObjectID is the id of a git object; "" is none, and null in JSON.
type ObjectID string

// MarshalJSON implements json.Marshaler.
func (o ObjectID) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(o))
}

// SandboxFacts describe the confinement of a run.
type SandboxFacts struct {
	Driver      string   `json:"driver"`
	Version     string   `json:"version"`
	Layer       string   `json:"layer"`
	NotEnforced []string `json:"not_enforced"`
}

// Host is what a reader may know of the machine; no path and no name.
type Host struct {
	OS      string       `json:"os"`
	Arch    string       `json:"arch"`
	Sandbox SandboxFacts `json:"sandbox"`
}

// RunOpened are the inputs of entry 0: all that the run depends on.
type RunOpened struct {
	RunID          string         `json:"run_id"`
	RunIDAudit     string         `json:"run_id_audit"` // UUIDv7 of this attempt
	CaseID         string         `json:"case_id"`
	Title          string         `json:"title"`
	ContractSHA256 string         `json:"contract_sha256"`
	PolicyBundleID string         `json:"policy_bundle_id"`
	PolicySHA256   string         `json:"policy_sha256,omitempty"` // of the policy as it was applied; runs that do not state it are older
	Remit          Build          `json:"remit"`
	Engine         EngineIdentity `json:"engine"`
	ModelProvider  *string        `json:"model_provider"`
	Model          *string        `json:"model"`
	RepoRoot       string         `json:"repo_root"`       // symbolic, never a path
	BaselineCommit ObjectID       `json:"baseline_commit"` // null with DecidedOn
	BaselineTree   ObjectID       `json:"baseline_tree"`
	IssueNumber    *int64         `json:"issue_number"`
	MutationMode   string         `json:"mutation_mode"`
	// AllowedMutationScope is [MutationScope] of the mode. Runs that do not
	// state it are older: for them it is [olderScope].
	AllowedMutationScope string   `json:"allowed_mutation_scope,omitempty"`
	ApprovalRequired     bool     `json:"approval_required"`
	ExpectDiff           bool     `json:"expect_diff"`
	SourceAdmission      string   `json:"source_admission_status"`
	ModelAdmission       string   `json:"model_admission_status"`
	VerificationCommands []string `json:"verification_commands"`
	Host                 Host     `json:"host"`
	// DecidedOn is what a run was refused on before its repository was opened:
	// [DecidedOnRecords] or [DecidedOnPolicy]; "" for one whose repository was.
	DecidedOn string `json:"decided_on,omitempty"`
	// Purpose is "proof" for a run by which an engine shows a stage of the ladder,
	// [PurposeCheck] for one without an engine, and "" for an ordinary one.
	Purpose string `json:"purpose,omitempty"`
	// SummaryForm is the form of PR_SUMMARY.md. Runs that do not state it are older,
	// and their summary keeps its bytes.
	SummaryForm int `json:"summary_form,omitempty"`
	// Parent is the session whose change the run continues, nil for a run that
	// starts from the baseline.
	Parent *Parent `json:"parent,omitempty"`
	// Checked is the change that a run without an engine checks, nil for a run whose
	// engine makes one.
	Checked *Checked `json:"checked,omitempty"`
}

// What a run can be refused on that opened no repository.
const (
	DecidedOnRecords = "records" // records and contract: no file of the target was opened
	DecidedOnPolicy  = "policy"  // those, and remit.yaml
)

// RunIDOf computes run_id: the same contract, baseline, engine, model, policy and
// patch to start from, or change to check, give the same id.
func RunIDOf(o RunOpened) (string, error) {
	inputs := map[string]any{
		"contract_sha256":  o.ContractSHA256,
		"baseline_commit":  o.BaselineCommit,
		"engine":           o.Engine,
		"model_provider":   o.ModelProvider,
		"model":            o.Model,
		"policy_bundle_id": o.PolicyBundleID,
	}
	if o.Parent != nil {
		inputs["parent_patch_sha256"] = o.Parent.PatchSHA256
	}
	if o.Checked != nil {
		inputs["checked"] = o.Checked
	}
	return canon.DigestOf(inputs)
}

// Blocker is why a run is not a pass.
type Blocker struct {
	Code     reason.Code `json:"code"`
	Message  string      `json:"message"`
	Evidence string      `json:"evidence"` // artifact or record that shows it
	// Hint is what can be done about this one, where more is known than the
	// code's own hint says.
	Hint string `json:"hint,omitempty"`
}

// blocked is the part of a step's outputs that every step may carry.
type blocked struct {
	Blockers []Blocker `json:"blockers"`
}

// ContractCreated are the inputs of task.contract.created.
type ContractCreated struct {
	ContractSHA256 string          `json:"contract_sha256"`
	Contract       json.RawMessage `json:"contract"`
}

// EligibilityDecided are the outputs of eligibility.decided.
type EligibilityDecided struct {
	Decision json.RawMessage `json:"decision"`
	Blockers []Blocker       `json:"blockers"`
}

// PlanStep is one step of the plan. ID is the journal's step_id of its execution.
type PlanStep struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// Plan are the outputs of plan.updated: what Remit is about to do.
type Plan struct {
	Steps []PlanStep `json:"steps"`
}

// GateBlocked are the outputs of a denied backend.gate.
type GateBlocked struct {
	Backend        string      `json:"backend"`
	Gate           string      `json:"gate"`
	Reason         reason.Code `json:"reason"`
	MutationMode   string      `json:"mutation_mode"`
	EngineExecuted bool        `json:"engine_executed"`
	Blockers       []Blocker   `json:"blockers"`
}

// Approval are the outputs of the approval steps. With an ApprovalID it is the
// authority's word, of which there are receipts, and Actor is whom it names;
// without one it is that of the person who ran it.
type Approval struct {
	ApprovalID     string    `json:"approval_id,omitempty"`
	DecidedAt      string    `json:"decided_at,omitempty"`
	Actor          string    `json:"actor"`
	Scope          string    `json:"scope"`
	MutationMode   string    `json:"mutation_mode"`
	ContractSHA256 string    `json:"contract_sha256"`
	ExpiresAt      *string   `json:"expires_at"`
	Blockers       []Blocker `json:"blockers"`
}

// WorkspaceCopied are the outputs of a completed workspace.copy.
type WorkspaceCopied struct {
	BaselineTree string    `json:"baseline_tree"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	CacheWarm    bool      `json:"cache_warm"`
	Blockers     []Blocker `json:"blockers"`
}

// EngineStarted are the inputs of engine.run.
type EngineStarted struct {
	Engine     string   `json:"engine"`
	Argv       []string `json:"argv"`
	ArgvSHA256 string   `json:"argv_sha256"`
	Network    string   `json:"network"`
}

// Cap is one resource limit and what was seen of it.
type Cap struct {
	Name     string `json:"name"`
	Limit    int64  `json:"limit"`
	Enforced bool   `json:"enforced"`
	How      string `json:"how"`
	Observed int64  `json:"observed"`
}

// ResourceUsage is what a sandboxed process tree used.
type ResourceUsage struct {
	CPUMillis       int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	WallMillis      int64 `json:"wall_ms"`
}

// EngineFinished are the outputs of engine.run.
type EngineFinished struct {
	ProcessStarted bool   `json:"process_started"`
	ExitCode       *int   `json:"exit_code"`
	Signal         string `json:"signal"`
	TimedOut       bool   `json:"timed_out"`
	Idle           bool   `json:"idle,omitempty"` // timed out because it gave no sign of life
	OutputExceeded bool   `json:"output_exceeded"`
	OOMKilled      bool   `json:"oom_killed"`
	DurationMS     int64  `json:"duration_ms"`
	StdoutSHA256   string `json:"stdout_sha256"`
	StderrSHA256   string `json:"stderr_sha256"`
	StdoutBytes    int64  `json:"stdout_bytes"`
	StderrBytes    int64  `json:"stderr_bytes"`
	Summary        string `json:"summary"` // the agent's own words, never evidence
	// Rejected is why the engine's own reviewer turned the change down, nil if it
	// did not. It can only block a run.
	Rejected *string       `json:"rejected,omitempty"`
	Caps     []Cap         `json:"caps"`
	Usage    ResourceUsage `json:"usage"`
	Layer    string        `json:"layer"`
	// Dependencies are what it changed of the layers that lay above the tree.
	Dependencies *DependencyChanges `json:"dependencies_changed,omitempty"`
	// Ending is what speaks against the end of an engine that left a change: the
	// verifier judges the change first, and engine.ending says then what it means.
	Ending   []Blocker `json:"ending,omitempty"`
	Blockers []Blocker `json:"blockers"`
}

// SideEffect is a change that a tool call made.
type SideEffect struct {
	Type string `json:"type"`
	Path string `json:"path"`
}

// ToolCalled are the inputs of a tool step.
type ToolCalled struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Params     json.RawMessage `json:"params"`
	ParamsHash string          `json:"params_hash"`
}

// ToolReturned are the outputs of a tool step.
type ToolReturned struct {
	ID          string       `json:"id"`
	OutputHash  string       `json:"output_hash"`
	ExitCode    *int         `json:"exit_code"`
	LatencyMS   int64        `json:"latency_ms"`
	OK          bool         `json:"ok"`
	SideEffects []SideEffect `json:"side_effects"`
}

// Message are the outputs of message.emitted.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// MeteredUsage are the outputs of usage.metered.
type MeteredUsage struct {
	Tokens       int64 `json:"tokens"`
	CostMicroUSD int64 `json:"cost_micro_usd"`
	Requests     int64 `json:"requests"`
	// CostKnown is false when the price of something that was used is not
	// known, so that the cost is a part of the real one; nil when it is not stated.
	CostKnown *bool `json:"cost_known,omitempty"`
}

// plus adds what was used later. A cost is known when each part of it is.
func (u MeteredUsage) plus(v MeteredUsage) MeteredUsage {
	sum := MeteredUsage{Tokens: u.Tokens + v.Tokens, CostMicroUSD: u.CostMicroUSD + v.CostMicroUSD, Requests: u.Requests + v.Requests, CostKnown: v.CostKnown}
	if u.CostKnown != nil && (v.CostKnown == nil || !*u.CostKnown) {
		sum.CostKnown = u.CostKnown
	}
	return sum
}

// ChangedFile is one path of the patch.
type ChangedFile struct {
	Path    string `json:"path"` // DisplayPath form
	Op      string `json:"op"`
	OldMode string `json:"old_mode"`
	NewMode string `json:"new_mode"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary"`
}

// PatchCaptured are the outputs of patch.captured.
type PatchCaptured struct {
	PatchSHA256 string        `json:"patch_sha256"`
	PatchBytes  int64         `json:"patch_bytes"`
	BaseTree    string        `json:"base_tree"`
	HeadTree    string        `json:"head_tree"`
	Files       []ChangedFile `json:"files"`
	Ignored     []string      `json:"ignored"`                // left out of the patch by the baseline's ignore rules
	IgnoredMore int64         `json:"ignored_more,omitempty"` // that are not listed, of very many
	Refused     []string      `json:"refused"`                // what cannot be part of a patch
	Blockers    []Blocker     `json:"blockers"`
}

// WritesChecked are the outputs of writes.checked.
type WritesChecked struct {
	AllowedWritesPassed bool      `json:"allowed_writes_passed"`
	Offending           []string  `json:"offending"`
	Blockers            []Blocker `json:"blockers"`
}

// SourceChecked are the outputs of source.checked.
type SourceChecked struct {
	Mutated   bool          `json:"mutated"`
	Differs   []string      `json:"differs"`
	Meanwhile *SourceChange `json:"changed_meanwhile,omitempty"` // what changed out of the run's reach
	Blockers  []Blocker     `json:"blockers"`
}

// ProofRecorded are inputs (name) and outputs (body) of proof.recorded; it
// becomes proofs/<name>.json.
type ProofRecorded struct {
	Name string `json:"name"`
}

// ArtifactRecorded are the outputs of artifact.recorded: a blob beside the journal.
type ArtifactRecorded struct {
	Path      string    `json:"path"`
	SHA256    string    `json:"sha256"`
	Bytes     int64     `json:"bytes"`
	WrittenAt string    `json:"written_at"`
	CheckedAt string    `json:"checked_at"`
	Blockers  []Blocker `json:"blockers"`
}

// RunCompleted are the outputs of run.completed; equal to [Verdict].
type RunCompleted struct {
	Status        string    `json:"status"`
	FailureReason *string   `json:"failure_reason"`
	Blockers      []Blocker `json:"blockers"`
}

// Pending is the outcome of a run before anybody has decided.
const Pending = "pending"

// Outcome are the outputs of operator.outcome.
type Outcome struct {
	Outcome string `json:"outcome"` // accepted or rejected
	Reason  string `json:"reason"`
	Actor   string `json:"actor"`
	// Branch is what became of the branch that the run delivered its change to, ""
	// where the outcome touched none.
	Branch string `json:"branch,omitempty"`
}

// TitleOf reads the title of a canonical contract.
func TitleOf(contract []byte) (string, error) {
	var c struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(contract, &c); err != nil {
		return "", reason.Errorf(reason.SchemaInvalid, "%s: %w", ContractFile, err)
	}
	return c.Title, nil
}
