package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"remit/proof/reason"
)

// Limits of one PostgreSQL command.
const (
	// maxAttempts bounds how often a command is run again after PostgreSQL gave
	// it up in favour of another: more means a lock order that is wrong.
	maxAttempts = 12
	// commitTime bounds COMMIT and ROLLBACK, which no longer obey the caller: a
	// caller who leaves must not make the outcome unknown.
	commitTime = 30 * time.Second
	// closeTime bounds the goodbye to the server.
	closeTime = 5 * time.Second
	// connectTime bounds the first connection when the DSN does not.
	connectTime = 10 * time.Second
)

// postgresDB is a pool of connections to one schema.
type postgresDB struct {
	db     *sql.DB
	config *pgx.ConnConfig
	clock  func() (int64, error) // nil: the server's
	hint   *notifier
}

func openPostgres(ctx context.Context, dsn string, opt Options) (_ *postgresDB, err error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The parser's message can quote the DSN.
		return nil, reason.Errorf(reason.RequestInvalid, "the PostgreSQL DSN cannot be parsed").
			WithHint("write postgres://user:password@host:port/database?sslmode=…, with reserved characters percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "remit"
	}
	// Whatever the server's defaults are, a commit that was answered is on disk.
	config.RuntimeParams["synchronous_commit"] = "on"
	s := &postgresDB{db: sql.OpenDB(pgConnector{config}), config: config}
	if opt.Clock != nil {
		s.clock = processClock(opt.Clock)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.db.Close())
		}
	}()
	s.db.SetMaxOpenConns(opt.Connections)
	s.db.SetMaxIdleConns(opt.Connections)
	var schema sql.NullString
	if err := s.db.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return nil, s.redact(unavailable("connect to PostgreSQL", err))
	}
	if !schema.Valid {
		return nil, reason.Errorf(reason.RequestInvalid, "the search_path of the PostgreSQL DSN names no schema that exists").
			WithHint("create the schema first")
	}
	s.hint = newNotifier(s, schema.String)
	return s, nil
}

// redact takes the password out of an error, should a driver have put it there.
func (s *postgresDB) redact(err error) error {
	if s.config.Password == "" || !strings.Contains(err.Error(), s.config.Password) {
		return err
	}
	return &reason.Error{Code: reason.StoreUnavailable, Message: strings.ReplaceAll(err.Error(), s.config.Password, "xxxxx")}
}

func (s *postgresDB) dialect() string { return "postgres" }

func (s *postgresDB) view(ctx context.Context, fn func(*Tx) error) error {
	return s.attempt(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", false, fn)
}

// update runs a command, and again when PostgreSQL gave it up.
func (s *postgresDB) update(ctx context.Context, fn func(*Tx) error) error {
	for n := 1; ; n++ {
		err := s.attempt(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", true, fn)
		if !repeatable(err) || n == maxAttempts {
			return err
		}
		pause := time.NewTimer(backoff(n))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ended(ctx)
		}
	}
}

// backoff is a random pause, so that those who met once do not meet again.
func backoff(attempt int) time.Duration {
	var b [1]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Millisecond << min(attempt, 6) * time.Duration(b[0]) / 256
}

// attempt runs fn once in a transaction of its own.
func (s *postgresDB) attempt(ctx context.Context, begin string, write bool, fn func(*Tx) error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	conn, now, err := s.begin(ctx, begin)
	if err != nil {
		return err
	}
	settled := false // neither a panic nor a broken connection goes back into the pool
	defer func() {
		if !settled {
			_ = conn.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.conn.Close() // back into the pool
	}()
	inner := ctx
	if write {
		inner = commandContext(ctx)
	}
	tx := &Tx{ctx: inner, conn: conn, dialect: "postgres", write: write, clock: s.clock, now: now}
	err = fn(tx)
	tx.finish()
	if err == nil || repeatable(tx.failed) {
		err = tx.failed
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer stop()
	if err != nil {
		_, rollback := conn.exec(last, "ROLLBACK", nil)
		settled = rollback == nil
		return err
	}
	if err := conn.commit(last); err != nil {
		return err
	}
	settled = true
	return nil
}

// beginAttempts: a pooled connection may have died since its last use, and a
// transaction that did not begin had no effect.
const beginAttempts = 3

// begin opens a transaction and reads the clock in the same round trip.
func (s *postgresDB) begin(ctx context.Context, begin string) (*postgresConn, int64, error) {
	for n := 1; ; n++ {
		conn, now, err := s.beginOnce(ctx, begin)
		if err == nil {
			return conn, now, nil
		}
		if ctx.Err() != nil {
			return nil, 0, ended(ctx)
		}
		if n == beginAttempts || !lostConnection(err) {
			return nil, 0, s.redact(unavailable("begin a transaction", err))
		}
	}
}

func (s *postgresDB) beginOnce(ctx context.Context, begin string) (_ *postgresConn, now int64, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	broken := conn.Raw(func(dc any) error {
		batch := &pgx.Batch{}
		batch.Queue(begin)
		if s.clock == nil {
			batch.Queue(serverClock).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
		}
		if err = dc.(*pgConn).conn.SendBatch(ctx, batch).Close(); err != nil {
			return driver.ErrBadConn
		}
		return nil
	})
	if err == nil {
		err = broken
	}
	if err != nil {
		return nil, 0, errors.Join(err, conn.Close())
	}
	return &postgresConn{conn}, now, nil
}

// serverClock: the time of the statement, so a command that is run again after
// waiting for a lock does not decide by a stale clock.
const serverClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// advisoryMigration is the key of the lock that lets one of several replicas
// that start at once migrate, while the others wait. ("remit" in ASCII.)
const advisoryMigration = 0x72656d6974

func (s *postgresDB) migrate(ctx context.Context, known []migration, upTo int64) error {
	return s.update(ctx, func(tx *Tx) error {
		if _, err := tx.exec("SELECT pg_advisory_xact_lock(?)", advisoryMigration); err != nil {
			return err
		}
		var exists bool
		if err := tx.row("SELECT to_regclass('schema_migration') IS NOT NULL").Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.exec(migrationTable); err != nil {
				return err
			}
		}
		return tx.upgrade(known, upTo, func(m migration) error {
			return tx.conn.(*postgresConn).script(ctx, m.translate("postgres"))
		})
	})
}

func (s *postgresDB) close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// postgresConn is the connection of one transaction.
type postgresConn struct{ conn *sql.Conn }

func (c *postgresConn) exec(ctx context.Context, query string, args []any) (int64, error) {
	result, err := c.conn.ExecContext(ctx, rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *postgresConn) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return c.conn.QueryContext(ctx, rebind(query), args...)
}

// commit checks what the server did: it answers COMMIT of a failed transaction
// with ROLLBACK and no error.
func (c *postgresConn) commit(ctx context.Context) error {
	var tag string
	err := c.conn.Raw(func(dc any) error {
		done, err := dc.(*pgConn).conn.Exec(ctx, "COMMIT")
		tag = done.String()
		return err
	})
	if err != nil {
		if repeatable(err) {
			return err
		}
		return unavailable("commit", err)
	}
	if tag != "COMMIT" {
		return unavailable("commit", fmt.Errorf("the server answered %s", tag))
	}
	return nil
}

// script runs several statements.
func (c *postgresConn) script(ctx context.Context, sql string) error {
	return c.conn.Raw(func(dc any) error {
		_, err := dc.(*pgConn).conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}
