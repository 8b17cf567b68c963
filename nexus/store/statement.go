package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"remit/proof/reason"
)

// On PostgreSQL a round trip costs more than most statements. So the reads that
// a command needs together are sent together, and a write whose answer it does
// not need is deferred: it is sent before the next statement, or with COMMIT.
// Statements keep their order, so every read sees what was written before it.
//
// SQLite has no round trips: each statement runs when it is made.

// statement is one statement with what takes its answer: changed that of a
// write, read that of a query. What they return ends the command.
type statement struct {
	query   string
	args    []any
	changed func(rows int64, err error) error
	read    func(rows) error
}

// rows is what both drivers return for a query. Err is for the connection.
type rows interface {
	scanner
	Next() bool
	Err() error
}

// scanner reads the columns of one row.
type scanner interface{ Scan(dest ...any) error }

// send runs the deferred writes and then list, on PostgreSQL in one round trip.
func (tx *Tx) send(list ...*statement) (err error) {
	if err := tx.check(); err != nil {
		return err
	}
	for _, s := range list {
		if s.args, err = plainArguments(s.args); err != nil {
			return tx.fail(err)
		}
	}
	list = append(tx.deferred, list...)
	tx.deferred = nil
	if len(list) == 0 {
		return nil
	}
	tx.busy = true
	err = tx.conn.run(tx.ctx, list)
	tx.busy = false
	if err != nil {
		return tx.fail(err)
	}
	return nil
}

// exec runs a write and returns how many rows it changed. Placeholders are `?`
// in both dialects.
func (tx *Tx) exec(query string, args ...any) (n int64, err error) {
	err = tx.send(&statement{query: query, args: args, changed: func(rows int64, err error) error {
		n = rows
		return err
	}})
	return n, err
}

// row is a query of at most one row. Scan runs it, and returns ErrNotFound
// without one.
func (tx *Tx) row(query string, args ...any) scanner { return rowQuery{tx, query, args} }

type rowQuery struct {
	tx    *Tx
	query string
	args  []any
}

func (q rowQuery) Scan(dest ...any) error {
	found := false
	err := q.tx.send(&statement{query: q.query, args: q.args, read: func(r rows) (err error) {
		found, err = readOne(r, func(s scanner) error { return s.Scan(dest...) })
		return err
	}})
	if err == nil && !found {
		return ErrNotFound
	}
	return err
}

func readOne(r rows, scan func(scanner) error) (found bool, err error) {
	if !r.Next() {
		return false, nil
	}
	if err := scan(r); err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	r.Next() // a write that returns a row is done after the last one only
	return true, nil
}

// rows runs a query and calls scan for each row until it returns an error. scan
// must not use the Tx.
func (tx *Tx) rows(query string, scan func(scanner) error, args ...any) error {
	var ended error
	err := tx.send(&statement{query: query, args: args, read: func(r rows) error {
		for ended == nil && r.Next() {
			ended = scan(r)
		}
		return nil
	}})
	if err == nil {
		err = ended
	}
	return err
}

// list runs a query and returns its rows.
func list[T any](tx *Tx, scan func(scanner) (T, error), query string, args ...any) (found []T, err error) {
	err = tx.send(all(&found, scan, query, args...))
	return found, err
}

// all reads the rows of a query into dst, for [Tx.send].
func all[T any](dst *[]T, scan func(scanner) (T, error), query string, args ...any) *statement {
	return &statement{query: query, args: args, read: func(r rows) error {
		for r.Next() {
			one, err := scan(r)
			if err != nil {
				return fmt.Errorf("store: %w", err)
			}
			*dst = append(*dst, one)
		}
		return nil
	}}
}

// optional reads the row of a query into dst, for [Tx.send]. Without a row dst
// stays nil.
func optional[T any](dst **T, scan func(scanner) (T, error), query string, args ...any) *statement {
	return &statement{query: query, args: args, read: func(r rows) error {
		var one T
		found, err := readOne(r, func(s scanner) (err error) {
			one, err = scan(s)
			return err
		})
		if found {
			*dst = &one
		}
		return err
	}}
}

// present returns what optional has read, or ErrNotFound.
func present[T any](found **T, err error) (row T, _ error) {
	switch {
	case err != nil:
		return row, err
	case *found == nil:
		return row, ErrNotFound
	}
	return **found, nil
}

// deferredWrite says what the errors of a deferred write are.
type deferredWrite struct {
	doing string // for errors
	none  error  // when no row was changed; nil: that is no error
	taken error  // when there is such a row already; nil: ErrConflict
}

// missing describes a change of a row that must be there.
func missing(doing, id string) deferredWrite {
	return deferredWrite{doing: doing, none: fmt.Errorf("%s %q: %w", doing, id, ErrNotFound)}
}

