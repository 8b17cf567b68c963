package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
	"remit/proof/reason"
)

func appendEvent(t *testing.T, s *store.Store, e store.Event) store.Event {
	t.Helper()
	var out store.Event
	update(t, s, func(tx *store.Tx) error {
		var err error
		out, err = tx.Append(e)
		return err
	})
	return out
}

func readAll(t *testing.T, s *store.Store, stream string) []store.Event {
	t.Helper()
	var out []store.Event
	view(t, s, func(tx *store.Tx) error {
		for {
			var after int64
			if len(out) > 0 {
				after = out[len(out)-1].Seq
			}
			more, err := tx.Events(stream, after, store.MaxEvents)
			if err != nil || len(more) == 0 {
				return err
			}
			out = append(out, more...)
		}
	})
	return out
}

// TestAppend: what an event holds.
func TestAppend(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		e := appendEvent(t, s, store.Event{Stream: "run:1:events", Type: "receipt", IdempotencyKey: "k",
			Payload: json.RawMessage(`{ "b":1, "a":"é" }`), Principal: "usr_1"})
		want := `{"a":"\u00e9","b":1}`
		if canonical, err := canon.Canonicalize([]byte(`{"b":1,"a":"é"}`)); err != nil || string(e.Payload) != string(canonical) {
			t.Errorf("payload %s, want something like %s: %v", e.Payload, want, err)
		}
		if e.Seq != 1 || e.PayloadSHA256 != canon.Digest(e.Payload) || e.RecordedAt != clock.Now().UnixMilli() ||
			!strings.HasPrefix(e.ID, "evt_") || len(e.ID) != 36 {
			t.Errorf("event %+v", e)
		}
		got := readAll(t, s, "run:1:events")
		if len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(e) {
			t.Errorf("stored %+v, want %+v", got, e)
		}
		if second := appendEvent(t, s, store.Event{Stream: "run:1:events", Type: "note"}); second.Seq != 2 || string(second.Payload) != "{}" {
			t.Errorf("second event %+v", second)
		}
		if other := appendEvent(t, s, store.Event{Stream: "run:2:events", Type: "note", IdempotencyKey: "k"}); other.Seq != 1 {
			t.Errorf("first event of another stream %+v", other)
		}
	})
}

// TestAppendRefuses: what never gets into a stream.
func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	tests := []struct {
		name string
		e    store.Event
		want reason.Code
	}{
		{"no stream", store.Event{}, reason.RequestInvalid},
		{"space in stream", store.Event{Stream: "a b"}, reason.RequestInvalid},
		{"line feed in stream", store.Event{Stream: "a\nb"}, reason.RequestInvalid},
		{"long stream", store.Event{Stream: strings.Repeat("a", 256)}, reason.RequestInvalid},
		{"huge payload", store.Event{Stream: "a", Payload: json.RawMessage(`"` + strings.Repeat("a", store.MaxEventPayload) + `"`)},
			reason.RequestTooLarge},
		{"not JSON", store.Event{Stream: "a", Payload: json.RawMessage(`{`)}, ""},
		{"duplicate key", store.Event{Stream: "a", Payload: json.RawMessage(`{"a":1,"a":2}`)}, ""},
		{"fraction", store.Event{Stream: "a", Payload: json.RawMessage(`{"a":1.5}`)}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Append(test.e); return err })
			if err == nil || test.want != "" && reason.CodeOf(err) != test.want {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if got := readAll(t, s, "a"); len(got) != 0 {
		t.Errorf("events %v", got)
	}
}

// TestAppendTwice: the same key gives the same event; other content conflicts.
func TestAppendTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		e := store.Event{Stream: "s", Type: "receipt", IdempotencyKey: "k", Payload: json.RawMessage(`{"a":1,"b":2}`), Principal: "p"}
		first := appendEvent(t, s, e)
		e.Payload = json.RawMessage(`{"b":2,  "a":1}`)
		if again := appendEvent(t, s, e); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("again %+v, want %+v", again, first)
		}
		for name, change := range map[string]func(*store.Event){
			"payload": func(e *store.Event) { e.Payload = json.RawMessage(`{"a":2}`) },
			"type":    func(e *store.Event) { e.Type = "other" },
		} {
			other := e
			change(&other)
			err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Append(other); return err })
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("other %s: %v", name, err)
			}
		}
		// In one command: twice the same, then something new.
		update(t, s, func(tx *store.Tx) error {
			for range 2 {
				if got, err := tx.Append(e); err != nil || got.Seq != 1 {
					t.Errorf("inside: %+v, %v", got, err)
				}
			}
			return nil
		})
		if next := appendEvent(t, s, store.Event{Stream: "s", Type: "next"}); next.Seq != 2 {
			t.Errorf("next event has seq %d, want 2", next.Seq)
		}
		noGaps(t, s)
	})
}

