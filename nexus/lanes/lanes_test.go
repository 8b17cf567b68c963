package lanes_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/lanes"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

const (
	fleet = "fleet:user:alice:workers"
	run   = "run:run_1:events"
	jobs  = "jobs:prv_1"
)

// TestSnapshotThenDeltas is a lane without a cursor.
func TestSnapshotThenDeltas(t *testing.T) {
	each(t, func(t *testing.T, open func() *store.Store) {
		r := newReplica(t, open(), lanes.Options{})
		r.append(fleet, 3, "{}")
		lane := r.open(fleet, "")
		if f := lane.want(api.LaneFrameTypeHello); api.Value(f.HeadSeq) != 3 {
			t.Errorf("head %d, want 3", api.Value(f.HeadSeq))
		}
		f := lane.want(api.LaneFrameTypeSnapshot)
		if api.Value(f.Seq) != 3 || string(api.Value(f.Snapshot)) != `{"events":3}` {
			t.Errorf("snapshot %s at %d", api.Value(f.Snapshot), api.Value(f.Seq))
		}
		r.append(fleet, 4, "{}")
		lane.events(4, 7)
	})
}

// TestNoGapUnderLoad follows several lanes while several writers append.
func TestNoGapUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, open func() *store.Store) {
		r := newReplica(t, open(), lanes.Options{})
		const writers, each = 4, 30
		lanesOpen := []*reader{r.open(run, "?after_seq=0"), r.open(run, "?after_seq=0"), r.open(run, "?after_seq=0")}
		var all sync.WaitGroup
		for range writers {
			all.Go(func() { r.append(run, each, `{"a":1}`) })
		}
		for _, lane := range lanesOpen {
			lane.want(api.LaneFrameTypeHello)
			lane.events(1, writers*each)
		}
		all.Wait()
	})
}

// TestResumeOnAnotherReplica takes the cursor elsewhere.
func TestResumeOnAnotherReplica(t *testing.T) {
	each(t, func(t *testing.T, open func() *store.Store) {
		st := open()
		first := newReplica(t, st, lanes.Options{})
		first.append(run, 5, "{}")
		lane := first.open(run, "?after_seq=2")
		lane.want(api.LaneFrameTypeHello)
		lane.events(3, 5)
		go first.lanes.Drain()
		lane.closed(websocket.StatusGoingAway, "draining")

		other := st
		if st.Dialect() == "postgres" {
			other = open()
		}
		second := newReplica(t, other, lanes.Options{})
		first.append(run, 2, "{}")
		lane = second.open(run, "?after_seq=5")
		lane.want(api.LaneFrameTypeHello)
		lane.events(6, 7)
		first.append(run, 1, "{}") // written through the other replica
		lane.events(8, 8)
	})
}

// TestUnusableCursors: they get a fresh snapshot, with the reason.
func TestUnusableCursors(t *testing.T) {
	each(t, func(t *testing.T, open func() *store.Store) {
		r := newReplica(t, open(), lanes.Options{ReplayBudget: 10})
		r.append(fleet, 20, "{}")
		if err := r.store.Update(t.Context(), func(tx *store.Tx) error { return tx.Trim(fleet, 15) }); err != nil {
			t.Fatal(err)
		}
		r.append(run, 11, "{}")
		tests := []struct {
			name, topic, query string
			reason             reason.Code // "" continues
			head               int64
		}{
			{"just kept", fleet, "?after_seq=15", "", 20},
			{"removed", fleet, "?after_seq=14", reason.RetentionFloorBreach, 20},
			{"in budget", run, "?after_seq=1", "", 11},
			{"over budget", run, "?after_seq=0", reason.ReplayBudgetExceeded, 11},
			{"of the future", run, "?after_seq=13", reason.CursorInvalid, 11},
		}
		for _, test := range tests {
			lane := r.open(test.topic, test.query)
			lane.want(api.LaneFrameTypeHello)
			if test.reason == "" {
				if f := lane.want(api.LaneFrameTypeEvent); api.Value(f.Seq) > test.head {
					t.Errorf("%s: event %d", test.name, api.Value(f.Seq))
				}
				continue
			}
			if f := lane.want(api.LaneFrameTypeReset); api.Value(f.Reason) != string(test.reason) {
				t.Errorf("%s: reset for %q, want %q", test.name, api.Value(f.Reason), test.reason)
			}
			if f := lane.want(api.LaneFrameTypeSnapshot); api.Value(f.Seq) != test.head {
				t.Errorf("%s: snapshot at %d, want %d", test.name, api.Value(f.Seq), test.head)
			}
			r.append(test.topic, 1, "{}")
			for i := range tests {
				if tests[i].topic == test.topic {
					tests[i].head++
				}
			}
			lane.events(test.head+1, test.head+1)
		}
	})
}

