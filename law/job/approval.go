package job

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/reason"
)

// The states of an approval.
const (
	ApprovalRequested = "requested"
	ApprovalGranted   = "granted"
	ApprovalDenied    = "denied"
	ApprovalConsumed  = "consumed"
	ApprovalExpired   = "expired"
)

// Packet is what a person is asked to approve: the contract, word for word, for
// one repository.
type Packet struct {
	Contract       []byte // canonical
	ContractSHA256 string
	RepoRef        string        // of the run that will use the approval
	TTL            time.Duration // of a new request; 0 leaves it to the authority
	Binding        *Binding      // what the run works with; nil where the contract alone is approved
	Asker          *Asker        // what the run says of itself, for who decides; nil for nothing
	// Grant is set when the person who starts the run also approves it. That is
	// worth something only where the authority lets them decide.
	Grant bool
	// Wait is how long to wait for a decision; Waiting is called with the request
	// that is waited for.
	Wait    time.Duration
	Waiting func(Approval)
}

// Approval is an approval as its authority knows it. Times are RFC 3339.
type Approval struct {
	ID             string
	ContractSHA256 string
	Status         string
	RequestedBy    string
	DecidedBy      string // "" before the decision
	DecidedAt      string
	ExpiresAt      string
	Reason         string // of the decision
	// Before is the approval that this request follows, because it was used up
	// or its time was over; nil when there was none.
	Before *Approval
	RunID  string // that has used it up
	// BindingSHA256 is the digest of what it is for besides the contract, "" for
	// nothing. Other is an approval of the same contract for other work, which is why
	// this request was made; nil for none.
	BindingSHA256 string
	Other         *Approval
	// Refused is why the word of the person who starts the run does not count.
	Refused error
}

// ApprovalPacketSchema names the document that a person reads before they decide.
const ApprovalPacketSchema = "remit.approval.packet.v1"

// ApprovalPacket is an approval as a person decides about it, and what has become
// of it. It executes nothing: granting is the authority's, for a person whom it
// knows.
type ApprovalPacket struct {
	Schema               string   `json:"schema"`
	ApprovalID           string   `json:"approval_id"`
	Status               string   `json:"status"` // of the approval; consumed_by_pass_evidence once a pass rests on it
	Executable           bool     `json:"executable"`
	Title                string   `json:"title"`
	TaskID               string   `json:"task_id"`
	Target               string   `json:"target"`           // the repository's name, never its path
	AdmissionSource      string   `json:"admission_source"` // id of the target's admission record, "" where none is known here
	Task                 string   `json:"task"`
	ContractSHA256       string   `json:"contract_sha256"`
	MutationMode         string   `json:"mutation_mode"`
	Binding              *Binding `json:"binding"` // null for an approval of a contract alone
	AllowedPaths         []string `json:"allowed_paths"`
	ForbiddenPaths       []string `json:"forbidden_paths"`
	ForbiddenActions     []string `json:"forbidden_actions"`
	SuccessCriteria      []string `json:"success_criteria"`
	VerificationCommands []string `json:"verification_commands"`
	RollbackExpectation  string   `json:"rollback_expectation"`
	RequiredEvidence     []string `json:"required_evidence"`
	ExpiresAt            string   `json:"expires_at"`
	ApprovalCommandText  string   `json:"approval_command_text"` // one exact sentence
	ApprovalState
}

// ApprovalState is what may be done on the strength of an approval.
type ApprovalState struct {
	ApprovalRequired   bool          `json:"approval_required"`
	ApprovalGranted    bool          `json:"approval_granted"`
	ExecutionAllowed   bool          `json:"execution_allowed"` // false again once it is used
	ApprovalConsumed   bool          `json:"approval_consumed"`
	ConsumedByPass     *PassEvidence `json:"consumed_by_pass_evidence"` // null without a pass that is known here
	AllowedNextActions []string      `json:"allowed_next_actions"`
	BlockedNextActions []string      `json:"blocked_next_actions"`
}

// PassEvidence is the run that used an approval up and passed. Paths are relative
// to REMIT_HOME.
type PassEvidence struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	Report    string `json:"report"`
	Proof     string `json:"proof"` // "" where the run made none
}

