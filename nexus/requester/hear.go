package requester

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Bounds of one request; the authority's own are not smaller.
const (
	maxHeardEntries = 200
	maxHeardBytes   = 1 << 20
	maxHeardPayload = 16 << 10 // of one entry; a larger one goes without
)

// Hear tells an authority elsewhere the entries of the run's journal that it does
// not have yet, and what the run comes to so far. Who tells is known by the cursor
// that the authority answers with: an entry that it has is not sent again, and one
// whose answer was lost is passed over there.
func (q *Requester) Hear(ctx context.Context, entries []journal.Entry) error {
	return q.withNext(ctx, func(conn *Connection) error {
		if conn.Worker != nil || len(entries) == 0 {
			return nil
		}
		if !q.heardKnown {
			if err := q.hear(ctx, conn, api.JournalReport{SessionID: entries[0].SessionID, Entries: []api.JournalEntry{}}); err != nil {
				return err
			}
		}
		for q.heard < int64(len(entries)) {
			report, last := batch(entries, q.heard)
			if last == len(entries) && slices.ContainsFunc(entries[q.heard:], turns) {
				if err := summarise(&report, entries); err != nil {
					return err
				}
			}
			before := q.heard
			if err := q.hear(ctx, conn, report); err != nil {
				return err
			}
			if q.heard <= before {
				return reason.Errorf(reason.Conflict, "the nexus has %d entries of the journal, and %d were sent", q.heard, last)
			}
		}
		return nil
	})
}

// batch is what one request holds from an entry on, and the entry behind it.
func batch(entries []journal.Entry, from int64) (r api.JournalReport, end int) {
	r.SessionID = entries[0].SessionID
	size := 0
	for end = int(from); end < len(entries) && len(r.Entries) < maxHeardEntries && size < maxHeardBytes; end++ {
		e := entries[end]
		r.Entries = append(r.Entries, api.EntryOf(e, maxHeardPayload))
		size += min(len(e.Inputs)+len(e.Outputs), maxHeardPayload)
	}
	return r, end
}

// turns reports whether a run stands elsewhere after an entry: what it comes to so
// far is sent then, and not at each call of a tool.
func turns(e journal.Entry) bool {
	switch e.Name {
	case evidence.StepTool, evidence.StepMessage, evidence.StepModel, evidence.StepVerifyRun, evidence.StepArtifact, evidence.StepProof:
		return false
	}
	return true
}

func summarise(r *api.JournalReport, entries []journal.Entry) error {
	s, err := evidence.SummaryOf(entries)
	if err != nil {
		return fmt.Errorf("summing up the journal: %w", err)
	}
	text, err := canon.Marshal(s)
	if err != nil {
		return fmt.Errorf("summing up the journal: %w", err)
	}
	r.Summary = new(api.RunSummary(text))
	return nil
}

func (q *Requester) hear(ctx context.Context, conn *Connection, r api.JournalReport) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the journal: %w", err)
	}
	key := q.key("journal:" + canon.Digest(body))
	if len(r.Entries) == 0 {
		key = api.NewKey() // it asks for the cursor of now
	}
	got, err := api.TellJournal.Do(ctx, conn.Client, key, q.run, r)
	if err != nil {
		return fmt.Errorf("telling the journal: %w", err)
	}
	q.heard, q.heardKnown = got.Entries, true
	return nil
}
