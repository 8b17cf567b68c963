package evidence

import "slices"

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
