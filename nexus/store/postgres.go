package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"remit/proof/reason"
)

// Limits of one PostgreSQL command.
const (
	// maxAttempts bounds how often a command is run again after PostgreSQL gave
	// it up in favour of another: more means a lock order that is wrong.
	maxAttempts = 12
	// commitTime bounds COMMIT and ROLLBACK, which no longer obey the caller: a
	// caller who leaves must not make the outcome unknown.
	commitTime = 30 * time.Second
	// closeTime bounds the goodbye to the server.
	closeTime = 5 * time.Second
	// connectTime bounds the first connection when the DSN does not.
	connectTime = 10 * time.Second
	// idleTime is how long the server waits for the next statement of a command.
	// A replica that was stopped in the middle of one, without being killed, would
	// keep its locks from all others for ever. In milliseconds, as a setting.
	idleTime = "60000"
)

// postgresDB is a pool of connections to one schema.
type postgresDB struct {
	db     *sql.DB
	config *pgx.ConnConfig
	pool   int                   // connections at most
	clock  func() (int64, error) // nil: the server's
	hint   *notifier
	own    sync.Map // the server's process ids of the pool's connections
	closed atomic.Bool
}

func openPostgres(ctx context.Context, dsn string, opt Options) (_ *postgresDB, err error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The parser's message can quote the DSN.
		return nil, reason.Errorf(reason.RequestInvalid, "the PostgreSQL DSN cannot be parsed").
			WithHint("write postgres://user:password@host:port/database?sslmode=…, with reserved characters percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "remit"
	}
	// Whatever the server's defaults are, a commit that was answered is on disk.
	config.RuntimeParams["synchronous_commit"] = "on"
	if config.RuntimeParams["idle_in_transaction_session_timeout"] == "" {
		config.RuntimeParams["idle_in_transaction_session_timeout"] = idleTime
	}
	// Every statement finds its rows by an index, whatever its arguments: planning
	// it once a connection is enough.
	if config.RuntimeParams["plan_cache_mode"] == "" {
		config.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	}
	s := &postgresDB{config: config, pool: opt.Connections}
	s.db = sql.OpenDB(pgConnector{config, &s.own})
	if opt.Clock != nil {
		s.clock = processClock(opt.Clock)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.db.Close())
		}
	}()
	s.db.SetMaxOpenConns(opt.Connections)
	s.db.SetMaxIdleConns(opt.Connections)
	var schema sql.NullString
	err = s.insist(ctx, func() error { return s.db.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema) })
	if err != nil {
		return nil, s.redact(unavailable("connect to PostgreSQL", err))
	}
	if !schema.Valid {
		return nil, reason.Errorf(reason.RequestInvalid, "the search_path of the PostgreSQL DSN names no schema that exists").
			WithHint("create the schema first")
	}
	s.hint = newNotifier(s, schema.String)
	return s, nil
}

// openAttempts is how often a step of opening is tried when its connection is
// lost on the way: nobody else tries again for it.
const openAttempts = 3

// insist repeats what can be repeated while its connection is lost. That there is
// none to be had is an answer, and stays one.
func (s *postgresDB) insist(ctx context.Context, step func() error) error {
	for n := 1; ; n++ {
		err := step()
		var connect *pgconn.ConnectError
		if err == nil || n == openAttempts || !lostConnection(err) || errors.As(err, &connect) || ctx.Err() != nil {
			return err
		}
	}
}

// redact takes the password out of an error, should a driver have put it there.
func (s *postgresDB) redact(err error) error {
	if s.config.Password == "" || !strings.Contains(err.Error(), s.config.Password) {
		return err
	}
	return &reason.Error{Code: reason.StoreUnavailable, Message: strings.ReplaceAll(err.Error(), s.config.Password, "xxxxx")}
}

func (s *postgresDB) dialect() string { return "postgres" }

// advisoryMigration is the key of the lock that lets one of several replicas
// that start at once migrate, while the others wait. ("remit" in ASCII.)
const advisoryMigration = 0x72656d6974

func (s *postgresDB) migrate(ctx context.Context, known []migration, upTo int64) error {
	// What has been applied is on record, so even a lost answer to COMMIT is no
	// reason to give up.
	return s.insist(ctx, func() error {
		return s.update(ctx, func(tx *Tx) error { return s.migrateIn(tx, known, upTo) })
	})
}

func (s *postgresDB) migrateIn(tx *Tx, known []migration, upTo int64) error {
	if _, err := tx.exec("SELECT pg_advisory_xact_lock(?)", advisoryMigration); err != nil {
		return err
	}
	var exists bool
	if err := tx.row("SELECT to_regclass('schema_migration') IS NOT NULL").Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.exec(migrationTable); err != nil {
			return err
		}
	}
	return tx.upgrade(known, upTo, func(m migration) error {
		return tx.pipe.(*postgresConn).script(tx.ctx, m.translate("postgres"))
	})
}

func (s *postgresDB) close() error {
	s.closed.Store(true)
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