// write defers a write. If it fails so does the command, with its error, be that
// returned by a later statement or by Update.
func (tx *Tx) write(w deferredWrite, query string, args ...any) error {
	if tx.dialect == "postgres" && w.none != nil {
		query = failingWithoutRow(query)
	}
	return tx.deferStatement(&statement{query: query, args: args, changed: w.result})
}

func (tx *Tx) deferStatement(s *statement) (err error) {
	if tx.dialect == "sqlite" {
		return tx.send(s)
	}
	if err := tx.check(); err != nil {
		return err
	}
	if s.args, err = plainArguments(s.args); err != nil {
		return tx.fail(err)
	}
	tx.deferred = append(tx.deferred, s)
	return nil
}

// failingWithoutRow makes a write fail in the server when it changes no row:
// COMMIT may be sent behind it before its answer is known.
func failingWithoutRow(query string) string {
	return "WITH done AS (" + query + " RETURNING 1) SELECT 1 / COUNT(*) FROM done"
}

// result is the error of the write, nil when it succeeded.
func (w deferredWrite) result(rows int64, err error) error {
	if w.none != nil && (err == nil && rows == 0 || hasCode(err, divisionByZero)) {
		return w.none
	}
	err = classify(err)
	if w.taken != nil && errors.Is(err, ErrConflict) {
		return w.taken
	}
	if err != nil && w.doing != "" {
		err = fmt.Errorf("%s: %w", w.doing, err)
	}
	return err
}

// Tx is a command's, or a view's, window on the database. It belongs to one
// goroutine and to the call it was made for.
type Tx struct {
	ctx     context.Context
	conn    connection
	dialect string
	writes  bool
	clock   func() (int64, error) // asked once, at the first Now

	now      int64
	failed   error        // the first statement error: the command is lost
	busy     bool         // an answer is being read
	deferred []*statement // PostgreSQL only
	changed  []string     // streams with new events

	freeze      *LedgerFreeze
	freezeKnown bool
}

// connection runs statements of one transaction in their order and hands out
// their answers, up to the first that fails, whose error it returns.
type connection interface {
	run(ctx context.Context, list []*statement) error
}

// errBusy says that a statement was made while the rows of another one were
// read, which PostgreSQL cannot do on one connection.
var errBusy = errors.New("store: a statement inside a rows callback: collect first")

// Context is the context of the command. It ends when the caller gives up.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Now is the time of the command in unix milliseconds, the same at every call.
// Times of successive commands may repeat, and step back when the clock does.
func (tx *Tx) Now() int64 {
	if tx.now == 0 {
		now, err := tx.clock()
		if err != nil {
			_ = tx.fail(err) // the next statement returns it
		}
		tx.now = now
	}
	return tx.now
}

// lock is what ends a SELECT whose rows the command is going to change.
func (tx *Tx) lock() string {
	if tx.dialect == "postgres" && tx.writes {
		return " FOR UPDATE"
	}
	return ""
}

// check is what every statement begins with.
func (tx *Tx) check() error {
	switch {
	case tx.failed != nil:
		return tx.failed
	case tx.busy:
		return tx.fail(errBusy)
	case tx.ctx.Err() != nil:
		return tx.fail(ended(tx.ctx))
	}
	return nil
}

func (tx *Tx) fail(err error) error {
	if tx.failed == nil {
		tx.failed = classify(err)
	}
	return tx.failed
}

// plainArguments makes both drivers see the same four types, and refuses text
// that only one of the databases would take.
func plainArguments(args []any) ([]any, error) {
	plain := make([]any, len(args))
	for i, arg := range args {
		v, err := plainArgument(arg)
		if err != nil {
			return nil, fmt.Errorf("store: argument %d: %w", i+1, err)
		}
		plain[i] = v
	}
	return plain, nil
}

func plainArgument(arg any) (any, error) {
	switch v := arg.(type) {
	case nil, int64:
		return v, nil
	case string:
		return plainText(v)
	case []byte:
		if v == nil {
			v = []byte{} // a BLOB column that is NOT NULL takes an empty body
		}
		return v, nil
	case json.RawMessage:
		return plainText(string(v))
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	}
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return int64(v.Uint()), nil
	case reflect.String:
		return plainText(v.String())
	case reflect.Bool:
		return plainArgument(v.Bool())
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return plainArgument(v.Elem().Interface())
	}
	return nil, fmt.Errorf("%T is neither integer, text, bytes nor null", arg)
}

func plainText(s string) (any, error) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		// It can only have come from outside: ours has neither.
		return nil, reason.Errorf(reason.RequestInvalid, "text %.40q is not UTF-8 without NUL", s)
	}
	return s, nil
}
