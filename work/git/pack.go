package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"remit/proof/reason"
)

// PackCommit writes a pack of one commit, its tree and its blobs to w: nothing of its history, and no deltas, so
// that the heads of its entries tell the size of everything. What is packed is read through d and its alternates
// and compressed again; bytes of a foreign pack file are not passed on as they are.
func (d Dir) PackCommit(ctx context.Context, commit string, w io.Writer) error {
	if !d.Format.IsID(commit) {
		return reason.Errorf(reason.BaseNotFound, "packing: %.100q is not a full commit id", commit)
	}
	err := d.run(ctx, call{
		args:   []string{"pack-objects", "--quiet", "--revs", "--stdout", "--no-reuse-object", "--window=0"},
		stdin:  strings.NewReader("--shallow " + commit + "\n" + commit + "\n"), // to this process it has no parents
		stdout: w,
	})
	if e, ok := errors.AsType[*Error](err); ok && e.ExitCode > 0 {
		return reason.Errorf(reason.RepositoryInvalid, "packing commit %s: %w", commit, err).
			WithHint("objects of the repository are missing or damaged: run `git fsck` in it")
	}
	return err
}

// inMemory is the largest blob that index-pack holds in memory when it is not a delta; larger ones are streamed.
const inMemory = "16m"

// IndexPackFile checks a pack file below d's objects/pack as [Dir.IndexPack] does, and makes its index beside it. Every
// object that one of its objects names must be in d, but for the parents of commits that d calls shallow. It is
// for packs that [Format.ScanPack] has passed: index-pack believes what a pack says of its size, and crashes on some
// that hold something else than a commit under the id of a shallow one.
func (d Dir) IndexPackFile(ctx context.Context, path string) error {
	if !strings.HasSuffix(path, ".pack") {
		return fmt.Errorf("git index-pack: %q is not the name of a pack", path)
	}
	_, err := d.output(ctx, call{
		args:   []string{"index-pack", "--strict", path},
		config: []string{"core.bigFileThreshold=" + inMemory},
	})
	if _, ok := errors.AsType[*exec.ExitError](err); ok { // also when it was killed by what it read
		return reason.Errorf(reason.RepositoryInvalid, "the pack is refused: %w", err).
			WithHint("a pack holds one commit, its tree and all its blobs, and none of its deltas refers to something outside of it")
	}
	return err
}

// Stored is what the object store says of an object.
type Stored struct {
	Kind  string // blob, tree, commit, tag
	Size  int64
	Delta string // the id of the object that it is stored as a difference to, "" for none
}

// Inventory lists every object of d and its alternates by id. More than most are repository_invalid.
func (d Dir) Inventory(ctx context.Context, most int) (map[string]Stored, error) {
	out := &inventory{format: d.Format, most: most, objects: map[string]Stored{}}
	err := d.run(ctx, call{
		args: []string{"cat-file", "--batch-all-objects", "--unordered",
			"--batch-check=%(objectname) %(objecttype) %(objectsize) %(deltabase)"},
		stdout: out,
	})
	if err == nil && len(out.rest) > 0 {
		err = errInventory
	}
	return out.objects, err
}

var errInventory = errors.New("git cat-file: unexpected answer")

// inventory takes the answer apart while it comes.
type inventory struct {
	format  Format
	most    int
	objects map[string]Stored
	rest    []byte // the beginning of a line
}

func (i *inventory) Write(p []byte) (int, error) {
	text := string(append(i.rest, p...))
	for {
		line, rest, ok := strings.Cut(text, "\n")
		if !ok {
			break
		}
		if err := i.add(strings.Fields(line)); err != nil {
			return 0, err
		}
		text = rest
	}
	if i.rest = []byte(text); len(text) > 4*len(zeros) {
		return 0, errInventory
	}
	return len(p), nil
}

func (i *inventory) add(f []string) error {
	if len(f) != 4 || !i.format.IsID(f[0]) || !i.format.IsID(f[3]) {
		return errInventory
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return errInventory
	}
	if len(i.objects) == i.most {
		return reason.Errorf(reason.RepositoryInvalid, "there are more than %d objects", i.most)
	}
	o := Stored{Kind: f[1], Size: size}
	if f[3] != i.format.Zero() {
		o.Delta = f[3]
	}
	i.objects[f[0]] = o
	return nil
}

// PackNew writes a pack with what the wanted commits reach and those of have do not,
// for a repository elsewhere that says it has them. An id of have that d does not
// know is left out. The error is [reason.RepositoryInvalid] where an object that is
// needed is missing.
func (d Dir) PackNew(ctx context.Context, want, have []string, w io.Writer) error {
	var revs strings.Builder
	for _, id := range want {
		if !d.Format.IsID(id) {
			return fmt.Errorf("packing: %.100q is not a full commit id", id)
		}
		fmt.Fprintln(&revs, id)
	}
	known, err := d.commits(ctx, have)
	if err != nil {
		return err
	}
	for _, id := range known {
		fmt.Fprintln(&revs, "^"+id)
	}
	err = d.run(ctx, call{args: []string{"pack-objects", "--quiet", "--revs", "--stdout", "--window=0"},
		stdin: strings.NewReader(revs.String()), stdout: w})
	if e, ok := errors.AsType[*Error](err); ok && e.ExitCode > 0 {
		return reason.Errorf(reason.RepositoryInvalid, "packing a change: %w", err).
			WithHint("objects of the repository are missing or damaged: run `git fsck` in it")
	}
	return err
}

// commits are those of ids that are commits of d.
func (d Dir) commits(ctx context.Context, ids []string) ([]string, error) {
	var ask strings.Builder
	for _, id := range ids {
		if d.Format.IsID(id) {
			fmt.Fprintln(&ask, id)
		}
	}
	if ask.Len() == 0 {
		return nil, nil
	}
	out, err := d.output(ctx, call{args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, stdin: strings.NewReader(ask.String())})
	if err != nil {
		return nil, err
	}
	var known []string
	for line := range strings.Lines(string(out)) {
		if id, kind, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); kind == "commit" && d.Format.IsID(id) {
			known = append(known, id)
		}
	}
	return known, nil
}
