package api

import "remit/proof/journal"

// EntryOf is an entry of a journal as a run's log has it: without inputs and
// outputs if they have more than so many bytes.
func EntryOf(e journal.Entry, most int) JournalEntry {
	out := JournalEntry{Seq: e.Seq, EntryHash: e.EntryHash, PrevHash: e.PrevHash, StepID: e.StepID, Name: e.Name, Status: string(e.Status),
		StartedAt: e.StartedAt, CompletedAt: e.CompletedAt}
	if len(e.Inputs)+len(e.Outputs) > most {
		out.Cut = new(true)
		return out
	}
	out.Inputs, out.Outputs = &e.Inputs, &e.Outputs
	return out
}
