package store

import (
	"io/fs"
	"path/filepath"
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
