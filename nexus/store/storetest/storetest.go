// Package storetest gives tests a store on each database: a fresh SQLite file,
// and a fresh schema of a PostgreSQL server.
//
// The server is the one that REMIT_TEST_POSTGRES names (postgres://…), or one
// that is started once for the test process from the binaries of PATH or
// /usr/lib/postgresql, on a private directory and a unix socket, and ends with
// the process. Without either, the PostgreSQL half of a test is skipped, loudly.
package storetest

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"remit/nexus/store"
)

// Each runs fn once on each database. open opens the store of the subtest,
// which has no rows at first, and closes it at the end. It can be called again:
// on PostgreSQL that is another replica; a SQLite file has one owner, which must
// be closed first.
func Each(t *testing.T, fn func(t *testing.T, open func() *store.Store)) {
	t.Helper()
	each(t, migratedPostgres, func(t *testing.T, dsn string) {
		fn(t, opener(t, dsn, store.Options{}))
	})
}

// EachClock is Each with a clock that stands still until it is moved.
func EachClock(t *testing.T, fn func(t *testing.T, clock *Clock, open func() *store.Store)) {
	t.Helper()
	each(t, migratedPostgres, func(t *testing.T, dsn string) {
		clock := NewClock()
		fn(t, clock, opener(t, dsn, store.Options{Clock: clock.Now}))
	})
}

// EachDSN runs fn with the DSN of an empty database of each kind. The subtests
// are called "sqlite" and "postgres" and run in parallel.
func EachDSN(t *testing.T, fn func(t *testing.T, dsn string)) {
	t.Helper()
	each(t, Postgres, fn)
}

func each(t *testing.T, postgres func(testing.TB) string, fn func(t *testing.T, dsn string)) {
	t.Helper()
	go func() { _, _ = shared() }() // the server starts while SQLite is tested
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, SQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, postgres(t))
	})
}

// SQLite returns the DSN of an empty SQLite store.
func SQLite(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "store.db")
}

func opener(t *testing.T, dsn string, opt store.Options) func() *store.Store {
	return func() *store.Store {
		t.Helper()
		return Open(t, dsn, opt)
	}
}

// Open opens a store and closes it at the end of the test. A new SQLite file
// begins as a copy of one that was migrated before, see copyTemplate.
func Open(t testing.TB, dsn string, opt store.Options) *store.Store {
	t.Helper()
	if err := copyTemplate(dsn); err != nil {
		t.Fatalf("open store: %v", err)
	}
	s, err := store.Open(t.Context(), dsn, opt)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// Clock is a clock that only moves by hand. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a fixed time, on a full second.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// Now is the time on the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
