package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"remit/proof/reason"
)

var (
	// ErrNotFound says that no row matches.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a row with this identity exists already, with
	// other content.
	ErrConflict = errors.New("conflicts with what is stored")
)

// errNested guards against a command inside a command: on SQLite it would wait
// for itself.
var errNested = errors.New("store: Update was called inside a command; use the Tx of the command")

// Result codes of SQLite, https://www.sqlite.org/rescode.html.
const (
	sqlitePrimary            = 0xff
	sqliteConstraintUnique   = 2067
	sqliteConstraintPrimary  = 1555
	sqliteConstraintRowID    = 2579
	sqliteBusy, sqliteLocked = 5, 6
	sqliteNoMem              = 7
	sqliteReadOnly           = 8
	sqliteInterrupt          = 9
	sqliteIOErr              = 10
	sqliteCorrupt            = 11
	sqliteFull               = 13
	sqliteCantOpen           = 14
	sqliteShmSize            = 4874
	sqliteNotADB             = 26
)

// classify turns a driver's error into one that callers can branch on.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &pg):
		if pg.Code == uniqueViolation {
			return fmt.Errorf("%w: %s", ErrConflict, pg.ConstraintName)
		}
		if sessionEnded(pg) {
			return unavailable("use the database", err)
		}
		switch pg.Code[:min(2, len(pg.Code))] {
		case "08", "53", "57", "58", "F0", "XX": // connection, resources, operator, system, configuration, internal
			return unavailable("use the database", err)
		}
	case errors.As(err, &lite):
		switch lite.Code() {
		case sqliteConstraintUnique, sqliteConstraintPrimary, sqliteConstraintRowID:
			return fmt.Errorf("%w: %s", ErrConflict, lite.Error())
		}
		switch lite.Code() & sqlitePrimary {
		case sqliteBusy, sqliteLocked, sqliteNoMem, sqliteReadOnly, sqliteIOErr, sqliteCorrupt, sqliteFull, sqliteCantOpen, sqliteNotADB:
			return unavailable("use the database", err)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case lostConnection(err):
		return unavailable("reach the database", err)
	}
	return err
}

// Codes of PostgreSQL, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	divisionByZero  = "22012"
	uniqueViolation = "23505"
	serialization   = "40001"
	deadlock        = "40P01"
	noDisk          = "53100"
)

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// sessionEnded reports whether the server closes the connection with this
// error: it shuts down, or has waited for too long.
func sessionEnded(err *pgconn.PgError) bool {
	return err.SeverityUnlocalized == "FATAL" || err.SeverityUnlocalized == "PANIC"
}

func lostConnection(err error) bool {
	var connect *pgconn.ConnectError
	var pg *pgconn.PgError
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.As(err, &connect) || errors.As(err, &pg) && sessionEnded(pg) || errors.Is(err, io.EOF) || errors.Is(err,
		io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err) || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed")
}

// ErrInUse is behind the error of Open when another process has the SQLite store
// open. It is the one that goes away by waiting.
var ErrInUse = errors.New("the store is in use by another process")

// unavailable says that the database failed while doing something.
func unavailable(doing string, err error) error {
	switch code := reason.CodeOf(err); {
	case code == reason.StoreUnavailable || code == reason.StoreFull:
		return err
	case diskFull(err):
		return &reason.Error{Code: reason.StoreFull, Message: doing + ": " + err.Error(), Err: err}
	}
	return &reason.Error{Code: reason.StoreUnavailable, Message: doing + ": " + err.Error(), Err: err}
}

// diskFull reports whether the database found no room to write.
func diskFull(err error) bool {
	lite, ok := errors.AsType[*sqlite.Error](err)
	return hasCode(err, noDisk) || ok && (lite.Code()&sqlitePrimary == sqliteFull || lite.Code() == sqliteShmSize)
}

// during says what was being done when err happened, if it did.
func during(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// again is the error of a command that had looked before another one changed
// what it saw. Run again, it sees that.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// repeatable reports whether a transaction was given up in favour of another
// one: it had no effect, and can succeed when run again.
func repeatable(err error) bool {
	var late again
	return hasCode(err, serialization) || hasCode(err, deadlock) || errors.As(err, &late)
}
