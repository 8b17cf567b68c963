package store

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"remit/proof/reason"
)

func openFile(t *testing.T, opt Options) (*Store, *writer) {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, s.db.(*sqliteDB).writer
}

// holdGroup begins a group, lets queue add commands to it and then lets it go.
func holdGroup(t *testing.T, s *Store, queue func()) {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Update(t.Context(), func(tx *Tx) error {
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	queue()
	close(release)
	<-done
}

func queued(w *writer, n int) {
	for len(w.queue) < n {
		runtime.Gosched()
	}
}

// TestCommitFailure: when COMMIT fails, all of its commands hear so, none has an
// effect, and the store goes on.
func TestCommitFailure(t *testing.T) {
	t.Parallel()
	s, w := openFile(t, Options{})
	var wg sync.WaitGroup
	errs := make([]error, 4)
	holdGroup(t, s, func() {
		for i := range errs {
			wg.Go(func() {
				errs[i] = s.Update(t.Context(), func(tx *Tx) error {
					if i > 0 {
						_, err := tx.Append(Event{Stream: "s", Type: "innocent"})
						return err
					}
					// An event without its stream, found out at COMMIT only.
					if _, err := tx.exec("PRAGMA defer_foreign_keys = ON"); err != nil {
						return err
					}
					_, err := tx.exec(`INSERT INTO event (stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal)
						VALUES ('none', 1, 'evt', '', '', '', '', 0, '')`)
					return err
				})
			})
		}
		queued(w, len(errs))
	})
	wg.Wait()
	for i, err := range errs {
		if reason.CodeOf(err) != reason.StoreUnavailable || !strings.Contains(err.Error(), "FOREIGN KEY") {
			t.Errorf("command %d: %v", i, err)
		}
	}
	err := s.Update(t.Context(), func(tx *Tx) error {
		e, err := tx.Append(Event{Stream: "s", Type: "after"})
		if e.Seq != 1 {
			t.Errorf("seq %d: the failed commands left something", e.Seq)
		}
		return err
	})
	if err != nil {
		t.Errorf("after a failed commit: %v", err)
	}
}

// TestLostTransaction: a statement that makes SQLite roll everything back takes
// the commands before it with it, and their callers get that error; what is queued
// behind it goes on.
func TestLostTransaction(t *testing.T) {
	t.Parallel()
	s, w := openFile(t, Options{})
	var wg sync.WaitGroup
	errs := make([]error, 3)
	holdGroup(t, s, func() {
		for i := range errs {
			wg.Go(func() {
				errs[i] = s.Update(t.Context(), func(tx *Tx) error {
					if i == 1 {
						_, err := tx.exec("ROLLBACK")
						return err
					}
					_, err := tx.Append(Event{Stream: "s", Type: "innocent"})
					return err
				})
			})
			queued(w, i+1) // in this order
		}
	})
	wg.Wait()
	for i, err := range errs[:2] {
		if reason.CodeOf(err) != reason.StoreUnavailable {
			t.Errorf("command %d: %v", i, err)
		}
	}
	if errs[2] != nil {
		t.Errorf("the command behind the lost transaction: %v", errs[2])
	}
	err := s.View(t.Context(), func(tx *Tx) error {
		head, _, err := tx.Head("s")
		if head != 1 {
			t.Errorf("head %d", head)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLeaveQueue: a caller who gives up before its turn is never run, and does
// not hold up the others.
func TestLeaveQueue(t *testing.T) {
	t.Parallel()
	s, w := openFile(t, Options{})
	gone := errors.New("gone")
	var wg sync.WaitGroup
	var left, stayed error
	holdGroup(t, s, func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		leaving := make(chan struct{})
		wg.Go(func() {
			defer close(leaving)
			left = s.Update(ctx, func(*Tx) error { t.Error("it ran"); return nil })
		})
		queued(w, 1)
		wg.Go(func() { stayed = s.Update(t.Context(), func(*Tx) error { return nil }) })
		queued(w, 2)
		cancel(gone)
		<-leaving // before the group goes on
	})
	wg.Wait()
	if !errors.Is(left, gone) || stayed != nil {
		t.Errorf("left: %v, stayed: %v", left, stayed)
	}
}

// TestBatchBound: no group is larger than MaxBatch, and none waits for others.
func TestBatchBound(t *testing.T) {
	t.Parallel()
	s, w := openFile(t, Options{MaxBatch: 3})
	var wg sync.WaitGroup
	seen := make([]int64, 7)
	holdGroup(t, s, func() {
		for i := range seen {
			wg.Go(func() {
				err := s.Update(t.Context(), func(tx *Tx) error {
					if _, err := tx.Append(Event{Stream: "s", Type: "note"}); err != nil {
						return err
					}
					// Readers see whole groups: what is committed tells where this one began.
					return s.View(context.WithoutCancel(t.Context()), func(v *Tx) error {
						head, _, err := v.Head("s")
						seen[i] = head
						return err
					})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		queued(w, len(seen))
	})
	wg.Wait()
	groups := map[int64]int{}
	for _, head := range seen {
		groups[head]++
	}
	// One of the first group of three was the holder.
	if groups[0] != 2 || groups[2] != 3 || groups[5] != 2 {
		t.Errorf("group sizes by the head they began at: %v", groups)
	}
}
