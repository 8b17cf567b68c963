package store_test

import (
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// TestMigrateTwice: opening again changes nothing and keeps what is there.
func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		record := func(s *store.Store) (text string) {
			view(t, s, func(tx *store.Tx) error {
				return tx.Rows("SELECT name, sha256, applied_at FROM schema_migration ORDER BY version",
					func(row interface{ Scan(...any) error }) error {
						var name, digest, at string
						err := row.Scan(&name, &digest, &at)
						text += name + " " + digest + " " + at + "\n"
						return err
					})
			})
			return text
		}
		s := open()
		appendEvent(t, s, store.Event{Stream: "s", Type: "note"})
		before := record(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open()
		if after := record(s); after != before || !strings.HasPrefix(after, "core sha256:") {
			t.Errorf("record %q, before %q", after, before)
		}
		if got := readAll(t, s, "s"); len(got) != 1 {
			t.Errorf("events %v", got)
		}
	})
}

// TestMigrateRefuses: a newer schema, or one that other files made, is left alone.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ damage, want string }{
		"newer": {"INSERT INTO schema_migration (version, name, sha256, applied_at) VALUES (9999, 'future', '', 0)",
			"9999_future, which this program does not know"},
		"altered": {"UPDATE schema_migration SET sha256 = 'sha256:0' WHERE version = 1", "0001_core was applied as sha256:0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachDSN(t, func(t *testing.T, dsn string) {
				s := storetest.Open(t, dsn, store.Options{})
				update(t, s, func(tx *store.Tx) error { _, err := tx.Exec(test.damage); return err })
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				_, err := store.Open(t.Context(), dsn, store.Options{})
				if reason.CodeOf(err) != reason.StoreUnavailable || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// TestMigrateTogether: replicas that start at once migrate once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), dsn, store.Options{Connections: 2})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			appendEvent(t, s, store.Event{Stream: "s", Type: "started"})
		})
	}
	wg.Wait()
	if got := readAll(t, storetest.Open(t, dsn, store.Options{}), "s"); len(got) != 6 {
		t.Errorf("%d events", len(got))
	}
}

// TestMigrationDialect keeps words out of the migrations that mean different
// things to the two databases.
func TestMigrationDialect(t *testing.T) {
	t.Parallel()
	refused := regexp.MustCompile(`(?i)\b(INT|INTEGER|SMALLINT|BOOLEAN|BOOL|TIMESTAMP|DATE|REAL|DOUBLE|NUMERIC|VARCHAR|CHAR|BYTEA|JSONB?|SERIAL|AUTOINCREMENT|COLLATE|STRICT)\b`)
	text := regexp.MustCompile(`'[^']*'`)
	files, err := fs.Glob(store.MigrationFiles, "migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, name := range files {
		src, err := fs.ReadFile(store.MigrationFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(src)) {
			n++
			code, _, _ := strings.Cut(text.ReplaceAllString(line, "''"), "--")
			if word := refused.FindString(code); word != "" {
				t.Errorf("%s:%d: %s: the types are BIGINT, TEXT and BLOB", name, n, word)
			}
		}
	}
}

// TestNumbered: only placeholders are numbered.
func TestNumbered(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"SELECT 1":                        "SELECT 1",
		"a = ? AND b IN (?, ?)":           "a = $1 AND b IN ($2, $3)",
		`a = '?' AND "b?" = ? OR c = ''?`: `a = '?' AND "b?" = $1 OR c = ''$2`,
		"a = 'it''s ?' AND b = ?":         "a = 'it''s ?' AND b = $1",
	} {
		if got := store.Numbered(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
