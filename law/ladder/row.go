package ladder

import (
	"slices"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Row is one line of the failure matrix.
type Row struct {
	Name     string        `json:"name"`
	Trigger  string        `json:"trigger"`
	Status   reason.Status `json:"status"`
	Code     reason.Code   `json:"code"`     // of the first blocker, the root cause
	Event    string        `json:"event"`    // type of the normalized event that tells it
	Evidence string        `json:"evidence"` // what the session must show
	Cases    []Case        `json:"cases"`
}

// Case is one way to bring the trigger of a row about.
type Case struct {
	Name    string `json:"name"`
	Trigger string `json:"trigger"`
	// Code is set where a case has a more specific code than its row. The
	// status is the row's all the same.
	Code reason.Code `json:"code,omitempty"`
}

// Expected is the reason code that a case of the row must end with.
func (r Row) Expected(c Case) reason.Code {
	if c.Code != "" {
		return c.Code
	}
	return r.Code
}

// refined are codes that say more exactly what the code of a row says: a program
// that a user names behind `--` has codes of its own for why it does not start.
var refined = map[reason.Code][]reason.Code{
	reason.ProviderUnavailable: {reason.ProgramNotFound, reason.ProgramNotExecutable, reason.ProgramLineEndings, reason.InterpreterNotFound},
}

// Says reports whether a code says what another one, of a row, demands.
func Says(demanded, code reason.Code) bool {
	return code == demanded || slices.Contains(refined[demanded], code)
}

// ExitCode is the exit code of a run that ends as the row says.
func (r Row) ExitCode() int { return evidence.ExitCode(string(r.Status)) }

// The names of the rows.
const (
	NoDiff               = "no-diff"
	DisallowedFile       = "disallowed-file"
	FailedTests          = "failed-tests"
	MissingTestCommand   = "missing-test-command"
	MissingEvent         = "missing-event"
	ReviewerReject       = "reviewer-reject"
	ApprovalDenied       = "approval-denied"
	Timeout              = "timeout"
	DirtyStartingTree    = "dirty-starting-tree"
	DirtyEndingTree      = "dirty-ending-tree"
	ArtifactWriteFailure = "artifact-write-failure"
	ProviderUnavailable  = "provider-unavailable"
)

// The events that tell of a row.
const (
	diffChecked  = "git.diff.checked"
	verified     = evidence.StepVerification
	runCompleted = evidence.StepRunCompleted
)

// rows is the failure matrix, in the order of its specification.
var rows = []Row{
	{NoDiff, "the engine reports success and leaves no difference where one is required", reason.Fail, reason.NoDiff, diffChecked,
		"patch.diff is empty, changed_files is []",
		[]Case{{Name: "works-elsewhere", Trigger: "the agent works in a copy that is thrown away, and says that it is done"}}},
	{DisallowedFile, "a path outside allowed_paths is changed", reason.Fail, reason.DisallowedFileChange, diffChecked,
		"the offending path, allowed_writes_passed false, the patch is captured",
		[]Case{{Name: "extra-file", Trigger: "beside the right change the agent writes a file outside the contract"}}},
	{FailedTests, "a verification command exits nonzero", reason.Fail, reason.VerificationFailed, verified,
		"test.log with the output, the exit code",
		[]Case{{Name: "wrong-change", Trigger: "the agent spoils its own change afterwards"}}},
	{MissingTestCommand, "verification is required and no command is given", reason.Blocked, reason.MissingTestCommand, verified,
		"test.log says so; no engine was started",
		[]Case{{Name: "no-command", Trigger: "the contract names no verification command"}}},
	{MissingEvent, "a required event is absent or out of order", reason.Fail, reason.MissingRequiredEvent, runCompleted,
		"the validator names the event",
		[]Case{
			{Name: "absent", Trigger: "the journal entry behind plan.updated is never written"},
			{Name: "out-of-order", Trigger: "the journal entry behind eligibility.decided is written after that of plan.updated"},
		}},
	{ReviewerReject, "the engine's own reviewer rejects the change", reason.Blocked, reason.ReviewerRejected, verified,
		"the raw log is kept",
		[]Case{{Name: "rejected", Trigger: "the agent's protocol ends with a rejection by its reviewer"}}},
	{ApprovalDenied, "an approval is required and denied", reason.Blocked, reason.ApprovalDenied, evidence.StepApprovalDenied,
		"actor, scope, mode and time; no engine was started",
		[]Case{{Name: "denied", Trigger: "the operator denies the approval that the contract asks for"}}},
	{Timeout, "the engine or the verification exceeds its limit", reason.Blocked, reason.Timeout, runCompleted,
		"the trace has the point",
		[]Case{
			{Name: "engine", Trigger: "the agent ignores signals and sleeps past the wall clock limit; its process tree is killed"},
			{Name: "verification", Trigger: "a verification command sleeps past the wall clock limit on the changed tree"},
		}},
	{DirtyStartingTree, "the repository is dirty where a clean one is required", reason.Blocked, reason.DirtyStartingTree, evidence.StepContract,
		"no mutation: no engine was started, the uncommitted work is as it was",
		[]Case{{Name: "modified-file", Trigger: "a tracked file differs from HEAD"}}},
	{DirtyEndingTree, "the run leaves untracked or unintended state", reason.Fail, reason.DirtyEndingTree, runCompleted,
		"the dirty paths are named",
		[]Case{
			{Name: "fifo", Trigger: "the agent leaves a named pipe"},
			{Name: "nested-repository", Trigger: "the agent leaves a git repository inside the tree", Code: reason.NestedRepository},
		}},
	{ArtifactWriteFailure, "a required artifact cannot be written", reason.Fail, reason.ArtifactWriteFailure, runCompleted,
		"the failed path is named",
		[]Case{
			{Name: "full-disk", Trigger: "the raw output of the agent fills the disk of the sessions"},
			{Name: "no-room-for-patch", Trigger: "the patch does not fit on the disk of the sessions"},
			{Name: "read-only-disk", Trigger: "the place of the raw output is read-only"},
		}},
	{ProviderUnavailable, "the engine's binary, model or dependency is missing", reason.Blocked, reason.ProviderUnavailable, runCompleted,
		"the marker is written; no mutation",
		[]Case{
			{Name: "program", Trigger: "the agent's program does not exist"},
			{Name: "dependency", Trigger: "a file that the agent depends on does not exist"},
		}},
}

// furtherRows are failure classes of stages that are no rows of the matrix and
// are brought about as those are.
var furtherRows = []Row{
	{ClassDirtyCopy, "the copy is not the baseline when the engine starts", reason.Fail, reason.InfrastructureFault, runCompleted,
		"proofs/workspace-clean.json says that the baseline is not intact",
		[]Case{{Name: "changed-file", Trigger: "a file of the copy is overwritten before the engine starts"}}},
}

// Rows returns the twelve rows of the failure matrix, in order.
func Rows() []Row {
	out := slices.Clone(rows)
	for i := range out {
		out[i].Cases = slices.Clone(out[i].Cases)
	}
	return out
}

// RowNamed finds a row of the matrix.
func RowNamed(name string) (Row, bool) { return named(Rows(), name) }

// ClassNamed finds a failure class that is brought about as the rows are: one of
// them, or a further one.
func ClassNamed(name string) (Row, bool) { return named(slices.Concat(Rows(), furtherRows), name) }

func named(rows []Row, name string) (Row, bool) {
	for _, r := range rows {
		if r.Name == name {
			return r, true
		}
	}
	return Row{}, false
}

// RowNames lists the names of all rows.
func RowNames() []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Name)
	}
	return out
}

// OutcomeRequired reports whether a run of a mode counts only with the operator's
// outcome: from stage 5 on, where a real repository is changed.
func OutcomeRequired(mode task.MutationMode) bool { return mode >= task.OwnedNoncriticalRepo }

// OutcomeMissing says why a report counts for nothing as long as its operator has
// not accepted or rejected the change, nil where it counts.
func OutcomeMissing(rep *evidence.Report) *reason.Error {
	mode, err := task.ParseMutationMode(rep.MutationMode)
	if err == nil && !OutcomeRequired(mode) || rep.Status != evidence.StatusPass {
		return nil // what did not pass counts for nothing anyway
	}
	if rep.OperatorOutcome == "accepted" || rep.OperatorOutcome == "rejected" {
		return nil
	}
	return reason.Errorf(reason.OperatorOutcomeMissing, "session %s passed in mode %s, and its operator outcome is %q", rep.SessionID, rep.MutationMode, rep.OperatorOutcome).
		WithHint("`remit accept %s` or `remit reject %s --reason TEXT`", rep.SessionID, rep.SessionID)
}
