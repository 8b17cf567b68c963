package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// kept counts the stored answers: it forgets them all, and takes that back.
func (w *world) kept() (n int64) {
	w.t.Helper()
	back := errors.New("taken back")
	if err := w.store.Update(w.t.Context(), func(tx *store.Tx) (err error) {
		if n, err = tx.PruneIdempotency(math.MaxInt64, math.MaxInt32); err == nil {
			err = back
		}
		return err
	}); !errors.Is(err, back) {
		w.t.Fatal(err)
	}
	return n
}

// TestSweepHasNoCeiling loses more jobs at once than one transaction ends: one
// sweep ends them all, and gives all the money back.
func TestSweepHasNoCeiling(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{})
		f := &flow{world: w}
		f.join()
		run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
		const lost = 2*jobs.DefaultSweep + 7
		for i := range lost {
			body := fmt.Sprintf(`{"job_type":"oa.sandbox_run.v1","request":{"sandbox":{"image_digest":"host"},"repo":{"source":"/r","git_ref":"abc"},"commands":[{"cmd":"go test %d"}]}}`, i)
			w.do(post("/v1/runs/"+run+"/jobs", w.alice, fmt.Sprint("j", i), body)).want(t, 201, "")
		}
		clock.Advance(jobs.OfferTTL + time.Second)
		if err := w.server.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var totals api.TreasurySummary
		if err := json.Unmarshal([]byte(w.do(get("/v1/treasury/summary", w.alice)).body), &totals); err != nil {
			t.Fatal(err)
		}
		if totals.Totals.WithheldCount != lost || totals.Totals.ReservedCount != 0 {
			t.Errorf("one sweep has ended %d of %d jobs", totals.Totals.WithheldCount, lost)
		}
	})
}

// TestIdleFleetKeepsNoAnswers lets providers do nothing but say that they are
// there. The answers to that are kept while a client may repeat
// the request, and no longer; those that moved something stay.
func TestIdleFleetKeepsNoAnswers(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{})
		f := &flow{world: w}
		f.join()
		base := w.kept()
		var after []int64
		for minute := range 6 {
			for beat := range 4 {
				key := fmt.Sprint(minute, "-", beat)
				first := w.do(post("/v1/providers/"+f.provider+"/heartbeat", f.token, key, `{"version":"1.0"}`)).want(t, 200, "")
				if again := w.do(post("/v1/providers/"+f.provider+"/heartbeat", f.token, key, `{"version":"1.0"}`)); again.body != first.body || !again.replayed {
					t.Fatalf("an answer that was lost is lost: %s", again.body)
				}
				w.do(post("/v1/jobs/lease", f.token, key, `{"max":3}`)).want(t, 200, "")
				w.do(post("/v1/lanes/tickets", f.token, key, `{"topic":"jobs:`+f.provider+`"}`)).want(t, 201, "")
				w.do(post("/v1/jobs/job_none/renew", f.token, key, `{"fence":1}`)).want(t, 404, "not_found")
				clock.Advance(15 * time.Second)
				if err := w.server.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			after = append(after, w.kept())
		}
		if after[5] > after[1] || after[1]-base > 4*5 {
			t.Errorf("%d answers before, by the minute %v", base, after)
		}
		clock.Advance(time.Hour)
		if err := w.server.Sweep(t.Context()); err != nil || w.kept() > base {
			t.Errorf("%v: %d answers are left, %d moved something", err, w.kept(), base)
		}
	})
}

