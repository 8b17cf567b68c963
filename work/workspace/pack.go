package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"remit/proof/reason"
	"remit/work/git"
)

// Limits of a pack that comes from another machine, beside that of its bytes.
const (
	MaxPackObjects = MaxTreeEntries
	// MaxPackInflated bounds all objects of a pack together, and the files of its tree: a few kilobytes can describe terabytes.
	MaxPackInflated = 4 << 30
	// MaxPackDelta bounds an object that is stored as a delta. Larger ones are sent whole, as Pack does.
	MaxPackDelta = 128 << 20
	// MaxPackDepth is how many deltas may lie between an object and one that is whole. git makes chains of 50.
	MaxPackDepth = 250
)

// Pack writes the pack of one commit of the store or its source: the commit, its tree and its blobs, nothing of its
// history. It is what [OpenPack] takes on another machine. An id that is no commit's is base_not_found.
func (s *Store) Pack(ctx context.Context, commit string, w io.Writer) error {
	if !s.git.Format.IsID(commit) {
		return notACommit(commit)
	}
	err := s.with(ctx, func(b *git.Batch) error {
		id, _, err := readCommit(b, s.git.Format, commit)
		if err == nil && id != commit { // a tag
			err = errNoCommit
		}
		return err
	})
	if errors.Is(err, errNoCommit) {
		return notACommit(commit)
	}
	if err != nil {
		return fmt.Errorf("packing commit %s: %w", commit, err)
	}
	return s.git.PackCommit(ctx, commit, w)
}

func notACommit(id string) error {
	return reason.Errorf(reason.BaseNotFound, "%.100q is not the full id of a commit", id)
}

// OpenPack makes a bare repository of a received pack, in a directory that does not exist or is empty. limit
// bounds the bytes of the pack. The pack must hold the commit with everything in its tree, and nothing else: no
// parents, which the repository is configured to do without.
//
// Nothing about the pack is believed. Its outer form is checked before git sees it, git checks every object and every
// link (fsck, strictly), and the tree is read once more here: names that cannot be laid out, files that are no blobs, a
// checkout beyond [MaxPackInflated]. The error is repository_invalid, objects_missing, or base_not_found when the
// commit is not in the pack or is none; one of the reader is returned as it is. After an error the directory is gone.
func OpenPack(ctx context.Context, dir string, pack io.Reader, commit string, limit int64) (src *Source, err error) {
	format := git.FormatOf(commit)
	if format == "" {
		return nil, notACommit(commit)
	}
	if err := freshDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			removeAll(dir)
		}
	}()
	d, err := git.Create(dir, format)
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "%w", err)
	}
	d.Volatile = true
	path, err := takePack(ctx, d, pack, commit, limit)
	if err != nil {
		return nil, err
	}
	if err := writeLine(d, "shallow", commit); err != nil { // git must not look for its parents
		return nil, err
	}
	if err := d.IndexPackFile(ctx, path); err != nil {
		return nil, err
	}
	if err := checkPacked(ctx, d, commit); err != nil {
		return nil, err
	}
	if err := writeLine(d, "HEAD", commit); err != nil {
		return nil, err
	}
	return OpenSource(ctx, dir)
}

// freshDir makes a directory, or finds it empty.
func freshDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return reason.Errorf(reason.InfrastructureFault, "making a directory for a pack: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "making a directory for a pack: %w", err)
	}
	if len(entries) > 0 {
		return reason.Errorf(reason.OutputExists, "%q is not empty", dir)
	}
	return nil
}

func writeLine(d git.Dir, name, line string) error {
	if err := os.WriteFile(filepath.Join(d.Path, name), []byte(line+"\n"), 0o600); err != nil {
		return reason.Errorf(reason.InfrastructureFault, "writing %s: %w", name, err)
	}
	return nil
}