func noGaps(t *testing.T, s *store.Store) {
	t.Helper()
	problems, err := s.Integrity(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("integrity: %v %v", problems, err)
	}
}

// TestGapFree: 64 writers on a few streams, each event with a key that two of
// them use, some of the commands failing after they appended.
func TestGapFree(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := []*store.Store{open()}
		if stores[0].Dialect() == "postgres" {
			stores = append(stores, open())
		}
		const writers, each, streams = 64, 6, 3
		refused := errors.New("refused")
		var added sync.Map
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				s := stores[w%len(stores)]
				for i := range each {
					stream := fmt.Sprintf("run:%d:events", i%streams)
					e := store.Event{Stream: stream, Type: "note", IdempotencyKey: fmt.Sprintf("%d-%d", w/2, i),
						Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
					fail := (w+i)%5 == 0
					var got store.Event
					err := s.Update(t.Context(), func(tx *store.Tx) (err error) {
						if got, err = tx.Append(e); err == nil && fail {
							err = refused
						}
						return err
					})
					if fail != errors.Is(err, refused) || !fail && err != nil {
						t.Errorf("append: %v", err)
					}
					if err == nil {
						added.Store(stream+" "+e.IdempotencyKey, got.Seq)
					}
				}
			})
		}
		wg.Wait()
		total := 0
		for i := range streams {
			events := readAll(t, stores[0], fmt.Sprintf("run:%d:events", i))
			for j, e := range events {
				seq, ok := added.Load(e.Stream + " " + e.IdempotencyKey)
				if e.Seq != int64(j+1) || !ok || seq != e.Seq {
					t.Fatalf("event %d of %s has seq %d, acknowledged as %v", j+1, e.Stream, e.Seq, seq)
				}
			}
			total += len(events)
		}
		n := 0
		added.Range(func(any, any) bool { n++; return true })
		if total != n {
			t.Errorf("%d events, %d acknowledged", total, n)
		}
		noGaps(t, stores[0])
	})
}

// TestTrim: the floor moves forward only, never past the head, and the rest
// stays gap-free.
func TestTrim(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		for range 5 {
			appendEvent(t, s, store.Event{Stream: "s", Type: "delta"})
		}
		steps := []struct{ upTo, floor int64 }{{0, 0}, {2, 2}, {1, 2}, {9, 2}, {5, 5}}
		for _, step := range steps {
			update(t, s, func(tx *store.Tx) error { return tx.Trim("s", step.upTo) })
			view(t, s, func(tx *store.Tx) error {
				head, floor, err := tx.Head("s")
				if head != 5 || floor != step.floor {
					t.Errorf("after trim to %d: head %d, floor %d, want 5 and %d", step.upTo, head, floor, step.floor)
				}
				return err
			})
			if got := readAll(t, s, "s"); len(got) != int(5-step.floor) {
				t.Errorf("%d events above floor %d", len(got), step.floor)
			}
		}
		if e := appendEvent(t, s, store.Event{Stream: "s", Type: "delta"}); e.Seq != 6 {
			t.Errorf("seq %d after trim", e.Seq)
		}
		noGaps(t, s)
		view(t, s, func(tx *store.Tx) error {
			head, floor, err := tx.Head("unknown")
			if head != 0 || floor != 0 {
				t.Errorf("unknown stream: %d %d", head, floor)
			}
			return err
		})
	})
}

// TestChanged: a reader that asks, reads and waits misses nothing.
func TestChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		writer := open()
		reader := writer
		if writer.Dialect() == "postgres" {
			reader = open() // the hint comes from another replica
		}
		const events = 20
		var seen atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for seen.Load() < events {
				changed := reader.Changed("s")
				err := reader.View(t.Context(), func(tx *store.Tx) error {
					more, err := tx.Events("s", seen.Load(), 100)
					for _, e := range more {
						if e.Seq != seen.Load()+1 {
							t.Errorf("seq %d after %d", e.Seq, seen.Load())
						}
						seen.Store(e.Seq)
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				if seen.Load() < events {
					select {
					case <-changed:
					case <-t.Context().Done():
						return
					}
				}
			}
		}()
		for range events {
			appendEvent(t, writer, store.Event{Stream: "s", Type: "note"})
		}
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("the reader has seen %d of %d events", seen.Load(), events)
		}
		quiet := writer.Changed("s")
		err := writer.Update(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.Append(store.Event{Stream: "s", Type: "note"}); err != nil {
				return err
			}
			return errors.New("refused")
		})
		select {
		case <-quiet:
			if writer.Dialect() == "sqlite" {
				t.Error("a command that failed woke readers")
			}
		default:
		}
		if err == nil {
			t.Error("the command did not fail")
		}
	})
}
