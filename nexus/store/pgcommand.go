package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	inner := ctx
	if write {
		inner = commandContext(ctx)
	}
	tx := &Tx{ctx: inner, conn: conn, dialect: "postgres", write: write, clock: s.clock, now: now}
	settled := false // neither a panic nor a broken connection goes back into the pool
	defer func() {
		if !settled {
			tx.finish() // or closing would wait for a row that nobody reads
			_ = conn.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.conn.Close() // back into the pool
	}()
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

// errDead says that a pooled connection has died since its last use.
var errDead = errors.New("the connection was lost")

// begin opens a transaction and reads the clock in the same round trip. One that
// did not begin had no effect, so it is tried again; each attempt takes a dead
// connection out of the pool, and after a restart of the server all are.
func (s *postgresDB) begin(ctx context.Context, begin string) (*postgresConn, int64, error) {
	for n := 0; ; n++ {
		conn, now, err := s.beginOnce(ctx, begin)
		if err == nil {
			return conn, now, nil
		}
		if ctx.Err() != nil {
			return nil, 0, ended(ctx)
		}
		if n == s.pool || !errors.Is(err, errDead) {
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
			if lostConnection(err) {
				err = fmt.Errorf("%w: %w", errDead, err)
			}
			return driver.ErrBadConn
		}
		return nil
	})
	if err == nil {
		err = broken
	}
	if err != nil {
		_ = conn.Close() // it is closed already, or goes back into the pool
		return nil, 0, err
	}
	return &postgresConn{conn}, now, nil
}

// serverClock: the time of the statement, so a command that is run again after
// waiting for a lock does not decide by a stale clock.
const serverClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

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
