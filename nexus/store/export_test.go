package store

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"strings"
)

// What tests of this package may reach that nobody else may.

func (tx *Tx) Exec(query string, args ...any) (int64, error) { return tx.exec(query, args...) }
func (tx *Tx) Row(query string, args ...any) interface{ Scan(...any) error } {
	return tx.row(query, args...)
}
func (tx *Tx) Rows(query string, scan func(interface{ Scan(...any) error }) error, args ...any) error {
	return tx.rows(query, func(s scanner) error { return scan(s) }, args...)
}
func (tx *Tx) Lock() string { return tx.lock() }

var Rebind = rebind

// AdvisoryMigration is the lock that a migration waits for.
const AdvisoryMigration = advisoryMigration

// MigrationFiles is where the migrations are.
var MigrationFiles fs.FS = migrationFiles

// LockPath is the file that keeps a second process away.
func LockPath(path string) string { return filepath.Clean(path) + ".lock" }

// Later makes a write that need not be sent at once.
func (tx *Tx) Later(none, taken error, query string, args ...any) error {
	return tx.later(change{doing: "later", none: none, taken: taken}, query, args...)
}

// AskNumber asks for one integer.
func (tx *Tx) AskNumber(query string, args ...any) Answer[int64] {
	return ask(tx, func(s scanner) (n int64, err error) { err = s.Scan(&n); return n, err }, query, args...)
}

// PlanOf tells how the database would answer the one query of ask, which runs, too.
func (tx *Tx) PlanOf(ask func(*Tx) error) (string, error) {
	seen := &spying{connection: tx.conn, pipeline: tx.pipe}
	if tx.pipe == nil {
		tx.conn = seen
	} else {
		tx.pipe = seen
	}
	err := ask(tx)
	tx.conn, tx.pipe = seen.connection, seen.pipeline
	if err != nil {
		return "", err
	}
	verb, columns := "EXPLAIN QUERY PLAN ", 4
	if tx.dialect == "postgres" {
		verb, columns = "EXPLAIN ", 1
	}
	var plan strings.Builder
	err = tx.rows(verb+seen.text, func(s scanner) error {
		line := ""
		cells := make([]any, columns)
		for i := range cells {
			cells[i] = new(any)
		}
		cells[columns-1] = &line
		err := s.Scan(cells...)
		plan.WriteString(line + "\n")
		return err
	}, seen.args...)
	return plan.String(), err
}

// spying remembers the last query.
type spying struct {
	connection
	pipeline
	text string
	args []any
}

func (s *spying) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	s.text, s.args = query, args
	return s.connection.query(ctx, query, args)
}

func (s *spying) fly(ctx context.Context, list []*statement) (*sql.Rows, error) {
	last := list[len(list)-1]
	s.text, s.args = last.query, last.args
	return s.pipeline.fly(ctx, list)
}
