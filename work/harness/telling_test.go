package harness

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remit/law/job"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// scribe is an authority elsewhere that gets the journal.
type scribe struct {
	clerk
	mu      sync.Mutex
	away    error
	heard   []journal.Entry
	calls   int
	begun   chan struct{} // closed when something was heard
	atClose int           // entries that arrived before the end did
}

func (c *scribe) Hear(_ context.Context, entries []journal.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls++; c.away != nil {
		return c.away
	}
	if len(c.heard) == 0 && c.begun != nil {
		close(c.begun)
	}
	c.heard = append(c.heard, entries[min(len(c.heard), len(entries)):]...)
	return nil
}

func (c *scribe) Close(ctx context.Context, passed bool, bundle func(io.Writer) error) error {
	c.atClose = len(c.heard)
	return c.clerk.Close(ctx, passed, bundle)
}

// toldAll holds what was heard against the journal of the session.
func (c *scribe) toldAll(t *testing.T, out *Outcome) {
	t.Helper()
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.heard) != len(log.Entries) || c.atClose != len(c.heard) {
		t.Fatalf("%d entries were heard, %d before the end, the journal has %d", len(c.heard), c.atClose, len(log.Entries))
	}
	for i, e := range log.Entries {
		if c.heard[i].EntryHash != e.EntryHash {
			t.Errorf("entry %d was heard as %s", i, c.heard[i].Name)
		}
	}
}

// TestJournalIsToldAsItGrows: an authority elsewhere hears of a run while its engine
// works, and has all of the journal before it hears of the end.
func TestJournalIsToldAsItGrows(t *testing.T) {
	t.Parallel()
	c := &scribe{clerk: clerk{answer: approvalThat(job.ApprovalGranted)}, begun: make(chan struct{})}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &c.clerk, &scripted{})
	req.Authority, req.Nexus = c, "https://nexus.example"
	req.JournalHook = func(s journal.Step) []journal.Step {
		if s.Name == evidence.StepEngine && s.Status == journal.Completed {
			<-c.begun
		}
		return []journal.Step{s}
	}
	out, err := Run(t.Context(), req)
	if err != nil || out.NotConcluded != nil || !c.closed {
		t.Fatalf("%+v %v", out, err)
	}
	c.toldAll(t, out)
}

// TestNobodyWaitsForAnAuthorityThatIsAway: a run goes on without it, and every entry is
// sent, once and in order, when the session is resumed.
func TestNobodyWaitsForAnAuthorityThatIsAway(t *testing.T) {
	t.Parallel()
	away := reason.Errorf(reason.StoreUnavailable, "not there")
	c := &scribe{clerk: clerk{answer: approvalThat(job.ApprovalGranted)}, away: away}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &c.clerk, &scripted{})
	req.Authority, req.Nexus = c, "https://nexus.example"
	out, err := Run(t.Context(), req)
	if err != nil || !errors.Is(out.NotConcluded, away) || c.closed || c.calls > 3 {
		t.Fatalf("%+v %v after %d calls", out, err, c.calls)
	}
	c.away = nil
	out, err = Resume(t.Context(), Resumption{Home: req.Home, Session: out.Session, Sandbox: req.Sandbox, Authority: c})
	if err != nil || out.NotConcluded != nil || !c.closed {
		t.Fatalf("%+v %v", out, err)
	}
	c.toldAll(t, out)
}

// silent is an authority that takes a request and never answers, until it is back.
type silent struct {
	clerk
	back         atomic.Bool
	asked, heard atomic.Int64
}

func (c *silent) Hear(ctx context.Context, entries []journal.Entry) error {
	if c.asked.Add(1); !c.back.Load() {
		<-ctx.Done()
		return ctx.Err() // which has no code
	}
	c.heard.Store(int64(len(entries)))
	return nil
}

