package store_test

import (
	"net/url"
	"sync"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// named adds a setting to the DSN of a test.
func named(t *testing.T, dsn, setting, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(setting, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// TestServerEndsSessions: a restart of the server, or its limit for idle
// sessions, costs no command: each one finds a connection that lives.
func TestServerEndsSessions(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	const name = "remit_ends_sessions"
	s := storetest.Open(t, named(t, dsn, "application_name", name), store.Options{Connections: 8})
	other := storetest.Open(t, dsn, store.Options{Connections: 1})
	table(t, s)
	crowd(t, s, 8)
	end := func() (ended int) {
		update(t, other, func(tx *store.Tx) error {
			return tx.Row("SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = ?", name).Scan(&ended)
		})
		return ended
	}
	if n := end(); n < 8 {
		t.Fatalf("%d sessions were ended", n)
	}
	if err := s.Update(t.Context(), put("kept", 1)); err != nil {
		t.Error(err)
	}
	// In the middle of a command only the caller knows what to repeat.
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		if err := put("lost", 1)(tx); err != nil {
			return err
		}
		end()
		return put("lost too", 1)(tx)
	})
	if reason.CodeOf(err) != reason.StoreUnavailable {
		t.Errorf("ended in the middle: %v", err)
	}
	if got := keys(t, s); got != "kept" {
		t.Errorf("rows %q", got)
	}
}

// crowd puts as many connections into the pool as it takes.
func crowd(t *testing.T, s *store.Store, n int) {
	t.Helper()
	var all sync.WaitGroup
	all.Add(n)
	var done sync.WaitGroup
	for range n {
		done.Go(func() {
			if err := s.View(t.Context(), func(tx *store.Tx) error {
				_, _, err := tx.Head("s") // there is no connection before the first statement
				all.Done()
				all.Wait()
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

// TestStoppedReplica: one that stops in the middle of a command, and is not
// killed, keeps its locks for a while and no longer.
func TestStoppedReplica(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	stops := storetest.Open(t, named(t, dsn, "idle_in_transaction_session_timeout", "150"), store.Options{})
	other := storetest.Open(t, dsn, store.Options{})
	view(t, other, func(tx *store.Tx) error {
		var limit string
		if err := tx.Row("SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&limit); err != nil || limit != "1min" {
			t.Errorf("the limit is %q by default: %v", limit, err)
		}
		return nil
	})
	table(t, other)
	update(t, other, put("a", 1))
	change := func(tx *store.Tx) error {
		_, err := tx.Exec("UPDATE item SET v = v + 1")
		return err
	}
	locked, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- stops.Update(t.Context(), func(tx *store.Tx) error {
			if err := change(tx); err != nil {
				return err
			}
			close(locked)
			<-goOn
			return change(tx)
		})
	}()
	<-locked
	update(t, other, change) // waits for the lock
	close(goOn)
	if err := <-ended; reason.CodeOf(err) != reason.StoreUnavailable {
		t.Errorf("the command of the stopped replica: %v", err)
	}
	var v int
	view(t, other, func(tx *store.Tx) error { return tx.Row("SELECT v FROM item").Scan(&v) })
	if v != 2 {
		t.Errorf("v is %d", v)
	}
	if err := stops.Update(t.Context(), change); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
}

// TestOpenInsists: a connection that is lost while the schema is looked at is
// not the end of opening.
func TestOpenInsists(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	const name = "remit_insists"
	other := storetest.Open(t, dsn, store.Options{})
	opened := make(chan error, 1)
	update(t, other, func(tx *store.Tx) error {
		if _, err := tx.Exec("SELECT pg_advisory_xact_lock(?)", store.AdvisoryMigration); err != nil {
			return err
		}
		go func() {
			s, err := store.Open(t.Context(), named(t, dsn, "application_name", name), store.Options{})
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
		for range 2 { // sessions that wait for the lock
			for ended := 0; ended == 0; {
				select {
				case err := <-opened:
					t.Errorf("it does not wait: %v", err)
					opened <- err
					return nil
				default:
				}
				view(t, other, func(tx *store.Tx) error {
					return tx.Row(`SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
						WHERE application_name = ? AND wait_event_type = 'Lock'`, name).Scan(&ended)
				})
			}
		}
		return nil
	})
	if err := <-opened; err != nil {
		t.Errorf("open: %v", err)
	}
}
