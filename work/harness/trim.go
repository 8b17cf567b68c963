package harness

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"remit/work/workspace"
)

// Base trees are kept as files, so that the next run of a repository begins at
// once. Each run also throws some away: those that were not used for longest,
// until the rest fits its cap. A tree in use is locked and stays.

const (
	defaultCacheBytes = 5 << 30
	// cacheShare is the part of the disk that the cache may take at most.
	cacheShare = 5
	// trimTime is what trimming may cost a run that has nothing else left to do.
	trimTime = 5 * time.Second
)

// cacheFromEnv reads REMIT_CACHE_MB: 0 when it is not set.
func cacheFromEnv() (int64, error) {
	text := os.Getenv("REMIT_CACHE_MB")
	if text == "" {
		return 0, nil
	}
	const most = 1 << 40 // MiB; more would overflow in bytes
	mb, err := strconv.ParseInt(text, 10, 64)
	if err != nil || mb < 1 || mb > most {
		return 0, fmt.Errorf("REMIT_CACHE_MB %.40q is not a number of MiB from 1 on", text)
	}
	return mb << 20, nil
}

// cacheBytes is the cap: what the user says, else 5 GiB or a fifth of the disk,
// whichever is less.
func (h Home) cacheBytes() int64 {
	if h.CacheBytes > 0 {
		return h.CacheBytes
	}
	var st unix.Statfs_t
	if err := unix.Statfs(h.Dir, &st); err != nil {
		return defaultCacheBytes
	}
	return min(defaultCacheBytes, int64(st.Blocks)*int64(st.Bsize)/cacheShare) //nolint:unconvert // 32 bits on some systems
}

// trim holds the cache to its cap.
func (h Home) trim(ctx context.Context) (freed int64, err error) {
	cache, err := workspace.OpenCache(h.CacheDir())
	if err != nil {
		return 0, err
	}
	return cache.Trim(ctx, h.cacheBytes())
}

// beginTrim trims the cache while the run goes on, which has locked its own tree
// by then. The result waits, but not long: what is left over is for the next
// run. A failure is reported, and ends no run.
func (r *run) beginTrim() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	freed := begin(func() (int64, error) { return r.Home.trim(ctx) })
	return func() {
		late := time.AfterFunc(trimTime, cancel)
		defer late.Stop()
		defer cancel()
		if n, err := freed(); err != nil && ctx.Err() == nil {
			r.tell("cache.trimmed", "failed", r.scrub(err.Error()))
		} else if n > 0 {
			r.tell("cache.trimmed", "completed", fmt.Sprintf("%d MiB of base trees freed", n>>20))
		}
	}
}
