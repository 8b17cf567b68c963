package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/record"
)

// AddReceipts appends what an authority has given since the run ended, and
// seals the bundle anew. What the journal has is left out.
func (s Session) AddReceipts(receipts []record.Recorded, clock func() time.Time) error {
	w, err := journal.Continue(s.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // it is synced before anything depends on it
	added := NewReceipts(w.Entries(), receipts, clock())
	if len(added) == 0 {
		return nil
	}
	return s.extend(w, added...)
}

// NewReceipts are the steps of the receipts that a journal does not have yet. The
// step id of a receipt is its place in the authority's log.
func NewReceipts(entries []journal.Entry, receipts []record.Recorded, now time.Time) []journal.Step {
	known := map[string]bool{}
	for _, e := range entries {
		known[e.StepID] = known[e.StepID] || e.Name == evidence.StepReceipt
	}
	var out []journal.Step
	for _, rc := range receipts {
		if id := fmt.Sprintf("receipt-%d", rc.Seq); !known[id] {
			out = append(out, journal.Step{StepID: id, Name: evidence.StepReceipt, Status: journal.Completed, StartedAt: now, CompletedAt: now,
				Outputs: rc.Entry()})
		}
	}
	return out
}

// NexusRun is the run's id at the authority that agreed to it, "" when there
// was none.
func (s Session) NexusRun() (string, error) {
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return "", err
	}
	return NexusRun(log.Entries), nil
}

// NexusRun is [Session.NexusRun] of a journal that was read already.
func NexusRun(entries []journal.Entry) string {
	for _, e := range entries {
		var a record.AuthorityReceipt
		var made record.Run
		if e.Name == evidence.StepReceipt && json.Unmarshal(e.Outputs, &a) == nil && a.Type == record.RunCreated &&
			json.Unmarshal(a.Payload, &made) == nil {
			return made.RunID
		}
	}
	return ""
}

// ApprovalOf is the id of the approval that a run asked its authority for, ""
// when it asked for none, and whether it is still to be decided.
func ApprovalOf(entries []journal.Entry) (id string, open bool) {
	for _, e := range entries {
		var a evidence.Approval
		switch e.Name {
		case evidence.StepApprovalRequested, evidence.StepApprovalGranted, evidence.StepApprovalDenied:
			if json.Unmarshal(e.Outputs, &a) == nil {
				id, open = cmp.Or(a.ApprovalID, id), e.Name == evidence.StepApprovalRequested
			}
		}
	}
	return id, open && id != ""
}
