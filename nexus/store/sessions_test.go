package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// TestSessions keeps the rows of sessions: which are open and in what order,
// that an end is final, and that time only goes forward.
func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		start := clock.Now().UnixMilli()
		put := func(tx *store.Tx, id, principal string, life time.Duration) error {
			return tx.PutSession(store.SessionRow{ID: id, TokenID: "t", Principal: principal, SHA256: "digest of " + id, ExpiresAt: tx.Now() +
				life.Milliseconds()})
		}
		update(t, s, func(tx *store.Tx) error {
			if err := tx.PutToken(store.Token{ID: "t", Kind: "user", Principal: "user:a", Owner: "a"}); err != nil {
				return err
			}
			return errors.Join(put(tx, "one", "user:a", time.Hour), put(tx, "two", "user:a", time.Hour), put(tx, "short", "user:a",
				time.Minute), put(tx, "else", "user:b", time.Hour))
		})
		ids := func() (list []string) {
			view(t, s, func(tx *store.Tx) error {
				rows, err := tx.OpenSessions("user:a")
				for _, r := range rows {
					list = append(list, r.ID)
				}
				return err
			})
			return list
		}
		if got := ids(); !slices.Equal(got, []string{"one", "short", "two"}) {
			t.Errorf("open: %v", got)
		}
		clock.Advance(time.Minute)
		update(t, s, func(tx *store.Tx) error { return tx.SeeSession("one") })
		if got := ids(); !slices.Equal(got, []string{"two", "one"}) {
			t.Errorf("after a minute: %v", got)
		}
		clock.Advance(-30 * time.Second)
		update(t, s, func(tx *store.Tx) error { return tx.SeeSession("one") })
		for _, first := range []bool{true, false} {
			update(t, s, func(tx *store.Tx) error {
				was, err := tx.EndSession("two")
				if was != first {
					t.Errorf("ended: %v, want %v", was, first)
				}
				return err
			})
			clock.Advance(time.Second)
		}
		view(t, s, func(tx *store.Tx) error {
			one, err := tx.Session("one")
			if want := (store.SessionRow{ID: "one", TokenID: "t", Principal: "user:a", SHA256: "digest of one", CreatedAt: start,
				SeenAt: start + 60_000, ExpiresAt: start + 3_600_000}); one != want {
				t.Errorf("got %+v, want %+v", one, want)
			}
			two, err2 := tx.Session("two")
			if two.EndedAt != start+30_000 {
				t.Errorf("ended at %d", two.EndedAt-start)
			}
			if _, err := tx.Session("none"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			return errors.Join(err, err2)
		})
		if err := s.Update(t.Context(), func(tx *store.Tx) error { return put(tx, "one", "user:b", time.Hour) }); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("the same id again: %v", err)
		}
		update(t, s, func(tx *store.Tx) error {
			n, err := tx.PruneSessions(start+60_001, 10)
			if n != 1 {
				t.Errorf("removed %d", n)
			}
			return err
		})
	})
}

// TestLockSessions counts and adds in many commands at once: with the lock each
// sees those before it.
func TestLockSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		update(t, s, func(tx *store.Tx) error {
			return tx.PutToken(store.Token{ID: "t", Kind: "user", Principal: "user:a", Owner: "a"})
		})
		const bound = 3
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				err := s.Update(t.Context(), func(tx *store.Tx) error {
					if err := tx.LockSessions("user:a"); err != nil {
						return err
					}
					list, err := tx.OpenSessions("user:a")
					if err != nil || len(list) >= bound {
						return err
					}
					return tx.PutSession(store.SessionRow{ID: fmt.Sprint(i), TokenID: "t", Principal: "user:a", ExpiresAt: tx.Now() + 60_000})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		view(t, s, func(tx *store.Tx) error {
			list, err := tx.OpenSessions("user:a")
			if len(list) != bound {
				t.Errorf("%d sessions, want %d", len(list), bound)
			}
			return err
		})
	})
}
