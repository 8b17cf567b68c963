package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// MergeBase returns the commit from which two commits have gone apart, or ErrNotFound
// where they have none in common. Where there are several it is the one that git
// names first.
func (d Dir) MergeBase(ctx context.Context, a, b string) (string, error) {
	if !d.Format.IsID(a) || !d.Format.IsID(b) {
		return "", fmt.Errorf("git merge-base: %q or %q is not an object id", a, b)
	}
	out, err := d.output(ctx, call{args: []string{"merge-base", a, b}})
	id := string(bytes.TrimSpace(out))
	if exited(err, 1) || err == nil && !d.Format.IsID(id) {
		return "", fmt.Errorf("merge base of %s and %s: %w", a, b, ErrNotFound)
	}
	return id, err
}

// FirstCommit returns the oldest of the commits without parents that a commit goes back
// to, by the time that they say, then by id.
func (d Dir) FirstCommit(ctx context.Context, commit string) (string, error) {
	if !d.Format.IsID(commit) {
		return "", fmt.Errorf("git rev-list: %q is not an object id", commit)
	}
	out, err := d.output(ctx, call{args: []string{"rev-list", "--max-parents=0", "--timestamp", commit}})
	if err != nil {
		return "", err
	}
	first, at := "", int64(0)
	for line := range strings.Lines(string(out)) {
		when, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(when, 10, 64); err == nil && d.Format.IsID(id) && (first == "" || n < at || n == at && id < first) {
			first, at = id, n
		}
	}
	if first == "" {
		return "", fmt.Errorf("the first commit before %s: %w", commit, ErrNotFound)
	}
	return first, nil
}

// Signed is who a commit says has written it.
type Signed struct{ Name, Email string }

// Authors returns the authors of the commits that head has and base has not, the
// newest first, of at most so many commits. It believes what the commits say, and
// no file of the tree that would rename their authors.
func (d Dir) Authors(ctx context.Context, base, head string, most int) ([]Signed, error) {
	if !d.Format.IsID(base) || !d.Format.IsID(head) {
		return nil, fmt.Errorf("git log: %q or %q is not an object id", base, head)
	}
	out, err := d.output(ctx, call{args: []string{"log", "--no-mailmap", "--no-show-signature", "--no-decorate", "--no-notes", "--encoding=UTF-8",
		"--format=%an%x00%ae", "-z", "--max-count=" + strconv.Itoa(most), head, "^" + base}})
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	authors := make([]Signed, 0, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		authors = append(authors, Signed{fields[i], fields[i+1]})
	}
	return authors, nil
}
