package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Limits of a restore.
const (
	maxBackupLine = 64 << 20 // bytes: above the largest response that is stored
	restoreRows   = 64       // rows a statement
)

// Restore loads a backup into the database that dsn names, which must be new or
// empty, brings its schema up to date and checks it. It loads everything or
// nothing. A backup of one database loads into the other.
func Restore(ctx context.Context, dsn, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer f.Close()
	header, rows, err := checkBackup(f)
	if err != nil {
		return fmt.Errorf("restore %q: %w", path, err)
	}
	s, err := open(ctx, dsn, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.restoreSchema(ctx, header); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	err = s.Update(ctx, func(tx *Tx) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return tx.load(f, rows)
	})
	if err != nil {
		return fmt.Errorf("restore %q: %w", path, err)
	}
	if err := s.migrate(ctx, newestMigration); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	problems, err := s.Integrity(ctx)
	if err != nil {
		return fmt.Errorf("restore: check the result: %w", err)
	}
	if len(problems) > 0 {
		return reason.Errorf(reason.StoreUnavailable, "restore: the restored store has %d problems: %s", len(problems), problems[0])
	}
	return nil
}

// badBackup says what is wrong with the file.
func badBackup(format string, args ...any) error {
	return reason.Errorf(reason.RequestInvalid, "not a whole backup: "+format, args...)
}

// checkBackup reads the file once, to its end, and returns its first line and
// the number of its rows.
func checkBackup(r io.Reader) (backupHeader, int64, error) {
	var header backupHeader
	lines := backupLines(r)
	if !lines.Scan() {
		return header, 0, badBackup("it is empty")
	}
	if err := strictJSON(lines.Bytes(), &header); err != nil || header.Format != backupFormat {
		return header, 0, badBackup("line 1 is not the header of a %s file", backupFormat)
	}
	sum := sha256.New()
	var rows int64
	last := bytes.Clone(lines.Bytes())
	for lines.Scan() {
		sum.Write(append(last, '\n'))
		last = append(last[:0], lines.Bytes()...)
		if last[0] == '[' {
			rows++
		}
	}
	if err := lines.Err(); err != nil {
		return header, 0, badBackup("%w", err)
	}
	var trailer backupTrailer
	if err := strictJSON(last, &trailer); err != nil {
		return header, 0, badBackup("it has no last line: it was cut off")
	}
	var digest [sha256.Size]byte
	sum.Sum(digest[:0])
	if trailer.SHA256 != canon.DigestText(digest) || trailer.Rows != rows {
		return header, 0, badBackup("its content does not have the digest of its last line")
	}
	return header, rows, nil
}

// backupLines reads lines that are not empty.
func backupLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxBackupLine)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		i := bytes.IndexByte(data, '\n')
		switch {
		case i > 0:
			return i + 1, data[:i], nil
		case i == 0:
			return 0, nil, errors.New("it has an empty line")
		case atEOF && len(data) > 0:
			return 0, nil, errors.New("its last line has no end")
		}
		return 0, nil, nil
	})
	return lines
}

func strictJSON(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// restoreSchema brings an empty database to the schema of the backup.
func (s *Store) restoreSchema(ctx context.Context, header backupHeader) error {
	known, err := migrations()
	if err != nil {
		return err
	}
	var want []migration
	for _, m := range header.Migrations {
		want = append(want, migration{version: m.Version, name: m.Name, sha256: m.SHA256})
	}
	if len(want) == 0 {
		return badBackup("it names no migration")
	}
	if _, err := pending(want, known, 0); err != nil {
		return err
	}
	if err := s.db.migrate(ctx, known, want[len(want)-1].version); err != nil {
		return err
	}
	return s.View(ctx, func(tx *Tx) error {
		applied, err := tx.applied()
		if err != nil {
			return err
		}
		same := func(a, b migration) bool { return a.version == b.version && a.sha256 == b.sha256 }
		if !slices.EqualFunc(applied, want, same) {
			return reason.Errorf(reason.Conflict, "the database has another schema than the backup: restore into a new one")
		}
		tables, err := tx.tables()
		if err != nil {
			return err
		}
		for _, t := range tables {
			var n int64
			if err := tx.row("SELECT COUNT(*) FROM " + t.name).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return reason.Errorf(reason.Conflict, "the database is not empty (%s has %d rows): restore into a new one", t.name, n)
			}
		}
		return nil
	})
}

