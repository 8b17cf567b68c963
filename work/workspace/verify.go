package workspace

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

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
