package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/law/job"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Authority is an authority elsewhere that a run is known to. Others may decide
// about the run's result there, and its first word counts.
type Authority interface {
	Amender
	// Decided is the first word about the run's result, nil while there is none.
	Decided(ctx context.Context, run string) (*job.Decision, error)
	// Decide asks for an outcome, and returns the first word: this one, or another
	// that was faster.
	Decide(ctx context.Context, run, outcome, why string) (job.Decision, error)
	// SealedBundle opens the bundle that is kept of the run. The caller closes it.
	SealedBundle(ctx context.Context, run string) (io.ReadCloser, error)
}

// errDecided says that the authority has a word already.
var errDecided = reason.Errorf(reason.OutcomeGiven, "decided meanwhile")

// DecideAt is [Session.Decide] for a run that an authority knows: nothing is
// recorded here before the authority has the outcome. Where it has the same one
// already, the words that it has are recorded, and returned; where it has another,
// or does not answer, nothing is.
func (h Home) DecideAt(ctx context.Context, s Session, a Authority, outcome, why, actor string,
	clock func() time.Time) (*evidence.Report, *job.Decision, error) {
	run, err := h.runAt(ctx, s, a)
	if err != nil {
		return nil, nil, err
	}
	if run == "" {
		rep, err := s.Decide(ctx, outcome, why, actor, clock)
		return rep, nil, err
	}
	given, err := a.Decided(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	if given == nil {
		rep, err := s.decide(ctx, outcome, why, actor, clock, func() error {
			first, err := a.Decide(ctx, run, outcome, why)
			if err == nil && (first.Outcome != outcome || !sameWords(first.Note, why)) {
				given, err = &first, errDecided
			}
			return err
		})
		if given == nil {
			return rep, nil, err
		}
	}
	if given.Outcome != outcome {
		if st, err := s.Inspect(); err == nil && st.Report != nil && st.Report.OperatorOutcome != evidence.Pending {
			return nil, nil, given.Stands(run) // here, too
		}
		return nil, nil, given.Stands(run).WithHint("`remit resume %s` takes that outcome over into this copy", s.ID)
	}
	return h.take(ctx, s, a, run, *given)
}

// sameWords compares a note of an authority with what it was made of: it has one
// line, which may be cut.
func sameWords(note, why string) bool {
	fields := func(text string) []byte { return bytes.Join(bytes.Fields([]byte(text)), nil) }
	return bytes.HasPrefix(fields(why), fields(note)) && (note != "" || len(fields(why)) == 0)
}

// TakeOver records the outcome that an authority has of a run, where there is none
// here yet. It returns nil where nothing was to be taken over.
func (h Home) TakeOver(ctx context.Context, s Session, a Authority) (*job.Decision, error) {
	st, err := s.Inspect()
	if err != nil || st.Phase != Sealed {
		return nil, err
	}
	run, err := h.runAt(ctx, s, a)
	if err != nil || run == "" {
		return nil, err
	}
	given, err := a.Decided(ctx, run)
	if err != nil || given == nil || given.Outcome == st.Report.OperatorOutcome {
		return nil, err
	}
	if st.Report.OperatorOutcome != evidence.Pending {
		return nil, reason.Errorf(reason.OutcomeGiven, "the authority has run %s as %s; this copy was %s, and keeps that: an outcome is given once",
			run, given, recorded(st.Log.Entries)).WithHint("the authority's outcome counts for the run; do not use the change of this copy against it")
	}
	_, taken, err := h.take(ctx, s, a, run, *given)
	return taken, err
}

// take records an outcome of the authority here. An entry that the authority has
// sealed over the very journal that is here is taken as it stands, so that both
// have the same journal, and the bundle is not handed over.
func (h Home) take(ctx context.Context, s Session, a Authority, run string, given job.Decision) (*evidence.Report, *job.Decision, error) {
	st, err := s.mayDecide(given.Outcome)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(given.Principal, operatorPrefix) {
		return nil, nil, reason.Errorf(reason.RequestInvalid,
			"the authority says that the run was %s: it speaks for the person at this machine, which no authority may", given).
			WithHint("nothing is recorded; show this to the operator of the nexus")
	}
	said := evidence.Outcome{Outcome: given.Outcome, Reason: given.Note, Actor: cmp.Or(given.Principal, "authority")}
	step := said.Step(time.Now())
	sealed, err := s.sealedOutcome(ctx, a, run, given)
	if err != nil {
		return nil, nil, err
	}
	if sealed != nil {
		said, step = sealed.said, sealed.step
	}
	if d := st.Report.Delivered; d != nil && given.Outcome == Rejected {
		branch, err := s.takeBack(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		if said.Branch == "" {
			said.Branch = branch
		}
	}
	rep, err := s.recordOutcome(said, step)
	if err != nil || sealed == nil {
		return rep, &given, err
	}
	if is, err := os.ReadFile(s.Journal()); err != nil || !bytes.Equal(is, sealed.journal) {
		return rep, &given, err
	}
	return rep, &given, h.ChangeLocal(s.ID, func(l *Local) { l.Amended = sealed.entries })
}

// operatorPrefix begins the name of a person at a machine, whose word only that
// machine records.
const operatorPrefix = "local-operator:"

// clockSkew is how far the clock of an authority may be ahead of this one.
const clockSkew = time.Minute

// sealedEntry is the entry of an outcome as an authority has sealed it.
type sealedEntry struct {
	said    evidence.Outcome
	step    journal.Step
	journal []byte // that ends with it
	entries int
}

// maxOutcomeLine bounds the entry of an outcome in a journal, in bytes.
const maxOutcomeLine = 64 << 10

// sealedOutcome looks into the bundle that the authority keeps: where its journal is
// the one that is here, and behind it the outcome and nothing else, it returns that
// entry. Everything else is no entry to take, and no error: what the authority says
// of the outcome is enough.
func (s Session) sealedOutcome(ctx context.Context, a Authority, run string, given job.Decision) (*sealedEntry, error) {
	here, err := os.ReadFile(s.Journal())
	if err != nil {
		return nil, err
	}
	text, err := s.journalAt(ctx, a, run, int64(len(here)+maxOutcomeLine))
	switch code := reason.CodeOf(err); {
	case code == reason.StoreUnavailable || ctx.Err() != nil:
		return nil, err
	case err != nil || !bytes.HasPrefix(text, here):
		return nil, nil //nolint:nilerr // it is no entry to take
	}
	log, err := journal.Read(bytes.NewReader(text))
	if err != nil || log.TornBytes > 0 || bytes.Count(text[len(here):], []byte("\n")) != 1 {
		return nil, nil //nolint:nilerr // it is not a journal to take an entry from
	}
	e := log.Entries[len(log.Entries)-1]
	out := &sealedEntry{step: journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status}, journal: text, entries: len(log.Entries)}
	if e.Name != evidence.StepOutcome || e.Status != journal.Completed || e.CompletedAt == nil || string(e.Inputs) != "{}" ||
		json.Unmarshal(e.Outputs, &out.said) != nil || out.said.Outcome != given.Outcome || out.said.Actor != given.Principal {
		return nil, nil //nolint:nilerr // it is no entry to take
	}
	began, err1 := time.Parse(journal.TimeFormat, e.StartedAt)
	ended, err2 := time.Parse(journal.TimeFormat, *e.CompletedAt)
	if err1 != nil || err2 != nil || began.Before(lastStart(log.Entries[:len(log.Entries)-1])) || ended.After(time.Now().Add(clockSkew)) {
		return nil, nil //nolint:nilerr // an audit would say that nothing was then
	}
	out.step.StartedAt, out.step.CompletedAt = began, ended
	return out, nil
}

// lastStart is when the last step of a journal began.
func lastStart(entries []journal.Entry) time.Time {
	at, _ := time.Parse(journal.TimeFormat, entries[len(entries)-1].StartedAt) // the journal was read with its rules
	return at
}

// journalAt reads the journal of the bundle that an authority keeps of a run.
func (s Session) journalAt(ctx context.Context, a Authority, run string, most int64) (text []byte, err error) {
	body, err := a.SealedBundle(ctx, run)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	dir, err := os.MkdirTemp("", "remit-bundle-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a copy
	f, err := os.Create(filepath.Join(dir, "bundle.zip"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := io.Copy(f, body)
	if err != nil {
		return nil, fmt.Errorf("fetching the bundle that the authority keeps: %w", err)
	}
	return bundle.ReadMember(ctx, f, size, evidence.JournalFile, most)
}
