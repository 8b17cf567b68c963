package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// later is put, without waiting for it.
func later(k string, v int) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		return tx.Later(nil, nil, "INSERT INTO item (k, v) VALUES (?, ?)", k, v)
	}
}

// TestReadYourWrites: whatever is asked, in whatever way, sees all that the
// command has written before, and an answer is of the moment of the question.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		const sum = "SELECT COALESCE(SUM(v), 0) FROM item"
		update(t, s, func(tx *store.Tx) error {
			var row, rows int
			before := tx.AskNumber(sum)
			err := errors.Join(later("a", 1)(tx), tx.Row(sum).Scan(&row), later("b", 2)(tx))
			between := tx.AskNumber(sum)
			err = errors.Join(err, later("c", 4)(tx), tx.Rows(sum, func(r interface{ Scan(...any) error }) error { return r.Scan(&rows) }), later("d", 8)(tx))
			n, failed := tx.Exec("UPDATE item SET v = v + 0")
			first, missed := before()
			second, lost := between()
			if err := errors.Join(err, failed, missed, lost); err != nil {
				return err
			}
			if first != 0 || row != 1 || second != 3 || rows != 7 || n != 4 {
				t.Errorf("saw %d, %d, %d, %d and %d rows; want 0, 1, 3, 7 and 4", first, row, second, rows, n)
			}
			none := tx.AskNumber("SELECT v FROM item WHERE k = 'none'")
			if _, err := none(); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("no row: %v", err)
			}
			return later("e", 16)(tx) // ErrNotFound is an answer
		})
		if got := keys(t, s); got != "a b c d e" {
			t.Errorf("rows %q", got)
		}
	})
}

// TestLateErrors: a write that nobody waits for ends its command like any other,
// with its own error, whenever it is sent and whatever comes after it.
func TestLateErrors(t *testing.T) {
	t.Parallel()
	missing, taken := errors.New("missing"), reason.Errorf(reason.Conflict, "taken")
	writes := map[string]struct {
		write func(tx *store.Tx) error
		want  error
	}{
		"no row":   {func(tx *store.Tx) error { return tx.Later(missing, nil, "UPDATE item SET v = 1 WHERE k = 'x'") }, missing},
		"taken":    {func(tx *store.Tx) error { return tx.Later(nil, taken, "INSERT INTO item (k, v) VALUES ('kept', 2)") }, taken},
		"conflict": {func(tx *store.Tx) error { return tx.Later(nil, nil, "INSERT INTO item (k, v) VALUES ('kept', 2)") }, store.ErrConflict},
		"constraint": {func(tx *store.Tx) error {
			return tx.Later(missing, taken, "INSERT INTO item (k, v) VALUES ('n', NULL)")
		}, nil},
		"wrong SQL": {func(tx *store.Tx) error { return tx.Later(nil, nil, "INSERT INTO nowhere (k) VALUES (1)") }, nil},
	}
	ends := map[string]func(tx *store.Tx) error{
		"at the end":   func(*store.Tx) error { return nil },
		"with a write": func(tx *store.Tx) error { return later("after", 1)(tx) },
		"with a row":   func(tx *store.Tx) error { var n int; return tx.Row("SELECT COUNT(*) FROM item").Scan(&n) },
		"with rows":    func(tx *store.Tx) error { return nestedRows(tx) },
		"with exec":    put("after", 1),
		"with another that fails": func(tx *store.Tx) error {
			return tx.Later(errors.New("second"), nil, "UPDATE item SET v = 1 WHERE k = 'y'")
		},
		"hidden": func(tx *store.Tx) error { _, _ = tx.AskNumber("SELECT COUNT(*) FROM item")(); return nil },
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		update(t, s, put("kept", 1))
		for name, w := range writes {
			for when, end := range ends {
				err := s.Update(t.Context(), func(tx *store.Tx) error {
					if err := later("lost", 1)(tx); err != nil {
						return err
					}
					if err := w.write(tx); err != nil {
						return err
					}
					return end(tx)
				})
				if err == nil || w.want != nil && !errors.Is(err, w.want) || w.want == nil && (errors.Is(err, missing) || errors.Is(err, taken)) {
					t.Errorf("%s, %s: %v", name, when, err)
				}
			}
		}
		if got := keys(t, s); got != "kept" {
			t.Errorf("rows %q", got)
		}
	})
}

// TestUnsent: what was only asked for goes with a command that fails, and an
// answer is not had after the command.
func TestUnsent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		refused := errors.New("refused")
		var kept store.Answer[int64]
		err := s.Update(t.Context(), func(tx *store.Tx) error {
			kept = tx.AskNumber("SELECT COUNT(*) FROM item")
			return errors.Join(later("lost", 1)(tx), refused)
		})
		if !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		if n, err := kept(); s.Dialect() == "postgres" && err == nil {
			t.Errorf("%d rows after the command", n)
		}
		if err := s.View(t.Context(), later("written", 1)); err == nil {
			t.Error("a view wrote")
		}
		if got := keys(t, s); got != "" {
			t.Errorf("rows %q", got)
		}
	})
}

