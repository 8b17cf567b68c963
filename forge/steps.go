package forge

import (
	"encoding/json"
	"fmt"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/record"
)

// step is what the harness saw of one step of a run: its two ends, or its one entry.
// What an engine says of itself is in no step.
type step struct {
	seq        int64 // of its first entry
	id, name   string
	start, end time.Time
	status     journal.Status // [journal.Started] for one that has no end
	inputs     json.RawMessage
	outputs    json.RawMessage
}

// steps pairs the entries up to the verdict, in order of their start. What follows the
// verdict, such as the receipt of an export, changes no export.
func (c *change) steps() ([]step, error) {
	var out []step
	open := map[string]int{}
	for i := range c.entries {
		e := &c.entries[i]
		if e.Name == evidence.StepMessage {
			continue
		}
		start, end, err := times(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Seq, err)
		}
		key := e.StepID + "\x00" + e.Name
		if at, ok := open[key]; ok && e.Status != journal.Started {
			s := &out[at]
			s.status, s.outputs, s.end = e.Status, e.Outputs, end
			delete(open, key)
			continue
		}
		if e.Status == journal.Started {
			open[key] = len(out)
		}
		out = append(out, step{seq: e.Seq, id: e.StepID, name: e.Name, start: start, end: end, status: e.Status, inputs: e.Inputs,
			outputs: e.Outputs})
	}
	return out, nil
}

// times are the two ends of an entry, the same where it has one.
func times(e *journal.Entry) (start, end time.Time, err error) {
	if start, err = time.Parse(journal.TimeFormat, e.StartedAt); err != nil || e.CompletedAt == nil {
		return start, start, err
	}
	end, err = time.Parse(journal.TimeFormat, *e.CompletedAt)
	return start, end, err
}

// tool is what the harness saw of a call of a tool.
func (s *step) tool() (called evidence.ToolCalled, returned *evidence.ToolReturned, err error) {
	if err = json.Unmarshal(s.inputs, &called); err == nil && s.status != journal.Started && s.outputs != nil {
		returned = new(evidence.ToolReturned)
		err = json.Unmarshal(s.outputs, returned)
	}
	if err != nil {
		err = fmt.Errorf("the tool call of entry %d: %w", s.seq, err)
	}
	return called, returned, err
}

// model is what the gateway recorded of a request to the model.
func (s *step) model() (m record.ModelRequest, err error) {
	if err = json.Unmarshal(s.outputs, &m); err != nil {
		err = fmt.Errorf("the model request of entry %d: %w", s.seq, err)
	}
	return m, err
}
