package store

import (
	"fmt"
	"regexp"
	"strings"
)

// table is what the catalogue of the database says about one table.
type table struct {
	name    string
	columns []string // in the order of their definition
	order   []string // the primary key, or all columns
}

// plainName is what a name must look like to be put into a statement.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

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
		if !plainName.MatchString(name) {
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