// takePack writes the pack to a file of d, and looks at it on the way.
func takePack(ctx context.Context, d git.Dir, pack io.Reader, commit string, limit int64) (path string, err error) {
	packs := filepath.Join(d.ObjectsDir(), "pack")
	if err := os.Mkdir(packs, 0o700); err != nil {
		return "", reason.Errorf(reason.InfrastructureFault, "storing a pack: %w", err)
	}
	f, err := os.CreateTemp(packs, "incoming-")
	if err != nil {
		return "", reason.Errorf(reason.InfrastructureFault, "storing a pack: %w", err)
	}
	found, err := d.Format.ScanPack(ctx, pack, diskWriter{f}, git.PackLimits{
		Bytes: limit, Objects: MaxPackObjects, Inflated: MaxPackInflated, Delta: MaxPackDelta,
	})
	if cerr := f.Close(); err == nil && cerr != nil {
		err = reason.Errorf(reason.InfrastructureFault, "storing a pack: %w", cerr)
	}
	switch {
	case err != nil:
		return "", err
	case found.Commits > 1:
		return "", reason.Errorf(reason.RepositoryInvalid, "the pack holds %d commits, and may hold one", found.Commits)
	case found.Commit != commit:
		return "", reason.Errorf(reason.BaseNotFound, "the pack does not hold the commit %s", commit)
	}
	path = filepath.Join(packs, "pack-"+found.Checksum+".pack")
	if err := os.Rename(f.Name(), path); err != nil {
		return "", reason.Errorf(reason.InfrastructureFault, "storing a pack: %w", err)
	}
	return path, nil
}

// diskWriter tells a full disk from a pack that is wrong.
type diskWriter struct{ f *os.File }

func (w diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = reason.Errorf(reason.InfrastructureFault, "storing a pack: %w", err)
	}
	return n, err
}

// checkPacked holds what d has against what the commit needs: exactly that must be there.
func checkPacked(ctx context.Context, d git.Dir, commit string) error {
	objects, err := d.Inventory(ctx, MaxPackObjects)
	if err != nil {
		return err
	}
	if err := checkDepth(objects); err != nil {
		return err
	}
	dirs, root, err := packedTree(ctx, d, commit)
	if err != nil {
		return err
	}
	needed := map[string]bool{commit: true, root: true}
	var total int64
	for _, dir := range dirs {
		for _, e := range dir.entries {
			if e.mode == modeGitlink {
				continue
			}
			kind := "blob"
			if e.mode == modeDir {
				kind = "tree"
			}
			o, ok := objects[e.id]
			switch {
			case !ok && e.mode == modeDir && e.id == d.Format.EmptyTree(): // git knows it by heart
				continue
			case !ok:
				return reason.Errorf(reason.ObjectsMissing, "the pack lacks the %s %s of %q", kind, e.id, dir.join(e.name))
			case o.Kind != kind:
				return reason.Errorf(reason.RepositoryInvalid, "%q is a %s where a %s was expected", dir.join(e.name), o.Kind, kind)
			}
			needed[e.id] = true
			if kind == "blob" {
				total += o.Size
			}
			if total > MaxPackInflated {
				return reason.Errorf(reason.RepositoryInvalid, "the files of commit %s have more than %d bytes", commit, int64(MaxPackInflated))
			}
		}
	}
	for id, o := range objects {
		if !needed[id] {
			return reason.Errorf(reason.RepositoryInvalid, "the pack holds the %s %s, which commit %s does not need", o.Kind, id, commit)
		}
	}
	return nil
}

// packedTree expands the tree of the commit; its names must be such that they can be laid out.
func packedTree(ctx context.Context, d git.Dir, commit string) (dirs []treeDir, root string, err error) {
	b, err := d.Batch(ctx)
	if err != nil {
		return nil, "", err
	}
	defer b.Close()
	_, root, err = readCommit(b, d.Format, commit)
	if err == nil {
		dirs, err = walkTree(b, d.Format, root)
	}
	if reason.CodeOf(err) == reason.PathUnrepresentable {
		err = reason.Errorf(reason.RepositoryInvalid, "commit %s cannot be laid out: %w", commit, err)
	}
	return dirs, root, err
}

// checkDepth bounds the chains of deltas: reading an object costs as many steps.
func checkDepth(objects map[string]git.Stored) error {
	depth := make(map[string]int, len(objects))
	var chain []string
	for id := range objects {
		chain = chain[:0]
		for at := id; objects[at].Delta != "" && depth[at] == 0; at = objects[at].Delta {
			if chain = append(chain, at); len(chain) > MaxPackDepth {
				return tooDeep()
			}
		}
		for i := len(chain) - 1; i >= 0; i-- { // from the whole object on
			at := chain[i]
			if depth[at] = depth[objects[at].Delta] + 1; depth[at] > MaxPackDepth {
				return tooDeep()
			}
		}
	}
	return nil
}

func tooDeep() error {
	return reason.Errorf(reason.RepositoryInvalid, "the pack has a chain of more than %d deltas", MaxPackDepth)
}
