package store

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// Migrations are files NNNN_name.sql, applied in the order of their numbers,
// once, each in a transaction that also records its digest. They only go
// forward: a file that has been released is never edited.
//
// They are written in one dialect: the types are BIGINT, TEXT and BLOB, a table
// ends with ");" at the start of a line, and a line that begins with
// "--sqlite:" or "--postgres:" counts for that database only. A translation
// makes the two behave alike: SQLite tables are STRICT, and PostgreSQL compares
// text by its bytes.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// newestMigration asks for everything this program knows.
const newestMigration = math.MaxInt64

type migration struct {
	version int64
	name    string
	sha256  string
	sql     string
}

var migrationName = form.Lazy(`^([0-9]{4})_([a-z0-9_]+)\.sql$`)

// migrations reads the embedded files.
func migrations() ([]migration, error) { return readMigrations(migrationFiles, "migrations") }

func readMigrations(from fs.FS, dir string) ([]migration, error) {
	entries, err := fs.ReadDir(from, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var out []migration
	for _, entry := range entries {
		m := migrationName().FindStringSubmatch(entry.Name())
		if m == nil {
			return nil, fmt.Errorf("read migrations: %q is not NNNN_name.sql", entry.Name())
		}
		src, err := fs.ReadFile(from, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		version, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		if len(out) > 0 && out[len(out)-1].version == version {
			return nil, fmt.Errorf("read migrations: two files have the number %04d", version)
		}
		out = append(out, migration{version: version, name: m[2], sha256: canon.Digest(src), sql: string(src)})
	}
	return out, nil
}

var (
	tableEnd   = form.Lazy(`(?m)^\);`)
	typeBigint = form.Lazy(`\bBIGINT\b`)
	typeBlob   = form.Lazy(`\bBLOB\b`)
	typeText   = form.Lazy(`\bTEXT\b`)
)

// translate writes a migration for one database.
func (m migration) translate(dialect string) string {
	var b strings.Builder
	for line := range strings.Lines(m.sql) {
		if text, ok := strings.CutPrefix(line, "--"+dialect+":"); ok {
			line = text
		} else if strings.HasPrefix(line, "--") {
			continue
		}
		b.WriteString(line)
	}
	sql := b.String()
	if dialect == "sqlite" {
		return typeBigint().ReplaceAllString(tableEnd().ReplaceAllString(sql, ") STRICT;"), "INTEGER")
	}
	return typeText().ReplaceAllString(typeBlob().ReplaceAllString(sql, "BYTEA"), `TEXT COLLATE "C"`)
}

// migrationTable records what has been applied.
const migrationTable = `CREATE TABLE IF NOT EXISTS schema_migration (
  version BIGINT PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)`

// upgrade runs what the record lacks, in order, and notes it there.
func (tx *Tx) upgrade(known []migration, upTo int64, run func(migration) error) error {
	applied, err := tx.applied()
	if err != nil {
		return err
	}
	todo, err := pending(applied, known, upTo)
	if err != nil {
		return err
	}
	for _, m := range todo {
		if err := run(m); err != nil {
			return unavailable(fmt.Sprintf("apply migration %04d_%s", m.version, m.name), err)
		}
		if err := tx.recordMigration(m); err != nil {
			return err
		}
	}
	return nil
}

// applied reads the record.
func (tx *Tx) applied() ([]migration, error) {
	return list(tx, func(row scanner) (m migration, err error) {
		err = row.Scan(&m.version, &m.name, &m.sha256)
		return m, err
	}, "SELECT version, name, sha256 FROM schema_migration ORDER BY version")
}

// pending compares what was applied with what this program knows, and returns
// what is left to do.
func pending(applied, known []migration, upTo int64) ([]migration, error) {
	for _, a := range applied {
		i := slices.IndexFunc(known, func(m migration) bool { return m.version == a.version })
		if i < 0 {
			return nil, reason.Errorf(reason.StoreUnavailable,
				"the schema has migration %04d_%s, which this program does not know", a.version, a.name).
				WithHint("the store was opened by a newer remit: use that version or a later one")
		}
		if known[i].sha256 != a.sha256 {
			return nil, reason.Errorf(reason.StoreUnavailable,
				"migration %04d_%s was applied as %s, and this program has %s", a.version, a.name, a.sha256, known[i].sha256).
				WithHint("the store was made by another build of remit: use that one, or restore a backup into a new store")
		}
	}
	var newest int64
	if len(applied) > 0 {
		newest = applied[len(applied)-1].version
	}
	var todo []migration
	for _, m := range known {
		done := slices.ContainsFunc(applied, func(a migration) bool { return a.version == m.version })
		switch {
		case done || m.version > upTo:
		case m.version < newest:
			return nil, reason.Errorf(reason.StoreUnavailable,
				"migration %04d_%s was never applied, and the schema is at %04d already", m.version, m.name, newest).
				WithHint("the store was made by another build of remit: restore a backup into a new store")
		default:
			todo = append(todo, m)
		}
	}
	return todo, nil
}

// recordMigration notes one migration as applied.
func (tx *Tx) recordMigration(m migration) error {
	_, err := tx.exec("INSERT INTO schema_migration (version, name, sha256, applied_at) VALUES (?, ?, ?, ?)",
		m.version, m.name, m.sha256, tx.Now())
	return err
}
