package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// TestFileModes: only the owner may read the store, its log and its directory.
func TestFileModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "nexus")
	path := filepath.Join(dir, "store.db")
	s := storetest.Open(t, path, store.Options{})
	table(t, s)
	for name, want := range map[string]os.FileMode{"": 0o700, "../../data": 0o700, "store.db": 0o600, "store.db-wal": 0o600,
		"store.db-shm": 0o600, "store.db.lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, want mode %o: %v", name, info, want, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	storetest.Open(t, path, store.Options{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file that others could read stays so: %v, %v", info, err)
	}
}

// TestOneOwner: a second store on the same file is refused while the first is
// open, and says why.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	first := storetest.Open(t, path, store.Options{})
	_, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if reason.CodeOf(err) != reason.StoreUnavailable || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("second owner: %v", err)
	}
	if err := first.Ping(t.Context()); err != nil {
		t.Errorf("the first owner: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Open(t, path, store.Options{}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFullDisk: a database that finds no room says so by a code of its own, and takes
// changes again when there is some.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	pages := func(most int) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx *store.Tx) error {
			var now int
			return tx.Row(fmt.Sprint("PRAGMA max_page_count = ", most)).Scan(&now)
		}); err != nil {
			t.Fatal(err)
		}
	}
	save := func() error {
		return s.Update(t.Context(), func(tx *store.Tx) error {
			return tx.SaveIdempotency(store.Key{Principal: "p", Method: "POST", Route: "/", Key: "k"}, "x", store.Response{Body: make([]byte, 1<<20)})
		})
	}
	pages(1) // as few as there are
	if err := save(); reason.CodeOf(err) != reason.StoreFull || !strings.Contains(err.Error(), "full") {
		t.Errorf("a full disk: %v", err)
	}
	pages(1 << 30)
	if err := save(); err != nil {
		t.Error(err)
	}
}

// TestPragmas: durability and references do not depend on defaults.
func TestPragmas(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	check := func(tx *store.Tx) error {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "trusted_schema": "0",
			"busy_timeout": "5000"} {
			var got string
			if err := tx.Row("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %s, want %s: %v", pragma, got, want, err)
			}
		}
		return nil
	}
	update(t, s, check)
	view(t, s, check)
}

// TestDSN: what is opened, and what is refused without giving anything away.
func TestDSN(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.db", "with space?mode=memory&x=%20#.db", "ünïcode.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := storetest.Open(t, path, store.Options{})
		table(t, s)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	const secret = "hunter2-and-more"
	for _, dsn := range []string{
		"", ":memory:", "sqlite:", "mysql://remit:" + secret + "@localhost/x",
		"postgres://remit:" + secret + "@127.0.0.1:1/x?connect_timeout=1",
		"postgres://remit:" + secret + "@127.0.0.1:notaport/x",
		"postgres://remit:" + secret + "@" + strings.Repeat("%", 3),
		"postgres://remit:" + secret + "@127.0.0.1:1/x?sslmode=nonsense",
	} {
		s, err := store.Open(t.Context(), dsn, store.Options{})
		if err == nil {
			s.Close()
			t.Errorf("%q was opened", dsn)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), secret) {
				t.Errorf("the password is in an error: %v", e)
			}
		}
	}
}

// TestDamage: Integrity names a changed payload, a gap and a missing head.
func TestDamage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		for range 4 {
			appendEvent(t, s, store.Event{Stream: "a", Type: "note"})
			appendEvent(t, s, store.Event{Stream: "b", Type: "note"})
		}
		noGaps(t, s)
		update(t, s, func(tx *store.Tx) error {
			for _, damage := range []string{
				`UPDATE event SET payload = '{"forged":1}' WHERE stream = 'a' AND seq = 2`,
				"DELETE FROM event WHERE stream = 'b' AND seq = 3",
				"UPDATE stream SET head = 9 WHERE name = 'a'",
			} {
				if n, err := tx.Exec(damage); n != 1 || err != nil {
					t.Errorf("%s: %d rows, %v", damage, n, err)
				}
			}
			return nil
		})
		problems, err := s.Integrity(t.Context())
		text := strings.Join(problems, "\n")
		for _, want := range []string{`stream "a": the payload of event 2`, `stream "a": 4 events`, `stream "b": 3 events`} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %q", want, text)
			}
		}
		if err != nil || len(problems) != 3 {
			t.Errorf("%d problems: %v", len(problems), err)
		}
	})
}

// TestDamagedFile: a page that was overwritten is found.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	s := storetest.Open(t, path, store.Options{})
	for range 200 {
		appendEvent(t, s, store.Event{Stream: "a", Type: "note", Principal: strings.Repeat("p", 500)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 3000), info.Size()-4096); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = store.Open(t.Context(), path, store.Options{})
	if err != nil {
		return // found at once
	}
	defer s.Close()
	if problems, err := s.Integrity(t.Context()); err == nil && len(problems) == 0 {
		t.Error("a damaged file was called sound")
	}
}
