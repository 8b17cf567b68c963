package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
