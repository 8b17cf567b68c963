package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// table makes a small table of the test's own.
func table(t *testing.T, s *store.Store) {
	t.Helper()
	update(t, s, func(tx *store.Tx) error {
		strict := ""
		if s.Dialect() == "sqlite" {
			strict = " STRICT"
		}
		_, err := tx.Exec("CREATE TABLE item (k TEXT PRIMARY KEY, v INTEGER NOT NULL)" + strict)
		return err
	})
}

func update(t *testing.T, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

func view(t *testing.T, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("view: %v", err)
	}
}

func put(k string, v int) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO item (k, v) VALUES (?, ?)", k, v)
		return err
	}
}

func keys(t *testing.T, s *store.Store) string {
	t.Helper()
	var out []string
	view(t, s, func(tx *store.Tx) error {
		return tx.Rows("SELECT k FROM item ORDER BY k", func(row interface{ Scan(...any) error }) error {
			var k string
			err := row.Scan(&k)
			out = append(out, k)
			return err
		})
	})
	return strings.Join(out, " ")
}

// TestRollbackIsolation: a command that fails, in whatever way, takes back what
// it did and nothing else.
func TestRollbackIsolation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		refused := errors.New("refused")
		ways := map[string]func(tx *store.Tx) error{
			"error":             func(tx *store.Tx) error { return refused },
			"panic":             func(tx *store.Tx) error { panic(refused) },
			"end of goroutine":  func(tx *store.Tx) error { runtime.Goexit(); return nil },
			"panic with a row":  func(tx *store.Tx) error { tx.Row("SELECT k FROM item"); panic(refused) },
			"end with a row":    func(tx *store.Tx) error { tx.Row("SELECT k FROM item"); runtime.Goexit(); return nil },
			"conflict":          put("kept", 2),
			"hidden conflict":   func(tx *store.Tx) error { _ = put("kept", 2)(tx); return nil },
			"statement after":   func(tx *store.Tx) error { _ = put("kept", 2)(tx); return put("after", 1)(tx) },
			"wrong SQL":         func(tx *store.Tx) error { _, err := tx.Exec("SELECT FROM WHERE"); return err },
			"type of argument":  func(tx *store.Tx) error { _, err := tx.Exec("SELECT ?", 1.5); return err },
			"NUL in text":       func(tx *store.Tx) error { return put("a\x00b", 1)(tx) },
			"text not UTF-8":    func(tx *store.Tx) error { return put("a\xffb", 1)(tx) },
			"rows inside rows":  func(tx *store.Tx) error { return nestedRows(tx) },
			"text for a number": func(tx *store.Tx) error { _, err := tx.Exec("UPDATE item SET v = k"); return err },
		}
		update(t, s, put("kept", 1))
		checkAfter(t, s, len(ways))
		for name, fail := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var others sync.WaitGroup
				for i := range 4 {
					others.Go(func() { update(t, s, put(fmt.Sprintf("%s %d", name, i), 1)) })
				}
				err := outcome(func() error {
					return s.Update(t.Context(), func(tx *store.Tx) error {
						if err := put("lost "+name, 1)(tx); err != nil {
							return err
						}
						return fail(tx)
					})
				})
				others.Wait()
				if err == nil {
					t.Error("the command succeeded")
				}
				if strings.HasSuffix(name, "conflict") && !errors.Is(err, store.ErrConflict) {
					t.Errorf("error %v is not a conflict", err)
				}
			})
		}
	})
}

// checkAfter runs when the parallel subtests of t have ended.
func checkAfter(t *testing.T, s *store.Store, ways int) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		var lost, all int
		err := s.View(ctx, func(tx *store.Tx) error {
			if err := tx.Row("SELECT COUNT(*) FROM item WHERE k LIKE 'lost%'").Scan(&lost); err != nil {
				return err
			}
			return tx.Row("SELECT COUNT(*) FROM item").Scan(&all)
		})
		if err != nil || lost != 0 || all != 1+4*ways {
			t.Errorf("%d lost rows, %d rows, want 0 and %d: %v", lost, all, 1+4*ways, err)
		}
	})
}

func nestedRows(tx *store.Tx) error {
	return tx.Rows("SELECT 1", func(interface{ Scan(...any) error }) error {
		_, err := tx.Exec("DELETE FROM item")
		return err
	})
}

// outcome runs fn in a goroutine and tells how it ended.
func outcome(fn func() error) error {
	end := make(chan error)
	go func() {
		err := errors.New("the goroutine ended")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			end <- err
		}()
		err = fn()
	}()
	return <-end
}

// TestNested: a command inside a command is refused, as it would wait for itself.
func TestNested(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		err := s.Update(t.Context(), func(tx *store.Tx) error {
			return s.Update(tx.Context(), func(*store.Tx) error { return nil })
		})
		if err == nil || !strings.Contains(err.Error(), "inside a command") {
			t.Errorf("nested command: %v", err)
		}
	})
}

// TestSnapshot: a view sees one state, whatever commits meanwhile, and writes
// nothing.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		update(t, s, put("a", 1))
		count := func(tx *store.Tx) (n int, err error) {
			err = tx.Row("SELECT COUNT(*) FROM item").Scan(&n)
			return n, err
		}
		view(t, s, func(tx *store.Tx) error {
			before, err := count(tx)
			if err != nil {
				return err
			}
			update(t, s, put("b", 1))
			after, err := count(tx)
			if before != 1 || after != 1 {
				t.Errorf("saw %d and %d rows, want 1 and 1", before, after)
			}
			return err
		})
		if got := keys(t, s); got != "a b" {
			t.Errorf("rows %q", got)
		}
		if err := s.View(t.Context(), put("c", 1)); err == nil {
			t.Error("a view wrote")
		}
		if err := s.View(t.Context(), func(tx *store.Tx) error { _ = put("c", 1)(tx); return nil }); err == nil {
			t.Error("a view hid the refusal of a write")
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("ping after a refused write: %v", err)
		}
	})
}

