package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

// Changes returns what to do to a checkout of baseTree to have one of headTree: deletions first, then files and links,
// in path order. Subtrees that are equal are not looked at. Contents are read when they are opened, within ctx and
// the life of the store.
func (s *Store) Changes(ctx context.Context, baseTree, headTree string) ([]tree.Change, error) {
	c := &comparer{store: s, ctx: ctx}
	if err := c.dirs("", baseTree, headTree, 0); err != nil {
		return nil, fmt.Errorf("comparing trees %s and %s: %w", baseTree, headTree, err)
	}
	ids := make([]string, 0, len(c.writes))
	for _, e := range c.writes {
		if e.Mode != modeGitlink {
			ids = append(ids, e.ID)
		}
	}
	blobs, err := s.load(ctx, ids)
	if err != nil {
		return nil, err
	}
	changes := c.deletes
	for _, e := range c.writes {
		change, err := s.change(e, blobs[e.ID])
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func (s *Store) change(e Entry, blob git.Edit) (tree.Change, error) {
	switch e.Mode {
	case modeGitlink:
		return tree.Change{Path: e.Path, Kind: tree.Special, Note: "submodule"}, nil
	case modeSymlink:
		target, err := linkText(blob)
		if err != nil {
			return tree.Change{}, fmt.Errorf("reading the symbolic link %q: %w", e.Path, err)
		}
		return tree.Change{Path: e.Path, Kind: tree.Symlink, Size: blob.Size, Target: target}, nil
	}
	return tree.Change{
		Path: e.Path, Kind: tree.File, Executable: e.Mode == modeExec, Size: blob.Size,
		Open: blob.Content,
	}, nil
}

func linkText(blob git.Edit) (string, error) {
	if blob.Size > maxTarget {
		return "", reason.Errorf(reason.RepositoryInvalid, "its target has %d bytes", blob.Size)
	}
	r, err := blob.Content()
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

type comparer struct {
	store   *Store
	ctx     context.Context
	deletes []tree.Change
	writes  []Entry
	visited int // entries looked at
}

// dirs compares two directories; "" stands for one that is not there.
func (c *comparer) dirs(path, before, after string, depth int) error {
	if before == after {
		return nil
	}
	old, err := c.read(before)
	if err != nil {
		return err
	}
	now, err := c.read(after)
	if err != nil {
		return err
	}
	if c.visited += len(old) + len(now); depth > MaxTreeDepth || c.visited > MaxTreeEntries {
		return reason.Errorf(reason.RepositoryInvalid, "the trees have more than %d levels or differ in more than %d entries",
			MaxTreeDepth, MaxTreeEntries)
	}
	was := make(map[string]treeEntry, len(old))
	for _, e := range old {
		was[e.name] = e
	}
	is := make(map[string]bool, len(now))
	for _, e := range now {
		is[e.name] = true
	}
	dir := treeDir{path: path}
	for _, e := range old {
		if !is[e.name] {
			c.deletes = append(c.deletes, tree.Change{Path: dir.join(e.name), Kind: tree.Delete})
		}
	}
	for _, e := range now {
		if err := c.entry(dir.join(e.name), was[e.name], e, depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one name that is in the new directory; before has mode 0 if it was not in the old one.
func (c *comparer) entry(path string, before, after treeEntry, depth int) error {
	if before.id == after.id && plainMode(before.mode) == plainMode(after.mode) {
		return nil
	}
	if err := checkEntryName(path, after.name); err != nil {
		return err
	}
	if before.mode != 0 && before.mode != after.mode && (before.mode == modeDir || after.mode == modeDir || before.mode == modeGitlink) {
		c.deletes = append(c.deletes, tree.Change{Path: path, Kind: tree.Delete})
		before = treeEntry{}
	}
	if after.mode != modeDir {
		c.writes = append(c.writes, Entry{Path: path, Mode: plainMode(after.mode), ID: after.id})
		return nil
	}
	return c.dirs(path, before.id, after.id, depth+1)
}

func (c *comparer) read(id string) ([]treeEntry, error) {
	if id == "" {
		return nil, nil
	}
	return c.store.readDir(c.ctx, id)
}

// Compare lists what is different in after, section by section: "head", "refs: refs/heads/main",
// "worktree: src/a.go". Empty means untouched. At most 20 names of a section are listed, then their number. A
// fingerprint that was read from JSON knows sections only.
func (f *Fingerprint) Compare(after *Fingerprint) []string {
	names := slices.Sorted(maps.Keys(f.Sections))
	for name := range after.Sections {
		if _, ok := f.Sections[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var differences []string
	for _, section := range names {
		if f.Sections[section] != after.Sections[section] {
			differences = append(differences, f.name(after, section)...)
		}
	}
	return differences
}

// name says what differs in one section, as exactly as both values allow.
func (f *Fingerprint) name(after *Fingerprint, section string) []string {
	var changed []string
	switch {
	case section == "worktree" && f.tree != nil && after.tree != nil:
		changed = f.tree.compare(after.tree)
	case section == "head" || section == "index" || section == "shallow":
		// one file: its section says it all
	case f.parts != nil && after.parts != nil:
		changed = differing(f.parts[section], after.parts[section])
	}
	if len(changed) == 0 {
		return []string{section}
	}
	more := len(changed) - maxNamed
	changed = changed[:min(len(changed), maxNamed)]
	for i := range changed {
		changed[i] = section + ": " + changed[i]
	}
	if more > 0 {
		changed = append(changed, fmt.Sprintf("%s: %s and %d more", section, ellipsis, more))
	}
	return changed
}

// ellipsis begins the line that says how many more there are.
const ellipsis = "…"

// ChangedAt says when the file system last changed what one line of [Fingerprint.Compare] names: its ctime, which no
// program can set, or that of the directory that it is gone from. The zero time says that neither is there.
func (s *Source) ChangedAt(difference string) time.Time {
	section, name, _ := strings.Cut(difference, ": ")
	if strings.HasPrefix(name, ellipsis) {
		return time.Time{}
	}
	var places []string
	switch git, common := s.loc.gitDir, s.loc.common; section {
	case "worktree":
		if !s.Bare() {
			places = []string{filepath.Join(s.loc.worktree, name)}
		}
	case "hooks":
		places = []string{filepath.Join(common, "hooks", name)}
	case "head":
		places = []string{filepath.Join(git, "HEAD")}
	case "index", "shallow":
		places = []string{filepath.Join(git, section), filepath.Join(common, section)}
	case "refs", "logs", "info", "config":
		if name != "" {
			places = []string{filepath.Join(git, name), filepath.Join(common, name)}
		}
	}
	for len(places) > 0 {
		for _, place := range places {
			var st unix.Stat_t
			if unix.Lstat(place, &st) == nil {
				return time.Unix(st.Ctim.Unix())
			}
		}
		places = []string{filepath.Dir(places[0])} // there is a top that exists
	}
	return time.Time{}
}

// differing returns the keys that are new, gone or changed.
func differing(before, after map[string]string) []string {
	var keys []string
	for key, value := range before {
		if now, ok := after[key]; !ok || now != value {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// compare returns the paths that are new, gone or changed. A directory whose own times changed is only named when
// nothing in it is: then something came and went.
func (t statTree) compare(after statTree) []string {
	all := maps.Clone(t)
	maps.Copy(all, after)
	var changed []string
	for _, dir := range all.paths() {
		if bytes.Equal(t[dir], after[dir]) {
			continue
		}
		names := differing(t[dir].asMap(), after[dir].asMap())
		if len(names) > 1 {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "." })
		}
		for _, name := range names {
			changed = append(changed, path.Join(dir, name))
		}
	}
	return withoutParents(changed)
}

// withoutParents drops a directory when something below it is named too: its own times say nothing more.
func withoutParents(paths []string) []string {
	below := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "." && !below[dir]; dir = path.Dir(dir) {
			below[dir] = true
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return below[p] })
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (s dirStats) asMap() map[string]string {
	m := map[string]string{}
	for name, stat := range s.each {
		m[name] = stat
	}
	return m
}

// Op is what happened to a path between two trees.
type Op = string

// The operations. The one that needs the widest permission wins: anything that ends as a symbolic link is symlink,
// anything that is or was a submodule is submodule.
const (
	OpCreate     Op = "create"
	OpModify     Op = "modify" // the mode may have changed too
	OpDelete     Op = "delete"
	OpModeChange Op = "mode_change" // and nothing else
	OpTypeChange Op = "type_change"
	OpSymlink    Op = "symlink"
	OpSubmodule  Op = "submodule"
)

// FileChange is one path of a diff.
type FileChange struct {
	Path    string `json:"path"`
	Op      Op     `json:"op"`
	OldMode string `json:"old_mode"` // as git writes it; 000000 when there was nothing
	NewMode string `json:"new_mode"`
	Added   int    `json:"added"` // lines; 0 for binary files
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary"`
}

// Diff writes the patch from baseTree to headTree and returns what it does, both in bytewise path order. The patch is
// complete (binary files, modes, links) and applies with plain `git apply`. patch may be nil. It depends on nothing
// but the two trees and the version of git. More paths than [Store.Bound] allows are change_too_large.
func (s *Store) Diff(ctx context.Context, baseTree, headTree string, patch io.Writer) ([]FileChange, error) {
	if baseTree == headTree && s.git.Format.IsID(headTree) {
		return []FileChange{}, nil
	}
	entries, err := s.git.Diff(ctx, baseTree, headTree, s.most, patch)
	if err != nil {
		return nil, fmt.Errorf("comparing trees %s and %s: %w", baseTree, headTree, err)
	}
	changes := make([]FileChange, len(entries))
	for i, e := range entries {
		changes[i] = FileChange{
			Path: e.Path, Op: opOf(e), OldMode: e.OldMode, NewMode: e.NewMode,
			Added: e.Added, Removed: e.Removed, Binary: e.Binary,
		}
	}
	return changes, nil
}

func opOf(e git.DiffEntry) Op {
	const link, submodule = "120000", "160000"
	switch {
	case e.OldMode == submodule || e.NewMode == submodule:
		return OpSubmodule
	case e.NewMode == link:
		return OpSymlink
	case e.Status == 'A':
		return OpCreate
	case e.Status == 'D':
		return OpDelete
	case e.OldMode == link:
		return OpTypeChange
	case e.OldID == e.NewID:
		return OpModeChange
	}
	return OpModify
}
