package harness

import (
	"encoding/json"
	"fmt"
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

// endHung says what the end of an engine that was stopped means, once: as soon
// as the verifier has judged its change, or as it is certain that none will
// pass it. It comes before the step that decided so, as the root cause.
func (r *run) endHung(verified bool) {
	h := r.hung
	if r.hung = nil; h == nil {
		return
	}
	out := evidence.LifecycleJudged{Lifecycle: evidence.Lifecycle{Stopped: h.stopped, AfterMS: h.afterMS, Rule: evidence.LifecycleBlock, Verified: verified}}
	if r.Contract.Lifecycle.AllowsTimeout() {
		out.Rule, out.Allowed = evidence.LifecycleAllow, verified
	}
	detail := "the engine was stopped, and the contract allows that: its change is verified"
	switch {
	case !verified:
		out.Blockers = []evidence.Blocker{h.timeout}
	case !out.Allowed:
		out.Blockers = []evidence.Blocker{{Code: reason.LifecycleTimeout, Evidence: evidence.PatchFile,
			Message: fmt.Sprintf("the verifier passes the change, but the engine did not end by itself and was stopped after %s", time.Duration(h.afterMS)*time.Millisecond)}}
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
		case e.Name == evidence.StepLifecycle:
			judged = true
		case e.Name == evidence.StepEngine && (e.Status == journal.Completed || e.Status == journal.Failed):
			_ = json.Unmarshal(e.Outputs, &f) // written by this very type
		}
	}
	if r.review = f.Rejected; r.review == nil && !judged {
		r.hung = hang(f, endBlockers(f, traffic{}, engine.End{}), true)
	}
}