// TestCancelled: a command whose context has ended has no effect.
func TestCancelled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		table(t, s)
		gone := errors.New("the caller has gone")
		t.Run("before", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(gone)
			err := s.Update(ctx, func(*store.Tx) error { t.Error("it ran"); return nil })
			if !errors.Is(err, gone) {
				t.Errorf("error %v", err)
			}
			if err := s.View(ctx, func(*store.Tx) error { t.Error("it ran"); return nil }); !errors.Is(err, gone) {
				t.Errorf("error %v", err)
			}
		})
		t.Run("inside", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := s.Update(ctx, func(tx *store.Tx) error {
				if err := put("a", 1)(tx); err != nil {
					return err
				}
				cancel(gone)
				return put("b", 1)(tx)
			})
			if !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
		t.Run("at the end", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := s.Update(ctx, func(tx *store.Tx) error {
				err := put("c", 1)(tx)
				cancel(gone)
				return err
			})
			if !errors.Is(err, gone) {
				t.Errorf("error %v", err)
			}
		})
		if got := keys(t, s); got != "" {
			t.Errorf("rows %q", got)
		}
		update(t, s, put("z", 1))
	})
}

// TestClock: one time a command, of the given clock or a real one.
func TestClock(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		start := clock.Now().UnixMilli()
		update(t, s, func(tx *store.Tx) error {
			first := tx.Now()
			clock.Advance(time.Hour)
			if second := tx.Now(); first != start || second != start {
				t.Errorf("times %d and %d, want %d", first, second, start)
			}
			return nil
		})
		view(t, s, func(tx *store.Tx) error {
			if got := tx.Now(); got != start+time.Hour.Milliseconds() {
				t.Errorf("the clock did not move: %d", got-start)
			}
			return nil
		})
	})
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		update(t, open(), func(tx *store.Tx) error {
			if off := time.Since(time.UnixMilli(tx.Now())).Abs(); off > time.Minute {
				t.Errorf("the clock is off by %v", off)
			}
			return nil
		})
	})
}

// TestValues: what goes in comes out alike from both databases.
func TestValues(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		type word string
		update(t, open(), func(tx *store.Tx) error {
			if _, err := tx.Exec("CREATE TABLE sample (a BIGINT, b TEXT)"); err != nil {
				return err
			}
			n := 7
			for _, v := range []any{int64(1 << 60), 5, uint8(3), true, &n, (*int)(nil)} {
				if _, err := tx.Exec("INSERT INTO sample (a, b) VALUES (?, ?)", v, word("what? 'it'")); err != nil {
					return fmt.Errorf("%T: %w", v, err)
				}
			}
			var sum, nulls int64
			var text string
			err := tx.Row("SELECT SUM(a), COUNT(*) - COUNT(a), MAX(b) FROM sample WHERE b LIKE '%?%' AND b = ?", "what? 'it'").Scan(&sum,
				&nulls, &text)
			if err != nil || sum != 1<<60+5+3+1+7 || nulls != 1 || text != "what? 'it'" {
				t.Errorf("sum %d, %d nulls, %q: %v", sum, nulls, text, err)
			}
			if err := tx.Row("SELECT a FROM sample WHERE a = ?", 99).Scan(&sum); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("no row: %v", err)
			}
			if n, err := tx.Exec("UPDATE sample SET a = 0 WHERE a < ?", 6); n != 3 || err != nil {
				t.Errorf("%d rows changed, want 3: %v", n, err)
			}
			tx.Row("SELECT a FROM sample") // never scanned: the next statement must not mind
			return tx.Row("SELECT a FROM sample WHERE a IS NOT NULL").Scan(&sum)
		})
	})
}

// TestTextOrder: text is ordered by its bytes, so ties are broken alike
// everywhere.
func TestTextOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		names := []string{"a", "B", "_", "é", "Z", "aa", "0"}
		update(t, s, func(tx *store.Tx) error {
			for _, name := range names {
				if _, err := tx.Append(store.Event{Stream: "order", Type: name, IdempotencyKey: name}); err != nil {
					return err
				}
			}
			return nil
		})
		var got []string
		view(t, s, func(tx *store.Tx) error {
			return tx.Rows("SELECT type FROM event ORDER BY type", func(row interface{ Scan(...any) error }) error {
				var name string
				err := row.Scan(&name)
				got = append(got, name)
				return err
			})
		})
		slices.Sort(names)
		if !slices.Equal(got, names) {
			t.Errorf("order %q, want %q", got, names)
		}
	})
}

// TestClosed: a closed store refuses, and closing twice is no harm.
func TestClosed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		changed := s.Changed("x")
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		<-changed // its reader is let go
		if err := s.Update(t.Context(), func(*store.Tx) error { return nil }); err == nil {
			t.Error("a closed store took a command")
		}
		if err := s.View(t.Context(), func(*store.Tx) error { return nil }); err == nil {
			t.Error("a closed store showed something")
		}
		if err := open().Ping(t.Context()); err != nil {
			t.Errorf("open again: %v", err)
		}
	})
}
