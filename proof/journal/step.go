package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Step is what a caller says about a step; the Writer adds the rest.
type Step struct {
	StepID, Name string
	Status       Status
	StartedAt    time.Time
	CompletedAt  time.Time // the zero time stands for null
	// Inputs and Outputs are anything that canon.Marshal turns into an
	// object; nil stands for {}.
	Inputs, Outputs any
}

// entry is the part of the new entry that does not depend on the journal.
func (s Step) entry() (Entry, error) {
	e := Entry{StepID: s.StepID, Name: s.Name, Status: s.Status}
	if s.StartedAt.IsZero() {
		return Entry{}, reason.Errorf(reason.JournalSyntax, "step %+.80q has no start time", s.StepID)
	}
	e.StartedAt = s.StartedAt.UTC().Format(TimeFormat)
	if !s.CompletedAt.IsZero() {
		// Sub prefers the monotonic clock: a wall clock that was set back
		// during a step does not make the step end before it began.
		end := s.StartedAt.Add(s.CompletedAt.Sub(s.StartedAt)).UTC().Format(TimeFormat)
		e.CompletedAt = &end
	}
	var err error
	if e.Inputs, err = object("inputs", s.Inputs); err != nil {
		return Entry{}, err
	}
	e.Outputs, err = object("outputs", s.Outputs)
	return e, err
}

// object encodes inputs or outputs. A nil map is as good as nil.
func object(key string, v any) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := canon.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", key, err)
	}
	if string(b) == "null" {
		return json.RawMessage("{}"), nil
	}
	return b, nil
}
