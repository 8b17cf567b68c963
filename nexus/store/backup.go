package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"remit/proof/canon"
	"remit/proof/form"
)

// A backup is a text file of one JSON value a line, the same for both
// databases, so that it is also the way from one to the other:
//
//	{"format":"remit.store/1","source":"sqlite","created_at":…,"migrations":[{"version":1,"name":"core","sha256":"…"}]}
//	{"table":"event","columns":["stream","seq",…]}
//	["run:1:events",1,…]
//	…
//	{"rows":1234,"sha256":"sha256:…"}
//
// Tables are ordered by name and rows by primary key, so two stores with the
// same content differ in the first line only. Bytes are {"b":"<base64>"}. The
// digest in the last line covers every byte before that line.
const backupFormat = "remit.store/1"

type backupHeader struct {
	Format     string            `json:"format"`
	Source     string            `json:"source"`
	CreatedAt  int64             `json:"created_at"`
	Migrations []backupMigration `json:"migrations"`
}

type backupMigration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
}

type backupTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

type backupTrailer struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

type backupBytes struct {
	B []byte `json:"b"`
}

// Backup writes one snapshot of everything to a new file, readable by its owner
// only. The store goes on working meanwhile. The file holds digests of tokens
// and no secret of one, and all else that the authority knows.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup: %w", err), os.Remove(path))
		}
	}()
	w := newBackupWriter(f)
	err = s.View(ctx, func(tx *Tx) error { return w.everything(tx) })
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type backupWriter struct {
	out  *bufio.Writer
	sum  hash.Hash
	rows int64
}

func newBackupWriter(w io.Writer) *backupWriter {
	sum := sha256.New()
	return &backupWriter{out: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), sum: sum}
}

func (w *backupWriter) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(text, '\n'))
	return err
}

func (w *backupWriter) everything(tx *Tx) error {
	applied, err := tx.applied()
	if err != nil {
		return err
	}
	header := backupHeader{Format: backupFormat, Source: tx.dialect, CreatedAt: tx.Now()}
	for _, m := range applied {
		header.Migrations = append(header.Migrations, backupMigration{m.version, m.name, m.sha256})
	}
	if err := w.line(header); err != nil {
		return err
	}
	tables, err := tx.tables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if derived(t.name) {
			continue
		}
		if err := w.table(tx, t); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}

func (w *backupWriter) table(tx *Tx, t table) error {
	if err := w.line(backupTable{t.name, t.columns}); err != nil {
		return err
	}
	values := make([]any, len(t.columns))
	targets := make([]any, len(t.columns))
	for i := range values {
		targets[i] = &values[i]
	}
	return tx.rows(t.selectAll(), func(row scanner) error {
		if err := row.Scan(targets...); err != nil {
			return err
		}
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				values[i] = backupBytes{b}
			}
		}
		w.rows++
		return w.line(values)
	})
}

func (w *backupWriter) finish() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	var sum [sha256.Size]byte
	w.sum.Sum(sum[:0])
	if err := w.line(backupTrailer{w.rows, canon.DigestText(sum)}); err != nil {
		return err
	}
	return w.out.Flush()
}

// table is what the catalogue of the database says about one table.
type table struct {
	name    string
	columns []string // in the order of their definition
	order   []string // the primary key, or all columns
}

// plainName is what a name must look like to be put into a statement.
var plainName = form.Lazy(`^[a-z][a-z0-9_]*$`)

// tables lists the tables of the schema by name, except the record of the
// migrations. It is empty in a new database.
func (tx *Tx) tables() ([]table, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	if tx.dialect == "postgres" {
		query = "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
	}
	names, err := tx.names(query)
	if err != nil {
		return nil, err
	}
	var out []table
	for _, name := range names {
		if name == "schema_migration" {
			continue
		}
		t := table{name: name}
		if t.columns, err = tx.columns(name); err != nil {
			return nil, err
		}
		if t.order, err = tx.primaryKey(name); err != nil {
			return nil, err
		}
		if len(t.order) == 0 {
			t.order = t.columns
		}
		out = append(out, t)
	}
	return out, nil
}

func (tx *Tx) columns(name string) ([]string, error) {
	if tx.dialect == "postgres" {
		return tx.names(`SELECT CAST(column_name AS TEXT) FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position`, name)
	}
	return tx.names("SELECT name FROM pragma_table_info(?) ORDER BY cid", name)
}

func (tx *Tx) primaryKey(name string) ([]string, error) {
	if tx.dialect == "postgres" {
		return tx.names(`SELECT CAST(k.column_name AS TEXT) FROM information_schema.table_constraints c
			JOIN information_schema.key_column_usage k
			ON k.constraint_schema = c.constraint_schema AND k.constraint_name = c.constraint_name AND k.table_name = c.table_name
			WHERE c.table_schema = current_schema() AND c.table_name = ? AND c.constraint_type = 'PRIMARY KEY'
			ORDER BY k.ordinal_position`, name)
	}
	return tx.names("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", name)
}

// names reads a column of names, and refuses one that is not plain.
func (tx *Tx) names(query string, args ...any) ([]string, error) {
	var out []string
	err := tx.rows(query, func(row scanner) error {
		var name string
		if err := row.Scan(&name); err != nil {
			return err
		}
		if !plainName().MatchString(name) {
			return fmt.Errorf("store: the schema has the name %q, which no migration made", name)
		}
		out = append(out, name)
		return nil
	}, args...)
	return out, err
}

// selectAll reads a table in a fixed order.
func (t table) selectAll() string {
	return "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.name + " ORDER BY " + strings.Join(t.order, ", ")
}

// insert adds n rows at once.
func (t table) insert(n int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(t.columns)), ", ") + ")"
	return "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES " +
		strings.TrimSuffix(strings.Repeat(row+", ", n), ", ")
}

// derived tables hold what follows from others, and only for the database that
// they are in: they are neither saved nor loaded.
func derived(name string) bool {
	return name == "ledger_checkpoint" || name == "ledger_checkpoint_balance"
}
