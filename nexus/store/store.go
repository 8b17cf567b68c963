package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"remit/proof/reason"
)

// Limits of a store.
const (
	// DefaultBatch is how many commands share one SQLite commit at most: more
	// gain little throughput (the fsync is spread already) and cost latency.
	DefaultBatch = 64
	// DefaultConnections bounds the connections of one replica to PostgreSQL,
	// and the parallel readers of a SQLite file.
	DefaultConnections = 16
)

// Options of a store. The zero value is right for production.
type Options struct {
	// Clock replaces the clock, in tests. Without it SQLite takes the time of
	// this machine and PostgreSQL that of its server, so that replicas agree.
	Clock func() time.Time
	// MaxBatch is the size of a SQLite commit group; 0 means DefaultBatch.
	MaxBatch int
	// Connections bounds the pool; 0 means DefaultConnections. With 1 a SQLite
	// store reads through its writer, one after the other: each connection reads
	// the schema anew, which a store that is open for a moment can do without.
	Connections int
}

func (o Options) withDefaults() Options {
	if o.MaxBatch <= 0 {
		o.MaxBatch = DefaultBatch
	}
	if o.Connections <= 0 {
		o.Connections = DefaultConnections
	}
	return o
}

// database is what the two dialects do differently.
type database interface {
	dialect() string
	update(ctx context.Context, fn func(*Tx) error) error
	view(ctx context.Context, fn func(*Tx) error) error
	look(ctx context.Context, fn func(*Tx) error) error
	migrate(ctx context.Context, all []migration, upTo int64) error
	announce(streams []string) // tells other replicas, if there can be any
	poll(ctx context.Context, h *hints)
	connections() Pool
	close() error
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	db    database
	hints *hints

	closing sync.Once
	stop    context.CancelCauseFunc
	polling sync.WaitGroup
	closed  error
}

// errClosed is the cause of what ends because the store was closed. Callers may
// try again: another replica, or the next life of this one, is there.
var errClosed error = reason.Errorf(reason.StoreUnavailable, "the store is closed")

// Open opens the database that dsn names, "postgres://…" or a file path (also
// written "sqlite:PATH"), and brings its schema up to date. A schema that is
// newer than this program, or that was made by other migrations, is refused.
func Open(ctx context.Context, dsn string, opt Options) (*Store, error) {
	s, err := open(ctx, dsn, opt)
	if err != nil {
		return nil, err
	}
	if err := s.migrate(ctx, newestMigration); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) migrate(ctx context.Context, upTo int64) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	return s.db.migrate(ctx, all, upTo)
}

// open connects without looking at the schema.
func open(ctx context.Context, dsn string, opt Options) (*Store, error) {
	opt = opt.withDefaults()
	var db database
	var err error
	scheme, rest, hasScheme := strings.Cut(dsn, ":")
	switch {
	case hasScheme && (scheme == "postgres" || scheme == "postgresql"):
		db, err = openPostgres(ctx, dsn, opt)
	case hasScheme && scheme == "sqlite":
		db, err = openSQLite(ctx, strings.TrimPrefix(rest, "//"), opt)
	case hasScheme && strings.HasPrefix(rest, "//"):
		return nil, reason.Errorf(reason.RequestInvalid, "no store for %q: want postgres://…, sqlite:PATH or a file path", scheme+"://…")
	default:
		db, err = openSQLite(ctx, dsn, opt)
	}
	if err != nil {
		return nil, err
	}
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Store{db: db, hints: newHints(), stop: stop}
	s.polling.Go(func() { db.poll(background, s.hints) })
	return s, nil
}

// Close waits for the commands that have begun and releases the database. Later
// calls return errors.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.stop(errClosed)
		s.polling.Wait()
		s.closed = s.db.close()
	})
	return s.closed
}

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.db.dialect() }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.Look(ctx, func(tx *Tx) error {
		var one int64
		return tx.row("SELECT 1").Scan(&one)
	})
}

// Update runs one command: all that fn does through its Tx commits, durably
// and before Update returns, or nothing does. fn may run more than once and has
// no effect but through tx, which it must not keep. It is rolled back when fn
// returns an error, panics (the panic goes on), when a statement failed, or when
// ctx ends before fn returns. An error of COMMIT itself (store_unavailable)
// leaves open whether the command took effect: the idempotency row tells.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	if ctx.Value(commandKey{}) != nil {
		return errNested
	}
	var changed []string
	err := s.db.update(ctx, func(tx *Tx) error {
		changed = nil
		err := fn(tx)
		changed = tx.changed
		return err
	})
	if err == nil && len(changed) > 0 {
		s.hints.wake(changed)
		s.db.announce(changed)
	}
	return err
}

// View runs fn on one snapshot of the database. Writes fail.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	return s.db.view(ctx, fn)
}

// Look is View for a fn that makes one query. It needs no second round trip.
func (s *Store) Look(ctx context.Context, fn func(*Tx) error) error {
	return s.db.look(ctx, fn)
}

// commandKey marks the context of a command.
type commandKey struct{}

func commandContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, commandKey{}, true)
}

// ended is the error of a context that ended before its command could run.
func ended(ctx context.Context) error {
	return fmt.Errorf("store: the command did not run: %w", context.Cause(ctx))
}
