package job

import (
	"fmt"

	"remit/law/task"
)

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
