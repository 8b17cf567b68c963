package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// The journal of a run, as far as its client has sent it while the run goes on:
// an event for each entry, in the run's own log, so that its lane delivers it.

// EventJournal is the type of an event that is an entry of the run's journal.
const EventJournal = "journal"

// keyJournal begins the keys of such events; the seq of the entry follows.
const keyJournal = "journal:"

func journalKey(seq int64) string { return fmt.Sprintf("%s%d", keyJournal, seq) }

// Limits of one request.
const (
	MaxToldEntries = 256
	// MaxToldPayload bounds inputs and outputs of one entry, in bytes. What is larger
	// stands in the bundle.
	MaxToldPayload = 16 << 10
)

// ToldEntry is the payload of such an event: an entry, or, with Cut, one without
// its inputs and outputs.
type ToldEntry struct {
	SessionID   string          `json:"session_id"`
	Seq         int64           `json:"seq"`
	EntryHash   string          `json:"entry_hash"`
	PrevHash    *string         `json:"prev_hash"`
	StepID      string          `json:"step_id"`
	Name        string          `json:"name"`
	Status      journal.Status  `json:"status"`
	StartedAt   string          `json:"started_at"`
	CompletedAt *string         `json:"completed_at"`
	Inputs      json.RawMessage `json:"inputs,omitempty"`
	Outputs     json.RawMessage `json:"outputs,omitempty"`
	Cut         bool            `json:"cut,omitempty"`
}

// entry is the journal's form of it.
func (t ToldEntry) entry() journal.Entry {
	e := journal.Entry{V: journal.Version, Seq: t.Seq, SessionID: t.SessionID, StepID: t.StepID, Name: t.Name, Status: t.Status,
		StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Inputs: t.Inputs, Outputs: t.Outputs, PrevHash: t.PrevHash, EntryHash: t.EntryHash}
	if t.Cut {
		e.Inputs, e.Outputs = json.RawMessage("{}"), json.RawMessage("{}")
	}
	return e
}

// check holds an entry against its own hash and against the one before it.
func (t *ToldEntry) check(next int64, head string) error {
	at := fmt.Sprintf("entries[seq %d]", t.Seq)
	switch {
	case t.Seq != next:
		return reason.Errorf(reason.Conflict, "entry %d of the journal was sent, and %d is next", t.Seq, next)
	case t.PrevHash == nil && next > 0, t.PrevHash != nil && *t.PrevHash != head:
		return reason.Errorf(reason.Conflict, "entry %d of the journal does not follow the one that the log has", t.Seq)
	case !canon.ValidDigest(t.EntryHash):
		return invalid(at+".entry_hash", "is not sha256: and 64 lowercase hex digits")
	case t.Cut && (t.Inputs != nil || t.Outputs != nil):
		return invalid(at+".cut", "goes without inputs and outputs")
	case !t.Cut && (t.Inputs == nil || t.Outputs == nil):
		return invalid(at, "has no inputs or no outputs, and does not say that it is cut")
	case len(t.Inputs)+len(t.Outputs) > MaxToldPayload:
		return reason.Errorf(reason.RequestTooLarge, "inputs and outputs of entry %d have more than %d bytes", t.Seq, MaxToldPayload).
			WithHint("tell the entry with cut: true")
	}
	var err error
	for _, part := range []*json.RawMessage{&t.Inputs, &t.Outputs} {
		if *part == nil {
			continue
		}
		if *part, err = canon.Canonicalize(*part); err != nil {
			return invalid(at, "is outside the hashed subset of JSON: %w", err)
		}
	}
	e := t.entry()
	switch err = e.Check(); {
	case t.Cut && reason.CodeOf(err) == reason.JournalChain: // what it hashes to is in the bundle
		return nil
	case err != nil:
		return invalid(at, "is no entry of a journal: %w", err)
	}
	return nil
}

// JournalReport is what a client tells at once.
type JournalReport struct {
	SessionID string
	Entries   []ToldEntry     // in their order
	Summary   json.RawMessage // of the journal so far; none is no news
}

