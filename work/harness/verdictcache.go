package harness

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/work/sandbox"
	"remit/work/verify"
)

// The verdict cache keeps what the verifier found out, so that the same
// question is not answered by minutes of work again. What is kept, and why no
// more:
//
//	base     the base phase. It depends on the baseline and the environment
//	         alone, and every attempt at a task asks for it. `remit run` reuses
//	         only this: the head phase is what a run proves, and stays a
//	         measurement of this run, with planted tests that nobody could
//	         foresee.
//	verdict  a whole verdict of `remit verify`, for the next `remit verify` of
//	         the same patch. A run never reads or writes these.
//
// Reproduce, audit and resume use neither. A result from the cache says so,
// with the digest of its key and when it was made: in the journal, the report,
// test.log and the output of the command.
//
// # Trust
//
// What the commands see of the host is named by the driver, from the inodes and
// times of files, each time that it is asked for: nothing about the host is
// remembered, so nothing can be out of date. It is looked at before the question
// and again before a result is kept.
//
// An entry is worth what its writer is worth, so the cache is a directory of
// the user's alone (0700, files 0600, checked on every read, no links), and
// nothing in a sandbox can see it: entries are made by this process from what
// it saw. Another repository has other keys. What runs without a sandbox is
// the user and can write anything, here as in a session; so with driver "none"
// the cache is not used, and emptied when such a run begins and when it ends.
// A digest over the entry finds damage, and the whole key inside of it finds an
// entry under another name; neither is a signature, and neither stops a
// program that runs as the user.

const (
	verdictMagic    = "remit-verdict-v1 "
	maxVerdictKey   = 4 << 20
	maxVerdictEntry = verify.MaxRecord + maxVerdictLog + maxVerdictKey + 1<<10
	maxVerdictLog   = 16 << 20
	maxVerdictBytes = 256 << 20 // all entries together
	maxVerdicts     = 2000
	// verdictAge bounds how long an entry counts. The key names the
	// environment as far as it can be seen; time bounds what cannot.
	verdictAge = 24 * time.Hour
)

// verdictCache is the cache of one home.
type verdictCache struct {
	dir   string
	clock func() time.Time
}

// origin says where a result comes from: a cache entry.
type origin struct {
	key    string // digest of the key
	madeAt string
}

// verdictEntry is what one file holds.
type verdictEntry struct {
	origin
	payload, log []byte
}

// verdictHead stands in front of payload and log. An entry without a payload
// says that two results under its key differed: such a key is not cached.
type verdictHead struct {
	Key          json.RawMessage `json:"key"` // in full
	MadeAt       string          `json:"made_at"`
	PayloadBytes int64           `json:"payload_bytes"`
	LogBytes     int64           `json:"log_bytes"`
}

// VerdictDir holds what the verifier found out, by the digest of everything
// that it depends on.
func (h Home) VerdictDir() string { return filepath.Join(h.CacheDir(), "verdicts") }

// testingDir holds Go's package testing, compiled as the control needs it.
func (h Home) testingDir() string { return filepath.Join(h.CacheDir(), "testing") }

// openVerdicts opens the cache and makes it if there is none.
func openVerdicts(h Home, clock func() time.Time) (*verdictCache, error) {
	dir := h.VerdictDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the verdict cache: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the verdict cache: %w", err)
	}
	if !info.IsDir() || !private(info) {
		return nil, fmt.Errorf("the verdict cache %s is not a directory of this user alone", dir)
	}
	return &verdictCache{dir, clock}, nil
}

// private reports whether only this user can have written a file.
func private(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

// get returns the entry of a key, nil if there is none that counts. One that
// does not hold is removed.
func (c *verdictCache) get(key []byte) *verdictEntry {
	e, err := c.read(key)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(c.file(key)) // if it stays it is refused again
		}
		return nil
	}
	if len(e.payload) == 0 {
		return nil
	}
	now := c.clock()
	_ = os.Chtimes(c.file(key), now, now) // the order of trimming, and nothing else
	return e
}

// drop removes the entry of a key.
func (c *verdictCache) drop(key []byte) { _ = os.Remove(c.file(key)) }

func (c *verdictCache) file(key []byte) string {
	return filepath.Join(c.dir, strings.TrimPrefix(canon.Digest(key), "sha256:"))
}

