package ladder

import (
	"slices"

	"remit/law/task"
)

// Stage is one rung of the ladder.
type Stage struct {
	Number int    `json:"stage"`
	Name   string `json:"name"`
	// Mode is the widest mutation mode that a proof of the stage allows.
	Mode           task.MutationMode `json:"mutation_mode"`
	MutationScope  string            `json:"mutation_scope"`
	Proves         []string          `json:"proves"`
	FailureClasses []string          `json:"failure_classes"` // names of rows, or of the classes below
}

// Failure classes that are no rows of the matrix: refusals of the records that
// admit a real target. They are run from stage 5 on.
const (
	ClassUnowned        = "target-unowned"
	ClassCritical       = "target-critical"
	ClassMissingOutcome = "operator-outcome-missing"
)

// stages is the ladder, lowest first.
var stages = []Stage{
	{1, "gated engine", task.ModeNone, "none",
		[]string{
			"the engine is registered and off: it is refused without its explicit gate",
			"the gate runs before any copy, git call or process",
			"the refusal has its evidence, and nothing is changed",
		},
		[]string{ProviderUnavailable, MissingEvent, ArtifactWriteFailure}},
	{2, "artificial fixture", task.CopiedFixture, "copied artificial fixture only",
		[]string{
			"a real run on a shipped fixture",
			"the fake engine's run of the same task matches in report shape, events, allowed writes, verification, blockers, digests and freshness",
			"no path of a target in contract, argv, environment or configuration",
		},
		[]string{NoDiff, DisallowedFile, FailedTests, MissingTestCommand, MissingEvent, ProviderUnavailable}},
	{3, "copied repo", task.CopiedRepo, "copied local repository only",
		[]string{
			"HEAD, index, refs, configuration and status of the source are the same before and after",
			"the copy starts and ends clean",
		},
		[]string{DirtyStartingTree, DirtyEndingTree, Timeout, ArtifactWriteFailure, DisallowedFile, FailedTests, MissingEvent}},
	{4, "disposable sandbox repo", task.SandboxRepo, "disposable repository only",
		[]string{
			"an approval is requested and granted before any mutation, and a denial blocks",
			"the branch policy holds, and nothing is pushed",
			"the repository is disposed of, or a note says why it is kept",
		},
		[]string{ApprovalDenied, ReviewerReject, Timeout, ProviderUnavailable, DirtyEndingTree, DisallowedFile}},
	{5, "owned noncritical repo", task.OwnedNoncriticalRepo, "explicitly owned low-risk repository only",
		[]string{
			"the target is admitted and owned, with its allowed and forbidden paths",
			"the operator's outcome is recorded",
		},
		[]string{ApprovalDenied, ClassUnowned, ClassCritical, DisallowedFile, DirtyStartingTree, DirtyEndingTree, FailedTests, Timeout,
			ProviderUnavailable, ClassMissingOutcome}},
	{6, "candidate default", task.ScopedRealRepo, "scoped real-repo use only",
		[]string{
			"compared with fake and at least one other engine on report shape, event validity, allowed paths, failure closure and artifact completeness",
			"lanes that cannot run are blocked with a reason, never silently absent",
			"the source admission is current",
		},
		RowNames()},
}

// Stages returns the six stages, lowest first.
func Stages() []Stage {
	out := slices.Clone(stages)
	for i := range out {
		out[i].Proves = slices.Clone(out[i].Proves)
		out[i].FailureClasses = slices.Clone(out[i].FailureClasses)
	}
	return out
}
