package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// fill puts something of everything into a store.
func fill(t *testing.T, s *store.Store) {
	t.Helper()
	for i := range 150 {
		appendEvent(t, s, store.Event{Stream: fmt.Sprintf("run:%d:events", i%7), Type: "note", Principal: "p",
			Payload: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"é ? ' \" \\ <&> \u2028"}`, i))})
	}
	update(t, s, func(tx *store.Tx) error {
		if err := tx.Trim("run:1:events", 3); err != nil {
			return err
		}
		if err := tx.SaveIdempotency(key, "sha256:1", store.Response{Status: 201, Body: []byte{0, 255, '"', '\\', '\n'}}); err != nil {
			return err
		}
		return tx.PutToken(store.Token{ID: "tok_1", ExpiresAt: 1<<62 + 1, Scopes: []string{"a", "b"}})
	})
}

func backup(t *testing.T, s *store.Store) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup.jsonl")
	if err := s.Backup(t.Context(), path); err != nil {
		t.Fatalf("backup: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// rows is a backup without what says where and when it was made.
func rows(content []byte) string {
	_, rest, _ := bytes.Cut(content, []byte("\n"))
	return string(rest[:bytes.LastIndex(rest, []byte(`{"rows"`))])
}

// TestBackupAcross: a backup restores into the same kind of database and into
// the other one, and gives the same backup again.
func TestBackupAcross(t *testing.T) {
	t.Parallel()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := storetest.Open(t, dsn, store.Options{})
		fill(t, s)
		path, content := backup(t, s)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the backup: %v, %v", info, err)
		}
		if err := s.Backup(t.Context(), path); err == nil {
			t.Error("a backup overwrote another")
		}
		storetest.EachDSN(t, func(t *testing.T, to string) {
			if err := store.Restore(t.Context(), to, path); err != nil {
				t.Fatalf("restore: %v", err)
			}
			other := storetest.Open(t, to, store.Options{})
			if _, again := backup(t, other); rows(again) != rows(content) {
				t.Errorf("the backup of what was restored differs:\n%s\n%s", again, content)
			}
			noGaps(t, other)
			if e := appendEvent(t, other, store.Event{Stream: "run:1:events", Type: "note"}); e.Seq != 23 {
				t.Errorf("the stream goes on at %d", e.Seq)
			}
			if err := store.Restore(t.Context(), to, path); err == nil {
				t.Error("restored over a store that is in use or not empty")
			}
		})
	})
}

// TestRestoreRefuses: a file that is not a whole backup of a known schema leaves
// no trace.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	fill(t, s)
	_, content := backup(t, s)
	lines := strings.SplitAfter(string(content), "\n")
	tests := map[string]string{
		"empty":         "",
		"not a backup":  "hello\n",
		"header only":   lines[0],
		"cut off":       strings.Join(lines[:len(lines)-2], ""),
		"cut in a line": string(content[:len(content)/2]),
		"row removed":   strings.Join(append(append([]string{}, lines[:3]...), lines[4:]...), ""),
		"row changed":   strings.Replace(string(content), `"note"`, `"nose"`, 1),
		"blank line":    "\n" + string(content),
		"other format":  strings.Replace(string(content), "remit.store/1", "remit.store/2", 1),
		"other schema":  strings.Replace(string(content), `"version":1,`, `"version":8888,`, 1),
		"more behind":   string(content) + lines[3],
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, to := filepath.Join(dir, "backup.jsonl"), filepath.Join(dir, "store.db")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := store.Restore(t.Context(), to, path); err == nil {
				t.Fatal("restored")
			}
			into := storetest.Open(t, to, store.Options{})
			if got := readAll(t, into, "run:0:events"); len(got) != 0 {
				t.Errorf("%d events were left", len(got))
			}
		})
	}
	t.Run("not empty", func(t *testing.T) {
		t.Parallel()
		path, _ := backup(t, s)
		to := storetest.SQLite(t)
		into := storetest.Open(t, to, store.Options{})
		appendEvent(t, into, store.Event{Stream: "own", Type: "note"})
		if err := into.Close(); err != nil {
			t.Fatal(err)
		}
		if err := store.Restore(t.Context(), to, path); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("error %v", err)
		}
	})
}
