package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/session"
)

// decider is an authority elsewhere that has a word about a run, or is asked for one.
type decider struct {
	clerk
	given   *job.Decision
	err     error
	faster  *job.Decision // of another, while this one was asked
	journal []byte        // of the bundle that it keeps
}

func (d *decider) Find(context.Context, string) (string, error) { return "run_1", nil }

func (d *decider) Decided(context.Context, string) (*job.Decision, error) { return d.given, d.err }

func (d *decider) Decide(_ context.Context, _, outcome, why string) (job.Decision, error) {
	d.given = &job.Decision{Outcome: outcome, Note: why, Principal: "user:alice"}
	if d.faster != nil {
		d.given = d.faster
	}
	return *d.given, nil
}

func (d *decider) SealedBundle(context.Context, string) (io.ReadCloser, error) {
	if d.journal == nil {
		return nil, reason.Errorf(reason.NotFound, "the run has no bundle")
	}
	dir, err := os.MkdirTemp("", "decider-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, evidence.JournalFile), d.journal, 0o600); err != nil {
		return nil, err
	}
	var zip bytes.Buffer
	err = errors.Join(bundle.Seal(dir), bundle.WriteZip(&zip, dir))
	return io.NopCloser(&zip), err
}

// TestOutcomeOfAnAuthority: home records the first word of the authority, in its
// words, and nothing that the authority does not have. An authority does not speak
// for the person at this machine, and its entry is taken only where it is one of this journal.
func TestOutcomeOfAnAuthority(t *testing.T) {
	t.Parallel()
	req, origin := ended(t, func(r *Request) { r.Authority, r.Nexus = &clerk{}, "http://nexus.invalid" })
	before, err := os.ReadFile(origin.Journal())
	if err != nil {
		t.Fatal(err)
	}
	// sealed is the journal with an outcome behind it, as an authority seals it.
	sealed := func(actor string, at time.Time, steps ...string) []byte {
		path := filepath.Join(t.TempDir(), evidence.JournalFile)
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := journal.Continue(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append([]string{evidence.StepOutcome}, steps...) {
			if _, err := w.Append(journal.Step{StepID: "outcome", Name: name, Status: journal.Completed, StartedAt: at, CompletedAt: at,
				Outputs: evidence.Outcome{Outcome: session.Rejected, Reason: "sealed", Actor: actor}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	now := time.Now()
	rejected := &job.Decision{Outcome: session.Rejected, Note: "theirs", Principal: "user:bob", At: now}
	accepted := &job.Decision{Outcome: session.Accepted, Note: "theirs", Principal: "user:bob", At: now}
	spoken := &job.Decision{Outcome: session.Rejected, Note: "theirs", Principal: "local-operator:root", At: now}
	for name, c := range map[string]struct {
		d     decider
		code  reason.Code
		words string // of the entry, "" for none
		hands int    // how many bundles the authority gets
	}{
		"no word yet":                 {decider{}, "", `"actor":"tester","outcome":"rejected","reason":"mine"`, 1},
		"the same, unsealed":          {decider{given: rejected}, "", `"actor":"user:bob","outcome":"rejected","reason":"theirs"`, 1},
		"the same, sealed":            {decider{given: rejected, journal: sealed("user:bob", now)}, "", `"actor":"user:bob","outcome":"rejected","reason":"sealed"`, 0},
		"another was faster":          {decider{faster: accepted}, reason.OutcomeGiven, "", 0},
		"the same was faster":         {decider{faster: rejected}, "", `"reason":"theirs"`, 1},
		"another":                     {decider{given: accepted}, reason.OutcomeGiven, "", 0},
		"away":                        {decider{err: reason.Errorf(reason.StoreUnavailable, "away")}, reason.StoreUnavailable, "", 0},
		"speaks for the operator":     {decider{given: spoken}, reason.RequestInvalid, "", 0},
		"seals for the operator":      {decider{given: rejected, journal: sealed("local-operator:root", now)}, "", `"actor":"user:bob","outcome":"rejected","reason":"theirs"`, 1},
		"seals in the future":         {decider{given: rejected, journal: sealed("user:bob", now.Add(time.Hour))}, "", `"reason":"theirs"`, 1},
		"seals before the run":        {decider{given: rejected, journal: sealed("user:bob", now.Add(-time.Hour))}, "", `"reason":"theirs"`, 1},
		"seals more than the outcome": {decider{given: rejected, journal: sealed("user:bob", now, evidence.StepReceipt)}, "", `"reason":"theirs"`, 1},
		"seals another journal":       {decider{given: rejected, journal: bytes.Replace(sealed("user:bob", now), []byte("a.txt"), []byte("b.txt"), 1)}, "", `"reason":"theirs"`, 1},
		"a journal that is none":      {decider{given: rejected, journal: append(bytes.Clone(before), "{}\n"...)}, "", `"reason":"theirs"`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), &c.d
			if err := os.CopyFS(dir, os.DirFS(origin.Dir)); err != nil {
				t.Fatal(err)
			}
			s := origin
			s.Dir = dir
			defer func() { _ = req.Home.ChangeLocal(s.ID, func(l *session.Local) { l.Amended = 0 }) }()
			_, _, err := req.Home.DecideAt(t.Context(), s, d, session.Rejected, "mine", "tester", time.Now)
			if reason.CodeOf(err) != c.code {
				t.Fatalf("%v, want %q", err, c.code)
			}
			after, rerr := os.ReadFile(s.Journal())
			if rerr != nil {
				t.Fatal(rerr)
			}
			if c.words == "" && !bytes.Equal(after, before) || !strings.Contains(string(after[len(before):]), c.words) {
				t.Errorf("recorded is %q", after[len(before):])
			}
			if c.words == "" {
				return
			}
			signedBy(t, s)
			if err := req.Home.Amend(t.Context(), s, d); err != nil || len(d.amended) != c.hands {
				t.Errorf("%d bundles were handed over, want %d: %v", len(d.amended), c.hands, err)
			}
			if taken, err := req.Home.TakeOver(t.Context(), s, d); taken != nil || err != nil {
				t.Errorf("taken over once more: %v, %v", taken, err)
			}
		})
	}
	// What resume does, and what it does not: this copy has another word from before.
	if _, err := req.Home.TakeOver(t.Context(), origin, &decider{given: accepted}); reason.CodeOf(err) != reason.NotAcceptable {
		t.Fatalf("a run that did not pass is accepted: %v", err)
	}
	if _, err := req.Home.TakeOver(t.Context(), origin, &decider{given: rejected}); err != nil {
		t.Fatal(err)
	}
	taken, err := req.Home.TakeOver(t.Context(), origin, &decider{given: accepted})
	if taken != nil || reason.CodeOf(err) != reason.OutcomeGiven || !strings.Contains(err.Error(), "this copy was rejected by user:bob") {
		t.Errorf("%v, %v", taken, err)
	}
}

// TestSealingCutOff: what is added to a run that has ended, and cut off before the
// bundle is sealed over it, leaves an unsealed session, which a resumption seals: it
// judges nothing again.
func TestSealingCutOff(t *testing.T) {
	t.Parallel()
	req, s := ended(t, func(r *Request) { r.Authority = &clerk{} })
	made, err := record.NewReceipt(record.ForgeUpdateSkipped, "user:alice", "key", record.NoExport{Reason: "exported as a patch"})
	if err != nil {
		t.Fatal(err)
	}
	receipt := record.Recorded{Seq: 900, Receipt: made, RecordedAt: time.Now()}
	for name, add := range map[string]func() error{
		"a receipt": func() error { return s.AddReceipts([]record.Recorded{receipt}, time.Now) },
		"an outcome": func() error {
			_, err := s.Decide(t.Context(), session.Rejected, "no", "tester", time.Now)
			return err
		},
	} {
		inTheWay := filepath.Join(s.Dir, evidence.SummaryFile)
		if err := errors.Join(os.Remove(inTheWay), os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := add(); err == nil {
			t.Fatalf("%s: the bundle was sealed: the test would prove nothing", name)
		}
		if err := os.RemoveAll(inTheWay); err != nil {
			t.Fatal(err)
		}
		st, err := s.Inspect()
		if err != nil || st.Phase != session.Unsealed {
			t.Fatalf("%s: %+v, %v", name, st, err)
		}
		out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: s, Sandbox: req.Sandbox})
		if err != nil || out.Report.Status != st.Report.Status {
			t.Fatalf("%s: %v", name, err)
		}
		signedBy(t, s)
		if log, err := journal.ReadFile(s.Journal()); err != nil || len(log.Entries) != len(st.Log.Entries) {
			t.Errorf("%s: %d entries after the resumption, %d before: %v", name, len(log.Entries), len(st.Log.Entries), err)
		}
	}
}