// TestLanesTakeNoMessages is INV-02 on a lane: whatever a client sends ends it.
func TestLanesTakeNoMessages(t *testing.T) {
	r := one(t, lanes.Options{})
	for name, kind := range map[string]websocket.MessageType{"text": websocket.MessageText, "binary": websocket.MessageBinary} {
		lane := r.open(fleet, "")
		if err := lane.conn.Write(t.Context(), kind, []byte(`{"type":"event"}`)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lane.closed(websocket.StatusPolicyViolation, "lane_read_only")
	}
	head := int64(-1)
	if err := r.store.View(t.Context(), func(tx *store.Tx) (err error) { head, _, err = tx.Head(fleet); return err }); err != nil {
		t.Fatal(err)
	}
	if head != 0 {
		t.Errorf("a message on a lane made an event")
	}
}

// TestHandshakesThatAreRefused tries to get in without a right to.
func TestHandshakesThatAreRefused(t *testing.T) {
	r := one(t, lanes.Options{Origins: []string{"panel.example.com"}})
	used := r.ticket(fleet)
	if conn, code := r.dial(fleet, used, "", nil); conn == nil {
		t.Fatalf("refused: %s", code)
	}
	tests := []struct {
		name, topic, ticket, query string
		header                     http.Header
		want                       reason.Code
	}{
		{"no ticket", fleet, "", "", nil, reason.Unauthenticated},
		{"a guessed ticket", fleet, "rmt_ticket_" + strings.Repeat("0", 24) + "_" + strings.Repeat("A", 43), "", nil, reason.Unauthenticated},
		{"a used ticket", fleet, used, "", nil, reason.TokenExpired},
		{"a ticket for another lane", run, r.ticket(fleet), "", nil, reason.Unauthenticated},
		{"another origin", fleet, r.ticket(fleet), "", http.Header{"Origin": {"https://evil.example"}}, reason.OriginRefused},
		{"an origin without a host", fleet, r.ticket(fleet), "", http.Header{"Origin": {"null"}}, reason.OriginRefused},
		{"two origins", fleet, r.ticket(fleet), "", http.Header{"Origin": {"https://panel.example.com", "https://evil.example"}},
			reason.OriginRefused},
		{"an allowed origin", fleet, r.ticket(fleet), "", http.Header{"Origin": {"https://panel.example.com"}}, ""},
		{"no such lane", "run:a:b:events", r.ticket(fleet), "", nil, reason.LaneUnknown},
		{"a bad cursor", fleet, r.ticket(fleet), "?after_seq=-1", nil, reason.CursorInvalid},
		{"no cursor at all", fleet, r.ticket(fleet), "?after_seq=x", nil, reason.CursorInvalid},
	}
	for _, test := range tests {
		conn, code := r.dial(test.topic, test.ticket, test.query, test.header)
		if (conn != nil) != (test.want == "") || code != string(test.want) {
			t.Errorf("%s: opened=%v %q, want %q", test.name, conn != nil, code, test.want)
		}
	}
	resp, err := http.Get(r.url + "/" + fleet)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Error("a plain GET was answered: lanes are WebSocket only")
	}
}

// TestTicketsOfOthers asks for lanes that are not the caller's.
func TestTicketsOfOthers(t *testing.T) {
	r := one(t, lanes.Options{})
	for _, test := range []struct{ owner, topic string }{{"bob", fleet}, {"alice", "fleet:user:bob:workers"}, {"alice", "everything"}} {
		err := r.store.Update(t.Context(), func(tx *store.Tx) error {
			_, err := r.lanes.IssueTicket(tx, r.caller(test.owner), test.topic)
			return err
		})
		if reason.CodeOf(err) != reason.LaneUnknown {
			t.Errorf("%s got a ticket for %s: %v", test.owner, test.topic, err)
		}
	}
}

