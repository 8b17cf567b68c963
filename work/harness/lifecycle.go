package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
)

// hung is an engine that was stopped and left a change: what that means is
// known only when the verifier has judged the change.
type hung struct {
	stopped string // evidence.StoppedWall or StoppedIdle
	afterMS int64
	timeout evidence.Blocker // of the run, unless the verifier passes the change
}

// unjudged is what the end of an engine means that left a change, until the
// change is judged.
type unjudged struct {
	hung   *hung              // it was stopped
	broken []evidence.Blocker // what else speaks against its end
}

// hang reports how an engine hung, nil unless its being stopped is all that
// speaks against its end.
func hang(f evidence.EngineFinished, blockers []evidence.Blocker, changed bool) *hung {
	if !f.TimedOut || f.OutputExceeded || f.ExitCode == nil || !changed || len(blockers) != 1 || blockers[0].Code != reason.Timeout {
		return nil
	}
	h := &hung{stopped: evidence.StoppedWall, afterMS: f.DurationMS, timeout: blockers[0]}
	if f.Idle {
		h.stopped = evidence.StoppedIdle
	}
	return h
}

// judgeEnd says what the end of an engine means that left a change and did not
// end as it should, once: as soon as the verifier has judged the change, or as
// it is certain that none will pass it. It comes before the step that decided
// so, as the root cause.
func (r *run) judgeEnd(verified bool) {
	if h := r.hung; h != nil {
		r.hung = nil
		r.endHung(h, verified)
	}
	if against := r.broken; against != nil {
		r.broken = nil
		r.endBroken(against, verified)
	}
}

// endBroken is judgeEnd for an end that no contract allows. Where the change is
// good the message says so, and the hint how to have it without the agent.
func (r *run) endBroken(against []evidence.Blocker, verified bool) {
	out := evidence.EndingJudged{Verified: verified, Blockers: slices.Clone(against)}
	if first := &out.Blockers[0]; verified {
		first.Message += "; the verifier passes the change that it left"
		first.Hint = fmt.Sprintf("the change is good: `remit run --patch-of %s` judges it again without the agent, in a run that can pass", r.session.ID)
	}
	r.note(evidence.StepEnding, "ending", journal.Failed, nil, out)
	r.tell(evidence.StepEnding, string(journal.Failed), out.Blockers[0].Message)
}

// endHung is judgeEnd for an engine that was stopped for its time.
func (r *run) endHung(h *hung, verified bool) {
	out := evidence.LifecycleJudged{Lifecycle: evidence.Lifecycle{Stopped: h.stopped, AfterMS: h.afterMS, Rule: evidence.LifecycleBlock,
		Verified: verified}}
	if r.Contract.Lifecycle.AllowsTimeout() {
		out.Rule, out.Allowed = evidence.LifecycleAllow, verified
	}
	detail := "the engine was stopped, and the contract allows that: its change is verified"
	switch {
	case !verified:
		out.Blockers = []evidence.Blocker{h.timeout}
	case !out.Allowed:
		out.Blockers = []evidence.Blocker{{Code: reason.LifecycleTimeout, Evidence: evidence.PatchFile,
			Hint: fmt.Sprintf("the change is good: `remit run --patch-of %s` judges it again without the agent, in a run that can pass; lifecycle.timeout_after_valid_patch: allow in the task file lets the next run of the agent pass", r.session.ID),
			Message: fmt.Sprintf("the verifier passes the change, but the engine did not end by itself and was stopped after %s",
				time.Duration(h.afterMS)*time.Millisecond)}}
	}
	if len(out.Blockers) > 0 {
		detail = out.Blockers[0].Message
	}
	r.note(evidence.StepLifecycle, "lifecycle", status(out.Blockers), nil, out)
	r.tell(evidence.StepLifecycle, string(status(out.Blockers)), detail)
}

// recallEnd finds in the journal of a run that was cut off how its engine had
// ended, as far as nothing was made of that yet: its own reviewer had turned the
// change down, or it had been stopped.
func (r *run) recallEnd() {
	var f evidence.EngineFinished
	judged := false
	for _, e := range r.w.Entries() {
		switch {
		case e.Name == evidence.StepLifecycle, e.Name == evidence.StepEnding:
			judged = true
		case e.Name == evidence.StepEngine && (e.Status == journal.Completed || e.Status == journal.Failed):
			_ = json.Unmarshal(e.Outputs, &f) // written by this very type
		}
	}
	switch r.review = f.Rejected; {
	case r.review != nil || judged:
	case len(f.Ending) > 0:
		r.broken = f.Ending
	default:
		r.hung = hang(f, endBlockers(f, traffic{}, engine.End{}), true)
	}
}
