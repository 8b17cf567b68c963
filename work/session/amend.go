package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"remit/law/job"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// Amender is the part of an authority that takes what became of a run after its end.
type Amender interface {
	// Find returns the run that a session has there, "" when there is none.
	Find(ctx context.Context, session string) (run string, err error)
	Amend(ctx context.Context, a job.Amendment) error
}

// amendTime bounds one such call.
const amendTime = 2 * time.Minute

// Amend hands the authority of a session what was sealed since the run ended: the
// bundle with the receipts of exports and with the operator's outcome. It does
// nothing for a run that no authority knows, or when nothing was added. It may be
// repeated; `remit resume` does so after a failure.
func (h Home) Amend(ctx context.Context, s Session, a Amender) error {
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return err
	}
	am, later := amendmentOf(log.Entries)
	if !later {
		return nil
	}
	if am.RunID, err = h.runAt(ctx, s, a); err != nil || am.RunID == "" {
		return err
	}
	local, err := h.LoadLocal(s.ID)
	if err != nil {
		return fmt.Errorf("reading what this machine knows of the session: %w", err)
	}
	if local.Amended == am.Entries {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, amendTime)
	defer cancel()
	am.Bundle = func(w io.Writer) error { return bundle.WriteZip(w, s.Dir) }
	if err := a.Amend(ctx, am); err != nil {
		return err
	}
	if local.Contract == nil {
		return nil // nothing is kept here of a session of another machine
	}
	local.Amended = am.Entries
	return h.SaveLocal(s.ID, local)
}

// runAt returns the run of a session at its authority, "" when it has none there. A run
// that ended before the authority agreed to it was reported to the nexus all the same,
// but the session does not know the id of the run.
func (h Home) runAt(ctx context.Context, s Session, a Amender) (string, error) {
	run, err := s.NexusRun()
	if err != nil || run != "" {
		return run, err
	}
	local, err := h.LoadLocal(s.ID)
	if err != nil || local.Nexus == "" || !local.Asked && !local.Concluded {
		return "", err
	}
	return a.Find(ctx, s.ID)
}

// amendmentOf reads what came after the last verdict; later is false when
// nothing did.
func amendmentOf(entries []journal.Entry) (am job.Amendment, later bool) {
	am.Entries = len(entries)
	for _, e := range entries {
		switch e.Name {
		case evidence.StepRunCompleted:
			later = false
		case evidence.StepReceipt:
			later = true
		case evidence.StepOutcome:
			var o evidence.Outcome
			if json.Unmarshal(e.Outputs, &o) == nil {
				am.Outcome, am.Note = o.Outcome, o.Reason
			}
			later = true
		}
	}
	return am, later
}
