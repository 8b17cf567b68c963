package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// DiffEntry is one path that differs between two trees.
type DiffEntry struct {
	Path             string
	Status           byte // A, D, M or T
	OldMode, NewMode string
	OldID, NewID     string
	Added, Removed   int
	Binary           bool // Added and Removed are 0
}

// diffFlags switch everything off that could start a program or depend on somebody's taste.
var diffFlags = []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index",
	"--ignore-submodules=none", "--no-color", "--no-relative"}

// DiffPatch writes the patch from tree a to tree b, binary files included, in bytewise path order.
func (d Dir) DiffPatch(ctx context.Context, a, b string, w io.Writer) error {
	if !d.Format.IsID(a) || !d.Format.IsID(b) {
		return fmt.Errorf("git diff-tree: %q or %q is not an object id", a, b)
	}
	args := append(diffFlags[:len(diffFlags):len(diffFlags)], "-p", "--binary", "--unified=3",
		"--src-prefix=a/", "--dst-prefix=b/", a, b)
	return d.run(ctx, call{args: args, stdout: w})
}

// DiffEntries lists what differs between the trees a and b, in bytewise path order.
func (d Dir) DiffEntries(ctx context.Context, a, b string) ([]DiffEntry, error) {
	if !d.Format.IsID(a) || !d.Format.IsID(b) {
		return nil, fmt.Errorf("git diff-tree: %q or %q is not an object id", a, b)
	}
	args := append(diffFlags[:len(diffFlags):len(diffFlags)], "-z", "--raw", "--numstat", a, b)
	out, err := d.output(ctx, call{args: args})
	if err != nil {
		return nil, err
	}
	return parseDiff(out)
}

var errDiffSyntax = errors.New("git diff-tree: unexpected answer")

// parseDiff reads `--raw --numstat -z`: first every ":<mode> <mode> <id> <id> <status>\0<path>\0", then every
// "<added>\t<removed>\t<path>\0", both in the same order.
func parseDiff(out []byte) ([]DiffEntry, error) {
	var entries []DiffEntry
	for len(out) > 0 && out[0] == ':' {
		e, rest, err := parseRaw(out[1:])
		if err != nil {
			return nil, err
		}
		entries, out = append(entries, e), rest
	}
	for i := range entries {
		line, rest, ok := bytes.Cut(out, []byte{0})
		fields := bytes.SplitN(line, []byte{'\t'}, 3)
		if !ok || len(fields) != 3 || string(fields[2]) != entries[i].Path {
			return nil, errDiffSyntax
		}
		if err := entries[i].count(string(fields[0]), string(fields[1])); err != nil {
			return nil, err
		}
		out = rest
	}
	if len(out) > 0 {
		return nil, errDiffSyntax
	}
	return entries, nil
}

func parseRaw(b []byte) (e DiffEntry, rest []byte, err error) {
	meta, rest, ok := bytes.Cut(b, []byte{0})
	path, rest, ok2 := bytes.Cut(rest, []byte{0})
	f := bytes.Fields(meta)
	if !ok || !ok2 || len(f) != 5 || len(f[4]) != 1 || len(path) == 0 {
		return e, nil, errDiffSyntax
	}
	return DiffEntry{
		Path: string(path), Status: f[4][0],
		OldMode: string(f[0]), NewMode: string(f[1]), OldID: string(f[2]), NewID: string(f[3]),
	}, rest, nil
}

func (e *DiffEntry) count(added, removed string) error {
	if added == "-" && removed == "-" {
		e.Binary = true
		return nil
	}
	var err1, err2 error
	e.Added, err1 = strconv.Atoi(added)
	e.Removed, err2 = strconv.Atoi(removed)
	if err1 != nil || err2 != nil {
		return errDiffSyntax
	}
	return nil
}
