package evidence

import (
	"encoding/json"
	"fmt"

	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// run is the folded state of a journal: what every projection reads.
type run struct {
	session  string
	entries  []journal.Entry
	opened   RunOpened
	contract ContractCreated

	eligibility json.RawMessage
	plan        *Plan
	approval    string    // approval_status of the report
	granted     *Approval // the last grant
	gate        *GateBlocked

	workspace     *WorkspaceCopied
	prepared      *EnvironmentPrepared
	ofHead        *DependenciesOfHead
	engineInput   *EngineStarted
	engine        *EngineFinished
	taken         *ChangeTaken
	lifecycle     *LifecycleJudged
	ending        *EndingJudged
	tools         []toolCall
	openTools     map[string][]int // by id: places in tools that have no result yet
	patch         *PatchCaptured
	patched       map[string]bool // the paths of patch
	writes        *WritesChecked
	phases        []VerifyPhase
	verifierRuns  []verifierRun
	baseBegan     int64 // entry that began the verification of the baseline last
	verification  *VerificationCompleted
	source        *SourceChecked
	usage         MeteredUsage
	proofs        []proof
	artifacts     []ArtifactRecorded
	receipts      []record.AuthorityReceipt
	budget        *BudgetSettled
	policy        *BranchPolicy
	delivered     *Delivered
	disposed      *Disposed
	undelivered   bool // the question is whether the change may be delivered
	completed     *RunCompleted
	completedAt   string
	outcome       *Outcome
	blockers      []Blocker
	engineStarted bool
	resumed       int // times that the run was taken up again
}

type toolCall struct {
	ToolCalled
	Returned ToolReturned
	denied   bool
}

type proof struct {
	name string
	body json.RawMessage
}

// fold reads the entries of one journal, oldest first. It fails on a payload
// that does not have its step's form; steps that it does not know are kept in
// the trace and otherwise passed over, so that newer journals stay readable.
func fold(entries []journal.Entry) (*run, error) {
	if len(entries) == 0 {
		return nil, reason.Errorf(reason.JournalUnfinished, "the journal has no entries")
	}
	if entries[0].Name != StepRunOpened {
		return nil, reason.Errorf(reason.JournalOrder, "entry 0 is %q, want %q", entries[0].Name, StepRunOpened)
	}
	r := &run{session: entries[0].SessionID, entries: entries, approval: "not-required", openTools: map[string][]int{}, patched: map[string]bool{}}
	for i := range entries {
		if err := r.step(&entries[i]); err != nil {
			return nil, &reason.Error{Code: reason.JournalSyntax, File: JournalFile, Line: i + 1,
				Field: entries[i].Name, Message: err.Error(), Err: err}
		}
	}
	r.artifacts = lastOfEach(r.artifacts)
	if r.patch != nil {
		for _, f := range r.patch.Files {
			r.patched[f.Path] = true
		}
	}
	return r, nil
}

// lastOfEach keeps the last record of each path, in the order of the journal.
// Journals are hostile: this and the lookups of tool calls take linear time.
func lastOfEach(all []ArtifactRecorded) []ArtifactRecorded {
	last := map[string]int{}
	for i, a := range all {
		last[a.Path] = i
	}
	var out []ArtifactRecorded
	for i, a := range all {
		if last[a.Path] == i {
			out = append(out, a)
		}
	}
	return out
}

func (r *run) step(e *journal.Entry) error {
	var extra blocked
	if err := json.Unmarshal(e.Outputs, &extra); err != nil {
		return err
	}
	if e.Name != StepRunCompleted {
		r.blockers = append(r.blockers, extra.Blockers...)
	}
	// A step that was cut off, or failed before it had anything to tell, has no facts.
	final := e.Status != journal.Started && e.Status != journal.Skipped && string(e.Outputs) != "{}"
	switch e.Name {
	case StepRunOpened:
		return decode(e.Inputs, &r.opened)
	case StepContract:
		return decode(e.Inputs, &r.contract)
	case StepEligibility:
		var d EligibilityDecided
		if err := decode(e.Outputs, &d); err != nil {
			return err
		}
		r.eligibility = d.Decision
	case StepResumed:
		r.resumed++
	case StepPlan:
		r.plan = new(Plan)
		return decode(e.Outputs, r.plan)
	case StepApprovalRequested:
		r.approval = "requested"
	case StepApprovalGranted:
		r.approval = "granted"
		return decodeFinal(final, e.Outputs, &r.granted)
	case StepApprovalDenied:
		r.approval = "denied"
	case StepGate:
		if e.Status == journal.Denied {
			r.gate = new(GateBlocked)
			return decode(e.Outputs, r.gate)
		}
	case StepWorkspace:
		return decodeFinal(final, e.Outputs, &r.workspace)
	case StepEnvironment:
		return decodeFinal(final, e.Outputs, &r.prepared)
	case StepHeadDependencies:
		if e.Status == journal.Completed {
			r.ofHead = new(DependenciesOfHead)
			return decode(e.Outputs, r.ofHead)
		}
	case StepEngine:
		return r.engineStep(e)
	case StepTaken:
		return decodeFinal(final, e.Outputs, &r.taken)
	case StepTool:
		return r.toolStep(e)
	case StepUsage:
		var u MeteredUsage
		if err := decode(e.Outputs, &u); err != nil {
			return err
		}
		r.usage = r.usage.plus(u)
	case StepLifecycle:
		return decodeFinal(final, e.Outputs, &r.lifecycle)
	case StepEnding:
		return decodeFinal(final, e.Outputs, &r.ending)
	case StepPatch:
		return decodeFinal(final, e.Outputs, &r.patch)
	case StepWrites:
		return decodeFinal(final, e.Outputs, &r.writes)
	case StepVerifyBase, StepVerifyHead:
		if e.Name == StepVerifyBase && e.Status == journal.Started {
			r.baseBegan = e.Seq
		}
		if final {
			var p VerifyPhase
			if err := decode(e.Outputs, &p); err != nil {
				return err
			}
			r.phases = append(r.phases, p)
		}
	case StepVerifyRun:
		return r.verifierRun(e, final)
	case StepVerification:
		return decodeFinal(final, e.Outputs, &r.verification)
	case StepSourceChecked:
		return decodeFinal(final, e.Outputs, &r.source)
	case StepProof:
		var p ProofRecorded
		if err := decode(e.Inputs, &p); err != nil {
			return err
		}
		r.proofs = append(r.proofs, proof{p.Name, e.Outputs})
	case StepArtifact:
		if e.Status == journal.Completed {
			var a ArtifactRecorded
			if err := decode(e.Outputs, &a); err != nil {
				return err
			}
			r.artifacts = append(r.artifacts, a)
		}
	case StepBudget:
		return decodeFinal(final, e.Outputs, &r.budget)
	case StepReceipt:
		var a record.AuthorityReceipt
		if err := decode(e.Outputs, &a); err != nil {
			return err
		}
		r.receipts = append(r.receipts, a)
	case StepBranchPolicy, StepDelivered, StepDisposed:
		return r.deliver(e, final)
	case StepRunCompleted:
		r.completed = new(RunCompleted)
		r.completedAt = entryTime(e)
		return decode(e.Outputs, r.completed)
	case StepOutcome:
		r.outcome = new(Outcome)
		return decode(e.Outputs, r.outcome)
	}
	return nil
}

func (r *run) engineStep(e *journal.Entry) error {
	if e.Status == journal.Started {
		r.engineStarted = true
		r.engineInput = new(EngineStarted)
		return decode(e.Inputs, r.engineInput)
	}
	if e.Status == journal.Skipped {
		return nil // cut off: how it ended is not known
	}
	r.engine = new(EngineFinished)
	return decode(e.Outputs, r.engine)
}

func (r *run) toolStep(e *journal.Entry) error {
	if e.Status == journal.Started {
		var c ToolCalled
		if err := decode(e.Inputs, &c); err != nil {
			return err
		}
		r.openTools[c.ID] = append(r.openTools[c.ID], len(r.tools))
		r.tools = append(r.tools, toolCall{ToolCalled: c})
		return nil
	}
	var back ToolReturned
	if err := decode(e.Outputs, &back); err != nil {
		return err
	}
	open := r.openTools[back.ID]
	if len(open) == 0 {
		return fmt.Errorf("tool result %q has no open call", back.ID)
	}
	i := open[0]
	r.openTools[back.ID] = open[1:]
	r.tools[i].Returned, r.tools[i].denied = back, e.Status == journal.Denied
	return nil
}

// entryTime is when an entry's fact became true.
func entryTime(e *journal.Entry) string {
	if e.CompletedAt != nil {
		return *e.CompletedAt
	}
	return e.StartedAt
}

func decode(raw json.RawMessage, v any) error { return json.Unmarshal(raw, v) }

func decodeFinal[T any](final bool, raw json.RawMessage, dst **T) error {
	if !final {
		return nil
	}
	*dst = new(T)
	return json.Unmarshal(raw, *dst)
}
