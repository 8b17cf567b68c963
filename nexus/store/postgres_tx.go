package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How a transaction begins. The first statement is sent with it.
const (
	beginCommand = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginView    = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	beginLook    = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
)

func (s *postgresDB) view(ctx context.Context, fn func(*Tx) error) error {
	return s.transaction(ctx, beginView, fn)
}

func (s *postgresDB) look(ctx context.Context, fn func(*Tx) error) error {
	return s.transaction(ctx, beginLook, fn)
}

// update runs a command, and again when PostgreSQL gave it up.
func (s *postgresDB) update(ctx context.Context, fn func(*Tx) error) error {
	for n := 1; ; n++ {
		err := s.transaction(ctx, beginCommand, fn)
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

// backoff is a random pause, so that commands which collided once do not collide again.
func backoff(attempt int) time.Duration {
	var b [1]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Millisecond << min(attempt, 6) * time.Duration(b[0]) / 256
}

// transaction runs fn once in a transaction of its own.
func (s *postgresDB) transaction(ctx context.Context, begin string, fn func(*Tx) error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if s.closed.Load() {
		return errClosed
	}
	inner, writes := ctx, begin == beginCommand
	if writes {
		inner = commandContext(ctx)
	}
	t := &postgresTx{s: s, begin: begin}
	tx := &Tx{ctx: inner, conn: t, dialect: "postgres", writes: writes, clock: t.clock(ctx)}
	// The pool closes a connection that comes back inside a transaction: after a
	// panic, or when ROLLBACK failed.
	defer t.release()
	err = fn(tx)
	if err == nil || repeatable(tx.failed) {
		err = tx.failed
	}
	if err == nil && (!writes || t.conn == nil) {
		err = tx.send() // the deferred writes of a command that has begun go with COMMIT
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer stop()
	if err == nil {
		err = t.commit(last, tx.deferred)
	}
	if err != nil {
		t.rollback(last)
	}
	return err
}

// postgresTx is a transaction. It begins, and gets its connection, with its
// first statement.
type postgresTx struct {
	s     *postgresDB
	begin string
	conn  *pgxpool.Conn
	now   int64 // when it began
}

// clock is the time of the process in tests, and otherwise that of the server
// when the transaction began.
func (t *postgresTx) clock(ctx context.Context) func() (int64, error) {
	if t.s.clock != nil {
		return t.s.clock
	}
	return func() (int64, error) {
		if t.conn == nil {
			if err := t.start(ctx, nil); err != nil {
				return 0, err
			}
		}
		return t.now, nil
	}
}

// errSecond guards against a look that would see two states.
var errSecond = errors.New("store: a second statement in Look; use View")

// run sends statements in one round trip, the first of a transaction together
// with its beginning, and that of a look with its end as well.
func (t *postgresTx) run(ctx context.Context, list []*statement) error {
	if t.begin == beginLook && (t.conn != nil || len(list) > 1) {
		return errSecond
	}
	if t.conn == nil {
		return t.start(ctx, list)
	}
	return runBatch(ctx, t.conn.Conn(), list)
}

// runBatch sends statements at once and hands out their answers. The server
// executes none behind one that failed.
func runBatch(ctx context.Context, conn *pgx.Conn, list []*statement) (err error) {
	batch := &pgx.Batch{}
	for _, s := range list {
		batch.Queue(numbered(s.query), s.args...)
	}
	answers := conn.SendBatch(ctx, batch)
	defer func() {
		if closed := answers.Close(); err == nil {
			err = closed
		}
	}()
	for _, s := range list {
		if s.read == nil {
			tag, err := answers.Exec()
			if err := s.changed(tag.RowsAffected(), err); err != nil {
				return err
			}
			continue
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		unread := s.read(rows)
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		if unread != nil {
			return unread
		}
	}
	return nil
}

// errDead says that a pooled connection has died since its last use.
var errDead = errors.New("the connection was lost")

// start begins the transaction, reads the clock and runs the first statements in
// one round trip. What did not begin had no effect, so it is tried again; each
// attempt takes a dead connection out of the pool, and after a restart of the
// server all are.
func (t *postgresTx) start(ctx context.Context, list []*statement) error {
	for n := int32(0); ; n++ {
		err := t.tryStart(ctx, list)
		switch {
		case err == nil || t.conn != nil:
			return err
		case ctx.Err() != nil:
			return ended(ctx)
		case n == t.s.pool.Stat().MaxConns() || !errors.Is(err, errDead):
			return t.s.redact(unavailable("begin a transaction", err))
		}
	}
}

// tryStart leaves t without a connection if the transaction did not begin.
func (t *postgresTx) tryStart(ctx context.Context, list []*statement) error {
	conn, err := t.s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	all := []*statement{{query: t.begin, changed: func(_ int64, err error) error {
		if err == nil && t.s.clock != nil {
			t.conn = conn
		}
		return err
	}}}
	if t.s.clock == nil {
		all = append(all, &statement{query: serverClock, read: func(r rows) error {
			if !r.Next() {
				return nil // its error is that of the rows
			}
			t.conn = conn
			return r.Scan(&t.now)
		}})
	}
	all = append(all, list...)
	if t.begin == beginLook {
		all = append(all, &statement{query: "COMMIT", changed: func(_ int64, err error) error { return err }})
	}
	err = runBatch(ctx, conn.Conn(), all)
	if t.conn == nil {
		conn.Release()
		if lostConnection(err) {
			err = fmt.Errorf("%w: %w", errDead, err)
		}
	}
	return err
}

// release gives the connection back to the pool.
func (t *postgresTx) release() {
	if t.conn != nil {
		t.conn.Release()
	}
}

// serverClock: the time of the statement, so a command that is run again after
// waiting for a lock does not decide by a stale clock.
const serverClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// commit ends the transaction, together with the deferred writes. They fail in
// the server or not at all, see failingWithoutRow: then it does not come to
// COMMIT, and their error is returned. An error of COMMIT itself, or no answer,
// leaves the outcome open.
func (t *postgresTx) commit(ctx context.Context, deferred []*statement) (err error) {
	if t.conn == nil || t.begin == beginLook {
		return nil
	}
	batch := &pgx.Batch{}
	for _, s := range deferred {
		batch.Queue(numbered(s.query), s.args...)
	}
	batch.Queue("COMMIT")
	answers := t.conn.Conn().SendBatch(ctx, batch)
	defer func() { _ = answers.Close() }() // it has no error but the one that was read
	for _, s := range deferred {
		tag, err := answers.Exec()
		if err != nil && !answered(err) {
			return unavailable("commit", err)
		}
		if err := s.changed(tag.RowsAffected(), err); err != nil {
			return err
		}
	}
	tag, err := answers.Exec()
	return committed(tag.String(), err)
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

// rollback ends what is left of the transaction. If it fails, the state of the
// connection shows that to the pool.
func (t *postgresTx) rollback(ctx context.Context) {
	if t.conn == nil || t.conn.Conn().IsClosed() || t.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	_, _ = t.conn.Exec(ctx, "ROLLBACK")
}

// script runs several statements.
func (t *postgresTx) script(ctx context.Context, sql string) error {
	_, err := t.conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// numberedQueries remembers texts: the program has a few hundred of them.
var numberedQueries sync.Map // query with ? → query with $1, $2, …

// numbered writes the placeholders of PostgreSQL. A ? inside quotes is text.
func numbered(query string) string {
	if known, ok := numberedQueries.Load(query); ok {
		return known.(string)
	}
	var b strings.Builder
	var quote byte
	n := 0
	for i := range len(query) {
		c := query[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		}
		b.WriteByte(c)
	}
	numberedQueries.Store(query, b.String())
	return b.String()
}
