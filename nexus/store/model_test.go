package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// model is what streams and keys must look like, without a database.
type model struct {
	streams map[string][]store.Event
	floors  map[string]int64
	answers map[store.Key]int
}

// TestModel compares random commands, some of which fail, with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := model{streams: map[string][]store.Event{}, floors: map[string]int64{}, answers: map[store.Key]int{}}
		name := rapid.SampledFrom([]string{fmt.Sprintf("%d/a", n), fmt.Sprintf("%d/b", n)})
		refused := errors.New("refused")
		command := func(fn func(*store.Tx) error) error {
			fail := rapid.IntRange(0, 4).Draw(t, "fail") == 0
			err := s.Update(t.Context(), func(tx *store.Tx) error {
				if err := fn(tx); err != nil || !fail {
					return err
				}
				return refused
			})
			if err != nil && !errors.Is(err, refused) && !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
			return err
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				stream := name.Draw(t, "stream")
				e := store.Event{Stream: stream, Type: "note", IdempotencyKey: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "key"),
					Payload: json.RawMessage(rapid.SampledFrom([]string{`{"a":1}`, `{"a":2}`}).Draw(t, "payload"))}
				var got store.Event
				err := command(func(tx *store.Tx) (err error) { got, err = tx.Append(e); return err })
				m.appended(t, e, got, err)
			},
			"save": func(t *rapid.T) {
				k := store.Key{Key: name.Draw(t, "key")}
				err := command(func(tx *store.Tx) error { return tx.SaveIdempotency(k, "", store.Response{Status: 200 + n}) })
				_, known := m.answers[k]
				if err == nil && known || errors.Is(err, store.ErrConflict) && !known {
					t.Fatalf("save: %v, known %v", err, known)
				}
				if err == nil {
					m.answers[k] = 200 + n
				}
			},
			"trim": func(t *rapid.T) {
				stream, upTo := name.Draw(t, "stream"), int64(rapid.IntRange(0, 6).Draw(t, "up to"))
				err := command(func(tx *store.Tx) error { return tx.Trim(stream, upTo) })
				if err == nil && upTo > m.floors[stream] && upTo <= int64(len(m.streams[stream])) {
					m.floors[stream] = upTo
				}
			},
		})
		m.check(t, s)
	})
}

// appended checks the answer to an Append against the model, and follows it.
func (m *model) appended(t *rapid.T, e, got store.Event, err error) {
	events := m.streams[e.Stream]
	for _, old := range events {
		if e.IdempotencyKey == "" || old.IdempotencyKey != e.IdempotencyKey || old.Seq <= m.floors[e.Stream] {
			continue
		}
		same := string(old.Payload) == string(e.Payload)
		if same == errors.Is(err, store.ErrConflict) || err == nil && got.Seq != old.Seq {
			t.Fatalf("append %+v again: %+v, %v", e, got, err)
		}
		return
	}
	if errors.Is(err, store.ErrConflict) || err == nil && got.Seq != int64(len(events)+1) {
		t.Fatalf("append %+v: %+v, %v", e, got, err)
	}
	if err == nil {
		m.streams[e.Stream] = append(events, got)
	}
}

// check compares what can be read.
func (m *model) check(t *rapid.T, s *store.Store) {
	err := s.View(t.Context(), func(tx *store.Tx) error {
		for stream, events := range m.streams {
			head, floor, err := tx.Head(stream)
			if err != nil || head != int64(len(events)) || floor != m.floors[stream] {
				t.Fatalf("%s: head %d, floor %d, want %d, %d: %v", stream, head, floor, len(events), m.floors[stream], err)
			}
			got, err := tx.Events(stream, floor, store.MaxEvents)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(events[floor:]) {
				t.Fatalf("%s: %v, want %v: %v", stream, got, events[floor:], err)
			}
		}
		for k, status := range m.answers {
			if c, err := tx.Idempotency(k); err != nil || c == nil || c.Response.Status != status {
				t.Fatalf("%v: %v, %v", k, c, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
