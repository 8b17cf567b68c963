package evidence

// File names inside a session directory. Names are stable.
const (
	JournalFile     = "journal.jsonl"
	ContractFile    = "contract.json"
	EligibilityFile = "eligibility.json"
	ContextFile     = "context.json"
	ReportFile      = "report.json"
	ReportMDFile    = "report.md"
	EventsFile      = "events.normalized.jsonl"
	TraceFile       = "trace.jsonl"
	PatchFile       = "patch.diff"
	TestLogFile     = "test.log"
	TestResultsFile = "test-results.jsonl" // per-test results, where the runner is known
	ParentPatchFile = "parent.diff"        // the patch that the engine of a follow-up started from
	SummaryFile     = "PR_SUMMARY.md"
	ReceiptFile     = "RECEIPT.json"
	SignatureFile   = "RECEIPT.json.sig" // over the bytes of RECEIPT.json
	ReplayFile      = "REPLAY.jsonl"
	ManifestFile    = "manifest.txt"
	BackendDir      = "backend"
	ProofsDir       = "proofs"
	HeldOutDir      = "held-out" // held-out tests by the hex of their digest, so that a bundle can be verified again from itself
)

// Schema identifiers inside the documents.
const (
	ReportSchema  = "remit.report.v1"
	ReceiptSchema = "remit.receipt.v1"
	ContextSchema = "remit.context.v1"
)

// Journal step names. A step that takes time is two entries with one step_id
// (started, then completed, failed or denied); the others are one entry.
const (
	StepRunOpened         = "run.opened"
	StepContract          = "task.contract.created"
	StepEligibility       = "eligibility.decided"
	StepPlan              = "plan.updated"
	StepApprovalRequested = "approval.requested"
	StepApprovalGranted   = "approval.granted"
	StepApprovalDenied    = "approval.denied"
	StepGate              = "backend.gate"
	StepBranchPolicy      = "branch.policy" // where the change may go, of a run that delivers it
	StepSourceObserved    = "source.observed"
	StepWorkspace         = "workspace.copy"
	StepEnvironment       = "environment.prepared" // what commands find beside the tree
	StepEngine            = "engine.run"
	StepTaken             = "change.taken"     // the change of a run without an engine
	StepLifecycle         = "engine.lifecycle" // what the end of an engine that was stopped means
	StepEnding            = "engine.ending"    // what an end that was not as it should be means, of an engine that left a change
	StepTool              = "tool"
	StepMessage           = "message.emitted"
	StepUsage             = "usage.metered"
	StepModel             = "model.request"
	StepPatch             = "patch.captured"
	StepWrites            = "writes.checked"
	StepHeadDependencies  = "dependencies.prepared" // what lies beside the patched tree, where that is something else
	StepVerifyBase        = "verify.base"
	StepVerifyHead        = "verify.head"
	StepVerifyRun         = "verify.run" // one run of the verifier, inside verify.base or verify.head
	StepVerification      = "verification.completed"
	StepSourceChecked     = "source.checked"
	StepProof             = "proof.recorded"
	StepArtifact          = "artifact.recorded"
	StepBudget            = "budget.settled"
	StepReceipt           = "authority.receipt"
	StepDelivered         = "change.delivered"
	StepDisposed          = "repository.disposed" // what became of the repository that has the change
	StepResumed           = "run.resumed"         // the run had been cut off and is taken up again
	StepStopped           = "run.stopped"         // why the pipeline ended early, when no other step says it
	StepRunCompleted      = "run.completed"
	StepOutcome           = "operator.outcome"
)

// Step ids of the plan's steps: the ids under which they stand in the journal.
const (
	PlanWorkspace = "workspace"
	PlanEngine    = "engine"
	PlanTake      = "take"
	PlanPatch     = "patch"
	PlanVerify    = "verify"
)

// MutationScope returns the words that reports use for a mutation mode. They
// claim no more than is known: copied-fixture is what the operator called the
// repository, and nothing shows that it is one.
func MutationScope(mode string) string {
	if mode == modeFixture {
		return "a copy, which the operator called a fixture"
	}
	return olderScope(mode)
}

const modeFixture = "copied-fixture"

// olderScope returns the words for a run that does not state its own.
func olderScope(mode string) string {
	switch mode {
	case "none":
		return "none"
	case modeFixture:
		return "copied artificial fixture only"
	case "copied-repo":
		return "copied local repository only"
	case "sandbox-repo":
		return "disposable repository only"
	case "owned-noncritical-repo":
		return "explicitly owned low-risk repository only"
	case "scoped-real-repo":
		return "scoped real-repo use only"
	}
	return "unknown"
}
