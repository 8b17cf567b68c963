package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// pgConnector lets database/sql pool connections of pgx, so that both databases
// have one pool and one way to scan. It is what pgx/v5/stdlib does, without the
// second pool that comes with that package.
type pgConnector struct {
	config *pgx.ConnConfig
	own    *sync.Map // of the pool: process ids of the server
}

// Connect implements driver.Connector.
func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, c.config.Copy())
	if err != nil {
		return nil, err
	}
	c.own.Store(conn.PgConn().PID(), true)
	return &pgConn{conn: conn, own: c.own}, nil
}

// Driver implements driver.Connector.
func (c pgConnector) Driver() driver.Driver { return c }

// Open implements driver.Driver. The pool never calls it.
func (c pgConnector) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

// pgConn is one connection. pgx prepares and caches statements itself, and
// transactions are begun as statements.
type pgConn struct {
	conn *pgx.Conn
	own  *sync.Map
}

func (c *pgConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *pgConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

// IsValid keeps what is closed, or still in a transaction, out of the pool.
func (c *pgConn) IsValid() bool { return !c.conn.IsClosed() && c.conn.PgConn().TxStatus() == 'I' }

// ResetSession keeps what was closed while it was in the pool from being used.
// That the server has ended it, only the next statement finds out.
func (c *pgConn) ResetSession(context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return nil
}

func (c *pgConn) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	c.own.Delete(c.conn.PgConn().PID())
	return c.conn.Close(ctx)
}

func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := c.conn.Exec(ctx, query, plainValues(args)...)
	return driver.RowsAffected(tag.RowsAffected()), unsent(ctx, err)
}

// unsent lets the pool try a statement on another connection if this one was
// dead before anything was sent.
func unsent(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && pgconn.SafeToRetry(err) {
		return fmt.Errorf("%w: %w", driver.ErrBadConn, err)
	}
	return err
}

func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query == flightQuery {
		return c.fly(ctx, args[0].Value.(flight))
	}
	rows, err := c.conn.Query(ctx, query, plainValues(args)...)
	if err != nil {
		return nil, unsent(ctx, err)
	}
	// An error of a statement shows with its first row only; callers expect it
	// from the query.
	first := rows.Next()
	if !first {
		if err := rows.Err(); err != nil {
			return nil, unsent(ctx, err)
		}
	}
	return &pgRows{rows: rows, ahead: first}, nil
}

func plainValues(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	return values
}

// pgRows is one row ahead of its reader at the start.
type pgRows struct {
	rows  pgx.Rows
	ahead bool
}

func (r *pgRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

func (r *pgRows) Close() error {
	r.rows.Close()
	return r.rows.Err()
}

func (r *pgRows) Next(dest []driver.Value) error {
	if !r.ahead && !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	r.ahead = false
	values, err := r.rows.Values()
	if err != nil {
		return err
	}
	for i := range dest {
		if dest[i], err = plainColumn(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// plainColumn gives a column the type that SQLite would give it. A SUM of
// BIGINT is a NUMERIC here.
func plainColumn(v any) (driver.Value, error) {
	switch v := v.(type) {
	case nil, int64, bool, string, []byte:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case pgtype.Numeric:
		n, ok := wholeNumber(v)
		if !ok {
			return nil, fmt.Errorf("store: a numeric column is not a 64-bit integer")
		}
		return n, nil
	}
	return nil, fmt.Errorf("store: a column of type %T is neither integer, text, bytes nor null", v)
}

func wholeNumber(v pgtype.Numeric) (int64, bool) {
	if !v.Valid || v.NaN || v.InfinityModifier != pgtype.Finite || v.Exp > 18 || v.Exp < -18 {
		return 0, false
	}
	n := new(big.Int).Set(v.Int)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(v.Exp, -v.Exp))), nil)
	if v.Exp >= 0 {
		n.Mul(n, scale)
	} else if _, rest := n.QuoRem(n, scale, new(big.Int)); rest.Sign() != 0 {
		return 0, false
	}
	return n.Int64(), n.IsInt64()
}
