package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// The measured command is that of every mutation at its smallest: look the key
// up, move a row of one of 64 payers, append a row, store the answer. The raw
// figure beside it is that of the same statements without this package: on
// SQLite a loop that commits in groups of at most 64, on PostgreSQL one
// transaction a connection.
const (
	benchLookup = "SELECT status FROM idempotency WHERE principal = ? AND method = ? AND route = ? AND key = ?"
	benchMove   = "UPDATE payer SET held = held + ? WHERE id = ?"
	benchRow    = "INSERT INTO movement (id, payer, amount) VALUES (?, ?, ?)"
	benchAnswer = `INSERT INTO idempotency
		(principal, method, route, key, request_sha256, status, content_type, body, etag, location, created_at)
		VALUES ('usr_1', 'POST', '/v1/runs', ?, 'sha256:0', 201, 'application/json', ?, '', '', 0)`
	benchPayers = 64
)

var benchBody = []byte(`{"run_id":"run_0123456789abcdef","state":"created"}`)

func benchKey(n int64) string { return fmt.Sprintf("key-%012d", n) }

var benchClients = []int{1, 16, 128}

// benchmark measures durable commands of so many clients.
func benchmark(b *testing.B, clients int, command func(n int64) error) {
	b.Helper()
	var next atomic.Int64
	took := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	b.ResetTimer()
	for c := range clients {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				start := time.Now()
				if err := command(n); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	if len(all) > 0 {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		b.ReportMetric(0, "ns/op")
	}
}

// prepare makes the tables of the benchmark.
func prepare(b *testing.B, dsn string) *store.Store {
	b.Helper()
	s := storetest.Open(b, dsn, store.Options{})
	err := s.Update(b.Context(), func(tx *store.Tx) error {
		for _, query := range []string{
			"CREATE TABLE payer (id BIGINT PRIMARY KEY, held BIGINT NOT NULL)",
			"CREATE TABLE movement (id TEXT PRIMARY KEY, payer BIGINT NOT NULL, amount BIGINT NOT NULL)",
		} {
			if _, err := tx.Exec(query); err != nil {
				return err
			}
		}
		for i := range benchPayers {
			if _, err := tx.Exec("INSERT INTO payer (id, held) VALUES (?, 0)", i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func BenchmarkUpdate(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		for _, clients := range benchClients {
			b.Run(fmt.Sprintf("%s/%d", dialect, clients), func(b *testing.B) { benchStore(b, benchDSN(b, dialect), clients) })
			b.Run(fmt.Sprintf("%s/%d/raw", dialect, clients), func(b *testing.B) {
				dsn := benchDSN(b, dialect)
				if err := prepare(b, dsn).Close(); err != nil {
					b.Fatal(err)
				}
				if dialect == "sqlite" {
					benchRawSQLite(b, dsn, clients)
				} else {
					benchRawPostgres(b, dsn, clients)
				}
			})
		}
	}
}

func benchDSN(b *testing.B, dialect string) string {
	if dialect == "sqlite" {
		return filepath.Join(b.TempDir(), "store.db")
	}
	return storetest.Postgres(b)
}

func benchStore(b *testing.B, dsn string, clients int) {
	s := prepare(b, dsn)
	benchmark(b, clients, func(n int64) error {
		return s.Update(b.Context(), func(tx *store.Tx) error {
			k := benchKey(n)
			var status int
			if err := tx.Row(benchLookup, "usr_1", "POST", "/v1/runs", k).Scan(&status); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("lookup: %d, %w", status, err)
			}
			if _, err := tx.Exec(benchMove, 1, n%benchPayers); err != nil {
				return err
			}
			if _, err := tx.Exec(benchRow, k, n%benchPayers, 1); err != nil {
				return err
			}
			_, err := tx.Exec(benchAnswer, k, benchBody)
			return err
		})
	})
}

// benchRawSQLite is group commit by hand: prepared statements, no savepoints.
func benchRawSQLite(b *testing.B, path string, clients int) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	background := context.Background()
	for _, pragma := range []string{"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON",
		"PRAGMA cache_size = -16384"} {
		if _, err := conn.ExecContext(background, pragma); err != nil {
			b.Fatal(err)
		}
	}
	var stmts []*sql.Stmt
	for _, query := range []string{"BEGIN IMMEDIATE", "COMMIT", benchLookup, benchMove, benchRow, benchAnswer} {
		stmt, err := conn.PrepareContext(background, query)
		if err != nil {
			b.Fatal(err)
		}
		defer stmt.Close() //nolint:revive // six statements, until the end of the benchmark
		stmts = append(stmts, stmt)
	}
	type request struct {
		n    int64
		done chan error
	}
	queue := make(chan request, 256)
	go func() {
		for first := range queue {
			_, err := stmts[0].Exec()
			group := []request{first}
			for i := 0; i < len(group); i++ {
				r := group[i]
				k := benchKey(r.n)
				var status int
				if scan := stmts[2].QueryRow("usr_1", "POST", "/v1/runs", k).Scan(&status); err == nil && !errors.Is(scan, sql.ErrNoRows) {
					err = scan
				}
				for _, run := range []func() (sql.Result, error){
					func() (sql.Result, error) { return stmts[3].Exec(1, r.n%benchPayers) },
					func() (sql.Result, error) { return stmts[4].Exec(k, r.n%benchPayers, 1) },
					func() (sql.Result, error) { return stmts[5].Exec(k, benchBody) },
				} {
					if _, failed := run(); err == nil {
						err = failed
					}
				}
				if len(group) < store.DefaultBatch {
					select {
					case r := <-queue:
						group = append(group, r)
					default:
					}
				}
			}
			if _, failed := stmts[1].Exec(); err == nil {
				err = failed
			}
			for _, r := range group {
				r.done <- err
			}
		}
	}()
	benchmark(b, clients, func(n int64) error {
		r := request{n, make(chan error, 1)}
		queue <- r
		return <-r.done
	})
	close(queue)
}

// benchRawPostgres has as many connections as the store, and the same round
// trips: begin, four statements, commit.
func benchRawPostgres(b *testing.B, dsn string, clients int) {
	pool := make(chan *pgx.Conn, store.DefaultConnections)
	for range cap(pool) {
		conn, err := pgx.Connect(b.Context(), dsn)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(context.Background()) //nolint:revive // until the end of the benchmark
		pool <- conn
	}
	lookup, move, row, answer := store.Numbered(benchLookup), store.Numbered(benchMove), store.Numbered(benchRow), store.Numbered(benchAnswer)
	ctx := b.Context()
	benchmark(b, clients, func(n int64) error {
		conn := <-pool
		defer func() { pool <- conn }()
		k := benchKey(n)
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		var status int
		if err := conn.QueryRow(ctx, lookup, "usr_1", "POST", "/v1/runs", k).Scan(&status); !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("lookup: %d, %w", status, err)
		}
		if _, err := conn.Exec(ctx, move, 1, n%benchPayers); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, row, k, n%benchPayers, 1); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, answer, k, benchBody); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "COMMIT")
		return err
	})
}
