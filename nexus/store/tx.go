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
