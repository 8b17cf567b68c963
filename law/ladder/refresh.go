package ladder

import (
	"cmp"
	"slices"
	"strings"

	"remit/law/secret"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// RefreshSchema names the document of a refresh.
const RefreshSchema = "remit.ladder.refresh.v1"

// RepeatabilityRequired is how many passes repeatability asks for, each with a
// task and an approval of its own.
const RepeatabilityRequired = 2

// The checks of a refresh, in the order in which it reports.
const (
	RefreshReportShape     = "report_shape"
	RefreshEvents          = "event_validity"
	RefreshAllowedPaths    = "allowed_path_compliance"
	RefreshFailureClosure  = "failure_closure"
	RefreshMatrix          = "failure_matrix_carry_forward"
	RefreshArtifacts       = "artifact_completeness"
	RefreshForbidden       = "forbidden_action_closure"
	RefreshAcceptance      = "operator_acceptance"
	RefreshApproval        = "approval_provenance"
	RefreshSourceAdmission = "source_admission_freshness"
	RefreshTarget          = "target_validation"
	RefreshTargetReadOnly  = "target_read_only_status"
)

// RefreshChecks lists them.
func RefreshChecks() []string {
	return []string{RefreshReportShape, RefreshEvents, RefreshAllowedPaths, RefreshFailureClosure, RefreshMatrix, RefreshArtifacts, RefreshForbidden,
		RefreshAcceptance, RefreshApproval, RefreshSourceAdmission, RefreshTarget, RefreshTargetReadOnly}
}

// PassFacts are what a refresh found of one recorded pass of stage 5.
type PassFacts struct {
	Path   string // of the proof, relative to REMIT_HOME
	SHA256 string // of the proof's bytes
	Proof  *Proof // nil where it cannot be read
	Fault  string // why the record counts for nothing
	Report *evidence.Report
	Task   string // digest of the contract
	// ReportPath is that of the report, relative to REMIT_HOME.
	ReportPath string
	// What the audit of the session found, by check; "" where it holds.
	ShapeFault, EventFault, PathFault, ArtifactFault string
	// Matrix is the digest of the complete failure matrix that is kept and passes,
	// "" for none.
	Matrix string
	// Forbidden are the forbidden actions that the session proves could not happen.
	Forbidden []string
	// Source and Target are the ids of the records that admit engine and target now,
	// "" for none; SourceNeeded is false for an engine that needs none.
	Source, Target string
	SourceNeeded   bool
	// Approval is the id that the session consumed, "" for none; Named the one that the
	// proof names of this pass.
	Approval, Named string
	// TargetTouched says what of the target the refresh, or the session, changed.
	TargetTouched string
}

// RefreshCheck is one check of one pass.
type RefreshCheck struct {
	Name   string      `json:"name"`
	Status string      `json:"status"` // pass, blocked or fail
	Code   reason.Code `json:"code"`   // "" where it passes
	Detail string      `json:"detail"`
}

// RefreshPass is one recorded pass.
type RefreshPass struct {
	Proof          string         `json:"proof"`
	ProofSHA256    string         `json:"proof_sha256"`
	Report         string         `json:"report"`
	SessionID      string         `json:"session_id"`
	CaseID         string         `json:"case_id"`
	ContractSHA256 string         `json:"contract_sha256"`
	ApprovalID     *string        `json:"approval_id"`     // as the proof has it
	ApprovalNote   string         `json:"approval_source"` // where proof and session differ, both
	Status         string         `json:"status"`
	Checks         []RefreshCheck `json:"checks"`
}

// Refresh is what came of reading recorded passes again.
type Refresh struct {
	Schema                string        `json:"schema"`
	Engine                string        `json:"engine"`
	RefreshedAt           string        `json:"refreshed_at"`
	ReadOnly              bool          `json:"read_only"` // true, always
	Passes                []RefreshPass `json:"real_stage5_passes"`
	RepeatabilityRequired int           `json:"repeatability_required"`
	RepeatabilityCount    int           `json:"repeatability_count"` // passes that hold, with distinct tasks and approvals
	RepeatabilityStatus   string        `json:"repeatability_status"`
	RepeatabilityPassed   bool          `json:"repeatability_passed"`
	Eligible              bool          `json:"candidate_default_repeatability_eligible"`
	TargetReadOnly        string        `json:"target_read_only_status"`
	RuntimeDefault        bool          `json:"runtime_default_activation"` // false, always
	CorePromotionStatus   string        `json:"core_promotion_status"`
	Status                string        `json:"status"`
	OK                    bool          `json:"ok"`
	ExitCode              int           `json:"exit_code"`
}

// JudgeRefresh holds recorded passes against the twelve checks, and counts those
// that have a task and an approval that no other has.
func JudgeRefresh(engine, at string, facts []PassFacts) Refresh {
	r := Refresh{Schema: RefreshSchema, Engine: engine, RefreshedAt: at, ReadOnly: true, Passes: []RefreshPass{}, RepeatabilityRequired: RepeatabilityRequired,
		RepeatabilityStatus: evidence.StatusBlocked, TargetReadOnly: evidence.StatusPass, CorePromotionStatus: NotPromoted}
	tasks, approvals := map[string]bool{}, map[string]bool{}
	failed := false
	for i := range facts {
		p := facts[i].judge()
		r.Passes = append(r.Passes, p)
		failed = failed || p.Status == evidence.StatusFail
		if facts[i].TargetTouched != "" {
			r.TargetReadOnly = evidence.StatusFail
		}
		if p.Status != evidence.StatusPass || tasks[p.ContractSHA256] || approvals[*p.ApprovalID] {
			continue
		}
		tasks[p.ContractSHA256], approvals[*p.ApprovalID] = true, true
		r.RepeatabilityCount++
	}
	switch {
	case failed:
		r.RepeatabilityStatus = evidence.StatusFail
	case r.RepeatabilityCount >= RepeatabilityRequired:
		r.RepeatabilityStatus, r.RepeatabilityPassed, r.Eligible = evidence.StatusPass, true, true
	}
	r.Status, r.OK = r.RepeatabilityStatus, r.RepeatabilityPassed
	r.ExitCode = evidence.ExitCode(r.Status)
	return r
}

// passJudge collects the checks of one pass.
type passJudge struct {
	*PassFacts
	out []RefreshCheck
}

func (j *passJudge) check(name string, holds bool, status string, code reason.Code, detail string) {
	c := RefreshCheck{Name: name, Status: evidence.StatusPass}
	if !holds {
		c.Status, c.Code, c.Detail = status, code, secret.Redact(detail, nil)
	}
	j.out = append(j.out, c)
}

// fails is a check that ends in a failure where it does not hold.
func (j *passJudge) fails(name string, holds bool, detail string) {
	j.check(name, holds, evidence.StatusFail, reason.RefreshFailed, detail)
}

func (f *PassFacts) judge() RefreshPass {
	p := RefreshPass{Proof: f.Path, ProofSHA256: f.SHA256, Report: f.ReportPath, ContractSHA256: f.Task, Status: evidence.StatusPass, Checks: []RefreshCheck{}}
	j := &passJudge{PassFacts: f}
	if f.Fault != "" || f.Proof == nil || f.Report == nil {
		for _, name := range RefreshChecks() {
			j.fails(name, false, "the proof, or the session that it names, cannot be read or is not as it was sealed")
		}
	} else {
		p.SessionID, p.CaseID = f.Report.SessionID, f.Report.CaseID
		if f.Named != "" {
			p.ApprovalID = &f.Named
		}
		p.ApprovalNote = f.provenance()
		j.session()
		j.records()
	}
	p.Checks = j.out
	for _, c := range p.Checks {
		if c.Status == evidence.StatusFail || p.Status == evidence.StatusPass {
			p.Status = c.Status
		}
	}
	return p
}

// session checks what the session itself says.
func (j *passJudge) session() {
	passed := j.Report.Status == evidence.StatusPass && len(j.Report.Blockers) == 0
	j.fails(RefreshReportShape, j.ShapeFault == "" && passed, cmp.Or(j.ShapeFault, "the report is no pass"))
	j.fails(RefreshEvents, j.EventFault == "", j.EventFault)
	j.fails(RefreshAllowedPaths, j.Report.AllowedWritesPassed && j.PathFault == "", cmp.Or(j.PathFault, "the change left the allowed paths"))
	j.fails(RefreshFailureClosure, j.Proof.OK && j.Proof.Stage == 5, "the proof does not show how every failure class of stage 5 ends")
	j.check(RefreshMatrix, j.Matrix != "" && j.Proof.MatrixSHA256 != nil && *j.Proof.MatrixSHA256 == j.Matrix, evidence.StatusBlocked, reason.RefreshFailed,
		"the complete failure matrix that the proof names is not kept, or another one is")
	j.fails(RefreshArtifacts, j.ArtifactFault == "", j.ArtifactFault)
	var open []string
	for _, action := range task.DefaultForbiddenActions() {
		if !slices.Contains(j.Forbidden, action) {
			open = append(open, action)
		}
	}
	j.fails(RefreshForbidden, len(open) == 0, "the session does not show that these could not happen: "+strings.Join(open, ", "))
	status := evidence.StatusFail
	code := reason.RefreshFailed
	if missing := OutcomeMissing(j.Report); missing != nil {
		status, code = evidence.StatusBlocked, missing.Code
	}
	j.check(RefreshAcceptance, j.Report.OperatorOutcome == "accepted", status, code, "the operator has not accepted the change")
}

// records checks what the records say now.
func (j *passJudge) records() {
	j.fails(RefreshApproval, j.Named != "" && j.Approval == j.Named, j.provenance())
	current := !j.SourceNeeded && j.Proof.SourceAdmissionID == nil ||
		j.Proof.SourceAdmissionID != nil && j.Source == *j.Proof.SourceAdmissionID
	j.check(RefreshSourceAdmission, current, evidence.StatusBlocked, reason.SourceNotAdmitted, "the source admission that the proof names is not the one that holds now")
	target := j.Proof.TargetAdmissionID != nil && j.Target == *j.Proof.TargetAdmissionID
	j.check(RefreshTarget, target, evidence.StatusBlocked, reason.TargetNotAdmitted, "the target admission that the proof names is not the one that holds now")
	j.fails(RefreshTargetReadOnly, j.TargetTouched == "" && !j.Report.SourceRepositoryMutated, cmp.Or(j.TargetTouched, "the session changed more of the target than its own branch"))
}

// provenance says where the approval comes from, as the proof has it, and where
// the session says otherwise.
func (f *PassFacts) provenance() string {
	proof := cmp.Or(f.Named, "none")
	if session := cmp.Or(f.Approval, "none"); session != proof {
		return "the proof names approval " + proof + ", the session consumed " + session
	}
	return "approval " + proof
}
