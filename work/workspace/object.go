package workspace

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
)

// Limits of a tree. A few hundred bytes of objects can describe a tree with more files than there are atoms (each
// directory names the next one ten times), so what is expanded must be counted.
const (
	MaxTreeEntries = 1 << 20
	MaxTreeDepth   = 1024
	maxTreeObject  = 256 << 20
	maxCommit      = 16 << 20
)

// The modes of a tree entry.
const (
	modeDir     = 0o040000
	modeFile    = 0o100644
	modeGroup   = 0o100664 // written by very early versions; means modeFile
	modeExec    = 0o100755
	modeSymlink = 0o120000
	modeGitlink = 0o160000
)

type treeEntry struct {
	mode uint32
	name string
	id   string
}

// sortKey is what git sorts by: directories come as if a slash followed.
func (e treeEntry) sortKey() string {
	if e.mode == modeDir {
		return e.name + "/"
	}
	return e.name
}

// parseTree reads a tree object strictly: known modes, names that are one component, order as git sorts, no name
// twice. Whether a name may exist is for the caller to ask, who knows its path.
func parseTree(format git.Format, raw []byte) ([]treeEntry, error) {
	var entries []treeEntry
	var last string // sort key of the entry before
	var files map[string]bool
	for len(raw) > 0 {
		e, rest, err := parseTreeEntry(format, raw)
		if err != nil {
			return nil, err
		}
		key := e.sortKey()
		if last != "" && key <= last {
			return nil, fmt.Errorf("entry %q is out of order", e.name)
		}
		// "a", "a.b" and the directory "a" are in order, and yet "a" is there twice.
		if e.mode == modeDir && files[e.name] {
			return nil, fmt.Errorf("entry %q is there twice", e.name)
		}
		if e.mode != modeDir {
			if files == nil {
				files = map[string]bool{}
			}
			files[e.name] = true
		}
		entries, last, raw = append(entries, e), key, rest
	}
	return entries, nil
}

func parseTreeEntry(format git.Format, raw []byte) (e treeEntry, rest []byte, err error) {
	head, rest, ok := bytes.Cut(raw, []byte{0})
	mode, name, ok2 := bytes.Cut(head, []byte{' '})
	if !ok || !ok2 || len(rest) < format.Size() || len(mode) == 0 || len(mode) > 7 {
		return e, nil, fmt.Errorf("truncated entry")
	}
	for _, c := range mode {
		if c < '0' || c > '7' {
			return e, nil, fmt.Errorf("mode %q", mode)
		}
		e.mode = e.mode<<3 | uint32(c-'0')
	}
	switch e.mode {
	case modeDir, modeFile, modeGroup, modeExec, modeSymlink, modeGitlink:
	default:
		return e, nil, fmt.Errorf("mode %q of %q", mode, name)
	}
	if len(name) == 0 || bytes.IndexByte(name, '/') >= 0 {
		return e, nil, fmt.Errorf("name %q", name)
	}
	e.name = string(name)
	e.id = git.Hex(rest[:format.Size()])
	return e, rest[format.Size():], nil
}

// treeDir is one directory of an expanded tree.
type treeDir struct {
	path    string // "" for the root
	entries []treeEntry
}

func (d treeDir) join(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

// walkTree expands a tree, parents before children, and checks every name and every object's hash on the way.
func walkTree(b *git.Batch, format git.Format, root string) ([]treeDir, error) {
	dirs := []treeDir{}
	level, ids := []treeDir{{}}, []string{root}
	for depth, count := 0, 0; len(level) > 0; depth++ {
		parsed, err := readTrees(b, format, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids { // before anything is expanded
			count += len(parsed[id])
		}
		if count > MaxTreeEntries || depth > MaxTreeDepth {
			return nil, reason.Errorf(reason.RepositoryInvalid, "tree %s has more than %d entries or %d levels", root, MaxTreeEntries, MaxTreeDepth)
		}
		var next []treeDir
		var nextIDs []string
		for i := range level {
			level[i].entries = parsed[ids[i]]
			for _, e := range level[i].entries {
				path := level[i].join(e.name)
				if err := checkEntryName(path, e.name); err != nil {
					return nil, err
				}
				if e.mode == modeDir {
					next, nextIDs = append(next, treeDir{path: path}), append(nextIDs, e.id)
				}
			}
		}
		dirs = append(dirs, level...)
		level, ids = next, nextIDs
	}
	return dirs, nil
}

func checkEntryName(path, name string) error {
	if len(path) > MaxPathBytes {
		return badPath(path, "it is longer than %d bytes", MaxPathBytes)
	}
	if why := nameProblem(name); why != "" {
		return badPath(path, "%s", why)
	}
	return nil
}

// readTrees reads and parses tree objects, each id once.
func readTrees(b *git.Batch, format git.Format, ids []string) (map[string][]treeEntry, error) {
	parsed := make(map[string][]treeEntry, len(ids))
	unique := make([]string, 0, len(ids))
	for _, id := range ids {
		if _, ok := parsed[id]; !ok {
			parsed[id] = nil
			if id != format.EmptyTree() {
				unique = append(unique, id)
			}
		}
	}
	err := b.Each(unique, func(o git.Object, r io.Reader) error {
		if o.Kind != "tree" || o.Size > maxTreeObject {
			return reason.Errorf(reason.RepositoryInvalid, "object %s is a %s of %d bytes where a directory was expected", o.ID, o.Kind, o.Size)
		}
		raw := make([]byte, o.Size)
		if _, err := io.ReadFull(r, raw); err != nil && err != io.EOF {
			return fmt.Errorf("reading tree %s: %w", o.ID, err)
		}
		entries, err := parseTree(format, raw)
		if err != nil {
			return reason.Errorf(reason.RepositoryInvalid, "tree %s: %w", o.ID, err).WithHint("run `git fsck` in the repository")
		}
		parsed[o.ID] = entries
		return nil
	})
	return parsed, err
}

// readCommit returns the tree of the commit that id names, or that the tags at id lead to, and the commit's id.
func readCommit(b *git.Batch, format git.Format, id string) (commit, tree string, err error) {
	for range 10 {
		kind, content, err := b.Read(id, maxCommit)
		if err != nil {
			return "", "", err
		}
		key := map[string]string{"commit": "tree ", "tag": "object "}[kind]
		line, _, _ := strings.Cut(string(content), "\n")
		target, ok := strings.CutPrefix(line, key)
		if key == "" || !ok || !format.IsID(target) {
			return "", "", fmt.Errorf("object %s is a %s: %w", id, kind, errNoCommit)
		}
		if kind == "commit" {
			return id, target, nil
		}
		id = target
	}
	return "", "", fmt.Errorf("a chain of tags: %w", errNoCommit)
}

var errNoCommit = fmt.Errorf("not a commit")