// TellJournal appends entries to the log of an open run, each once, and returns
// the run as it is then: its JournalEntries is the seq that is next.
func TellJournal(tx *store.Tx, p authority.Principal, runID string, r JournalReport) (Run, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return Run{}, err
	}
	if len(r.Entries) > MaxToldEntries {
		return Run{}, reason.Errorf(reason.RequestTooLarge, "%d entries at once, may be %d", len(r.Entries), MaxToldEntries)
	}
	run, err := lockRun(tx, p, runID)
	if err != nil {
		return Run{}, err
	}
	if session := sessionOf(run); session != "" && session != r.SessionID {
		return Run{}, reason.Errorf(reason.Conflict, "the run is that of session %.80q, not of %.80q", session, r.SessionID)
	}
	for i := range r.Entries {
		r.Entries[i].SessionID = r.SessionID
	}
	fresh, err := unheard(tx, run, r)
	if err != nil {
		return Run{}, err
	}
	if RunState(run.State).Final() {
		if len(fresh) > 0 {
			return Run{}, reason.Errorf(reason.RunClosed, "run %s has ended and is sealed", run.ID)
		}
		return run, nil
	}
	for i := range fresh {
		t := &fresh[i]
		if err := t.check(run.JournalEntries, run.JournalHead); err != nil {
			return Run{}, err
		}
		if err := authority.PostEvent(tx, authority.RunStream(run.ID), p, EventJournal, journalKey(t.Seq), t, 0); err != nil {
			return Run{}, err
		}
		run.JournalEntries, run.JournalHead = t.Seq+1, t.EntryHash
	}
	if len(fresh) > 0 {
		if err := tx.SetRunJournal(run.ID, run.JournalEntries, run.JournalHead); err != nil {
			return Run{}, err
		}
	}
	return run, tellSummary(tx, &run, r.Summary)
}

// unheard are the entries that the log does not have yet. The others must be what
// it has.
func unheard(tx *store.Tx, run Run, r JournalReport) ([]ToldEntry, error) {
	for i := range r.Entries {
		t := &r.Entries[i]
		if t.Seq >= run.JournalEntries || run.ForgottenAt > 0 {
			return r.Entries[i:], nil
		}
		e, err := tx.EventByKey(authority.RunStream(run.ID), journalKey(t.Seq))
		if errors.Is(err, store.ErrNotFound) {
			return nil, reason.Errorf(reason.Conflict, "the log has no entry %d of the journal", t.Seq)
		}
		var had ToldEntry
		if err == nil {
			err = json.Unmarshal(e.Payload, &had)
		}
		if err != nil {
			return nil, err
		}
		if had.EntryHash != t.EntryHash {
			return nil, reason.Errorf(reason.Conflict, "the log has another entry %d of the journal", t.Seq)
		}
	}
	return nil, nil
}

// maxDifferences bounds the findings of one comparison.
const maxDifferences = 20

// CompareJournal holds an event of the log against the entry of the bundle's
// journal; "" is no difference, or no entry at all.
func CompareJournal(e store.Event, entries []journal.Entry) (difference string) {
	var t ToldEntry
	if e.Type != EventJournal {
		return ""
	}
	if json.Unmarshal(e.Payload, &t) != nil {
		return fmt.Sprintf("event %d cannot be read", e.Seq)
	}
	if t.Seq < 0 || t.Seq >= int64(len(entries)) {
		return fmt.Sprintf("entry %d was sent, and the bundle's journal has %d entries", t.Seq, len(entries))
	}
	told, is := t.entry(), entries[t.Seq]
	if t.Cut {
		is.Inputs, is.Outputs = told.Inputs, told.Outputs
	}
	if !sameEntry(told, is) {
		return fmt.Sprintf("entry %d was sent as %s (%s), and the bundle's journal has another one there: %s (%s)", t.Seq, told.Name,
			told.Status, is.Name, is.Status)
	}
	return ""
}

// sameEntry compares two entries, their documents by content. Both are mostly in the
// canonical form already.
func sameEntry(a, b journal.Entry) bool {
	if bytes.Equal(a.Inputs, b.Inputs) && bytes.Equal(a.Outputs, b.Outputs) {
		a.Inputs, a.Outputs, b.Inputs, b.Outputs = nil, nil, nil, nil
		return reflect.DeepEqual(a, b)
	}
	x, err1 := canon.Marshal(a)
	y, err2 := canon.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// JournalFindings are the differences of a comparison, the first of them in words.
func JournalFindings(differences []string) (out []Finding) {
	for _, text := range differences[:min(len(differences), maxDifferences)] {
		out = append(out, Finding{reason.JournalChain, text})
	}
	if more := len(differences) - maxDifferences; more > 0 {
		out = append(out, Finding{reason.JournalChain, fmt.Sprintf("and %d entries more", more)})
	}
	return out
}