// TestSilentAuthorityCostsOneTimeout: one that does not answer is asked seldom beside
// the run, which waits for it no second time at its end; one that is back hears all.
func TestSilentAuthorityCostsOneTimeout(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	w, err := journal.Create(filepath.Join(t.TempDir(), evidence.JournalFile), "s-1")
	if err == nil {
		_, err = w.Append(journal.Step{StepID: "run", Name: evidence.StepRunOpened, Status: journal.Completed, StartedAt: at, CompletedAt: at})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	synctest.Test(t, func(t *testing.T) { // its clock goes on when all wait
		c := &silent{}
		r := &run{Request: Request{Authority: c, Nexus: "https://nexus.example"}, recorder: &recorder{w: w}}
		r.beginTelling(t.Context())
		time.Sleep(10 * time.Minute)
		if n := c.asked.Load(); n < 2 || n > 20 || !r.telling.away.Load() {
			t.Errorf("asked %d times in 10 minutes", n)
		}
		begin := time.Now()
		if err := r.tellRest(t.Context()); reason.CodeOf(err) != reason.StoreUnavailable || time.Since(begin) != tellLast {
			t.Errorf("the end of the run waits %s: %v", time.Since(begin), err)
		}
		r.telling = nil
		r.beginTelling(t.Context())
		time.Sleep(time.Minute)
		c.back.Store(true)
		time.Sleep(time.Minute)
		if n := c.heard.Load(); n != 1 || r.telling.away.Load() {
			t.Errorf("back, it heard %d entries", n)
		}
		if err := r.tellRest(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slow is an authority that takes two seconds for each entry or batch of entries.
type slow struct {
	clerk
	asked, aborted atomic.Int64
	heard          atomic.Int64
}

func (c *slow) Hear(ctx context.Context, entries []journal.Entry) error {
	c.asked.Add(1)
	select {
	case <-ctx.Done():
		c.aborted.Add(1)
		return ctx.Err()
	case <-time.After(2 * time.Second):
	}
	c.heard.Store(int64(len(entries)))
	return nil
}

// TestTheLastEntryIsToldAtOnce: a request that is under way when a run ends is not sent
// again, and the last entries are sent beside what the run still does, without a pause.
func TestTheLastEntryIsToldAtOnce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	w, err := journal.Create(filepath.Join(t.TempDir(), evidence.JournalFile), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	add := func() {
		t.Helper()
		if _, err := w.Append(journal.Step{StepID: "run", Name: evidence.StepRunOpened, Status: journal.Completed, StartedAt: at, CompletedAt: at}); err != nil {
			t.Fatal(err)
		}
	}
	add()
	synctest.Test(t, func(t *testing.T) {
		c := &slow{}
		r := &run{Request: Request{Authority: c, Nexus: "https://nexus.example"}, recorder: &recorder{w: w}}
		r.beginTelling(t.Context())
		synctest.Wait()
		add() // while the first is under way
		r.lastEntry()
		time.Sleep(5 * time.Second) // the run seals its evidence
		begin := time.Now()
		if r.endTelling(); time.Since(begin) != 0 || c.heard.Load() != 2 || c.asked.Load() != 2 || c.aborted.Load() != 0 {
			t.Errorf("%d entries heard in %d requests, %d aborted; the run waits %s", c.heard.Load(), c.asked.Load(), c.aborted.Load(), time.Since(begin))
		}
		r.lastEntry() // a second end is none
		r.endTelling()
	})
	synctest.Test(t, func(t *testing.T) { // one that falls silent at the very end
		c := &silent{}
		r := &run{Request: Request{Authority: c, Nexus: "https://nexus.example"}, recorder: &recorder{w: w}}
		r.beginTelling(t.Context())
		synctest.Wait()
		begin := time.Now()
		if err := r.tellRest(t.Context()); reason.CodeOf(err) != reason.StoreUnavailable || time.Since(begin) != tellTimeout+tellLast {
			t.Errorf("the end of the run waits %s: %v", time.Since(begin), err)
		}
	})
}

// TestRefusedTellingStops: an authority that does not take the journal is not asked
// on and on, and gets the bundle.
func TestRefusedTellingStops(t *testing.T) {
	t.Parallel()
	c := &scribe{clerk: clerk{answer: approvalThat(job.ApprovalGranted)}, away: reason.Errorf(reason.NotFound, "no such place")}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &c.clerk, &scripted{})
	req.Authority, req.Nexus = c, "https://nexus.example"
	out, err := Run(t.Context(), req)
	if err != nil || out.NotConcluded != nil || !c.closed || c.calls > 2 {
		t.Fatalf("%+v %v after %d calls", out, err, c.calls)
	}
}

// TestBlockedRunsAreKnown: an authority elsewhere knows of a run that it never
// agreed to, which claims nothing and asks for no proof; that of this machine, and
// one that was out of reach, are not asked.
func TestBlockedRunsAreKnown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		nexus   string
		openErr error
		claims  int
		closed  bool
	}{
		"waits for an approval": {"https://nexus.example", nil, 1, true},
		"of this machine":       {"", nil, 0, false},
		"no scope to tell":      {"https://nexus.example", reason.Errorf(reason.ScopeMissing, "no"), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &scribe{clerk: clerk{answer: approvalThat(job.ApprovalRequested), openErr: test.openErr}}
			req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &c.clerk, &scripted{})
			req.Authority, req.Nexus = c, test.nexus
			out, err := Run(t.Context(), req)
			if err != nil || out.NotConcluded != nil || out.Report.Status != evidence.StatusBlocked {
				t.Fatalf("%+v %v", out, err)
			}
			if len(c.claims) != test.claims || c.closed != test.closed {
				t.Fatalf("%d claims, closed %t", len(c.claims), c.closed)
			}
			if test.closed {
				c.toldAll(t, out)
			}
			for _, cl := range c.claims {
				if cl.IssueRef != "" || cl.Proof.Capability != "" {
					t.Errorf("a run that is over claims %+v", cl)
				}
			}
		})
	}
}
