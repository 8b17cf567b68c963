//test:plain-package It only computes: there is one goroutine.

package verdictcache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/work/sandbox"
)

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

func newVerdicts(t *testing.T) *Cache {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "verdicts"), func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func same(earlier []byte) func([]byte) bool {
	return func(other []byte) bool { return bytes.Equal(earlier, other) }
}

func mustPut(t *testing.T, c *Cache, key, payload string) {
	t.Helper()
	if err := c.put([]byte(key), []byte(payload), []byte("log of "+payload), same([]byte(payload))); err != nil {
		t.Fatal(err)
	}
}

// TestCacheKeepsWhatItWasGiven: an entry is found by its own key only,
// and only the user can read it.
func TestCacheKeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	mustPut(t, c, `{"a":1}`, "one")
	mustPut(t, c, `{"a":2}`, "two")
	e := c.get([]byte(`{"a":1}`))
	if e == nil || string(e.Payload) != "one" || string(e.Log) != "log of one" || e.Key != canon.Digest([]byte(`{"a":1}`)) || e.MadeAt != "2026-02-01T12:00:00.000Z" {
		t.Fatalf("%+v", e)
	}
	if c.get([]byte(`{"a":3}`)) != nil {
		t.Error("an entry that was never made")
	}
	for path, want := range map[string]os.FileMode{c.dir: 0o700, c.file([]byte(`{"a":1}`)): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

// TestPoisonedEntriesAreIgnored: whatever lies under the name of a key and was
// not written for it counts as nothing, and is gone afterwards.
func TestPoisonedEntriesAreIgnored(t *testing.T) {
	t.Parallel()
	key, other := []byte(`{"repository":"mine"}`), []byte(`{"repository":"theirs"}`)
	rewrite := func(change func([]byte) []byte) func(*testing.T, *Cache) {
		return func(t *testing.T, c *Cache) {
			text, err := os.ReadFile(c.file(key))
			if err == nil {
				err = os.WriteFile(c.file(key), change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// resealed is what a program writes that knows the format.
	resealed := func(old, replacement string) func([]byte) []byte {
		return func(text []byte) []byte {
			_, rest, _ := bytes.Cut(text, []byte("\n"))
			rest = bytes.Replace(rest, []byte(old), []byte(replacement), 1)
			return append([]byte(magic+canon.Digest(rest)+"\n"), rest...)
		}
	}
	tests := map[string]func(*testing.T, *Cache){
		"one bit":          rewrite(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"cut":              rewrite(func(b []byte) []byte { return b[:len(b)-3] }),
		"longer":           rewrite(func(b []byte) []byte { return append(b, 'x') }),
		"empty":            rewrite(func([]byte) []byte { return nil }),
		"another result":   rewrite(func(b []byte) []byte { return bytes.Replace(b, []byte("fail"), []byte("pass"), 1) }),
		"no head":          rewrite(func([]byte) []byte { return []byte(magic + canon.Digest([]byte("x")) + "\nx") }),
		"wrong lengths":    rewrite(resealed(`"payload_bytes":4`, `"payload_bytes":5`)),
		"negative length":  rewrite(resealed(`"payload_bytes":4`, `"payload_bytes":-4`)),
		"of another key":   rewrite(resealed(`"mine"`, `"more"`)),
		"from the future":  rewrite(resealed("2026-02-01T12", "2026-02-01T13")),
		"of last week":     rewrite(resealed("2026-02-01T12", "2026-01-25T12")),
		"more in the head": rewrite(resealed(`{"key"`, `{"extra":1,"key"`)),
		"readable for the group": func(t *testing.T, c *Cache) {
			if err := os.Chmod(c.file(key), 0o640); err != nil {
				t.Fatal(err)
			}
		},
		"writable for all": func(t *testing.T, c *Cache) {
			if err := os.Chmod(c.file(key), 0o602); err != nil {
				t.Fatal(err)
			}
		},
		"the entry of another repository": func(t *testing.T, c *Cache) {
			mustPut(t, c, string(other), "pass")
			if err := os.Rename(c.file(other), c.file(key)); err != nil {
				t.Fatal(err)
			}
		},
		"a link to another entry": func(t *testing.T, c *Cache) {
			mustPut(t, c, string(other), "pass")
			if err := errors.Join(os.Remove(c.file(key)), os.Symlink(c.file(other), c.file(key))); err != nil {
				t.Fatal(err)
			}
		},
		"a directory": func(t *testing.T, c *Cache) {
			if err := errors.Join(os.Remove(c.file(key)), os.Mkdir(c.file(key), 0o700)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, poison := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newVerdicts(t)
			mustPut(t, c, string(key), "fail")
			if c.get(key) == nil {
				t.Fatal("the entry is not there: the test would prove nothing")
			}
			poison(t, c)
			if e := c.get(key); e != nil {
				t.Errorf("got %q", e.Payload)
			}
			if _, err := os.Lstat(c.file(key)); err == nil {
				t.Error("it is still there")
			}
			mustPut(t, c, string(key), "fail") // and is made anew
			if c.get(key) == nil {
				t.Error("it is not made anew")
			}
		})
	}
}

// TestCacheIsTheUsersAlone: a directory that others can write to is not
// used, whatever is in it.
func TestCacheIsTheUsersAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o770, 0o707, 0o755} {
		dir := filepath.Join(t.TempDir(), "verdicts")
		if _, err := Open(dir, time.Now); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, time.Now); err == nil {
			t.Errorf("mode %o is accepted", mode)
		}
	}
	dir := filepath.Join(t.TempDir(), "verdicts")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, time.Now); err == nil {
		t.Error("a link is accepted")
	}
}

// TestDisagreementIsRemembered: what came out differently once is never given
// from the cache, however often it comes out the same afterwards.
func TestDisagreementIsRemembered(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	mustPut(t, c, `{}`, "pass")
	mustPut(t, c, `{}`, "pass")
	if c.get([]byte(`{}`)) == nil {
		t.Fatal("an agreement is not kept")
	}
	for _, payload := range []string{"fail", "pass", "pass"} {
		mustPut(t, c, `{}`, payload)
		if e := c.get([]byte(`{}`)); e != nil {
			t.Errorf("after %s: %q", payload, e.Payload)
		}
	}
}

// TestCacheIsBounded: the least recently used goes first, and what is
// no entry goes as well.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newVerdicts(t)
	for i := range 5 {
		key := fmt.Sprintf(`{"n":%d}`, i)
		mustPut(t, c, key, "x")
		when := noon.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(c.file([]byte(key)), when, when); err != nil {
			t.Fatal(err)
		}
	}
	stranger := filepath.Join(c.dir, "stranger")
	if err := errors.Join(os.WriteFile(stranger, make([]byte, 1<<16), 0o600), os.Chtimes(stranger, noon.AddDate(0, 0, -1), noon.AddDate(0, 0, -1))); err != nil {
		t.Fatal(err)
	}
	if err := c.trim(1<<15, 3); err != nil {
		t.Fatal(err)
	}
	var left string
	for i := range 5 {
		if c.get([]byte(fmt.Sprintf(`{"n":%d}`, i))) != nil {
			left += fmt.Sprint(i)
		}
	}
	if _, err := os.Stat(stranger); left != "234" || err == nil {
		t.Errorf("left %s, the stranger: %v", left, err)
	}
	if err := c.put([]byte(`{"n":9}`), make([]byte, maxEntry), nil, same(nil)); err != nil || c.get([]byte(`{"n":9}`)) != nil {
		t.Errorf("an entry that is too large: %v", err)
	}
}

// TestKeyNamesEverything: a change of any input is another key.
func TestKeyNamesEverything(t *testing.T) {
	t.Parallel()
	base := func() Key {
		return Key{Format: 1, Kind: KindBase, BaselineTree: "t", Commands: []string{"a", "b"}, TestsRule: "extend", HeldOut: []HeldOut{{"p", "d"}}, Repeat: 1,
			Sandbox: sandbox.Description{Driver: "bwrap", Config: map[string]string{"k": "v"}}}
	}
	seen := map[string]string{}
	for name, change := range map[string]func(*Key){
		"nothing":  func(*Key) {},
		"kind":     func(k *Key) { k.Kind = KindVerdict },
		"baseline": func(k *Key) { k.BaselineTree = "u" },
		"patch":    func(k *Key) { k.PatchSHA256 = "p" },
		"head":     func(k *Key) { k.HeadTree = "h" },
		"commands": func(k *Key) { k.Commands = []string{"a b"} },
		"order":    func(k *Key) { k.Commands = []string{"b", "a"} },
		"rule":     func(k *Key) { k.TestsRule = "free" },
		"held out": func(k *Key) { k.HeldOut[0].SHA256 = "e" },
		"place":    func(k *Key) { k.HeldOut[0].Path = "q" },
		"repeat":   func(k *Key) { k.Repeat = 2 },
		"limits":   func(k *Key) { k.Limits.MemoryMB = 1 },
		"verifier": func(k *Key) { k.Verifier.SHA256 = "v" },
		"driver":   func(k *Key) { k.Sandbox.Version = "2" },
		"config":   func(k *Key) { k.Sandbox.Config["k"] = "w" },
		"host":     func(k *Key) { k.Host = "h" },
	} {
		k := base()
		change(&k)
		text, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if earlier, twice := seen[string(text)]; twice {
			t.Errorf("%s and %s have one key", name, earlier)
		}
		seen[string(text)] = name
	}
}

// FuzzReadVerdict: bytes of a file that is no entry never make one.
func FuzzReadVerdict(f *testing.F) {
	f.Add([]byte(`{"status":"pass"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := readVerdict(text); err == nil && !settled(v) {
			t.Errorf("%+v", v)
		}
	})
}
