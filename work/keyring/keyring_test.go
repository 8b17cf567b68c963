package keyring_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/attest"
	"remit/work/keyring"
)

func ring(t *testing.T) keyring.Ring {
	t.Helper()
	return keyring.Ring{Dir: filepath.Join(t.TempDir(), "keys")}
}

// TestKeyAtFirstUse: a key is made once, by however many ask at the same time,
// and lies where only its user can read it.
func TestKeyAtFirstUse(t *testing.T) {
	t.Parallel()
	r := ring(t)
	if _, err := r.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a key: %v", err)
	}
	var wg sync.WaitGroup
	keys := make([]*attest.PrivateKey, 8)
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = r.Key(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k == nil || k.Public() != keys[0].Public() {
			t.Fatal("two keys were made")
		}
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, keyring.PrivateFile: 0o600, keyring.PublicFile: 0o644} {
		info, err := os.Stat(filepath.Join(r.Dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
	if entries, err := os.ReadDir(r.Dir); err != nil || len(entries) != 2 {
		t.Errorf("%d files (%v), want 2", len(entries), err)
	}
	text, err := os.ReadFile(filepath.Join(r.Dir, keyring.PublicFile))
	if err != nil {
		t.Fatal(err)
	}
	if public, err := attest.ParsePublicKey(text); err != nil || public != keys[0].Public() {
		t.Errorf("%v, %v", public, err)
	}
	if _, err := r.New(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key is made over another one: %v", err)
	}
}

// TestReplace: the old key stays, and the new one signs.
func TestReplace(t *testing.T) {
	t.Parallel()
	r := ring(t)
	old, err := r.Key()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Replace(time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	now, err := r.Load()
	if err != nil || now.Public() == old.Public() {
		t.Errorf("the key is the old one (%v)", err)
	}
	text, err := os.ReadFile(r.PrivatePath() + ".20260201T120000.000Z")
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := attest.ParsePrivateKey(text); err != nil || kept.Public() != old.Public() {
		t.Errorf("the old key is lost (%v)", err)
	}
}

// TestKeysThatProveNothing: what others can read or change is refused. The first
// row is the control.
func TestKeysThatProveNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(r keyring.Ring) error
		want  string
	}{
		{"control", func(keyring.Ring) error { return nil }, ""},
		{"readable by a group", func(r keyring.Ring) error { return os.Chmod(r.PrivatePath(), 0o640) }, "gives rights to others"},
		{"readable by all", func(r keyring.Ring) error { return os.Chmod(r.PrivatePath(), 0o604) }, "gives rights to others"},
		{"a directory that others can write", func(r keyring.Ring) error { return os.Chmod(r.Dir, 0o770) }, "gives rights to others"},
		{"a directory that others can look into", func(r keyring.Ring) error { return os.Chmod(r.Dir, 0o755) }, "gives rights to others"},
		{"a home that others can write", func(r keyring.Ring) error { return os.Chmod(filepath.Dir(r.Dir), 0o777) }, "can exchange the directory"},
		{"a home that a group can write", func(r keyring.Ring) error { return os.Chmod(filepath.Dir(r.Dir), 0o775) }, "can exchange the directory"},
		{"a sticky home", func(r keyring.Ring) error { return os.Chmod(filepath.Dir(r.Dir), 0o777|fs.ModeSticky) }, ""},
		{"no key", func(r keyring.Ring) error { return os.WriteFile(r.PrivatePath(), []byte("key\n"), 0o600) }, "not one OpenSSH private key"},
		{"endless", func(r keyring.Ring) error { return os.Truncate(r.PrivatePath(), 1<<20) }, "larger than"},
		{"a pipe", func(r keyring.Ring) error {
			return errors.Join(os.Remove(r.PrivatePath()), unix.Mkfifo(r.PrivatePath(), 0o600))
		}, "not a regular file"},
		{"another user's", func(r keyring.Ring) error {
			if os.Geteuid() != 0 {
				return errors.Join(os.Remove(r.PrivatePath()), os.Symlink("/etc/passwd", r.PrivatePath()))
			}
			return os.Chown(r.PrivatePath(), 12345, 12345)
		}, "belongs to another user"},
		{"another user's directory", func(r keyring.Ring) error {
			if os.Geteuid() != 0 {
				return errors.Join(os.RemoveAll(r.Dir), os.Symlink("/etc/ssl", r.Dir), os.ErrNotExist)
			}
			return os.Chown(r.Dir, 12345, 12345)
		}, "belongs to another user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := ring(t)
			if _, err := r.Key(); err != nil {
				t.Fatal(err)
			}
			switch err := tt.spoil(r); {
			case errors.Is(err, os.ErrNotExist):
				t.Skip("only root can give a directory away")
			case err != nil:
				t.Fatal(err)
			}
			key, err := r.Key()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && key != nil {
				t.Error("a key comes with the error")
			}
		})
	}
}

// TestTrust: the list grows by names that were given, once for each key, and a
// list that is not understood is not added to.
func TestTrust(t *testing.T) {
	t.Parallel()
	r, other := ring(t), ring(t)
	if signers, err := r.Signers(); signers != nil || err != nil {
		t.Errorf("without a list: %v, %v", signers, err)
	}
	key, err := other.Key()
	if err != nil {
		t.Fatal(err)
	}
	trusted := func() string {
		t.Helper()
		signers, err := r.Signers()
		if err != nil {
			t.Fatal(err)
		}
		name, _ := signers.Find(key.Public(), attest.NamespaceReceipt, time.Time{})
		return name
	}
	for _, tt := range []struct{ name, before string }{{"alice", ""}, {"bob", "alice"}} {
		if before, err := r.Trust(tt.name, key.Public()); err != nil || before != tt.before || trusted() != "alice" {
			t.Errorf("trust %s: before %q (%v), now %q", tt.name, before, err, trusted())
		}
	}
	if _, err := r.Trust("a b", key.Public()); err == nil {
		t.Error("two words are a name")
	}
	if err := os.WriteFile(r.SignersPath(), []byte("# no line end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Trust("carol", key.Public()); err != nil || trusted() != "carol" {
		t.Errorf("a list without a last line end: %v, %q", err, trusted())
	}
	for _, spoiled := range []struct {
		name  string
		spoil func() error
	}{
		{"writable by others", func() error { return os.Chmod(r.SignersPath(), 0o622) }},
		{"in a home that others can write", func() error { return os.Chmod(filepath.Dir(r.Dir), 0o777) }},
		{"not understood", func() error { return os.WriteFile(r.SignersPath(), []byte("carol cert-authority x y\n"), 0o600) }},
	} {
		name := spoiled.name
		if err := spoiled.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Signers(); err == nil {
			t.Errorf("a list that is %s is used", name)
		}
		if _, err := r.Trust("dave", key.Public()); err == nil {
			t.Errorf("a list that is %s is added to", name)
		}
		if err := errors.Join(os.Chmod(r.SignersPath(), 0o600), os.Chmod(filepath.Dir(r.Dir), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
}
