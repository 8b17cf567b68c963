package jobs

import (
	"remit/proof/reason"
)

// RunState is where a run is.
type RunState string

// The states of a run. The last three are final.
const (
	RunCreated   RunState = "created"
	RunRunning   RunState = "running"
	RunCanceling RunState = "canceling"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunCanceled  RunState = "canceled"
)

// Final reports whether the run has ended.
func (s RunState) Final() bool { return s == RunSucceeded || s == RunFailed || s == RunCanceled }

// Event types that move a run.
const (
	EventStarted         = "run.started"
	EventCancelRequested = "run.cancel_requested"
	EventFinished        = "run.finished" // with the final state in its payload
)

// runMove is what happens to a run: an event, and for the last one its status.
type runMove struct {
	event  string
	status RunState
}

// runMoves says where a run goes. What is not listed is not possible; a move to
// the state itself changes nothing.
var runMoves = map[RunState]map[runMove]RunState{
	RunCreated: {
		{event: EventStarted}:         RunRunning,
		{event: EventCancelRequested}: RunCanceling,
		{EventFinished, RunSucceeded}: RunSucceeded,
		{EventFinished, RunFailed}:    RunFailed,
		{EventFinished, RunCanceled}:  RunCanceled,
	},
	RunRunning: {
		{event: EventStarted}:         RunRunning,
		{event: EventCancelRequested}: RunCanceling,
		{EventFinished, RunSucceeded}: RunSucceeded,
		{EventFinished, RunFailed}:    RunFailed,
		{EventFinished, RunCanceled}:  RunCanceled,
	},
	RunCanceling: {
		{event: EventCancelRequested}: RunCanceling,
		{EventFinished, RunFailed}:    RunFailed,
		{EventFinished, RunCanceled}:  RunCanceled,
	},
	RunSucceeded: {{EventFinished, RunSucceeded}: RunSucceeded},
	RunFailed:    {{EventFinished, RunFailed}: RunFailed},
	RunCanceled:  {{EventFinished, RunCanceled}: RunCanceled},
}

// next returns the state after a move.
func (s RunState) next(m runMove) (RunState, error) {
	to, ok := runMoves[s][m]
	if ok {
		return to, nil
	}
	what := m.event
	if m.status != "" {
		what += " " + string(m.status)
	}
	return s, reason.Errorf(reason.RunTransition, "a run that is %s takes no %s", s, what)
}

// State is where a job is.
type State string

// The states of a job. The last four are final.
const (
	Queued    State = "queued"    // offered to a provider
	Leased    State = "leased"    // a provider works on it
	Submitted State = "submitted" // the response is stored
	Verified  State = "verified"  // judged; only inside the transaction that settles
	Settled   State = "settled"   // verified and paid
	Failed    State = "failed"    // not verified, or no provider was left to run it
	Canceled  State = "canceled"  // by its owner, or because its provider was switched off
	Expired   State = "expired"   // its reservation ran out before a verdict
)

// States lists the states of a job in the order of its life.
var States = []State{Queued, Leased, Submitted, Verified, Settled, Failed, Canceled, Expired}

// jobMoves says where a job may go. Queued follows queued and leased when the
// job falls back to another provider.
var jobMoves = map[State][]State{
	Queued:    {Queued, Leased, Failed, Canceled, Expired},
	Leased:    {Queued, Submitted, Failed, Canceled, Expired},
	Submitted: {Verified, Expired},
	Verified:  {Settled, Failed},
}

// CanMove reports whether a job may go from one state to another.
func CanMove(from, to State) bool {
	for _, s := range jobMoves[from] {
		if s == to {
			return true
		}
	}
	return false
}

// Final reports whether the job has ended.
func (s State) Final() bool { return len(jobMoves[s]) == 0 }
