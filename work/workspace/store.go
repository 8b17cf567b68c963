package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/git"
)

// Store is the object store of one session: a bare repository of ours that reads the source's objects besides its
// own. It is safe for concurrent use.
//
// New objects are made in a scratch directory that is thrown away, by a process that does not see the source as a
// place to write, travel as one pack, and enter the store through a strict check. So a refused import leaves
// nothing behind, and git never refreshes the time stamp of an object of the source.
type Store struct {
	git  git.Dir
	base Baseline
	most int // paths of a difference
	objects

	treesMu sync.Mutex
	trees   map[string][]treeEntry // parsed trees, see readDir
	made    map[string]bool        // trees that the store has made, with all that is in them
}

// NewStore opens the store in dir, and makes it first if there is none. It checks that the source still has the
// baseline; the error is baseline_mismatch or objects_missing if it has not.
func NewStore(ctx context.Context, dir string, src *Source, base Baseline) (*Store, error) {
	d, err := git.Create(dir, src.config.format)
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "%w", err)
	}
	if err := src.copyShallow(d.Path); err != nil {
		return nil, err
	}
	d.Alternates = []string{src.objects()}
	s := &Store{git: d, base: base, most: MaxTreeEntries, objects: objects{dir: d}, trees: map[string][]treeEntry{}, made: map[string]bool{}}
	if err := s.checkBaseline(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Store) checkBaseline(ctx context.Context) error {
	return s.with(ctx, func(b *git.Batch) error {
		if !s.git.Format.IsID(s.base.Commit) {
			return reason.Errorf(reason.BaselineMismatch, "baseline commit %q is not an id of this repository", s.base.Commit)
		}
		commit, tree, err := readCommit(b, s.git.Format, s.base.Commit)
		if err == nil && (commit != s.base.Commit || tree != s.base.Tree) {
			return reason.Errorf(reason.BaselineMismatch, "commit %s has tree %s, not %s", commit, tree, s.base.Tree)
		}
		return err
	})
}

// TempStore is a store in a directory of its own, which done removes.
func TempStore(ctx context.Context, source *Source, base Baseline) (store *Store, done func(), err error) {
	dir, err := os.MkdirTemp("", "remit-store-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a work directory: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) } // a temporary directory
	if store, err = NewStore(ctx, filepath.Join(dir, "store.git"), source, base); err != nil {
		remove()
		return nil, nil, err
	}
	return store, func() { _ = store.Close(); remove() }, nil
}

// Close ends the processes of the store. Its files stay.
func (s *Store) Close() error {
	s.close()
	return nil
}

// Bound sets how long one git process of the store may take from now on, see
// [git.Dir], and how many paths a difference may have. Not to be called while
// the store is in use.
func (s *Store) Bound(each time.Duration, paths int) {
	s.most = paths
	s.mu.Lock()
	defer s.mu.Unlock()
	s.git.Limit, s.dir.Limit = each, each
	if s.batch != nil {
		s.batch.Bound(each)
	}
}

// Dir is the git directory, for package git.
func (s *Store) Dir() git.Dir { return s.git }

// Baseline is what the store was opened for.
func (s *Store) Baseline() Baseline { return s.base }

// scratch makes a passing git directory. It reads the store and the source if seeing is set, otherwise nothing.
func (s *Store) scratch(seeing bool, f func(git.Dir) error) error {
	tmp, err := os.MkdirTemp(s.git.Path, "scratch-")
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "making a scratch directory: %w", err)
	}
	defer removeAll(tmp)
	d, err := git.Create(tmp, s.git.Format)
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "%w", err)
	}
	d.Volatile, d.Limit = true, s.git.Limit
	if seeing {
		d.Alternates = append([]string{s.git.ObjectsDir()}, s.git.Alternates...)
		if err := copyShallowFile(s.git.Path, tmp); err != nil {
			return reason.Errorf(reason.InfrastructureFault, "%w", err)
		}
	}
	return f(d)
}

func copyShallowFile(from, to string) error {
	b, err := os.ReadFile(filepath.Join(from, "shallow"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "shallow"), b, 0o600) //nolint:gosec // both directories are ours
}