// load inserts the rows of a backup that checkBackup has read.
func (tx *Tx) load(r io.Reader, want int64) error {
	known, err := tx.tables()
	if err != nil {
		return err
	}
	after, err := tx.deferReferences()
	if err != nil {
		return err
	}
	lines := backupLines(r)
	l := loader{tx: tx}
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		var err error
		switch {
		case n == 1:
		case line[0] == '[':
			err = l.row(line)
		case bytes.HasPrefix(line, []byte(`{"table":`)):
			err = l.next(line, known)
		default:
			err = l.flush() // the last line
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if l.rows != want {
		return badBackup("it changed while it was read")
	}
	return after()
}

// loader gathers rows of one table into statements.
type loader struct {
	tx    *Tx
	table table
	args  []any
	held  int
	rows  int64
}

func (l *loader) next(line []byte, known []table) error {
	if err := l.flush(); err != nil {
		return err
	}
	var header backupTable
	if err := strictJSON(line, &header); err != nil {
		return badBackup("%w", err)
	}
	i := slices.IndexFunc(known, func(t table) bool { return t.name == header.Table })
	if i < 0 || !sameNames(known[i].columns, header.Columns) {
		return badBackup("table %q is not one of its schema", header.Table)
	}
	l.table = table{name: header.Table, columns: header.Columns}
	return nil
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func (l *loader) row(line []byte) error {
	var values []any
	if err := strictJSON(line, &values); err != nil || l.table.name == "" || len(values) != len(l.table.columns) {
		return badBackup("it is not a row of table %q", l.table.name)
	}
	for i, v := range values {
		arg, err := backupValue(v)
		if err != nil {
			return err
		}
		if l.table.name == "ledger_transfer" && l.table.columns[i] == "place" {
			arg = int64(0) // it is an order of the database that was saved
		}
		l.args = append(l.args, arg)
	}
	l.held++
	l.rows++
	if l.held == restoreRows {
		return l.flush()
	}
	return nil
}

func backupValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, string:
		return v, nil
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return nil, badBackup("%s is not a 64-bit integer", v)
		}
		return n, nil
	case map[string]any:
		if text, ok := v["b"].(string); ok && len(v) == 1 {
			var b backupBytes
			if err := json.Unmarshal([]byte(`{"b":"`+text+`"}`), &b); err == nil && !strings.ContainsAny(text, "\"\\") {
				return b.B, nil
			}
		}
	}
	return nil, badBackup("a value is neither integer, text, bytes nor null")
}

func (l *loader) flush() error {
	if l.held == 0 {
		return nil
	}
	_, err := l.tx.exec(l.table.insert(l.held), l.args...)
	l.args, l.held = l.args[:0], 0
	return err
}

// deferReferences lets rows arrive in any order: foreign keys are checked at
// the end, by SQLite at COMMIT and by PostgreSQL in what is returned.
func (tx *Tx) deferReferences() (after func() error, err error) {
	if tx.dialect == "sqlite" {
		_, err := tx.exec("PRAGMA defer_foreign_keys = ON")
		return func() error { return nil }, err
	}
	var alter []string
	err = tx.rows(`SELECT format('ALTER TABLE %I ALTER CONSTRAINT %I', r.relname, c.conname)
		FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
		WHERE c.contype = 'f' AND NOT c.condeferrable AND c.connamespace = CAST(current_schema() AS regnamespace)`,
		func(row scanner) error {
			var text string
			err := row.Scan(&text)
			alter = append(alter, text)
			return err
		})
	if err != nil {
		return nil, err
	}
	each := func(suffix string) error {
		for _, text := range alter {
			if _, err := tx.exec(text + suffix); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each(" DEFERRABLE INITIALLY DEFERRED"); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := tx.exec("SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
			return err
		}
		return each(" NOT DEFERRABLE")
	}, nil
}
