package harness

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
)

// Progress shows what a run does, as it happens. Its methods are called from
// several goroutines.
type Progress interface {
	// Step says that a step began ("started") or how it ended.
	Step(name, status, detail string)
	// Output is one line that the engine or a verification command printed.
	Output(line string)
}

// recorder appends steps to the journal. Its first failure sticks: a run whose
// journal cannot be written stops, and says so.
type recorder struct {
	w        *journal.Writer
	clock    func() time.Time
	progress Progress
	clean    func(journal.Step) journal.Step   // takes secrets out of a step; see secrets
	hook     func(journal.Step) []journal.Step // see Request.JournalHook
	times    *Timeline                         // nil collects nothing

	mu    sync.Mutex
	err   error
	grown chan<- struct{} // gets a token when an entry was written; nil: none waits
}

// follow gives a token to a reader that waits for entries; nil ends that.
func (r *recorder) follow(grown chan<- struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grown = grown
}

// step is one that has started.
type step struct {
	r       *recorder
	id      string
	name    string
	inputs  any
	started time.Time
	timed   func() // ends its span of the timeline
}

// begin appends the started entry of a step that takes time.
func (r *recorder) begin(name, id string, inputs any) *step {
	s := &step{r, id, name, inputs, r.clock(), r.times.Begin(name)}
	r.append(journal.Step{StepID: id, Name: name, Status: journal.Started, StartedAt: s.started, Inputs: inputs})
	r.tell(name, "started", "")
	return s
}

// end appends the second entry.
func (s *step) end(status journal.Status, outputs any, detail string) {
	s.r.append(journal.Step{StepID: s.id, Name: s.name, Status: status, StartedAt: s.started, CompletedAt: s.r.clock(), Inputs: s.inputs,
		Outputs: outputs})
	s.r.sync()
	s.timed()
	s.r.tell(s.name, string(status), detail)
}

// note appends a step that takes no time.
func (r *recorder) note(name, id string, status journal.Status, inputs, outputs any) {
	now := r.clock()
	r.append(journal.Step{StepID: id, Name: name, Status: status, StartedAt: now, CompletedAt: now, Inputs: inputs, Outputs: outputs})
}

// tell reports a step to the progress view.
func (r *recorder) tell(name, status, detail string) {
	if r.progress != nil {
		r.progress.Step(name, status, detail)
	}
}

func (r *recorder) append(s journal.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := []journal.Step{s}
	if r.hook != nil {
		steps = r.hook(s)
	}
	for _, s := range steps {
		if r.err != nil {
			return
		}
		if _, err := r.w.Append(r.clean(s)); err != nil {
			r.err = fmt.Errorf("writing the journal: %w", err)
		}
	}
	select {
	case r.grown <- struct{}{}: // never, when no reader waits
	default:
	}
}

func (r *recorder) sync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		if err := r.w.Sync(); err != nil {
			r.err = fmt.Errorf("writing the journal: %w", err)
		}
	}
}

func (r *recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// errStopped ends the pipeline early: the blockers are in the journal and what
// is left to do is to seal.
var errStopped = errors.New("the run is stopped by a blocker")

func status(blockers []evidence.Blocker) journal.Status {
	if len(blockers) > 0 {
		return journal.Failed
	}
	return journal.Completed
}
