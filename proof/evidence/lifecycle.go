package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
)

// An engine can do its work and not end. It is then stopped, for its time or
// for its silence, and what it changed is judged all the same. Whether such a
// run can pass is the contract's to say (lifecycle.timeout_after_valid_patch);
// by default it cannot, whatever the verifier found.

// Why an engine was stopped.
const (
	StoppedWall = "wall" // its time was over
	StoppedIdle = "idle" // it gave no sign of life
)

// The rules of a contract about an engine that was stopped.
const (
	LifecycleBlock = "block"
	LifecycleAllow = "allow"
)

// Lifecycle says what the end of an engine that was stopped means for its run.
type Lifecycle struct {
	Stopped  string `json:"stopped"` // wall or idle
	AfterMS  int64  `json:"after_ms"`
	Rule     string `json:"rule"`     // of the contract: block or allow
	Verified bool   `json:"verified"` // the verifier passed its change
	Allowed  bool   `json:"allowed"`  // the run may pass: verified, and the rule is allow
}

// LifecycleJudged are the outputs of engine.lifecycle. It stands before
// verification.completed, so that what the engine did is the root cause of a
// run that does not pass.
type LifecycleJudged struct {
	Lifecycle
	Blockers []Blocker `json:"blockers"`
}

// lifecycleRule is what the contract says.
func (r *run) lifecycleRule() string {
	var c struct {
		Lifecycle struct {
			Rule string `json:"timeout_after_valid_patch"`
		} `json:"lifecycle"`
	}
	if json.Unmarshal(r.contract.Contract, &c) == nil && c.Lifecycle.Rule == LifecycleAllow {
		return LifecycleAllow
	}
	return LifecycleBlock
}

// stopAllowed reports whether the engine was stopped and the run may pass all
// the same. The contract is asked, not only the step.
func (r *run) stopAllowed() bool {
	l := r.lifecycle
	return l != nil && l.Allowed && l.Verified && r.lifecycleRule() == LifecycleAllow
}

// endedWell reports whether a process that was started ended as a pass needs it.
func (r *run) endedWell() bool {
	e := r.engine
	switch {
	case e.ExitCode == nil || e.OutputExceeded || len(e.Ending) > 0:
		return false
	case e.TimedOut:
		return r.stopAllowed()
	}
	return *e.ExitCode == 0
}

// contradictLifecycle holds the judgement over an engine's end against the
// engine, the contract and the verifier.
func (r *run) contradictLifecycle(agree agreeFunc) {
	l := r.lifecycle
	if l == nil {
		return
	}
	agree(r.engine != nil && r.engine.TimedOut, "%s is about an engine that was not stopped", StepLifecycle)
	if r.engine != nil {
		agree((l.Stopped == StoppedIdle) == r.engine.Idle, "%s and %s do not agree on why the engine was stopped", StepLifecycle, StepEngine)
		agree(l.AfterMS == r.engine.DurationMS, "%s and %s do not agree on when the engine was stopped", StepLifecycle, StepEngine)
	}
	agree(l.Rule == r.lifecycleRule(), "%s does not follow the contract's rule", StepLifecycle)
	// A run that was cut off between the two has only the first.
	agree(r.verification == nil || l.Verified == (r.verification.Status == StatusPass), "%s does not say what the verifier found", StepLifecycle)
	agree(l.Allowed == (l.Verified && l.Rule == LifecycleAllow), "%s allows what its rule does not, or the other way round", StepLifecycle)
	agree(l.Allowed == (len(l.Blockers) == 0), "%s is allowed: %t, with %d blockers", StepLifecycle, l.Allowed, len(l.Blockers))
}

// sentence says it to a person.
func (l *Lifecycle) sentence() string {
	why := "its time was over"
	if l.Stopped == StoppedIdle {
		why = "it gave no sign of life"
	}
	text := fmt.Sprintf("The engine did not end by itself: it was stopped after %s, because %s.", duration(l.AfterMS), why)
	switch {
	case l.Allowed:
		return text + " The contract allows that when the verifier passes what it left (`lifecycle.timeout_after_valid_patch: allow`)."
	case l.Verified:
		return text + " The verifier passes what it left, but the contract does not allow such an end."
	}
	return text
}

// reported is the judgement for documents, nil if there is none.
func (r *run) reported() *Lifecycle {
	if r.lifecycle == nil {
		return nil
	}
	return &r.lifecycle.Lifecycle
}

// An engine can leave a change behind an end that is not acceptable: its output
// breaks off, its model fails, it is stopped for what it printed or for its
// memory. The change is judged all the same, so that work which was paid for is
// not lost; but the run cannot pass, whatever the verifier found.

// EndingJudged are the outputs of engine.ending. It stands before
// verification.completed, so that the engine's end is the root cause, and its
// blockers are those of [EngineFinished.Ending] with what the verifier found.
type EndingJudged struct {
	Verified bool      `json:"verified"` // the verifier passed the change
	Blockers []Blocker `json:"blockers"`
}

// contradictEnding holds the judgement over an engine's end against the engine
// and the verifier.
func (r *run) contradictEnding(agree agreeFunc) {
	j := r.ending
	if j == nil {
		return
	}
	agree(r.engine != nil && len(r.engine.Ending) > 0, "%s is about an engine against whose end nothing speaks", StepEnding)
	if r.engine != nil {
		agree(slices.EqualFunc(j.Blockers, r.engine.Ending, func(a, b Blocker) bool { return a.Code == b.Code }), "%s and %s do not agree on what is wrong with the engine's end", StepEnding, StepEngine)
	}
	// A run that was cut off between the two has only the first.
	agree(r.verification == nil || j.Verified == (r.verification.Status == StatusPass), "%s does not say what the verifier found", StepEnding)
}
