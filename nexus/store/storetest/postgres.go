package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"remit/nexus/store"
)

// environment is the variable with the DSN of a server to use.
const environment = "REMIT_TEST_POSTGRES"

// shared is the server of this test process.
var shared = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(environment); dsn != "" {
		return dsn, nil
	}
	return start()
})

// Postgres returns the DSN of an empty schema, which is dropped at the end of
// the test, or skips the test when there is no server.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Skipf("postgres: SKIPPED: %v (install postgresql, or set %s)", err, environment)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("postgres: %s is not a URL", environment)
	}
	schema := "t_" + strings.ToLower(rand.Text())
	execute(t, server, `CREATE SCHEMA "`+schema+`"`)
	t.Cleanup(func() { execute(t, server, `DROP SCHEMA "`+schema+`" CASCADE`) })
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}

// migratedDatabase is a database of the shared server that has the schema of the
// store. A copy of its files costs a quarter of running the migrations.
var migratedDatabase = sync.OnceValues(func() (string, error) {
	server, err := shared()
	if err != nil {
		return "", err
	}
	const name = "remit_template"
	ctx, stop := context.WithTimeout(context.Background(), startTime)
	defer stop()
	if err := run(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	s, err := store.Open(ctx, database(server, name), store.Options{Connections: 1})
	if err != nil {
		return "", err
	}
	return name, s.Close()
})

// migratedPostgres is Postgres with the schema of the store, if the server is our
// own: on another one there may be no right to make databases.
func migratedPostgres(t testing.TB) string {
	t.Helper()
	server, err := shared()
	if err != nil || os.Getenv(environment) != "" {
		return Postgres(t)
	}
	template, err := migratedDatabase()
	if err != nil {
		t.Fatalf("postgres: make a template: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY")
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return database(server, name)
}

// database is the DSN of another database of a server.
func database(server, name string) string {
	before, after, _ := strings.Cut(server, "/postgres?")
	return before + "/" + name + "?" + after
}

// execute runs one statement on the server, outside of any store.
func execute(t testing.TB, server, statement string) {
	t.Helper()
	// The context of a test has ended when its cleanups run.
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer stop()
	if err := run(ctx, server, statement); err != nil {
		t.Errorf("postgres: %s: %v", statement, err)
	}
}

func run(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	return nil
}

// migrated is a SQLite store without rows, as a file. Under the race detector
// half of what a small test takes would be its migrations, which are the same
// each time; that they work is what the tests of remit/nexus/store are about.
var migrated = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "remit-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "store.db")
	s, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // which leaves nothing in the log
		return nil, err
	}
	return os.ReadFile(path)
})

// copyTemplate puts a migrated store where a new one is about to be opened, if there is
// a directory for it: without one, it is the opening that is tested.
func copyTemplate(dsn string) error {
	if strings.Contains(dsn, "://") {
		return nil
	}
	path := strings.TrimPrefix(dsn, "sqlite:")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil //nolint:nilerr // see above
	}
	content, err := migrated()
	if err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	return os.WriteFile(path, content, 0o600)
}