// TestLook: one query, at one time, and nothing else.
func TestLook(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		update(t, s, put("a", 5))
		look := func(fn func(tx *store.Tx) error) error { return s.Look(t.Context(), fn) }
		var v, now int64
		if err := look(func(tx *store.Tx) error { err := tx.Row("SELECT v FROM item").Scan(&v); now = tx.Now(); return err }); err != nil || v != 5 || now == 0 {
			t.Errorf("saw %d at %d: %v", v, now, err)
		}
		if err := look(func(tx *store.Tx) error { return tx.Row("SELECT v FROM item WHERE k = 'b'").Scan(&v) }); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no row: %v", err)
		}
		if err := look(put("b", 1)); err == nil {
			t.Error("a look wrote")
		}
		if err := look(later("b", 1)); err == nil {
			t.Error("a look wrote late")
		}
		twice := func(tx *store.Tx) error {
			return errors.Join(tx.Row("SELECT v FROM item").Scan(&v), tx.Row("SELECT v FROM item").Scan(&v))
		}
		if err := look(twice); s.Dialect() == "postgres" && err == nil {
			t.Error("a look saw two states")
		}
		if got := keys(t, s); got != "a" {
			t.Errorf("rows %q", got)
		}
	})
}

// TestPost: an event that nobody waits for has the place that Append would give
// it, once.
func TestPost(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		post := func(key, payload string, keep int64) error {
			return s.Update(t.Context(), func(tx *store.Tx) error {
				return tx.Post(store.Event{Stream: "s", Type: "note", IdempotencyKey: key, Payload: []byte(payload)}, keep)
			})
		}
		if err := errors.Join(post("a", `{"n":1}`, 0), post("a", `{ "n": 1 }`, 0), post("", `{}`, 0), post("", `{}`, 0), post("b", `{}`, 0)); err != nil {
			t.Fatal(err)
		}
		if err := post("a", `{"n":2}`, 0); !errors.Is(err, store.ErrConflict) {
			t.Errorf("another event under the key: %v", err)
		}
		got := readAll(t, s, "s")
		for i, e := range got {
			if e.Seq != int64(i+1) || e.RecordedAt == 0 || e.ID == "" || e.PayloadSHA256 == "" {
				t.Errorf("event %d is %+v", i+1, e)
			}
		}
		if len(got) != 4 || got[0].IdempotencyKey != "a" || got[3].IdempotencyKey != "b" {
			t.Errorf("events %+v", got)
		}
		for n := range 9 { // 13 in all
			if err := post(fmt.Sprint(n), `{}`, 4); err != nil {
				t.Fatal(err)
			}
		}
		view(t, s, func(tx *store.Tx) error {
			if head, floor, err := tx.Head("s"); head != 13 || floor != 8 || err != nil {
				t.Errorf("head %d and floor %d, want 13 and 8: %v", head, floor, err)
			}
			return nil
		})
		if got := readAll(t, s, "s"); len(got) != 5 || got[0].Seq != 9 {
			t.Errorf("%d events are left, from %d", len(got), got[0].Seq)
		}
	})
}

// TestPostRace: of commands that post the same event at once one adds it, and the
// others find it, without a gap.
func TestPostRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := []*store.Store{open()}
		if stores[0].Dialect() == "postgres" {
			stores = append(stores, open())
		}
		const rounds, clients = 6, 8
		for round := range rounds {
			var all sync.WaitGroup
			for c := range clients {
				all.Go(func() {
					err := stores[c%len(stores)].Update(t.Context(), func(tx *store.Tx) error {
						return tx.Post(store.Event{Stream: "s", Type: "note", IdempotencyKey: fmt.Sprint(round)}, 0)
					})
					if err != nil {
						t.Errorf("client %d: %v", c, err)
					}
				})
			}
			all.Wait()
		}
		for i, e := range readAll(t, stores[0], "s") {
			if e.Seq != int64(i+1) || i >= rounds {
				t.Errorf("event %d is %+v", i+1, e)
			}
		}
	})
}

// TestFlights: what can wait is sent at once, and COMMIT with the last writes.
func TestFlights(t *testing.T) {
	t.Parallel()
	dsn, wire := storetest.Tap(t, storetest.Postgres(t))
	s := storetest.Open(t, dsn, store.Options{Connections: 1})
	table(t, s)
	nothing := func(*store.Tx) error { return nil }
	for name, c := range map[string]struct {
		flights int
		run     func() error
	}{
		"nothing":           {0, func() error { return s.Update(t.Context(), nothing) }},
		"a view of nothing": {0, func() error { return s.View(t.Context(), nothing) }},
		"a look":            {1, func() error { return s.Ping(t.Context()) }},
		"a refusal": {0, func() error {
			_ = s.Update(t.Context(), func(tx *store.Tx) error { _ = later("r", 1)(tx); return errors.New("no") })
			return nil
		}},
		"two writes": {2, func() error {
			return s.Update(t.Context(), func(tx *store.Tx) error { return errors.Join(later("w", 1)(tx), later("x", 1)(tx)) })
		}},
		"reads, then writes": {2, func() error {
			return s.Update(t.Context(), func(tx *store.Tx) error {
				first, second := tx.AskNumber("SELECT COUNT(*) FROM item"), tx.AskNumber("SELECT COALESCE(MAX(v), 0) FROM item")
				_, err := first()
				_, failed := second()
				return errors.Join(err, failed, later("y", 1)(tx), later("z", 1)(tx))
			})
		}},
	} {
		wire.Take()
		if err := c.run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := wire.Take(); len(got) != c.flights {
			t.Errorf("%s: %d flights, want %d: %v", name, len(got), c.flights, got)
		}
	}
	if got := keys(t, s); got != "w x y z" {
		t.Errorf("rows %q", got)
	}
}
