package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/nexus/store"
)

// TestServeBackup takes a store through a backup, a loss and a restore, and
// finds what was changed in it.
func TestServeBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, saved := filepath.Join(dir, "data"), filepath.Join(dir, "saved")
	command := func(code int, says string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program(), append([]string{"serve"}, args...)...)
		cmd.Env = append(os.Environ(), "REMIT_HOME="+dir)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != code || !strings.Contains(out.String()+errs.String(), says) {
			t.Fatalf("%v: %v, want code %d and %q\n%s%s", args, err, code, says, out.String(), errs.String())
		}
		return out.String()
	}
	for _, args := range [][]string{{"backup", saved}, {"check"}} { // looking at a store makes none
		command(3, "there is no store", append(args, "--data", data)...)
		if _, err := os.Stat(data); err == nil {
			t.Fatal("a store was made")
		}
	}
	st, err := store.Open(t.Context(), filepath.Join(data, "nexus.db"), store.Options{})
	if err == nil {
		err = st.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Append(store.Event{Stream: "nexus:test", Type: "note", Payload: json.RawMessage(`{"n":1}`), Principal: "user:x"})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	command(3, "stop the nexus first", "backup", saved, "--data", data)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	command(0, saved, "backup", saved, "--data", data)
	command(3, "output_exists", "backup", saved, "--data", data)
	command(3, "name a new directory", "restore", saved, "--data", data)

	again := filepath.Join(dir, "again")
	command(0, "restored", "restore", saved, "--data", again)
	command(0, "PASS", "check", "--data", again)
	var doc struct {
		Passed   bool
		Problems []string
	}
	if err := json.Unmarshal([]byte(command(0, "", "check", "--data", again, "--json")), &doc); err != nil || !doc.Passed || doc.Problems == nil {
		t.Errorf("%v: %+v", err, doc)
	}

	db, err := sql.Open("sqlite", filepath.Join(again, "nexus.db"))
	if err == nil {
		_, err = db.ExecContext(t.Context(), `UPDATE event SET payload = '{"n":2}' WHERE stream = 'nexus:test'`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	command(2, "does not have its digest", "check", "--data", again)

	text, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][]byte{"cut": text[:len(text)/2], "changed": bytes.Replace(text, []byte("user:x"), []byte("user:y"), 1)} {
		file, place := filepath.Join(dir, name), filepath.Join(dir, name+"-data")
		if err := os.WriteFile(file, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		command(3, "not a whole backup", "restore", file, "--data", place)
		if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
			t.Errorf("%s: %v %v is left", name, left, err)
		}
	}
}
