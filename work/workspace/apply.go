package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
)

// MaxPatchBytes bounds a patch.
const MaxPatchBytes = 512 << 20

// Apply lays a patch over baseTree and returns the new tree. It applies whole, without fuzz, or not at all; the error is
// patch_invalid, or protected_path for a patch that reaches into `.git`.
//
// git applies it to a private index that holds only what the patch names and what stands in its way in the base, in a
// directory that sees neither the source nor the store. So a patch costs what it changes, and cannot reach anything
// else whatever it says.
func (s *Store) Apply(ctx context.Context, baseTree string, patch io.Reader) (string, error) {
	head := baseTree
	err := s.scratch(false, func(d git.Dir) error {
		file := filepath.Join(d.Path, "patch")
		some, err := spool(file, patch)
		if err != nil || !some {
			return err
		}
		a := &applier{store: s, dir: d, base: baseTree, before: map[string]git.IndexEntry{}}
		head, err = a.apply(ctx, file)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("applying a patch to tree %s: %w", baseTree, err)
	}
	return head, nil
}

// spool writes the patch to a file and refuses what [patchScan] finds in it. It says
// whether there is more in it than blank lines.
func spool(file string, patch io.Reader) (bool, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, reason.Errorf(reason.InfrastructureFault, "keeping the patch: %w", err)
	}
	defer f.Close()
	scan := &patchScan{w: f}
	size, err := io.Copy(scan, io.LimitReader(patch, MaxPatchBytes+1))
	switch {
	case err != nil:
		return false, fmt.Errorf("reading the patch: %w", err)
	case size > MaxPatchBytes:
		return false, reason.Errorf(reason.PatchInvalid, "the patch has more than %d bytes", MaxPatchBytes)
	}
	err = scan.end()
	return scan.first > 0, err
}

type applier struct {
	store  *Store
	dir    git.Dir
	base   string
	paths  []string // that the patch names
	before map[string]git.IndexEntry
}

func (a *applier) apply(ctx context.Context, file string) (string, error) {
	if err := a.prepare(ctx, file); err != nil {
		return "", err
	}
	err := withFile(file, func(r io.Reader) error { return a.dir.ApplyCached(ctx, r, a.paths) })
	if err != nil {
		return "", lineEnds(file, patchError(err, "it does not apply"))
	}
	edits, err := a.edits()
	if err != nil {
		return "", err
	}
	// The usual patch is that of a tree which was imported before: all is there.
	if head, err := a.store.graft(ctx, a.base, edits); err != nil || a.store.has(head) {
		return head, err
	}
	if err := a.open(edits); err != nil {
		return "", err
	}
	result, err := a.store.write(ctx, a.base, edits, git.Commit{})
	if isRefusal(err) {
		return "", patchError(err, "git refuses its result")
	}
	return result.Tree, err
}

// lineEnds hints at the usual cause of a patch that does not apply though it reads well: a
// mail client or an editor has made CRLF of the ends of its lines.
func lineEnds(file string, err error) error {
	refused, ok := errors.AsType[*reason.Error](err)
	if !ok {
		return err
	}
	_ = withFile(file, func(r io.Reader) (err error) { // the patch was read before
		for lines := bufio.NewReader(r); err == nil || errors.Is(err, bufio.ErrBufferFull); {
			var line []byte
			if line, err = lines.ReadSlice('\n'); bytes.HasPrefix(line, []byte("+++ ")) && bytes.HasSuffix(line, []byte("\r\n")) {
				refused = refused.WithHint("the lines of the patch end in CRLF; those of git end in LF: take the CR out with `tr -d '\\r' <PATCH`, where the files have none either")
				return nil
			}
		}
		return nil
	})
	return refused
}

// patchError tells a bad patch from our own trouble.
func patchError(err error, what string) error {
	e, ok := errors.AsType[*git.Error](err)
	if !ok || e.ExitCode <= 0 {
		return err
	}
	refused := reason.Errorf(reason.PatchInvalid, "%s: %w", what, err).WithHint("make the patch from the baseline commit with `git diff --no-renames --binary`")
	if f := e.Fault; f != nil {
		refused.Line, refused.Message = f.Line, what+": "+f.Why
		if f.Path != "" {
			refused.Message = what + ": " + f.Path + ": " + f.Why
		}
	}
	return refused
}

func withFile(name string, f func(io.Reader) error) error {
	r, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer r.Close()
	return f(bufio.NewReader(r))
}