// read reads and checks an entry.
func (c *verdictCache) read(key []byte) (*verdictEntry, error) {
	name := c.file(key)
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !private(info) || info.Size() > maxVerdictEntry {
		return nil, fmt.Errorf("%s is not a file of this user alone, or too large", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxVerdictEntry+1))
	if err != nil {
		return nil, err
	}
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(first) != verdictMagic+canon.Digest(rest) {
		return nil, fmt.Errorf("%s is damaged", name)
	}
	line, body, _ := bytes.Cut(rest, []byte("\n"))
	var head verdictHead
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(head.Key, key) || head.PayloadBytes < 0 || head.LogBytes < 0 || head.PayloadBytes > int64(len(body)) || head.PayloadBytes+head.LogBytes != int64(len(body)) {
		return nil, fmt.Errorf("%s is the entry of another key", name)
	}
	made, err := time.Parse(journal.TimeFormat, head.MadeAt)
	if age := c.clock().Sub(made); err != nil || age > verdictAge || age < 0 {
		return nil, fmt.Errorf("%s is too old, or from the future", name)
	}
	return &verdictEntry{origin{canon.Digest(key), head.MadeAt}, body[:head.PayloadBytes], body[head.PayloadBytes:]}, nil
}

// put keeps a result that was just made. When there is another one under the
// key that is not the same, the key has no result: what came out differently
// once is asked anew every time.
func (c *verdictCache) put(key, payload, log []byte, same func(earlier []byte) bool) error {
	if len(payload) == 0 || len(payload) > verify.MaxRecord || len(log) > maxVerdictLog || len(key) > maxVerdictKey {
		return nil // too large to keep
	}
	if earlier, err := c.read(key); err == nil {
		if len(earlier.payload) == 0 {
			return nil
		}
		if !same(earlier.payload) {
			payload, log = nil, nil
		}
	}
	head, err := canon.Marshal(verdictHead{key, stamp(c.clock()), int64(len(payload)), int64(len(log))})
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", err)
	}
	rest := slices.Concat(head, []byte("\n"), payload, log)
	f, err := os.CreateTemp(c.dir, newPrefix) // 0600
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", err)
	}
	_, err = f.Write(slices.Concat([]byte(verdictMagic+canon.Digest(rest)+"\n"), rest))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.file(key))
	}
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return c.trim(maxVerdictBytes, maxVerdicts)
}

// trim removes entries, least recently used first, until those left take at
// most so many bytes and files. What is no entry counts like one.
func (c *verdictCache) trim(maxBytes int64, maxFiles int) error {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("trimming the verdict cache: %w", err)
	}
	var all []fs.FileInfo
	var total int64
	for _, n := range names {
		info, err := n.Info()
		if err != nil {
			continue // removed by another process
		}
		if strings.HasPrefix(n.Name(), newPrefix) && c.clock().Sub(info.ModTime()) < time.Hour {
			continue // being written
		}
		all, total = append(all, info), total+info.Size()
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for i, info := range all {
		if total <= maxBytes && len(all)-i <= maxFiles {
			return nil
		}
		if err := os.RemoveAll(filepath.Join(c.dir, info.Name())); err != nil {
			return fmt.Errorf("trimming the verdict cache: %w", err)
		}
		total -= info.Size()
	}
	return nil
}

// Distrust empties the verdict cache if the driver confines nothing: what runs
// under it is the user and can have written entries. It is called before and
// after such a process; a cache that cannot be emptied is an error.
func (h Home) Distrust(d sandbox.Driver) error {
	if d == nil || d.Describe().Driver != sandbox.DriverNone {
		return nil
	}
	for _, dir := range []string{h.VerdictDir(), h.testingDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying the verdict cache: %w", err)
		}
	}
	return nil
}

// keyOf encodes a key. The digest of the text names the entry.
func keyOf(k verdictKey) ([]byte, error) {
	text, err := canon.Marshal(k)
	if err == nil && len(text) > maxVerdictKey {
		err = fmt.Errorf("the key has %d bytes", len(text))
	}
	return text, err
}

// shortKey is how a person is told of a key.
func shortKey(digest string) string {
	raw, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(raw) < 6 {
		return digest
	}
	return hex.EncodeToString(raw[:6])
}
