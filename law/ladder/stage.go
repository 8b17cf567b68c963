package ladder

import (
	"slices"
	"strings"

	"remit/law/task"
)

// Stage is one rung of the ladder.
type Stage struct {
	Number int    `json:"stage"`
	Name   string `json:"name"`
	// Mode is the widest mutation mode that a proof of the stage allows.
	Mode          task.MutationMode `json:"mutation_mode"`
	MutationScope string            `json:"mutation_scope"`
	Proves        []string          `json:"proves"`
	// The four lists are checks that a program makes. A proof of the stage holds
	// only if each of them is among its checks and holds.
	EntryGates        []NamedCheck `json:"entry_gates"`        // before anything is run
	RequiredArtifacts []NamedCheck `json:"required_artifacts"` // that the runs leave
	Validator         []NamedCheck `json:"validator"`          // what the runs must show
	Promotion         []NamedCheck `json:"promotion"`          // what lets the next stage begin
	FailureClasses    []string     `json:"failure_classes"`    // names of rows, or of the classes below
}

// DefaultLane is the default validation lane. No evidence changes it.
const DefaultLane = "fake"

// NamedCheck is a check by its name, and what it holds for.
type NamedCheck struct {
	Name  string `json:"name"`
	Means string `json:"means"`
}

// engineWord stands for the engine's name in the name of a check.
const engineWord = "ENGINE"

// CheckNames are the names of all checks of the stage for an engine, in order.
func (s Stage) CheckNames(engine string) []string {
	var out []string
	for _, c := range slices.Concat(s.EntryGates, s.RequiredArtifacts, s.Validator, s.Promotion) {
		out = append(out, strings.Replace(c.Name, engineWord, engine, 1))
	}
	return out
}

// Failure classes that are no rows of the matrix.
const (
	// ClassGateMissing is a run of the stage's mode without what the stage needs.
	ClassGateMissing = "gate-missing"
	// ClassDirtyCopy is a copy that is not the baseline when the engine is to
	// start; the row dirty-starting-tree is about the source.
	ClassDirtyCopy = "dirty-copied-fixture"
	// Refusals of the record that admits a real target, one for each of its gates.
	ClassTargetMissing     = "target-record-missing"
	ClassTargetNotAdmitted = "target-not-admitted"
	ClassUnowned           = "target-unowned"
	ClassCritical          = "target-critical"
	ClassTargetPaths       = "target-paths-empty"
	ClassTargetActions     = "target-action-missing"
	ClassTargetApproval    = "target-approval-source-missing"
	ClassTargetOutcome     = "target-outcome-not-required"
	// ClassMissingOutcome is a run that passed and has no outcome: its code is not that
	// of a blocker, but of [OutcomeMissing].
	ClassMissingOutcome = "operator-outcome-missing"
)

// FurtherClasses are the failure classes that are no rows of the matrix.
func FurtherClasses() []string {
	return []string{ClassGateMissing, ClassDirtyCopy, ClassTargetMissing, ClassTargetNotAdmitted, ClassUnowned, ClassCritical, ClassTargetPaths,
		ClassTargetActions, ClassTargetApproval, ClassTargetOutcome, ClassMissingOutcome}
}

// Checks that several stages make.
var (
	artifactSet    = NamedCheck{"artifact_set", "every file of the evidence interface is in the session, and the session passes its audit"}
	failureClasses = NamedCheck{"failure_classes_hold", "each failure class of the stage ends as the table says"}
	approvalProof  = NamedCheck{"approval_proof", "the session names the approval, who granted it and what it is bound to"}
)

