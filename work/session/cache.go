package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/image"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// Base trees are kept as files, so that the next run of a repository begins at
// once. Each run also throws some away: those that were not used for longest,
// until the rest fits its cap. A tree in use is locked and stays.

const (
	defaultCacheBytes = 5 << 30
	// cacheShare is the part of the disk that the cache may take at most.
	cacheShare = 5
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
		return 0, reason.Errorf(reason.HomeUnusable, "REMIT_CACHE_MB %.40q is not a number of MiB from 1 on", text).
			WithHint("such as REMIT_CACHE_MB=5120")
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

// Trim holds the cache to its cap.
func (h Home) Trim(ctx context.Context) (freed int64, err error) {
	cache, err := workspace.OpenCache(h.CacheDir())
	if err != nil {
		return 0, err
	}
	return cache.Trim(ctx, h.cacheBytes())
}

// VerdictDir holds what the verifier found out, by the digest of everything
// that it depends on.
func (h Home) VerdictDir() string { return filepath.Join(h.CacheDir(), "verdicts") }

// TestingDir holds Go's package testing, compiled as the control needs it.
func (h Home) TestingDir() string { return filepath.Join(h.CacheDir(), "testing") }

// ImagesDir holds system images, by digest.
func (h Home) ImagesDir() string { return cmp.Or(h.Images, filepath.Join(h.Dir, "images")) }

// EnvironmentsDir holds dependency layers, by the digest of how they are made.
func (h Home) EnvironmentsDir() string {
	return cmp.Or(h.Layers, filepath.Join(h.Dir, "environments"))
}

// EnvRegistries names another file than [Home.RegistriesFile] would.
const EnvRegistries = "REMIT_REGISTRIES"

// RegistriesFile says where the credentials of package registries are: it names
// variables, files and programs, and holds none itself.
func (h Home) RegistriesFile() string {
	return cmp.Or(os.Getenv(EnvRegistries), filepath.Join(h.Dir, "registries"))
}

// Distrust empties the verdict cache and the store of dependency layers if the driver confines nothing: what runs
// under it is the user and can have written entries. It is called before and
// after such a process; a cache that cannot be emptied is an error.
func (h Home) Distrust(d sandbox.Driver) error {
	if d == nil || d.Describe().Driver != sandbox.DriverNone {
		return nil
	}
	for _, dir := range []string{h.VerdictDir(), h.TestingDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("emptying the verdict cache: %w", err)
		}
	}
	if _, err := os.Lstat(h.ImagesDir()); err == nil {
		store, err := image.Open(h.ImagesDir())
		if err == nil {
			err = store.Empty(context.Background())
		}
		if err != nil {
			return err
		}
	}
	if _, err := os.Lstat(h.EnvironmentsDir()); err == nil {
		store, err := depend.OpenStore(h.EnvironmentsDir())
		if err == nil {
			err = store.Empty()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