// prepare fills the private index with what the base has at, above and below the paths of the patch.
func (a *applier) prepare(ctx context.Context, file string) error {
	err := withFile(file, func(r io.Reader) (err error) {
		a.paths, err = a.dir.PatchPaths(ctx, r)
		return err
	})
	if err != nil {
		return patchError(err, "git cannot read it")
	}
	for _, p := range a.paths {
		if err, ok := errors.AsType[*reason.Error](CheckPath(p)); ok {
			if err.Code == reason.ProtectedPath {
				err.File, err.Message = "", fmt.Sprintf("path %q: %s", p, err.Message)
			} else {
				err.Code = reason.PatchInvalid
			}
			return err
		}
		at, err := a.store.find(ctx, a.base, p)
		if err != nil {
			return err
		}
		switch {
		case at.blocker.mode != 0:
			a.add(at.blockerPath, at.blocker)
		case at.entry.mode == modeDir:
			err = a.addBelow(ctx, p, at.entry.id)
		case at.entry.mode != 0:
			a.add(p, at.entry)
		}
		if err != nil {
			return err
		}
	}
	return a.fill(ctx)
}

func (a *applier) add(path string, e treeEntry) {
	a.before[path] = git.IndexEntry{Path: path, Mode: strconv.FormatUint(uint64(plainMode(e.mode)), 8), ID: e.id}
}

// addBelow adds a whole directory that the patch wants to put a file in place of.
func (a *applier) addBelow(ctx context.Context, dir, id string) error {
	entries, err := a.store.List(ctx, id)
	for _, e := range entries {
		a.add(dir+"/"+e.Path, treeEntry{mode: e.Mode, id: e.ID})
	}
	return err
}

// fill copies the blobs that the patch builds on, and writes the index.
func (a *applier) fill(ctx context.Context) error {
	if len(a.before) == 0 {
		return nil
	}
	var ids []string
	for _, e := range a.before {
		if e.Mode != "160000" {
			ids = append(ids, e.ID)
		}
	}
	blobs, err := a.store.load(ctx, ids)
	if err != nil {
		return err
	}
	for id, e := range blobs {
		if err := a.copy(id, e); err != nil {
			return fmt.Errorf("copying what the patch builds on: %w", err)
		}
	}
	return a.dir.WriteIndex(slices.SortedFunc(maps.Values(a.before), func(x, y git.IndexEntry) int {
		return strings.Compare(x.Path, y.Path)
	}))
}

func (a *applier) copy(id string, e git.Edit) error {
	r, err := e.Content()
	if err != nil {
		return err
	}
	defer r.Close()
	return a.dir.WriteBlob(id, e.Size, r)
}

// edits is the difference between the index before and after, deletions first.
func (a *applier) edits() ([]git.Edit, error) {
	raw, err := a.dir.ReadIndex()
	if err != nil {
		return nil, err
	}
	var after []indexEntry
	if raw != nil { // git leaves none where nothing is left
		if after, err = parseIndex(a.dir.Format, raw); err != nil {
			return nil, fmt.Errorf("reading what git made of the patch: %w", err)
		}
	}
	var deletes, writes []git.Edit
	still := map[string]bool{}
	for _, e := range after {
		if e.stage != 0 {
			return nil, fmt.Errorf("reading what git made of the patch: %q is in conflict", e.path)
		}
		still[e.path] = true
		now := git.IndexEntry{Path: e.path, Mode: strconv.FormatUint(uint64(e.mode), 8), ID: e.id}
		if now != a.before[e.path] {
			writes = append(writes, git.Edit{Path: now.Path, Mode: now.Mode, ID: now.ID})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(a.before)) {
		if !still[path] {
			deletes = append(deletes, git.Edit{Path: path, Delete: true})
		}
	}
	return append(deletes, writes...), nil
}

// open gives the edits the content that git wrote, for a store that has not got it.
func (a *applier) open(edits []git.Edit) error {
	for i, e := range edits {
		if e.Delete || e.Mode == "160000" {
			continue
		}
		size, r, err := a.dir.OpenBlob(e.ID)
		if err != nil {
			return err
		}
		r.Close()
		edits[i].Size, edits[i].ID = size, ""
		edits[i].Content = func() (io.ReadCloser, error) {
			_, r, err := a.dir.OpenBlob(e.ID)
			return r, err
		}
	}
	return nil
}