// stages is the ladder, lowest first.
var stages = []Stage{
	{
		Number: 1, Name: "gated engine", Mode: task.ModeNone, MutationScope: "none",
		Proves: []string{
			"the engine is registered and off: it is refused without its explicit gate",
			"the gate runs before any copy, git call or process",
			"the refusal has its evidence, and nothing is changed",
		},
		EntryGates: []NamedCheck{
			{"engine_registered", "this build has the engine, and it is chosen by the same flag as every other one"},
			{"source_admission_recorded", "the engine's build is admitted, or it is built in"},
			{"failure_matrix_defined", "each row of the failure matrix has a scenario for the engine"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet,
			{"refusal_artifacts", "the refusal has an empty patch.diff, a test.log and a reason for each part that it does not have"},
		},
		Validator: []NamedCheck{
			{"refused_without_gate", "a run of the engine that is switched off is blocked"},
			{"gates_pass_nothing_executed", "a run with every gate of this stage open still executes nothing"},
			{"gate_before_process", "no workspace was copied and no process was started"},
			{"source_unchanged", "not one file of the repository differs"},
			{"fake_default_lane", "fake is the default validation lane"},
		},
		Promotion:      []NamedCheck{failureClasses},
		FailureClasses: []string{ClassGateMissing, ProviderUnavailable, MissingEvent, ArtifactWriteFailure},
	},
	{
		Number: 2, Name: "artificial fixture", Mode: task.CopiedFixture, MutationScope: "copied artificial fixture only",
		Proves: []string{
			"a real run on a shipped fixture",
			"the fake engine's run of the same task matches in report shape, events, allowed writes, verification, blockers, digests and freshness",
			"no path of a target in contract, argv, environment or configuration",
		},
		EntryGates: []NamedCheck{
			{"stage1_proved", "the proof of stage 1 holds"},
			{"shipped_fixture", "the baseline tree is that of a fixture which comes with Remit"},
			{"contract_explicit", "the contract states its allowed paths and its verification commands"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet,
			{"changed_files_listed", "report.json lists the files of patch.diff"},
			{"allowed_write_proof", "every changed path lies inside allowed_paths"},
			{"verification_log", "test.log has the output of the verification commands"},
			{"digests_and_freshness", "every artifact has the digest of the report and is not older than the run"},
		},
		Validator: []NamedCheck{
			{"fixture_run_passes", "the engine's run on the fixture passes its verification"},
			{"fake_baseline_passes", "the fake engine's run of the same contract passes"},
			{"same_report_shape", "the reports of both runs have the same fields"},
			{"same_event_order", "the required events of both runs come in the same order"},
			{"same_allowed_writes", "both runs keep to the allowed paths"},
			{"same_verification", "the same commands ran in the same phases with the same exit codes"},
			{"same_blockers", "neither run has a blocker"},
			{"same_digests", "the digests of both runs hold"},
			{"same_freshness", "both runs are fresh"},
			{"no_target_path", "contract, argv, environment and configuration name no path of a target"},
		},
		Promotion:      []NamedCheck{failureClasses},
		FailureClasses: []string{ClassGateMissing, NoDiff, DisallowedFile, FailedTests, MissingTestCommand, MissingEvent, ProviderUnavailable},
	},
	{
		Number: 3, Name: "copied repo", Mode: task.CopiedRepo, MutationScope: "copied local repository only",
		Proves: []string{
			"HEAD, index, refs, configuration and status of the source are the same before and after",
			"the copy starts and ends clean",
		},
		EntryGates: []NamedCheck{
			{"stage2_proved", "the proof of stage 2 holds"},
			{"owned_local_source", "the repository is a directory of this machine that its owner named, and belongs to the user who proves"},
			{"source_starts_clean", "no tracked file of the repository differs from HEAD"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet,
			{"clean_start_proof", "the session proves that the copy began as the baseline"},
			{"clean_end_proof", "the session proves that the copy ended with nothing beside the patch"},
			{"source_nonmutation_proof", "the session has its own look at the source, before and after"},
		},
		Validator: []NamedCheck{
			{"copied_repo_run_passes", "the engine's run on the copy passes its verification"},
			{"changes_only_in_copy", "the change is in the patch, and in no file of the source"},
			{"source_head_equal", "HEAD is the same before and after"},
			{"source_index_equal", "the index is the same before and after"},
			{"source_refs_equal", "the refs are the same before and after"},
			{"source_config_equal", "the configuration is the same before and after"},
			{"source_reflog_equal", "the reflogs are the same before and after"},
			{"source_status_equal", "the work tree is the same before and after"},
		},
		Promotion:      []NamedCheck{failureClasses},
		FailureClasses: []string{ClassGateMissing, DirtyStartingTree, ClassDirtyCopy, DirtyEndingTree, Timeout, ArtifactWriteFailure, DisallowedFile, FailedTests, MissingEvent},
	},
	{
		Number: 4, Name: "disposable sandbox repo", Mode: task.SandboxRepo, MutationScope: "disposable repository only",
		Proves: []string{
			"an approval is requested and granted before any mutation, and a denial blocks",
			"the branch policy holds, and nothing is pushed",
			"the repository is disposed of, or a note says why it is kept",
		},
		EntryGates: []NamedCheck{
			{"stage3_proved", "the proof of stage 3 holds"},
			{"disposable_repository", "the repository was made for this run, or admitted as disposable"},
			{"approval_required", "the contract asks for an approval"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet, approvalProof,
			{"branch_policy_proof", "proofs/branch-policy.json says which branch may be written"},
			{"disposal_note", "proofs/disposal.json says that the repository is disposed of, or why and until when it is kept"},
		},
		Validator: []NamedCheck{
			{"approval_before_mutation", "approval.requested and approval.granted come before the engine's start"},
			{"denial_blocks", "a denied approval ends the run before the engine's start"},
			{"only_one_ref_added", "the repository is as before but for the delivered branch"},
			{"nothing_pushed", "proofs/forbidden-actions.json says of each action that it could not happen, and why"},
		},
		Promotion:      []NamedCheck{failureClasses},
		FailureClasses: []string{ClassGateMissing, ApprovalDenied, ReviewerReject, Timeout, ProviderUnavailable, DirtyEndingTree, DisallowedFile},
	},
	{
		Number: 5, Name: "owned noncritical repo", Mode: task.OwnedNoncriticalRepo, MutationScope: "explicitly owned low-risk repository only",
		Proves: []string{
			"the target is admitted and owned, with its allowed and forbidden paths",
			"the operator's outcome is recorded",
		},
		EntryGates: []NamedCheck{
			{"stage4_proved", "the proof of stage 4 holds"},
			{"target_admitted", "a target admission record holds for the repository"},
			{"target_owned", "the record has an owner and evidence of the ownership"},
			{"target_noncritical", "the record classifies the repository as low_risk_noncritical"},
			{"license_note_resolved", "the source admission of the engine has a licence note"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet, approvalProof,
			{"ownership_proof", "proofs/target-admission.json names the record"},
			{"paths_and_actions", "the session states the allowed paths and the forbidden actions of the target"},
			{"operator_outcome", "the operator's outcome is in the journal"},
		},
		Validator: []NamedCheck{
			{"inside_target_paths", "every changed path lies inside the target's allowed paths"},
			{"no_forbidden_action", "proofs/forbidden-actions.json says of each action that it could not happen, and why"},
			{"outcome_replayable", "approval and outcome can be read from the journal alone"},
		},
		Promotion: []NamedCheck{{"operator_accepted", "the operator's outcome is accepted"}, failureClasses},
		FailureClasses: []string{ClassGateMissing, ApprovalDenied, ClassTargetMissing, ClassTargetNotAdmitted, ClassUnowned, ClassCritical, ClassTargetPaths,
			ClassTargetActions, ClassTargetApproval, ClassTargetOutcome, DisallowedFile, DirtyStartingTree, DirtyEndingTree, FailedTests, Timeout,
			ProviderUnavailable, ClassMissingOutcome},
	},
	{
		Number: 6, Name: "candidate default", Mode: task.ScopedRealRepo, MutationScope: "scoped real-repo use only",
		Proves: []string{
			"compared with fake and at least one other engine on report shape, event validity, allowed paths, failure closure and artifact completeness",
			"lanes that cannot run are blocked with a reason, never silently absent",
			"the source admission is current",
		},
		EntryGates: []NamedCheck{
			{"stage5_proved", "the proof of stage 5 holds"},
			{"source_admission_current", "the source admission holds for the engine's build of today"},
			{"failure_matrix_complete", "every row of the failure matrix holds, or is blocked with a reason"},
		},
		RequiredArtifacts: []NamedCheck{
			artifactSet,
			{"lanes_explained", "every registered engine is a lane, and one that cannot run has its reason"},
			{"operator_outcome", "the operator's outcome is in the journal"},
		},
		Validator: []NamedCheck{
			{"fake_lane_passes", "the fake engine's run of the comparison passes"},
			{"ENGINE_default_disabled", "no evidence makes the engine the default"},
			{"stage5_failure_closure_inherited", "the failure classes of stage 5 hold"},
			{"ENGINE_lane_passes", "the engine's run of the comparison passes"},
			{"report_shape", "the engine's report has every field that the other lanes' reports have"},
			{"event_validity", "the engine's events are complete and in order, as the other lanes' are"},
			{"allowed_path_compliance", "the engine keeps to the allowed paths, as the other lanes do"},
			{"failure_closure", "the engine's failures end as the other lanes' do"},
			{"artifact_completeness", "the engine's session has every artifact that the other lanes' have"},
		},
		Promotion:      []NamedCheck{{"candidate_default_comparison", "the engine matches or beats every lane that ran in each of the five dimensions"}, failureClasses},
		FailureClasses: append([]string{ClassGateMissing}, RowNames()...),
	},
}

// Stages returns the six stages, lowest first.
func Stages() []Stage {
	out := slices.Clone(stages)
	for i := range out {
		s := &out[i]
		s.Proves, s.FailureClasses = slices.Clone(s.Proves), slices.Clone(s.FailureClasses)
		s.EntryGates, s.RequiredArtifacts = slices.Clone(s.EntryGates), slices.Clone(s.RequiredArtifacts)
		s.Validator, s.Promotion = slices.Clone(s.Validator), slices.Clone(s.Promotion)
	}
	return out
}