// TestTicketsEnd lets 30 seconds pass.
func TestTicketsEnd(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		r := newReplica(t, open(), lanes.Options{})
		late, inTime := r.ticket(fleet), r.ticket(fleet)
		clock.Advance(lanes.TicketTTL - time.Millisecond)
		if conn, code := r.dial(fleet, inTime, "", nil); conn == nil {
			t.Errorf("refused in time: %s", code)
		}
		clock.Advance(time.Millisecond)
		if _, code := r.dial(fleet, late, "", nil); code != string(reason.TokenExpired) {
			t.Errorf("got %q", code)
		}
	})
}

// TestRevocationClosesLanes ends the token behind an open lane.
func TestRevocationClosesLanes(t *testing.T) {
	r := one(t, lanes.Options{Ping: 5 * time.Millisecond})
	lane := r.open(fleet, "")
	early := r.ticket(fleet)
	if err := r.store.Update(t.Context(), func(tx *store.Tx) error { return tx.RevokeToken(r.token) }); err != nil {
		t.Fatal(err)
	}
	lane.closed(websocket.StatusPolicyViolation, "token_expired")
	if _, code := r.dial(fleet, early, "", nil); code != string(reason.TokenExpired) {
		t.Errorf("a ticket outlived its token: %q", code)
	}
}

// TestSlowReaders stops reading while much happens.
func TestSlowReaders(t *testing.T) {
	r := one(t, lanes.Options{PresenceLag: 4, JobsLag: 4, ReplayBudget: 1 << 30, WriteTimeout: time.Minute})
	heavy := `{"x":"` + strings.Repeat("y", 30_000) + `"}`
	slow := map[string]*reader{}
	for _, topic := range []string{fleet, jobs, run} {
		lane := r.open(topic, "")
		lane.want(api.LaneFrameTypeHello)
		lane.want(api.LaneFrameTypeSnapshot)
		slow[topic] = lane
	}
	const events = 24 // more bytes than all buffers on the way can take
	r.appendAll([]string{fleet, jobs, run}, events, heavy)

	resynced := false
	for last := int64(0); last < events; {
		f, err := slow[fleet].next()
		switch {
		case err != nil:
			t.Fatal(err)
		case f.Type == api.LaneFrameTypeResync:
			resynced = true
		case f.Type == api.LaneFrameTypeEvent && api.Value(f.Seq) != last+1:
			t.Fatalf("event %d after %d", api.Value(f.Seq), last)
		default:
			last = api.Value(f.Seq)
		}
	}
	if !resynced {
		t.Error("a slow reader of presence was not resynced")
	}
	slow[jobs].closed(websocket.StatusTryAgainLater, "lane_slow_consumer")
	slow[run].events(1, events)
}

// TestPlacesAreBounded keeps one principal from taking all lanes.
func TestPlacesAreBounded(t *testing.T) {
	r := one(t, lanes.Options{PerPrincipal: 2})
	first := r.open(fleet, "")
	r.open(fleet, "")
	if _, code := r.dial(fleet, r.ticket(fleet), "", nil); code != string(reason.RateLimited) {
		t.Errorf("got %q", code)
	}
	if r.lanes.Open() != 2 {
		t.Errorf("%d lanes are open", r.lanes.Open())
	}
	_ = first.conn.Close(websocket.StatusNormalClosure, "")
	for {
		conn, code := r.dial(fleet, r.ticket(fleet), "", nil)
		if conn != nil {
			break // the place came back
		}
		if code != string(reason.RateLimited) {
			t.Fatalf("got %q", code)
		}
	}
}

// FuzzParse holds that a topic has one reading.
func FuzzParse(f *testing.F) {
	for _, s := range []string{fleet, run, jobs, "run::events", "run:a:b:events", "jobs:", "fleet:user:a/b:workers",
		"user:alice:receipts", "user::receipts"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		topic, err := lanes.Parse(name)
		if err != nil {
			if reason.CodeOf(err) != reason.LaneUnknown {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		again := map[lanes.Kind]string{lanes.Fleet: "fleet:user:" + topic.Subject + ":workers", lanes.Run: "run:" + topic.Subject +
			":events", lanes.Jobs: "jobs:" + topic.Subject,
			lanes.Account: "user:" + topic.Subject + ":receipts"}
		if again[topic.Kind] != name || strings.ContainsAny(topic.Subject, ":/ ") {
			t.Fatalf("%q reads as %+v", name, topic)
		}
	})
}