// PacketOf makes the packet of an approval of a contract. It is pure. repoRef is
// the repository's name, admitted the id of its admission record, pass the evidence
// of the run that used the approval, nil for none.
func PacketOf(c *task.Contract, a Approval, repoRef, admitted string, b *Binding, pass *PassEvidence) ApprovalPacket {
	p := ApprovalPacket{Schema: ApprovalPacketSchema, ApprovalID: a.ID, Status: a.Status, Title: c.Title, TaskID: c.TaskID, Target: repoRef, AdmissionSource: admitted,
		Task: c.Instructions, ContractSHA256: a.ContractSHA256, MutationMode: c.MutationMode.String(), Binding: b,
		AllowedPaths: list(c.AllowedPaths), ForbiddenPaths: list(c.ForbiddenPaths), ForbiddenActions: list(c.ForbiddenActions),
		VerificationCommands: list(c.VerificationCommands), ExpiresAt: a.ExpiresAt, ApprovalState: stateOf(a, pass)}
	p.SuccessCriteria = []string{"every verification command exits 0 on a fresh checkout with the patch", "no path outside allowed_paths changes",
		"no forbidden action is possible"}
	p.RequiredEvidence = append([]string{"RECEIPT.json", "report.json", "journal.jsonl", "patch.diff", "test.log", "manifest.json"}, c.EvidenceExpectations...)
	p.RollbackExpectation = "nothing was written to the repository: reject the run"
	if Bound(c.MutationMode) {
		p.RollbackExpectation = "`remit reject` removes the one branch with the one commit that the run delivers"
	}
	if pass != nil {
		p.Status = "consumed_by_pass_evidence"
	}
	p.ApprovalCommandText = sentence(p)
	return p
}

// sentence is what a person agrees to, exactly.
func sentence(p ApprovalPacket) string {
	text := fmt.Sprintf("I approve %s under the contract %s against %s", p.TaskID, p.ContractSHA256, p.Target)
	if b := p.Binding; b != nil {
		text += fmt.Sprintf(" at commit %s, for engine %s %s (%s)", b.BaselineCommit, b.Engine, b.EngineVersion, b.EngineSHA256)
		if b.Model != "" {
			text += fmt.Sprintf(" with model %s of %s", b.Model, b.ModelProvider)
		}
	}
	return fmt.Sprintf("%s, for one run until %s.", text, p.ExpiresAt)
}

func stateOf(a Approval, pass *PassEvidence) ApprovalState {
	s := ApprovalState{ApprovalRequired: true, ApprovalConsumed: a.Status == ApprovalConsumed, ConsumedByPass: pass,
		AllowedNextActions: []string{}, BlockedNextActions: []string{"run_without_approval", "run_under_another_contract"}}
	s.ApprovalGranted = a.Status == ApprovalGranted || s.ApprovalConsumed
	s.ExecutionAllowed = a.Status == ApprovalGranted
	block := func(actions ...string) { s.BlockedNextActions = append(s.BlockedNextActions, actions...) }
	switch a.Status {
	case ApprovalRequested:
		s.AllowedNextActions = []string{"approve", "deny"}
		block("execute")
	case ApprovalGranted:
		s.AllowedNextActions = []string{"execute_once", "deny"}
	case ApprovalConsumed:
		s.AllowedNextActions = []string{"inspect_evidence", "accept_or_reject_outcome", "request_new_approval"}
		block("execute", "reuse_approval")
	case ApprovalExpired:
		s.AllowedNextActions = []string{"request_new_approval"}
		block("execute", "approve")
	default:
		s.AllowedNextActions = []string{"write_another_contract"}
		block("execute", "approve")
	}
	return s
}

func list(values []string) []string { return append([]string{}, values...) }

// Amendment is what became of a run after its authority heard of its end: the
// bundle as it was sealed since, and what the operator made of the result.
type Amendment struct {
	RunID   string                // at the authority
	Entries int                   // of the journal that the bundle holds
	Outcome string                // accepted or rejected; "" while it is pending
	Note    string                // the operator's reason
	Bundle  func(io.Writer) error // writes the zip
}

// Decision is the first word at an authority about the result of a run: there is
// one, and no later word changes it.
type Decision struct {
	Outcome   string // accepted or rejected
	Note      string
	Principal string
	At        time.Time // zero where the authority does not say it
}

func (d Decision) String() string {
	text := d.Outcome
	if d.Principal != "" {
		text += " by " + d.Principal
	}
	if !d.At.IsZero() {
		text += " at " + d.At.UTC().Format(time.RFC3339)
	}
	return text + ": " + cmp.Or(d.Note, "no reason was given")
}

// Stands is the refusal of another outcome of the run: the first word counts.
func (d Decision) Stands(run string) *reason.Error {
	return reason.Errorf(reason.OutcomeGiven, "run %s was already %s", run, d)
}

// BundleZip is the artifact of a run that is its sealed bundle.
const BundleZip = "bundle.zip"

const resealedPrefix, resealedSuffix = "bundle.", ".zip"

// ResealedBundle is the artifact of the bundle as it was sealed again, over a
// journal of so many entries. An artifact has one content for ever, so that each
// seal has a name of its own.
func ResealedBundle(entries int) string {
	return fmt.Sprintf("%s%d%s", resealedPrefix, entries, resealedSuffix)
}

// BundleEntries says which seal an artifact is: 0 for the first, the number of
// entries for a later one. It is no bundle when ok is false.
func BundleEntries(name string) (entries int, ok bool) {
	if name == BundleZip {
		return 0, true
	}
	number, begins := strings.CutPrefix(name, resealedPrefix)
	number, ends := strings.CutSuffix(number, resealedSuffix)
	entries, err := strconv.Atoi(number)
	return entries, begins && ends && err == nil && entries > 0 && ResealedBundle(entries) == name
}
