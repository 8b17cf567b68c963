package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// On PostgreSQL a statement costs a round trip, and a command has dozens. Most
// need no answer before the next one is made: a row that is written, a row that
// is read together with others. They wait, and are sent at once, in the order
// in which they were made, with the first statement whose answer is needed. So
// every read sees what was written before it, and an error is that of the
// statement that failed, whoever hears of it first.
//
// SQLite has no round trips: there nothing waits.

// Answer gives the answer to a statement that may still have to be sent.
type Answer[T any] func() (T, error)

// statement is one that was made and not answered yet.
type statement struct {
	query string
	args  []any

	// One of them takes the answer, unless err says that there is none, and
	// returns what ends the command: of a write, how many rows it has changed; of
	// a query, the rows. A query without it has somebody who waits for its rows.
	write func(changed int64, err error) error
	read  func(rows *sql.Rows, err error) error
}

// take takes the answer.
func (s *statement) take(rows *sql.Rows, err error) error {
	switch {
	case s.read != nil:
		return s.read(rows, err)
	case s.write != nil:
		return s.write(count(rows, err))
	}
	return err
}

// pipeline sends statements at once and returns their answers, a result set
// each, at the first. What begins the transaction goes ahead of them.
type pipeline interface {
	fly(ctx context.Context, list []*statement) (*sql.Rows, error)
}

// change is a write whose answer nobody waits for.
type change struct {
	doing string // for errors
	none  error  // when no row was changed; nil: that is no error
	taken error  // when there is such a row already; nil: ErrConflict
}

// missing is a change of a row that must be there.
func missing(doing, id string) change {
	return change{doing: doing, none: fmt.Errorf("%s %q: %w", doing, id, ErrNotFound)}
}

// later makes a write that is sent with the next statement whose answer somebody
// waits for, or with COMMIT. If it fails so does the command: whoever hears of it
// first, a later statement or the caller of Update, gets its error.
func (tx *Tx) later(c change, query string, args ...any) error {
	args, err := tx.begin(args)
	if err != nil {
		return err
	}
	if tx.pipe == nil {
		if err := c.landed(tx.conn.exec(tx.ctx, query, args)); err != nil {
			return tx.fail(err)
		}
		return nil
	}
	if c.none != nil {
		query = insisting(query)
	}
	tx.wait(&statement{query: query, args: args, write: c.landed})
	return nil
}

// insisting makes a write one that fails when it changes no row, in the server:
// nobody is there to look before what follows it, which may be COMMIT.
func insisting(query string) string {
	return "WITH done AS (" + query + " RETURNING 1) SELECT 1 / COUNT(*) FROM done"
}

// landed is how the write ended.
func (c change) landed(n int64, err error) error {
	if c.none != nil && (err == nil && n == 0 || hasCode(err, divisionByZero)) {
		return c.none
	}
	err = classify(err)
	if c.taken != nil && errors.Is(err, ErrConflict) {
		return c.taken
	}
	if err != nil && c.doing != "" {
		err = fmt.Errorf("%s: %w", c.doing, err)
	}
	return err
}

// ask makes a query of at most one row. The answer is ErrNotFound without one.
func ask[T any](tx *Tx, scan func(scanner) (T, error), query string, args ...any) Answer[T] {
	if tx.pipe == nil {
		value, err := scan(tx.row(query, args...))
		return func() (T, error) { return value, err }
	}
	return await(tx, query, args, func(rows *sql.Rows) (T, error, error) {
		row := landing{rows: rows}
		value, missed := scan(&row)
		return value, missed, row.failed
	})
}

// askAll makes a query of any number of rows.
func askAll[T any](tx *Tx, scan func(scanner) (T, error), query string, args ...any) Answer[[]T] {
	if tx.pipe == nil {
		var list []T
		err := tx.rows(query, func(s scanner) error { return add(&list, scan, s) }, args...)
		return func() ([]T, error) { return list, err }
	}
	return await(tx, query, args, func(rows *sql.Rows) (list []T, missed, failed error) {
		for missed == nil && rows.Next() {
			missed = add(&list, scan, rows)
		}
		return list, missed, rows.Err()
	})
}

func add[T any](list *[]T, scan func(scanner) (T, error), s scanner) error {
	one, err := scan(s)
	*list = append(*list, one)
	return err
}

// await lets a query wait for whoever needs an answer first. take reads the
// rows: missed is the answer when there is none, failed the end of the command.
func await[T any](tx *Tx, query string, args []any, take func(*sql.Rows) (value T, missed, failed error)) Answer[T] {
	args, err := tx.begin(args)
	if err != nil {
		return func() (none T, _ error) { return none, err }
	}
	var value T
	err = errUnanswered
	tx.wait(&statement{query: query, args: args, read: func(rows *sql.Rows, failed error) error {
		if failed == nil {
			value, err, failed = take(rows)
		}
		return failed
	}})
	return func() (T, error) {
		if err == errUnanswered { //nolint:errorlint // it is set here, as it is
			if failed := tx.flush(); failed != nil {
				return value, failed
			}
		}
		return value, err
	}
}

// errUnanswered is the answer to a statement that was not sent.
var errUnanswered = errors.New("store: the command was over before the statement was sent")

// landing is the answer to a query of at most one row, among others.
type landing struct {
	rows   *sql.Rows
	failed error
}

func (l *landing) Scan(dest ...any) error {
	if !l.rows.Next() {
		if l.failed = l.rows.Err(); l.failed != nil {
			return l.failed
		}
		return ErrNotFound
	}
	if err := l.rows.Scan(dest...); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	l.rows.Next() // a statement that changes rows and returns them is done at its end only
	l.failed = l.rows.Err()
	return l.failed
}

// count reads the answer to a write.
func count(rows *sql.Rows, err error) (n int64, _ error) {
	if err == nil && rows.Next() {
		err = rows.Scan(&n)
	}
	if err == nil {
		err = rows.Err()
	}
	return n, err
}

// wait puts a statement behind those that wait already.
func (tx *Tx) wait(s *statement) { tx.waiting = append(tx.waiting, s) }

// flush sends what waits.
func (tx *Tx) flush() error {
	if _, err := tx.begin(nil); err != nil {
		return err
	}
	for len(tx.waiting) > 0 { // taking an answer may make another statement
		rows, err := tx.send(nil)
		if err != nil {
			return err
		}
		if err := drain(rows); err != nil {
			return tx.fail(err)
		}
	}
	return nil
}

// drain ends a flight whose answers were all taken.
func drain(rows *sql.Rows) error { return errors.Join(rows.Close(), rows.Err()) }

// send sends what waits, and last behind it. It takes the answers to what waited
// and returns that to last.
func (tx *Tx) send(last *statement) (*sql.Rows, error) {
	list, answered := tx.waiting, len(tx.waiting)
	tx.waiting = nil
	if last != nil {
		list = append(list, last)
	}
	rows, err := tx.pipe.fly(tx.ctx, list)
	for i, s := range list {
		if err == nil && i > 0 && !rows.NextResultSet() {
			err = rows.Err()
		}
		if err = s.take(rows, err); err != nil {
			if rows != nil {
				_ = rows.Close() //nolint:sqlclosecheck // and the command is lost already
			}
			return nil, tx.fail(err)
		}
		if i == answered {
			break
		}
	}
	return rows, nil
}
