package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"remit/proof/reason"
)

// sqlitePragmas hold for every connection. FULL: a commit survives a power cut,
// not only a crash of the process. trusted_schema=OFF: a doctored file cannot
// run functions through its views.
var sqlitePragmas = []string{
	"PRAGMA busy_timeout = 5000",
	"PRAGMA journal_mode = WAL",
	"PRAGMA synchronous = FULL",
	"PRAGMA foreign_keys = ON",
	"PRAGMA trusted_schema = OFF",
	"PRAGMA cell_size_check = ON",
	"PRAGMA temp_store = MEMORY",
	"PRAGMA cache_size = -16384",
	"PRAGMA journal_size_limit = 67108864",
}

// hintSweep is how often readers of quiet streams are woken for nothing, so
// that the table of readers does not keep those who left.
const hintSweep = 5 * time.Minute

// sqliteDB is a file with one writer and several readers.
type sqliteDB struct {
	path    string
	lock    *os.File
	db      *sql.DB
	clock   func() (int64, error)
	writer  *writer
	readers chan *sqliteConn // nil: not opened yet
	solo    bool             // reads go through the writer
}

func openSQLite(ctx context.Context, path string, opt Options) (_ *sqliteDB, err error) {
	if path == "" || path == ":memory:" {
		return nil, reason.Errorf(reason.RequestInvalid, "no store at %q: a store is a file, memory keeps nothing", path)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	s := &sqliteDB{path: path, lock: lock, db: db, clock: processClock(opt.Clock), solo: opt.Connections == 1,
		readers: make(chan *sqliteConn, opt.Connections)}
	for range opt.Connections {
		s.readers <- nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.writer = startWriter(conn, s.clock, opt.MaxBatch)
	return s, nil
}

// prepareFile makes the file and its directory readable by their owner only.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if !info.Mode().IsRegular() {
		return reason.Errorf(reason.RequestInvalid, "open store: %q is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("open store: %w", err)
		}
	}
	return nil
}

// processClock reads the clock of this process, in unix milliseconds.
func processClock(clock func() time.Time) func() (int64, error) {
	if clock == nil {
		clock = time.Now
	}
	return func() (int64, error) { return clock().UnixMilli(), nil }
}

func (s *sqliteDB) dialect() string { return "sqlite" }

func (s *sqliteDB) connect(ctx context.Context) (*sqliteConn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, unavailable("open store", err)
	}
	conn := &sqliteConn{conn: c, stmts: map[string]*sql.Stmt{}}
	for _, pragma := range sqlitePragmas {
		if _, err := c.ExecContext(ctx, pragma); err != nil {
			return nil, errors.Join(unavailable(fmt.Sprintf("open store %q", s.path), err), c.Close())
		}
	}
	return conn, nil
}

func (s *sqliteDB) update(ctx context.Context, fn func(*Tx) error) error { return s.writer.do(ctx, fn) }

// view reads in a deferred transaction: with WAL it sees the last commit, and
// neither waits for the writer nor makes it wait.
func (s *sqliteDB) view(ctx context.Context, fn func(*Tx) error) (err error) {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if s.solo {
		return s.writer.do(ctx, fn)
	}
	var conn *sqliteConn
	select {
	case <-ctx.Done():
		return ended(ctx)
	case c, ok := <-s.readers:
		if !ok {
			return errClosed
		}
		conn = c
	}
	healthy := false
	defer func() {
		if !healthy && conn != nil {
			_ = conn.close() // its transaction is lost either way
			conn = nil
		}
		s.readers <- conn
	}()
	background := context.WithoutCancel(ctx)
	if conn == nil {
		if conn, err = s.connect(background); err != nil {
			return err
		}
		if err := conn.control(background, "PRAGMA query_only = ON"); err != nil {
			return unavailable("open store", err)
		}
	}
	if err := conn.control(background, "BEGIN"); err != nil {
		return classify(err)
	}
	tx := &Tx{ctx: ctx, conn: conn, dialect: "sqlite", clock: s.clock}
	err = fn(tx)
	healthy = conn.control(background, "ROLLBACK") == nil
	if err == nil {
		err = tx.failed
	}
	return err
}

func (s *sqliteDB) look(ctx context.Context, fn func(*Tx) error) error { return s.view(ctx, fn) }

// migrate runs before the first command, so it may use the writer's connection.
func (s *sqliteDB) migrate(ctx context.Context, known []migration, upTo int64) error {
	return s.update(ctx, func(tx *Tx) error {
		if _, err := tx.exec(migrationTable); err != nil {
			return err
		}
		return tx.upgrade(known, upTo, func(m migration) error {
			return tx.conn.(uninterrupted).conn.script(ctx, m.translate("sqlite"))
		})
	})
}

func (s *sqliteDB) announce([]string) {} // this process is the only one

func (s *sqliteDB) poll(ctx context.Context, h *hints) {
	tick := time.NewTicker(hintSweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.wake(h.streams())
			return
		case <-tick.C:
			h.wake(h.streams())
		}
	}
}

// close waits for the writer and the readers.
func (s *sqliteDB) close() error {
	err := s.writer.close()
	for range cap(s.readers) {
		if conn := <-s.readers; conn != nil {
			err = errors.Join(err, conn.close())
		}
	}
	close(s.readers)
	return errors.Join(err, s.db.Close(), s.lock.Close())
}

// sqliteConn is one connection with its prepared statements.
type sqliteConn struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// maxStatements bounds the prepared statements of a connection. The program
// has a few hundred fixed texts; one that builds texts must not fill memory.
const maxStatements = 512

func (c *sqliteConn) prepare(query string) (*sql.Stmt, error) {
	if stmt, ok := c.stmts[query]; ok {
		return stmt, nil
	}
	// The statement outlives the command, so it must not end with its context.
	stmt, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", query, err)
	}
	if len(c.stmts) >= maxStatements {
		for old, s := range c.stmts {
			if err := s.Close(); err != nil {
				return nil, err
			}
			delete(c.stmts, old)
			break
		}
	}
	c.stmts[query] = stmt
	return stmt, nil
}

// run implements connection.
func (c *sqliteConn) run(ctx context.Context, list []*statement) error {
	for _, s := range list {
		if err := c.runOne(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (c *sqliteConn) runOne(ctx context.Context, s *statement) error {
	stmt, err := c.prepare(s.query) //nolint:sqlclosecheck // closed with the connection
	if err != nil {
		return err
	}
	if s.read == nil {
		var n int64
		result, err := stmt.ExecContext(ctx, s.args...)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return s.changed(n, err)
	}
	found, err := stmt.QueryContext(ctx, s.args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }() // its error is that of the rows
	if err := s.read(found); err != nil {
		return err
	}
	return found.Err()
}

// control runs a statement without arguments or an answer.
func (c *sqliteConn) control(ctx context.Context, query string) error {
	stmt, err := c.prepare(query) //nolint:sqlclosecheck // closed with the connection
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(ctx)
	return err
}

// script runs several statements.
func (c *sqliteConn) script(ctx context.Context, sql string) error {
	_, err := c.conn.ExecContext(ctx, sql)
	return err
}

func (c *sqliteConn) close() error {
	var err error
	for _, stmt := range c.stmts {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, c.conn.Close())
}
