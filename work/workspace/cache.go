package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/git"
)

// Cache keeps trees as files, one directory for each tree id, for all sessions and processes of a user. Its layout:
//
//	trees/<tree id>/tree/     the files
//	trees/<tree id>/index     what stat said about each when it was written
//	locks/<tree id>.use       shared lock while a Checkout is in use; its mtime is the last use
//	locks/<tree id>.build     exclusive lock while a process builds it
//	tmp/                      what is being built or removed
//
// An entry appears by a rename, complete. What is found damaged is moved away and built again.
type Cache struct{ dir string }

// staleAfter is when something in tmp must be the remains of a process that died.
const staleAfter = 24 * time.Hour

// trashAfter is when no process moves anything more into a directory for trash.
const trashAfter = time.Minute

// trashPrefix begins the names of what is being removed.
const trashPrefix = "trash-"

// OpenCache opens the cache in dir and makes it if there is none. Only the owner can look into it; the trees in it
// have plain modes, so that they can be mounted for another user.
func OpenCache(dir string) (*Cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the cache: %w", err)
	}
	for _, sub := range []string{"trees", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("opening the cache: %w", err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "trees"), 0o755); err != nil {
		return nil, fmt.Errorf("opening the cache: %w", err)
	}
	return &Cache{dir: dir}, nil
}

func (c *Cache) entry(tree string) string      { return filepath.Join(c.dir, "trees", tree) }
func (c *Cache) lock(tree, kind string) string { return filepath.Join(c.dir, "locks", tree+"."+kind) }

// Checkout is a tree as files. The files must not be changed.
type Checkout struct {
	Dir   string // the top of the tree
	Files int    // regular files and links
	Bytes int64  // in regular files
	Warm  bool   // it was there already

	cache   *Cache
	git     git.Dir // where the objects are
	tree    string
	entry   os.FileInfo // the cache entry it was opened from
	use     *fileLock
	release sync.Once
}

// Checkout returns the tree as files, from the cache or made now. A cached one is not looked at, so that this takes
// the same time for any size: call Verify beside other work, and drop what was done if it fails. Release it after use.
func (c *Cache) Checkout(ctx context.Context, st *Store, tree string) (*Checkout, error) {
	if !st.git.Format.IsID(tree) {
		return nil, fmt.Errorf("checking out: %q is not a tree id", tree)
	}
	use, err := waitLock(ctx, c.lock(tree, "use"), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	co := &Checkout{Dir: filepath.Join(c.entry(tree), "tree"), cache: c, git: st.git, tree: tree, use: use}
	if co.Warm = co.open() == nil; !co.Warm {
		if err := c.make(ctx, co); err != nil {
			co.Release()
			return nil, fmt.Errorf("checking out tree %s: %w", tree, err)
		}
	}
	use.touch()
	return co, nil
}

// open reads the head of the entry's index. An entry whose top is not the one that was
// built is none: it came here with a copy of the cache, and is built again.
func (co *Checkout) open() error {
	head, top, err := readIndexHead(filepath.Join(co.cache.entry(co.tree), "index"))
	if err != nil {
		return err
	}
	if head.Tree != co.tree {
		return errors.New("the index is that of another tree")
	}
	var st unix.Stat_t
	if err := unix.Lstat(co.Dir, &st); err != nil || recordOf(".", &st) != top {
		return errors.New("there is no such tree")
	}
	co.Files, co.Bytes = head.Files, head.Bytes
	co.entry, err = os.Lstat(co.cache.entry(co.tree))
	return err
}

// make builds the entry unless another process did while this one waited.
func (c *Cache) make(ctx context.Context, co *Checkout) error {
	building, err := waitLock(ctx, c.lock(co.tree, "build"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer building.release()
	if co.Warm = co.open() == nil; co.Warm {
		return nil
	}
	if err := c.discard(co.tree); err != nil { // half an entry
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Join(c.dir, "tmp"), "build-")
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "%w", err)
	}
	defer removeAll(tmp)
	if err := build(ctx, co.git, co.tree, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.entry(co.tree)); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return reason.Errorf(reason.InfrastructureFault, "publishing the checkout: %w", err)
	}
	return co.open()
}

// discard moves an entry out of the way, at once, and then removes it.
func (c *Cache) discard(tree string) error { return c.discardWithin(context.Background(), tree) }

func (c *Cache) discardWithin(ctx context.Context, tree string) error {
	trash, err := os.MkdirTemp(filepath.Join(c.dir, "tmp"), trashPrefix)
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "%w", err)
	}
	defer removeWithin(ctx, trash)
	err = os.Rename(c.entry(tree), filepath.Join(trash, tree))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return reason.Errorf(reason.InfrastructureFault, "discarding a checkout: %w", err)
	}
	return nil
}

// removeWithin removes a directory of ours until ctx ends.
func removeWithin(ctx context.Context, dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if path := filepath.Join(dir, e.Name()); e.IsDir() {
			removeWithin(ctx, path)
		} else {
			_ = os.Remove(path) // the next sweep tries again
		}
	}
	_ = os.Remove(dir)
}

// removeAll removes what is not needed any more; what is left of it is found by the next sweep.
func removeAll(dir string) { _ = os.RemoveAll(dir) }