// write lays edits over a tree and stores what is new.
func (s *Store) write(ctx context.Context, base string, edits []git.Edit, c git.Commit) (made git.Imported, err error) {
	err = s.scratch(true, func(d git.Dir) error {
		if made, err = d.Import(ctx, base, edits, c); err != nil {
			return err
		}
		packs, err := d.Packs()
		if err != nil {
			return err
		}
		for _, pack := range packs {
			if err := s.accept(ctx, pack); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.treesMu.Lock()
		defer s.treesMu.Unlock()
		s.made[made.Tree] = true
	}
	return made, err
}

// has says that the store has made this tree.
func (s *Store) has(tree string) bool {
	s.treesMu.Lock()
	defer s.treesMu.Unlock()
	return s.made[tree]
}

func (s *Store) accept(ctx context.Context, pack string) error {
	f, err := os.Open(pack)
	if err != nil {
		return fmt.Errorf("opening the new objects: %w", err)
	}
	defer f.Close()
	if err := s.git.IndexPack(ctx, f); err != nil {
		return fmt.Errorf("checking the new objects: %w", err)
	}
	return nil
}

// CommitTree makes a commit of tree with one parent ("" for none). Author and committer are fixed, so the same
// arguments give the same id everywhere; when is cut to seconds, UTC.
func (s *Store) CommitTree(ctx context.Context, tree, parent, message string, when time.Time) (string, error) {
	if !strings.HasSuffix(message, "\n") {
		message += "\n"
	}
	if strings.ContainsRune(message, 0) {
		return "", fmt.Errorf("committing tree %s: the message holds a NUL", tree)
	}
	made, err := s.write(ctx, tree, nil, git.Commit{Parent: parent, Message: message, When: when})
	if err != nil {
		return "", fmt.Errorf("committing tree %s: %w", tree, err)
	}
	if made.Tree != tree {
		return "", reason.Errorf(reason.TreeMismatch, "the commit of tree %s has tree %s", tree, made.Tree)
	}
	return made.Commit, nil
}

// lockWait is how often a lock that another process holds is tried again. Only a build of the same tree is waited for.
const lockWait = 5 * time.Millisecond

var errLocked = errors.New("locked")

// fileLock is an advisory lock on a file of the cache. The kernel drops it when the process ends, however it ends.
type fileLock struct{ f *os.File }

// tryLock takes a lock (unix.LOCK_SH or LOCK_EX) or fails with errLocked.
func tryLock(path string, how int) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		// A trim removes lock files: a lock on a file that is gone protects nothing.
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, now) {
			return &fileLock{f: f}, nil
		}
		f.Close()
	}
}

// waitLock is tryLock until it succeeds or ctx ends.
func waitLock(ctx context.Context, path string, how int) (*fileLock, error) {
	for {
		l, err := tryLock(path, how)
		if !errors.Is(err, errLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockWait):
		}
	}
}

// touch sets the time of last use.
func (l *fileLock) touch() {
	now := time.Now()
	_ = os.Chtimes(l.f.Name(), now, now) // only the order of trimming depends on it
}

// release lets others have the lock. It is unlocked, not only closed: a process that is
// just being started holds a copy of the file until it executes.
func (l *fileLock) release() {
	_ = unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
	l.f.Close()
}

func parseRecord(item string) (r statRecord, err error) {
	f := strings.SplitN(item, " ", 6)
	if len(f) != 6 || f[5] == "" {
		return r, errStatIndex
	}
	var errs [5]error
	r.mode, errs[0] = strconv.ParseUint(f[0], 8, 32)
	r.size, errs[1] = strconv.ParseInt(f[1], 10, 64)
	r.mtime, errs[2] = strconv.ParseInt(f[2], 10, 64)
	r.ctime, errs[3] = strconv.ParseInt(f[3], 10, 64)
	r.ino, errs[4] = strconv.ParseUint(f[4], 10, 64)
	r.path = f[5]
	if cmp.Or(errs[:]...) != nil {
		return r, errStatIndex
	}
	return r, nil
}

// Verify compares every path with the stat index. An error is tree_mismatch: the checkout is not what it was when it
// was built, has been discarded, and must not be used.
func (co *Checkout) Verify(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(co.cache.entry(co.tree), "index"))
	if err != nil {
		return co.damaged("reading its index: %w", err)
	}
	head, records, err := parseStatIndex(b)
	if err != nil || head.Tree != co.tree {
		return co.damaged("its index: %w", cmp.Or(err, errStatIndex))
	}
	fd, err := unix.Open(co.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return co.damaged("%w", err)
	}
	defer closeFD(fd)
	chunks := slices.Collect(slices.Chunk(records, max(1, len(records)/min(4, runtime.GOMAXPROCS(0))+1)))
	failures := make([]error, len(chunks))
	var workers sync.WaitGroup
	for i, chunk := range chunks {
		workers.Go(func() { failures[i] = verifyRecords(ctx, fd, chunk) })
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := cmp.Or(failures...); err != nil {
		return co.damaged("%w", err)
	}
	return nil
}

func verifyRecords(ctx context.Context, fd int, records []statRecord) error {
	for i, r := range records {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, r.path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("%q: %w", r.path, err)
		}
		if recordOf(r.path, &st) != r {
			return fmt.Errorf("%q was touched", r.path)
		}
	}
	return nil
}
