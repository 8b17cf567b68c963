package workspace

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"remit/proof/reason"
	"remit/work/git"
)

const (
	// MaxCheckoutBytes bounds what a tree may expand to: a blob that is named a million times is stored once.
	MaxCheckoutBytes = 32 << 30
	// maxQueued is the largest blob that a writer gets in memory; larger ones are written while they are read.
	maxQueued = 1 << 20
	queued    = 64
)

// build writes a tree below dst: first every directory, then the files, last the links. So while anything is written
// there is no link yet that could lead a path elsewhere, and names were checked before.
func build(ctx context.Context, d git.Dir, tree, dst string) error {
	b, err := d.Batch(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	dirs, err := walkTree(b, d.Format, tree)
	if err != nil {
		return err
	}
	top := filepath.Join(dst, "tree")
	if err := os.Chmod(dst, 0o755); err != nil {
		return infrastructure(err)
	}
	if err := os.Mkdir(top, 0o755); err != nil {
		return infrastructure(err)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return infrastructure(err)
	}
	defer root.Close()
	w := &treeWriter{root: root, jobs: make(chan writeJob, queued)}
	if err := w.write(b, dirs); err != nil {
		return err
	}
	return writeStatIndex(dst, tree, dirs, w.bytes)
}

func infrastructure(err error) error {
	return reason.Errorf(reason.InfrastructureFault, "writing the checkout: %w", err).
		WithHint("is the disk full or read-only?")
}

type treeWriter struct {
	root  *os.Root
	jobs  chan writeJob
	bytes int64
	fail  atomic.Pointer[error]
}

// openDir is a directory that files are being written to; the last one closes it.
type openDir struct {
	root *os.Root
	left atomic.Int64
}

type writeJob struct {
	dir  *openDir
	name string
	mode uint32
	data []byte
}

// blobRef is a blob to be written.
type blobRef struct {
	dir   int // into dirs
	entry treeEntry
}

func (w *treeWriter) write(b *git.Batch, dirs []treeDir) error {
	files, links, err := w.makeDirs(dirs)
	if err != nil {
		return err
	}
	var writers sync.WaitGroup
	for range min(8, runtime.GOMAXPROCS(0)) {
		writers.Go(w.work)
	}
	err = w.readFiles(b, dirs, files)
	close(w.jobs)
	writers.Wait()
	if failed := w.fail.Load(); failed != nil {
		err = infrastructure(*failed)
	}
	if err != nil {
		return err
	}
	return w.makeLinks(b, dirs, links)
}

// makeDirs makes every directory, submodules as empty ones, and sorts the rest.
func (w *treeWriter) makeDirs(dirs []treeDir) (files, links []blobRef, err error) {
	for i, dir := range dirs {
		for _, e := range dir.entries {
			switch e.mode {
			case modeDir, modeGitlink:
				if err := w.root.Mkdir(dir.join(e.name), 0o755); err != nil {
					return nil, nil, infrastructure(err)
				}
			case modeSymlink:
				links = append(links, blobRef{i, e})
			default:
				files = append(files, blobRef{i, e})
			}
		}
	}
	return files, links, nil
}

func idsOf(refs []blobRef) []string {
	ids := make([]string, len(refs))
	for i, r := range refs {
		ids[i] = r.entry.id
	}
	return ids
}

// readFiles hands blobs from git to the writers. The files of a directory follow one another, so few are open at once.
func (w *treeWriter) readFiles(b *git.Batch, dirs []treeDir, files []blobRef) error {
	counts := map[int]int64{}
	for _, f := range files {
		counts[f.dir]++
	}
	var current *openDir
	last := -1
	return b.Each(idsOf(files), func(o git.Object, r io.Reader) error {
		f := files[o.Index]
		if failed := w.fail.Load(); failed != nil {
			return *failed
		}
		if w.bytes += o.Size; o.Kind != "blob" || w.bytes > MaxCheckoutBytes {
			return reason.Errorf(reason.RepositoryInvalid, "%q is a %s, or the tree has more than %d bytes", dirs[f.dir].join(f.entry.name),
				o.Kind, int64(MaxCheckoutBytes))
		}
		if f.dir != last {
			root, err := w.root.OpenRoot(rootPath(dirs[f.dir].path))
			if err != nil {
				return infrastructure(err)
			}
			current, last = &openDir{root: root}, f.dir
			current.left.Store(counts[f.dir])
		}
		job := writeJob{dir: current, name: f.entry.name, mode: f.entry.mode}
		if o.Size > maxQueued {
			return job.write(r)
		}
		job.data = make([]byte, o.Size)
		if _, err := io.ReadFull(r, job.data); err != nil && err != io.EOF {
			return fmt.Errorf("reading %q: %w", f.entry.name, err)
		}
		w.jobs <- job
		return nil
	})
}

func rootPath(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func (w *treeWriter) work() {
	for job := range w.jobs {
		if w.fail.Load() != nil {
			continue // drain
		}
		if err := job.write(nil); err != nil {
			w.fail.CompareAndSwap(nil, &err)
		}
	}
}

// write makes one file, from r or from the data of the job.
func (j *writeJob) write(r io.Reader) error {
	perm := os.FileMode(0o644)
	if j.mode == modeExec {
		perm = 0o755
	}
	f, err := j.dir.root.OpenFile(j.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if r != nil {
		_, err = io.Copy(f, r)
	} else if len(j.data) > 0 {
		_, err = f.Write(j.data)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if j.dir.left.Add(-1) == 0 {
		j.dir.root.Close()
	}
	return err
}

func (w *treeWriter) makeLinks(b *git.Batch, dirs []treeDir, links []blobRef) error {
	return b.Each(idsOf(links), func(o git.Object, r io.Reader) error {
		l := links[o.Index]
		path := dirs[l.dir].join(l.entry.name)
		target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
		if err != nil {
			return fmt.Errorf("reading %q: %w", path, err)
		}
		if len(target) == 0 || len(target) > maxTarget || strings.ContainsRune(string(target), 0) {
			return badPath(path, "its target cannot exist")
		}
		if err := w.root.Symlink(string(target), path); err != nil {
			return infrastructure(err)
		}
		return nil
	})
}
