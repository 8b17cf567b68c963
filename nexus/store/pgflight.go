package store

import (
	"context"
	"database/sql/driver"
	"io"

	"github.com/jackc/pgx/v5"
)

// flight is statements that are sent at once. It goes through database/sql as
// the argument of a query that says so, and comes back as one result set for
// each of them.
type flight []*statement

const flightQuery = "flight"

// CheckNamedValue implements driver.NamedValueChecker: flights are left as they are.
func (c *pgConn) CheckNamedValue(arg *driver.NamedValue) error {
	if _, ok := arg.Value.(flight); ok {
		return nil
	}
	return driver.ErrSkip
}

// fly sends a flight and waits for the answer to its first statement.
func (c *pgConn) fly(ctx context.Context, list flight) (driver.Rows, error) {
	batch := &pgx.Batch{}
	for _, s := range list {
		batch.Queue(rebind(s.query), s.args...)
	}
	f := &pgFlight{results: c.conn.SendBatch(ctx, batch), list: list}
	if err := f.land(); err != nil {
		_ = f.results.Close() // it has this error
		return nil, err
	}
	return f, nil
}

// pgFlight is the answers to a flight. The server goes on to the statement after
// one that failed only when the transaction is over, so no answer follows an error.
type pgFlight struct {
	results pgx.BatchResults
	list    flight // those whose answers are still to come, the present one first
	rows    pgRows
	changed int64 // rows, as the answer to a write that was not read yet; -1: read
}

// land waits for the next answer.
func (f *pgFlight) land() error {
	rows, err := f.results.Query()
	if err != nil {
		return err
	}
	// An error of a statement shows with its first row only.
	f.rows = pgRows{rows: rows, ahead: rows.Next()}
	if !f.rows.ahead {
		if err := rows.Err(); err != nil {
			return err
		}
	}
	if f.list[0].write != nil {
		rows.Close()
		f.changed = rows.CommandTag().RowsAffected()
		return rows.Err()
	}
	return nil
}

func (f *pgFlight) Columns() []string {
	if f.list[0].write != nil {
		return []string{"changed"}
	}
	return f.rows.Columns()
}

func (f *pgFlight) Next(dest []driver.Value) error {
	if f.list[0].write == nil {
		return f.rows.Next(dest)
	}
	if f.changed < 0 {
		return io.EOF
	}
	dest[0], f.changed = f.changed, -1
	return nil
}

func (f *pgFlight) HasNextResultSet() bool { return len(f.list) > 1 }

func (f *pgFlight) NextResultSet() error {
	if len(f.list) == 1 {
		return io.EOF
	}
	if err := f.rows.Close(); err != nil {
		return err
	}
	f.list = f.list[1:]
	return f.land()
}

// Close waits for the answers that nobody has asked for.
func (f *pgFlight) Close() error {
	f.rows.rows.Close()
	return f.results.Close()
}