// TestSilentRunEnds lets clients die. A run says nothing for as long as its owner
// allows, or the authority where the owner says nothing; then it has failed, its
// issue is free and its money is back. What still says something lives.
func TestSilentRunEnds(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{Sweep: Sweep{RunSilence: 3 * time.Minute, Retention: 30 * 24 * time.Hour}})
		f := &flow{world: w}
		f.join()
		begin := func(key, more string) string {
			return w.do(post("/v1/runs", w.alice, key, `{"repo_ref":"r"`+more+`}`)).want(t, 201, "").field(t, "run_id")
		}
		short := begin("short", `,"issue_ref":"#1","silence_secs":60`)
		usual, talks := begin("usual", `,"issue_ref":"#2"`), begin("talks", `,"silence_secs":60`)
		works := begin("works", `,"silence_secs":60`)
		long := begin("long", `,"silence_secs":2592000`)
		w.do(post("/v1/runs", w.alice, "bad", `{"repo_ref":"r","silence_secs":59}`)).want(t, 400, "request_invalid")
		job := w.do(post("/v1/runs/"+works+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "").field(t, "job_id")
		w.do(post("/v1/jobs/lease", f.token, "l", `{"ttl_seconds":300}`)).want(t, 200, "")
		sweep := func(d time.Duration) { // without an absence of the authority, which excuses providers
			t.Helper()
			for ; d > 0; d -= 10 * time.Second {
				clock.Advance(min(d, 10*time.Second))
				if err := w.server.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		state := func(run string) string { return w.do(get("/v1/runs/"+run, w.alice)).field(t, "status") }
		sweep(59 * time.Second)
		w.do(post("/v1/runs/"+talks+"/events", w.alice, "note", `{"event_type":"note","payload":{"text":"x"}}`)).want(t, 201, "")
		if state(short) != "running" {
			t.Error("ended before its time")
		}
		sweep(2 * time.Second)
		for run, want := range map[string]string{short: "failed", usual: "running", talks: "running", works: "running", long: "running"} {
			if got := state(run); got != want {
				t.Errorf("after a minute a run is %s, want %s", got, want)
			}
		}
		begin("again", `,"issue_ref":"#1"`)
		w.do(post("/v1/runs", w.alice, "taken", `{"repo_ref":"r","issue_ref":"#2"}`)).want(t, 409, "conflict")
		w.do(post("/v1/providers/"+f.provider+"/disable", w.alice, "off", "")).want(t, 200, "")
		if got := w.do(get("/v1/jobs/"+job, w.alice)); got.field(t, "payment") != "withheld" {
			t.Errorf("%s", got.body)
		}
		clock.Advance(30 * 24 * time.Hour) // the authority was away: silence begins anew
		sweep(50 * time.Second)
		w.alice = w.mint(personGrant("alice")) // the tokens of before are past their end
		if state(works) != "running" || state(usual) != "running" || state(long) != "running" {
			t.Error("an absence of the authority counts as the silence of its clients")
		}
		sweep(21 * time.Second)
		if state(works) != "failed" {
			t.Error("a run whose job was lost goes on without anybody")
		}
		sweep(3 * time.Minute)
		if state(usual) != "failed" || state(long) != "running" {
			t.Errorf("usual %s, long %s", state(usual), state(long))
		}
		if err := w.store.View(t.Context(), func(tx *store.Tx) error {
			e, err := tx.EventByKey(authority.RunStream(short), "run-finished")
			if err == nil && string(e.Payload) != `{"reason":"run_silent","status":"failed"}` {
				t.Errorf("%s", e.Payload)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := w.server.Audit(t.Context()); err != nil || w.server.readOnly.Load() {
			t.Error("the books are wrong", err)
		}
	})
}

// TestRunIsFoundByItsKey asks for a run by the key of the request that made it,
// long after the stored answer is forgotten, and as another owner.
func TestRunIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		w := newWorld(t, open(), Options{Sweep: Sweep{Retention: time.Hour, RunSilence: -1}})
		id := w.do(post("/v1/runs", w.alice, "mine", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
		clock.Advance(2 * time.Hour)
		if err := w.server.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		alice, bob := w.mint(personGrant("alice")), w.mint(personGrant("bob"))
		find := func(token, key string) (ids []string) {
			var page api.RunPage
			if err := json.Unmarshal([]byte(w.do(get("/v1/runs?request_key="+key, token)).want(t, 200, "").body), &page); err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Items {
				ids = append(ids, r.RunID)
			}
			return ids
		}
		if got := find(alice, "mine"); len(got) != 1 || got[0] != id {
			t.Errorf("found %v, want %s", got, id)
		}
		if got := append(find(alice, "other"), find(bob, "mine")...); len(got) != 0 {
			t.Errorf("found %v", got)
		}
	})
}
