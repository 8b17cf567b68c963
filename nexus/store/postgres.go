package store

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

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
	// closeTime bounds the end of the LISTEN connection.
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
	pool     *pgxpool.Pool
	password string
	clock    func() (int64, error) // nil: the server's
	hint     *notifier
	own      sync.Map // the server's process ids of the pool's connections
	closed   atomic.Bool
}

func openPostgres(ctx context.Context, dsn string, opt Options) (_ *postgresDB, err error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The parser's message can quote the DSN.
		return nil, reason.Errorf(reason.RequestInvalid, "the PostgreSQL DSN cannot be parsed").
			WithHint("write postgres://user:password@host:port/database?sslmode=…, with reserved characters percent-encoded")
	}
	s := &postgresDB{password: config.ConnConfig.Password}
	s.configure(config, opt)
	if opt.Clock != nil {
		s.clock = processClock(opt.Clock)
	}
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, s.redact(unavailable("connect to PostgreSQL", err))
	}
	defer func() {
		if err != nil {
			s.pool.Close()
		}
	}()
	var schema *string
	err = s.retryLost(ctx, func() error { return s.pool.QueryRow(ctx, "SELECT current_schema()").Scan(&schema) })
	if err != nil {
		return nil, s.redact(unavailable("connect to PostgreSQL", err))
	}
	if schema == nil {
		return nil, reason.Errorf(reason.RequestInvalid, "the search_path of the PostgreSQL DSN names no schema that exists").
			WithHint("create the schema first")
	}
	s.hint = newNotifier(s, *schema)
	return s, nil
}

// configure sets what every connection needs, where the DSN does not say otherwise.
func (s *postgresDB) configure(config *pgxpool.Config, opt Options) {
	conn := config.ConnConfig
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTime
	}
	// Whatever the server's defaults are, a commit that was answered is on disk.
	conn.RuntimeParams["synchronous_commit"] = "on"
	for name, value := range map[string]string{
		"application_name":                    "remit",
		"idle_in_transaction_session_timeout": idleTime,
		// Every statement finds its rows by an index, whatever its arguments:
		// planning it once a connection is enough.
		"plan_cache_mode": "force_generic_plan",
	} {
		if conn.RuntimeParams[name] == "" {
			conn.RuntimeParams[name] = value
		}
	}
	config.MaxConns = int32(min(opt.Connections, math.MaxInt32))
	config.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		s.own.Store(c.PgConn().PID(), true)
		return nil
	}
	config.BeforeClose = func(c *pgx.Conn) { s.own.Delete(c.PgConn().PID()) }
	// A transaction that finds its connection dead begins again on another one,
	// so a round trip that only asks is not needed.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// openAttempts is how often a step of opening is tried when its connection is
// lost on the way: its caller does not repeat it.
const openAttempts = 3

// retryLost repeats a step whose connection was lost. A server that cannot be
// reached is an answer.
func (s *postgresDB) retryLost(ctx context.Context, step func() error) error {
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
	if s.password == "" || !strings.Contains(err.Error(), s.password) {
		return err
	}
	return &reason.Error{Code: reason.StoreUnavailable, Message: strings.ReplaceAll(err.Error(), s.password, "xxxxx")}
}

func (s *postgresDB) dialect() string { return "postgres" }

// advisoryMigration is the key of the lock that lets one of several replicas
// that start at once migrate, while the others wait. ("remit" in ASCII.)
const advisoryMigration = 0x72656d6974

func (s *postgresDB) migrate(ctx context.Context, known []migration, upTo int64) error {
	// What has been applied is on record, so even a lost answer to COMMIT is no
	// reason to give up.
	return s.retryLost(ctx, func() error {
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
		return tx.conn.(*postgresTx).script(tx.ctx, m.translate("postgres"))
	})
}

func (s *postgresDB) close() error {
	s.closed.Store(true)
	s.pool.Close()
	return nil
}
