// Package verdictcache keeps what the verifier found out, so that the same
// question is not answered by minutes of work again. What is kept, and why no
// more:
//
//	base     the base phase. It depends on the baseline and the environment
//	         alone, and every attempt at a task asks for it. `remit run` reuses
//	         only this: the head phase is what a run proves, and stays a
//	         measurement of this run, with planted tests that no change could
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
package verdictcache

import (
	"bytes"
	"cmp"
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
	"remit/work/verify"
)

// newPrefix marks a file that is being written.
const newPrefix = ".new-"

// MaxLog is how long the log of a result may be that is kept, in bytes.
const MaxLog = 16 << 20

const (
	magic      = "remit-verdict-v1 "
	maxKey     = 4 << 20
	maxEntry   = verify.MaxRecord + MaxLog + maxKey + 1<<10
	maxBytes   = 256 << 20 // all entries together
	maxEntries = 2000
	// maxAge bounds how long an entry counts. The key names the
	// environment as far as it can be seen; time bounds what cannot.
	maxAge = 24 * time.Hour
)

// Cache is the cache of one home.
type Cache struct {
	dir   string
	clock func() time.Time
}

// Origin says where a result comes from: a cache entry.
type Origin struct {
	Key    string // digest of the key
	MadeAt string
}

// Entry is what one file holds.
type Entry struct {
	Origin
	Payload, Log []byte
}

// entryHead stands in front of payload and log. An entry without a payload
// says that two results under its key differed: such a key is not cached.
type entryHead struct {
	Key          json.RawMessage `json:"key"` // in full
	MadeAt       string          `json:"made_at"`
	PayloadBytes int64           `json:"payload_bytes"`
	LogBytes     int64           `json:"log_bytes"`
}

// Open opens the cache in dir and makes it if there is none.
func Open(dir string, clock func() time.Time) (*Cache, error) {
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
	return &Cache{dir, clock}, nil
}

// private reports whether only this user can have written a file.
func private(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

// get returns the entry of a key, nil if there is none that counts. One that
// does not hold is removed.
func (c *Cache) get(key []byte) *Entry {
	e, err := c.read(key)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(c.file(key)) // if it stays it is refused again
		}
		return nil
	}
	if len(e.Payload) == 0 {
		return nil
	}
	now := c.clock()
	_ = os.Chtimes(c.file(key), now, now) // the order of trimming, and nothing else
	return e
}

// Drop removes the entry of a key.
func (c *Cache) Drop(key []byte) { _ = os.Remove(c.file(key)) }

func (c *Cache) file(key []byte) string {
	return filepath.Join(c.dir, strings.TrimPrefix(canon.Digest(key), "sha256:"))
}

// read reads and checks an entry.
func (c *Cache) read(key []byte) (*Entry, error) {
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
	if !info.Mode().IsRegular() || !private(info) || info.Size() > maxEntry {
		return nil, fmt.Errorf("%s is not a file of this user alone, or too large", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return nil, err
	}
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(first) != magic+canon.Digest(rest) {
		return nil, fmt.Errorf("%s is damaged", name)
	}
	line, body, _ := bytes.Cut(rest, []byte("\n"))
	var head entryHead
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(head.Key, key) || head.PayloadBytes < 0 || head.LogBytes < 0 || head.PayloadBytes > int64(len(body)) || head.PayloadBytes+head.LogBytes != int64(len(body)) {
		return nil, fmt.Errorf("%s is the entry of another key", name)
	}
	made, err := time.Parse(journal.TimeFormat, head.MadeAt)
	if age := c.clock().Sub(made); err != nil || age > maxAge || age < 0 {
		return nil, fmt.Errorf("%s is too old, or from the future", name)
	}
	return &Entry{Origin{canon.Digest(key), head.MadeAt}, body[:head.PayloadBytes], body[head.PayloadBytes:]}, nil
}

// put keeps a result that was just made. When there is another one under the
// key that is not the same, the key has no result: what came out differently
// once is asked anew every time.
func (c *Cache) put(key, payload, log []byte, same func(earlier []byte) bool) error {
	if len(payload) == 0 || len(payload) > verify.MaxRecord || len(log) > MaxLog || len(key) > maxKey {
		return nil // too large to keep
	}
	if earlier, err := c.read(key); err == nil {
		if len(earlier.Payload) == 0 {
			return nil
		}
		if !same(earlier.Payload) {
			payload, log = nil, nil
		}
	}
	head, err := canon.Marshal(entryHead{key, c.clock().UTC().Format(journal.TimeFormat), int64(len(payload)), int64(len(log))})
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", err)
	}
	rest := slices.Concat(head, []byte("\n"), payload, log)
	f, err := os.CreateTemp(c.dir, newPrefix) // 0600
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", err)
	}
	_, err = f.Write(slices.Concat([]byte(magic+canon.Digest(rest)+"\n"), rest))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.file(key))
	}
	if err != nil {
		return fmt.Errorf("keeping a verdict: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return c.trim(maxBytes, maxEntries)
}

// trim removes entries, least recently used first, until those left take at
// most so many bytes and files. What is no entry counts like one.
func (c *Cache) trim(maxBytes int64, maxFiles int) error {
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
