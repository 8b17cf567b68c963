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

// deferred is put with a deferred write.
func deferred(k string, v int) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		return tx.Write(nil, nil, "INSERT INTO item (k, v) VALUES (?, ?)", k, v)
	}
}

// TestReadYourWrites: every kind of read sees all that the command has written
// before it.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		const sum = "SELECT COALESCE(SUM(v), 0) FROM item"
		update(t, s, func(tx *store.Tx) error {
			var row, rows int
			before, err := tx.Numbers(sum)
			err = errors.Join(err, deferred("a", 1)(tx), tx.Row(sum).Scan(&row), deferred("b", 2)(tx))
			between, failed := tx.Numbers(sum, "SELECT COUNT(*) FROM item")
			err = errors.Join(err, failed, deferred("c", 4)(tx), tx.Rows(sum,
				func(r interface{ Scan(...any) error }) error { return r.Scan(&rows) }), deferred("d", 8)(tx))
			n, failed := tx.Exec("UPDATE item SET v = v + 0")
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			if before[0] != 0 || row != 1 || between[0] != 3 || between[1] != 2 || rows != 7 || n != 4 {
				t.Errorf("saw %d, %d, %d, %d and %d rows; want [0], 1, [3 2], 7 and 4", before, row, between, rows, n)
			}
			if _, err := tx.Numbers(sum, "SELECT v FROM item WHERE k = 'none'"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("no row: %v", err)
			}
			return deferred("e", 16)(tx) // ErrNotFound is an answer
		})
		if got := keys(t, s); got != "a b c d e" {
			t.Errorf("rows %q", got)
		}
	})
}

// TestDeferredErrors: a deferred write ends its command like any other, with its
// own error, whenever it is sent and whatever comes after it.
func TestDeferredErrors(t *testing.T) {
	t.Parallel()
	missing, taken := errors.New("missing"), reason.Errorf(reason.Conflict, "taken")
	writes := map[string]struct {
		write func(tx *store.Tx) error
		want  error
	}{
		"no row":   {func(tx *store.Tx) error { return tx.Write(missing, nil, "UPDATE item SET v = 1 WHERE k = 'x'") }, missing},
		"taken":    {func(tx *store.Tx) error { return tx.Write(nil, taken, "INSERT INTO item (k, v) VALUES ('kept', 2)") }, taken},
		"conflict": {func(tx *store.Tx) error { return tx.Write(nil, nil, "INSERT INTO item (k, v) VALUES ('kept', 2)") }, store.ErrConflict},
		"constraint": {func(tx *store.Tx) error {
			return tx.Write(missing, taken, "INSERT INTO item (k, v) VALUES ('n', NULL)")
		}, nil},
		"wrong SQL": {func(tx *store.Tx) error { return tx.Write(nil, nil, "INSERT INTO nowhere (k) VALUES (1)") }, nil},
	}
	ends := map[string]func(tx *store.Tx) error{
		"at the end":   func(*store.Tx) error { return nil },
		"with a write": func(tx *store.Tx) error { return deferred("after", 1)(tx) },
		"with a row":   func(tx *store.Tx) error { var n int; return tx.Row("SELECT COUNT(*) FROM item").Scan(&n) },
		"with rows":    func(tx *store.Tx) error { return nestedRows(tx) },
		"with exec":    put("after", 1),
		"with another that fails": func(tx *store.Tx) error {
			return tx.Write(errors.New("second"), nil, "UPDATE item SET v = 1 WHERE k = 'y'")
		},
		"hidden": func(tx *store.Tx) error { _, _ = tx.Numbers("SELECT COUNT(*) FROM item"); return nil },
	}
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		update(t, s, put("kept", 1))
		for name, w := range writes {
			for when, end := range ends {
				err := s.Update(t.Context(), func(tx *store.Tx) error {
					if err := deferred("lost", 1)(tx); err != nil {
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

// TestUnsent: a deferred write goes with a command that fails, and a view makes none.
func TestUnsent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		refused := errors.New("refused")
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return errors.Join(deferred("lost", 1)(tx), refused) }); !errors.Is(err,
			refused) {
			t.Errorf("error %v", err)
		}
		if err := s.View(t.Context(), deferred("written", 1)); err == nil {
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
		if err := look(func(tx *store.Tx) error { err := tx.Row("SELECT v FROM item").Scan(&v); now = tx.Now(); return err }); err != nil ||
			v != 5 || now == 0 {
			t.Errorf("saw %d at %d: %v", v, now, err)
		}
		if err := look(func(tx *store.Tx) error { return tx.Row("SELECT v FROM item WHERE k = 'b'").Scan(&v) }); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("no row: %v", err)
		}
		if err := look(put("b", 1)); err == nil {
			t.Error("a look wrote")
		}
		if err := look(deferred("b", 1)); err == nil {
			t.Error("a look deferred a write")
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

// TestPost: an event whose place is not returned has the place that Append would give
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
		if err := errors.Join(post("a", `{"n":1}`, 0), post("a", `{ "n": 1 }`, 0), post("", `{}`, 0), post("", `{}`, 0), post("b", `{}`,
			0)); err != nil {
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

// TestRoundTrips: reads that are made together are sent together, and deferred
// writes with COMMIT.
func TestRoundTrips(t *testing.T) {
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
			_ = s.Update(t.Context(), func(tx *store.Tx) error { _ = deferred("r", 1)(tx); return errors.New("no") })
			return nil
		}},
		"two writes": {2, func() error {
			return s.Update(t.Context(), func(tx *store.Tx) error { return errors.Join(deferred("w", 1)(tx), deferred("x", 1)(tx)) })
		}},
		"reads, then writes": {2, func() error {
			return s.Update(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Numbers("SELECT COUNT(*) FROM item", "SELECT COALESCE(MAX(v), 0) FROM item")
				return errors.Join(err, deferred("y", 1)(tx), deferred("z", 1)(tx))
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