// Release ends the use of the checkout: it may be trimmed from now on.
func (co *Checkout) Release() { co.release.Do(co.use.release) }

// damaged discards the entry, if it still is the one that was opened, and reports why.
func (co *Checkout) damaged(format string, args ...any) error {
	if now, err := os.Lstat(co.cache.entry(co.tree)); err == nil && co.entry != nil && os.SameFile(now, co.entry) {
		if err := co.cache.discard(co.tree); err != nil {
			return err
		}
	}
	return reason.Errorf(reason.TreeMismatch, "the checkout of tree %s is damaged: %w", co.tree, fmt.Errorf(format, args...)).
		WithHint("it was discarded and is built again when it is next needed; something writes into %s", co.cache.dir)
}

// Trim removes checkouts, least recently used first, until those left take at most maxBytes on disk. One in use stays.
// It returns how many bytes it freed. The end of ctx stops it between two files: what was being removed is no
// checkout any more, and the rest of it is left to a later Trim.
func (c *Cache) Trim(ctx context.Context, maxBytes int64) (freed int64, err error) {
	c.sweep(ctx)
	entries, err := c.entries()
	if err != nil {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		total += e.bytes
	}
	for _, e := range entries {
		if total-freed <= maxBytes {
			break
		}
		if ctx.Err() != nil {
			return freed, context.Cause(ctx)
		}
		removed, err := c.remove(ctx, e.tree)
		if err != nil {
			return freed, err
		}
		if removed {
			freed += e.bytes
		}
	}
	return freed, nil
}

func (c *Cache) remove(ctx context.Context, tree string) (bool, error) {
	use, err := tryLock(c.lock(tree, "use"), unix.LOCK_EX)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer use.release()
	if err := c.discardWithin(ctx, tree); err != nil {
		return false, err
	}
	for _, kind := range []string{"build", "use"} {
		if err := os.Remove(c.lock(tree, kind)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return true, fmt.Errorf("trimming the cache: %w", err)
		}
	}
	return true, nil
}

type cacheEntry struct {
	tree  string
	bytes int64
	used  time.Time
}

// entries lists what there is, least recently used first.
func (c *Cache) entries() ([]cacheEntry, error) {
	names, err := os.ReadDir(filepath.Join(c.dir, "trees"))
	if err != nil {
		return nil, fmt.Errorf("trimming the cache: %w", err)
	}
	var entries []cacheEntry
	for _, n := range names {
		e := cacheEntry{tree: n.Name()}
		if head, _, err := readIndexHead(filepath.Join(c.entry(e.tree), "index")); err == nil {
			e.bytes = head.Disk
		}
		if info, err := os.Stat(c.lock(e.tree, "use")); err == nil {
			e.used = info.ModTime()
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b cacheEntry) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.tree, b.tree))
	})
	return entries, nil
}

// sweep removes what dead processes left in tmp. Trash has no owner as soon as it is filled; two
// who remove the same do not disturb each other.
func (c *Cache) sweep(ctx context.Context) {
	tmp := filepath.Join(c.dir, "tmp")
	names, _ := os.ReadDir(tmp)
	for _, n := range names {
		info, err := n.Info()
		if err != nil {
			continue
		}
		age := time.Since(info.ModTime())
		if age > staleAfter || age > trashAfter && strings.HasPrefix(n.Name(), trashPrefix) {
			removeWithin(ctx, filepath.Join(tmp, n.Name()))
		}
	}
}

// Names says which object a revision names at this moment, without starting git: what HEAD, a branch or a tag points
// at, or a full id that one of them points at. "" means that only Resolve knows.
func (s *Source) Names(rev string) (id string, err error) {
	refs, err := readRefs(s.loc, s.config.format)
	if err != nil {
		return "", err
	}
	if git.FormatOf(rev) == "" {
		if _, is := refs.ambiguous(rev); !is {
			_, id = refs.lookup(rev)
		}
		return id, nil
	}
	if _, head := refs.headRef(); head == rev {
		return rev, nil
	}
	for _, pointed := range refs.ids {
		if pointed == rev {
			return rev, nil
		}
	}
	return "", nil
}

// Below lists the refs whose names begin with a prefix, in order, without starting git.
func (s *Source) Below(prefix string) (names []string, err error) {
	refs, err := readRefs(s.loc, s.config.format)
	if err != nil {
		return nil, err
	}
	for name := range refs.ids {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Find is Checkout of a tree that is in the cache already, and nil of any other: so it needs no store, and starts no
// process.
func (c *Cache) Find(ctx context.Context, tree string) (*Checkout, error) {
	if git.FormatOf(tree) == "" {
		return nil, fmt.Errorf("checking out: %q is not a tree id", tree)
	}
	use, err := waitLock(ctx, c.lock(tree, "use"), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	co := &Checkout{Dir: filepath.Join(c.entry(tree), "tree"), Warm: true, cache: c, tree: tree, use: use}
	if co.open() != nil {
		co.Release()
		return nil, nil //nolint:nilerr // it is not there, or not whole: Checkout makes it
	}
	use.touch()
	return co, nil
}
