package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"remit/proof/reason"
)

// Tx is a command's, or a view's, window on the database. It belongs to one
// goroutine and to the call it was made for.
type Tx struct {
	ctx     context.Context
	conn    connection // of SQLite
	pipe    pipeline   // of PostgreSQL
	dialect string
	write   bool
	clock   func() (int64, error) // asked once, at the first Now

	now     int64
	failed  error     // the first statement error: the command is lost
	open    *sql.Rows // of a row that nobody has scanned yet
	inRows  bool
	waiting []*statement // made, and not sent
	changed []string     // streams with new events
	freeze  Answer[*LedgerFreeze]
}

// connection runs statements of one transaction, one after the other.
type connection interface {
	exec(ctx context.Context, query string, args []any) (int64, error)
	query(ctx context.Context, query string, args []any) (*sql.Rows, error)
}

// scanner reads the columns of one row.
type scanner interface{ Scan(dest ...any) error }

// errInRows says that a statement was sent while rows was still reading, which
// PostgreSQL cannot do on one connection.
var errInRows = errors.New("store: a statement inside a rows callback: collect first")

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
	if tx.dialect == "postgres" && tx.write {
		return " FOR UPDATE"
	}
	return ""
}

// exec runs a statement and says how many rows it changed. Placeholders are
// `?` in both dialects.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	args, err := tx.begin(args)
	if err != nil {
		return 0, err
	}
	if tx.pipe != nil {
		var n int64
		tx.wait(&statement{query: query, args: args, write: func(changed int64, err error) error {
			n = changed
			return err
		}})
		err := tx.flush()
		return n, err
	}
	n, err := tx.conn.exec(tx.ctx, query, args)
	if err != nil {
		return 0, tx.fail(err)
	}
	return n, nil
}

// query sends a query and returns its rows.
func (tx *Tx) query(query string, args []any) (*sql.Rows, error) {
	if tx.pipe != nil {
		return tx.send(&statement{query: query, args: args})
	}
	rows, err := tx.conn.query(tx.ctx, query, args)
	if err != nil {
		return nil, tx.fail(err)
	}
	return rows, nil
}

// row runs a query of at most one row. Scan returns ErrNotFound without one.
func (tx *Tx) row(query string, args ...any) scanner {
	args, err := tx.begin(args)
	if err != nil {
		return &single{tx: tx, err: err}
	}
	rows, err := tx.query(query, args) //nolint:rowserrcheck // single.Scan checks
	if err != nil {
		return &single{tx: tx, err: err}
	}
	tx.open = rows
	return &single{tx: tx, rows: rows}
}

// rows runs a query and calls scan for each row. scan must not use the Tx.
func (tx *Tx) rows(query string, scan func(scanner) error, args ...any) (err error) {
	args, err = tx.begin(args)
	if err != nil {
		return err
	}
	rows, err := tx.query(query, args)
	if err != nil {
		return err
	}
	tx.inRows = true
	defer func() { tx.inRows = false; _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return tx.fail(err)
	}
	return nil
}

// single is the answer to row.
type single struct {
	tx   *Tx
	rows *sql.Rows
	err  error
}

func (s *single) Scan(dest ...any) error {
	if s.err != nil {
		return s.err
	}
	s.tx.open = nil
	defer func() { _ = s.rows.Close() }()
	if !s.rows.Next() {
		if err := s.rows.Err(); err != nil {
			return s.tx.fail(err)
		}
		return ErrNotFound
	}
	if err := s.rows.Scan(dest...); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	// A statement that changes rows and returns them is done at its end only.
	s.rows.Next()
	if err := s.rows.Err(); err != nil {
		return s.tx.fail(err)
	}
	return nil
}

// begin is what every statement checks first.
func (tx *Tx) begin(args []any) ([]any, error) {
	if tx.failed != nil {
		return nil, tx.failed
	}
	if tx.inRows {
		return nil, tx.fail(errInRows)
	}
	tx.finish()
	if tx.ctx.Err() != nil {
		return nil, tx.fail(ended(tx.ctx))
	}
	plain, err := plainArguments(args)
	if err != nil {
		return nil, tx.fail(err)
	}
	return plain, nil
}

// finish closes what row left open.
func (tx *Tx) finish() {
	if tx.open != nil {
		_ = tx.open.Close() // nobody has asked what it holds
		tx.open = nil
	}
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
