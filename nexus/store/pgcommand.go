package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// How a transaction begins. The first statement is sent with it.
const (
	beginCommand = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginView    = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	beginLook    = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
)

func (s *postgresDB) view(ctx context.Context, fn func(*Tx) error) error {
	return s.attempt(ctx, beginView, fn)
}

func (s *postgresDB) look(ctx context.Context, fn func(*Tx) error) error {
	return s.attempt(ctx, beginLook, fn)
}

// update runs a command, and again when PostgreSQL gave it up.
func (s *postgresDB) update(ctx context.Context, fn func(*Tx) error) error {
	for n := 1; ; n++ {
		err := s.attempt(ctx, beginCommand, fn)
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
func (s *postgresDB) attempt(ctx context.Context, begin string, fn func(*Tx) error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if s.closed.Load() {
		return errClosed
	}
	inner, write := ctx, begin == beginCommand
	if write {
		inner = commandContext(ctx)
	}
	conn := &postgresConn{s: s, begin: begin}
	tx := &Tx{ctx: inner, pipe: conn, dialect: "postgres", write: write, clock: conn.clock(ctx)}
	settled := false // neither a panic nor a broken connection goes back into the pool
	defer func() {
		tx.finish() // or closing would wait for a row that nobody reads
		tx.waiting = nil
		conn.leave(settled)
	}()
	err = fn(tx)
	tx.finish()
	if err == nil || repeatable(tx.failed) {
		err = tx.failed
	}
	if err == nil {
		err = tx.land(conn.conn != nil && begin == beginCommand)
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer stop()
	if err == nil {
		err = conn.commit(last, tx.waiting)
	}
	settled = err == nil || conn.rollback(last) == nil
	return err
}

// land sends what waits, but the writes that can be sent with the end of a
// transaction that has begun.
func (tx *Tx) land(begun bool) error {
	last := len(tx.waiting)
	for begun && last > 0 && tx.waiting[last-1].write != nil {
		last--
	}
	if last == 0 {
		return nil
	}
	kept := slices.Clone(tx.waiting[last:])
	tx.waiting = tx.waiting[:last]
	err := tx.flush()
	tx.waiting = kept
	return err
}

// postgresConn is the connection of one transaction. There is none before its
// first statement.
type postgresConn struct {
	s     *postgresDB
	begin string
	conn  *sql.Conn
	now   int64 // when it began
	over  bool  // nothing can follow
}

// clock is the time of the process in tests, and otherwise that of the server
// when the transaction began.
func (c *postgresConn) clock(ctx context.Context) func() (int64, error) {
	if c.s.clock != nil {
		return c.s.clock
	}
	return func() (int64, error) {
		if c.conn == nil {
			rows, err := c.take(ctx, nil)
			if err != nil {
				return 0, err
			}
			return c.now, drain(rows)
		}
		return c.now, nil
	}
}

// errSecond guards against a look that would see two states.
var errSecond = errors.New("store: a second statement in Look; use View")

// fly sends statements at once, the first of a transaction together with its
// beginning, and that of a look with its end as well.
func (c *postgresConn) fly(ctx context.Context, list []*statement) (*sql.Rows, error) {
	if c.over || c.begin == beginLook && (c.conn != nil || len(list) > 1) {
		return nil, errSecond
	}
	if c.conn == nil {
		return c.take(ctx, list)
	}
	return c.conn.QueryContext(ctx, flightQuery, flight(list))
}

// errDead says that a pooled connection has died since its last use.
var errDead = errors.New("the connection was lost")

// take begins the transaction, reads the clock and sends the first statements in
// one round trip. What did not begin had no effect, so it is tried again; each
// attempt takes a dead connection out of the pool, and after a restart of the
// server all are.
func (c *postgresConn) take(ctx context.Context, list []*statement) (*sql.Rows, error) {
	for n := 0; ; n++ {
		rows, err := c.takeOnce(ctx, list)
		if err == nil || c.conn != nil {
			return rows, err
		}
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if n == c.s.pool || !errors.Is(err, errDead) {
			return nil, c.s.redact(unavailable("begin a transaction", err))
		}
	}
}

// takeOnce leaves c without a connection if the transaction did not begin.
func (c *postgresConn) takeOnce(ctx context.Context, list []*statement) (_ *sql.Rows, err error) {
	conn, err := c.s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	first := flight{{query: c.begin, write: noRows}}
	if c.s.clock == nil {
		first = append(first, &statement{query: serverClock})
	}
	begins := len(first)
	first = append(first, list...)
	if c.begin == beginLook {
		first = append(first, &statement{query: "COMMIT", write: noRows})
	}
	rows, err := conn.QueryContext(ctx, flightQuery, first)
	if err == nil && begins > 1 {
		if !rows.NextResultSet() || !rows.Next() {
			err = rows.Err()
		} else {
			err = rows.Scan(&c.now)
		}
	}
	if err != nil {
		discard(conn)
		if lostConnection(err) {
			err = fmt.Errorf("%w: %w", errDead, err)
		}
		return nil, err
	}
	c.conn = conn
	if len(list) > 0 && !rows.NextResultSet() {
		return nil, rows.Err()
	}
	return rows, nil
}

// noRows is for statements that change none.
func noRows(_ int64, err error) error { return err }

// discard closes a connection for good.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close() // it is closed already
}

// leave gives the connection back, if it can be used again.
func (c *postgresConn) leave(settled bool) {
	switch {
	case c.conn == nil:
	case settled:
		_ = c.conn.Close() // back into the pool
	default:
		discard(c.conn)
	}
}

// serverClock: the time of the statement, so a command that is run again after
// waiting for a lock does not decide by a stale clock.
const serverClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// commit ends the transaction, together with the last writes. They fail in the
// server or not at all, see insisting: then it does not come to COMMIT, and
// their error is returned. An error of COMMIT itself, or no answer, leaves the
// outcome open.
func (c *postgresConn) commit(ctx context.Context, list []*statement) (err error) {
	c.over = true
	if c.conn == nil || c.begin == beginLook {
		return nil
	}
	batch := &pgx.Batch{}
	for _, s := range list {
		batch.Queue(rebind(s.query), s.args...)
	}
	batch.Queue("COMMIT")
	broken := c.conn.Raw(func(dc any) error {
		answers := dc.(*pgConn).conn.SendBatch(ctx, batch)
		defer func() { _ = answers.Close() }() // it has no error but the one that was read
		for _, s := range list {
			done, failed := answers.Exec()
			if failed != nil && !answered(failed) {
				err = unavailable("commit", failed)
				return nil
			}
			if err = s.write(done.RowsAffected(), failed); err != nil {
				return nil
			}
		}
		done, failed := answers.Exec()
		err = committed(done.String(), failed)
		return nil
	})
	return errors.Join(err, broken)
}

// answered reports whether the server has refused a statement, and not only
// left it without an answer.
func answered(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !sessionEnded(pg)
}

// committed reads the answer to COMMIT: of a failed transaction it is ROLLBACK
// and no error.
func committed(tag string, err error) error {
	switch {
	case repeatable(err):
		return err
	case err != nil:
		return unavailable("commit", err)
	case tag != "COMMIT":
		return unavailable("commit", fmt.Errorf("the server answered %s", tag))
	}
	return nil
}

// rollback ends what is left of the transaction.
func (c *postgresConn) rollback(ctx context.Context) error {
	c.over = true
	if c.conn == nil {
		return nil
	}
	return c.conn.Raw(func(dc any) error {
		conn := dc.(*pgConn).conn
		if conn.IsClosed() {
			return driver.ErrBadConn
		}
		if conn.PgConn().TxStatus() == 'I' {
			return nil
		}
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	})
}

// script runs several statements.
func (c *postgresConn) script(ctx context.Context, sql string) error {
	return c.conn.Raw(func(dc any) error {
		_, err := dc.(*pgConn).conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}
