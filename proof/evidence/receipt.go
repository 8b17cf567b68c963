package evidence

import (
	"encoding/json"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// receiptToolCall is one entry of tool_calls.
type receiptToolCall struct {
	ID          string           `json:"id"`
	Tool        string           `json:"tool"`
	ParamsHash  string           `json:"params_hash"`
	OutputHash  string           `json:"output_hash"`
	StepUtility canon.Hundredths `json:"step_utility"`
	LatencyMS   int64            `json:"latency_ms"`
	SideEffects []SideEffect     `json:"side_effects"`
	OK          bool             `json:"ok"`
}

type receiptVerification struct {
	CommandsRun       []string `json:"commands_run"`
	ExitCodes         []int    `json:"exit_codes"`
	VerificationDelta int      `json:"verification_delta"`
}

type receiptMetrics struct {
	ToolCalls          int   `json:"tool_calls"`
	ToolLatencyMSTotal int64 `json:"tool_latency_ms_total"`
	VerificationPassed *bool `json:"verification_passed"`
	PaymentsMsatsTotal int64 `json:"payments_msats_total"`
}

// receiptModel is the one pair that the engine was let to.
type receiptModel struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// Receipt is RECEIPT.json.
type Receipt struct {
	Schema          string                    `json:"schema"`
	SessionID       string                    `json:"session_id"`
	RunID           string                    `json:"run_id"`
	StartedAt       string                    `json:"started_at"`
	CompletedAt     string                    `json:"completed_at"`
	IssueNumber     *int64                    `json:"issue_number"`
	PlanHash        *string                   `json:"plan_hash"`
	ToolCalls       []receiptToolCall         `json:"tool_calls"`
	Verification    receiptVerification       `json:"verification"`
	FinalConfidence canon.Hundredths          `json:"final_confidence"`
	PolicyBundleID  string                    `json:"policy_bundle_id"`
	TrajectoryHash  string                    `json:"trajectory_hash"`
	Receipts        []record.AuthorityReceipt `json:"receipts"`
	Payments        []record.PaymentLine      `json:"payments"`
	Metrics         receiptMetrics            `json:"metrics"`
	Journal         journal.Head              `json:"journal"`
	Status          string                    `json:"status"`
	BaselineCommit  ObjectID                  `json:"baseline_commit"`
	PatchSHA256     *string                   `json:"patch_sha256"`
	HeadTree        *string                   `json:"head_tree"`
	Engine          EngineIdentity            `json:"engine"`
	Verifier        *VerifierIdentity         `json:"verifier"`
	Model           *receiptModel             `json:"model,omitempty"` // as usage
	// Usage is what the gateway has counted, of journals that say whether the
	// cost of it is known.
	Usage     *MeteredUsage `json:"usage,omitempty"`
	Lifecycle *Lifecycle    `json:"lifecycle,omitempty"` // of an engine that was stopped
	// What a verification says of its own tests, and of what kind each fact of
	// this receipt is, where it states a control.
	Control             *Control        `json:"control,omitempty"`
	NewTests            *NewTests       `json:"new_tests,omitempty"`
	Observation         *Observation    `json:"observation,omitempty"`
	UntrackedTests      []string        `json:"untracked_tests,omitempty"`
	Kinds               map[string]Kind `json:"kinds,omitempty"`
	PolicySHA256        string          `json:"policy_sha256,omitempty"`
	Parent              *Parent         `json:"parent,omitempty"`      // of a run that continues another
	Checked             *Checked        `json:"checked,omitempty"`     // of a run without an engine
	Environment         *Environment    `json:"environment,omitempty"` // what lay beside the tree
	CanonicalJSONSHA256 string          `json:"canonical_json_sha256"`
	Signature           json.RawMessage `json:"signature"`
}

// receipt makes RECEIPT.json. canonical_json_sha256 is the digest of the
// canonical document without canonical_json_sha256 and signature.
func (r *run) receipt(head journal.Head, trajectory string) (*Receipt, error) {
	rc := &Receipt{
		Schema: ReceiptSchema, SessionID: r.session, RunID: r.opened.RunID,
		StartedAt: r.entries[0].StartedAt, CompletedAt: r.completedAt, IssueNumber: r.opened.IssueNumber,
		ToolCalls: []receiptToolCall{}, Verification: receiptVerification{[]string{}, []int{}, 0},
		PolicyBundleID: r.opened.PolicyBundleID, TrajectoryHash: trajectory, Receipts: r.receipts,
		Payments: []record.PaymentLine{}, Journal: head, Status: StatusBlocked, BaselineCommit: r.opened.BaselineCommit,
		Engine: r.opened.Engine, PolicySHA256: r.opened.PolicySHA256, Parent: r.opened.Parent, Checked: r.checked(), Signature: json.RawMessage("null"),
	}
	if rc.Receipts == nil {
		rc.Receipts = []record.AuthorityReceipt{}
	}
	for _, a := range r.receipts {
		if p, ok := a.Payment(); ok {
			rc.Payments = append(rc.Payments, p)
			rc.Metrics.PaymentsMsatsTotal += p.AmountMsats
		}
	}
	if r.completed != nil {
		rc.Status = r.completed.Status
	}
	if r.plan != nil {
		hash, err := planHash(r.plan)
		if err != nil {
			return nil, err
		}
		rc.PlanHash = &hash
	}
	for _, t := range r.tools {
		rc.ToolCalls = append(rc.ToolCalls, receiptToolCall{t.ID, t.Tool, t.ParamsHash, t.outputHash(), r.utility(t),
			t.Returned.LatencyMS, t.sideEffects(), t.Returned.OK})
		rc.Metrics.ToolLatencyMSTotal += t.Returned.LatencyMS
	}
	rc.Metrics.ToolCalls = len(r.tools)
	rc.Verification.CommandsRun, rc.Verification.ExitCodes = r.headRuns()
	if v := r.verification; v != nil {
		passed := v.Status == StatusPass
		rc.Verification.VerificationDelta, rc.FinalConfidence, rc.Metrics.VerificationPassed = v.Delta, v.Confidence, &passed
		rc.Verifier = &v.Verifier
		rc.Control, rc.NewTests, rc.Observation, rc.UntrackedTests = v.Control, v.NewTests, v.Observation, v.Untracked
	}
	rc.Lifecycle = r.reported()
	if u := r.usage; u.CostKnown != nil {
		rc.Usage = &u
		if r.opened.ModelProvider != nil && r.opened.Model != nil {
			rc.Model = &receiptModel{*r.opened.ModelProvider, *r.opened.Model}
		}
	}
	if r.patch != nil {
		rc.PatchSHA256, rc.HeadTree = &r.patch.PatchSHA256, &r.patch.HeadTree
	}
	rc.Environment = r.environment()
	if r.stated() {
		rc.Kinds = r.kinds(rc)
	}
	return rc, rc.seal()
}

// seal computes canonical_json_sha256.
func (rc *Receipt) seal() error {
	b, err := canon.Marshal(rc)
	if err != nil {
		return err
	}
	rc.CanonicalJSONSHA256, err = receiptDigest(b)
	return err
}

// receiptDigest is the digest of a receipt without canonical_json_sha256 and
// signature. It works on the text, so that a receipt with fields of a later
// version keeps its digest.
func receiptDigest(text []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	delete(fields, "canonical_json_sha256")
	delete(fields, "signature")
	return canon.DigestOf(fields)
}

func planHash(p *Plan) (string, error) { return canon.DigestOf(p) }

// headRuns lists the commands that ran on the patched tree.
func (r *run) headRuns() (commands []string, codes []int) {
	commands, codes = []string{}, []int{}
	for _, p := range r.phases {
		for _, c := range p.Runs {
			if c.Phase == "head" {
				commands, codes = append(commands, c.Command), append(codes, c.ExitCode)
			}
		}
	}
	return commands, codes
}

// utility is +1 if an effect of the call is in the final patch, −1 if the call
// was refused or nothing of what it did is left, else 0.
func (r *run) utility(t toolCall) canon.Hundredths {
	if t.denied {
		return -100
	}
	effects := t.sideEffects()
	if len(effects) == 0 || r.patch == nil {
		return 0
	}
	for _, s := range effects {
		if r.patched[s.Path] {
			return 100
		}
	}
	return -100
}

func (t toolCall) sideEffects() []SideEffect {
	if t.Returned.SideEffects == nil {
		return []SideEffect{}
	}
	return t.Returned.SideEffects
}

// outputHash of a call that never returned is that of no output.
func (t toolCall) outputHash() string {
	if t.Returned.OutputHash == "" {
		return canon.Digest(nil)
	}
	return t.Returned.OutputHash
}

// DecodeReceipt reads RECEIPT.json and checks its own digest.
func DecodeReceipt(b []byte, rc *Receipt) error {
	if err := json.Unmarshal(b, rc); err != nil {
		return reason.Errorf(reason.SchemaInvalid, "%s: %w", ReceiptFile, err)
	}
	digest, err := receiptDigest(b)
	if err != nil {
		return err
	}
	if rc.CanonicalJSONSHA256 != digest {
		return reason.Errorf(reason.ArtifactDigest, "%s is not what its canonical_json_sha256 says", ReceiptFile)
	}
	return nil
}
