package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// RevParse returns the id that a revision names in d, or ErrNotFound.
func (d Dir) RevParse(ctx context.Context, rev string) (string, error) {
	if strings.HasPrefix(rev, "-") || strings.ContainsRune(rev, 0) {
		return "", fmt.Errorf("revision %q: %w", rev, ErrNotFound)
	}
	out, err := d.output(ctx, call{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev}})
	id := string(bytes.TrimSpace(out))
	if e, ok := errors.AsType[*Error](err); ok && e.ExitCode > 0 || err == nil && !d.Format.IsID(id) {
		return "", fmt.Errorf("revision %q: %w", rev, ErrNotFound)
	}
	return id, err
}

// ErrNotFound reports a revision that names nothing, or more than one thing.
var ErrNotFound = errors.New("not found")

// ConfigEntry is one setting of a configuration file. Keys are in lower case but for the subsection.
type ConfigEntry struct {
	Key, Value string
}

// parsed remembers the last configuration file: a run reads that of its repository twice. Equal bytes mean the same.
var parsed struct {
	sync.Mutex
	src     []byte
	entries []ConfigEntry
}

// ParseConfig reads a configuration file as data: no include is followed, nothing in it takes effect.
func ParseConfig(ctx context.Context, src []byte) ([]ConfigEntry, error) {
	parsed.Lock()
	defer parsed.Unlock()
	if parsed.src != nil && bytes.Equal(parsed.src, src) {
		return slices.Clone(parsed.entries), nil
	}
	entries, err := parseConfig(ctx, src)
	if err == nil {
		parsed.src, parsed.entries = bytes.Clone(src), slices.Clone(entries)
	}
	return entries, err
}

func parseConfig(ctx context.Context, src []byte) ([]ConfigEntry, error) {
	d := Dir{Path: nowhere}
	out, err := d.output(ctx, call{
		args:  []string{"config", "--file", "-", "--no-includes", "-z", "--list"},
		stdin: bytes.NewReader(src),
	})
	if err != nil {
		return nil, err
	}
	var entries []ConfigEntry
	for item := range bytes.SplitSeq(out, []byte{0}) {
		if len(item) > 0 {
			key, value, _ := strings.Cut(string(item), "\n")
			entries = append(entries, ConfigEntry{Key: key, Value: value})
		}
	}
	return entries, nil
}
