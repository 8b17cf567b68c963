//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// checkCaches resolves the directories of Spec.Caches. One that another user
// can write to is refused: its entries would become code of the commands.
func checkCaches(dirs []string) ([]string, error) {
	if len(dirs) > MaxCaches {
		return nil, fmt.Errorf("sandbox: %d Go build caches to lend, at most %d", len(dirs), MaxCaches)
	}
	resolved := make([]string, len(dirs))
	for i, dir := range dirs {
		var err error
		if resolved[i], err = directory(dir); err != nil {
			return nil, fmt.Errorf("sandbox: lent Go build cache: %w", err)
		}
		info, err := os.Stat(resolved[i])
		if err != nil {
			return nil, fmt.Errorf("sandbox: lent Go build cache: %w", err)
		}
		if info.Mode().Perm()&0o022 != 0 || !isOurs(info) {
			return nil, fmt.Errorf("sandbox: lent Go build cache %q: other users can write to it", dir)
		}
	}
	return resolved, nil
}

// cloneCaches opens what is lent as build cache, the highest layer first and
// Remit's own last.
func (k *keeper) cloneCaches() ([]*clone, error) {
	sources := k.setup.Caches
	if k.setup.GoCache != nil {
		sources = append(sources, *k.setup.GoCache)
	}
	clones := make([]*clone, len(sources))
	for i, s := range sources {
		var err error
		if clones[i], err = k.cloneMount(s); err != nil {
			return nil, err
		}
	}
	return clones, nil
}

// mountGoCache lays a private, discarded layer over the lent Go build caches and
// Remit's own. Where that is not possible it does without the lent ones, and
// last with an empty cache.
func (k *keeper) mountGoCache(caches []*clone, a *answer) error {
	k.cache = filepath.Join(stageDisk, "go-build")
	upper, work := filepath.Join(stageDisk, "cache-up"), filepath.Join(stageDisk, "cache-work")
	err := errors.Join(k.ownDir(k.cache, 0o755), k.ownDir(upper, 0o755), os.Mkdir(work, 0o755), k.seedGoCache(k.cache), k.seedGoCache(upper))
	if err != nil {
		return err
	}
	layers, err := k.placeCaches(caches, a)
	if err != nil {
		return err
	}
	a.Cache = "empty"
	for len(layers) > 0 {
		err := mountOverlay(strings.Join(layers, ":"), upper, work, k.cache, k.setup.Root, true)
		if err == nil {
			k.lower, k.added, a.Cache = layers, upper, "overlay"
			break
		}
		if a.Lent == 0 {
			break
		}
		a.NotLent, layers, a.Lent = err.Error(), layers[a.Lent:], 0
	}
	return nil
}

// placeCaches attaches those clones that the run user can work over and returns
// where.
func (k *keeper) placeCaches(caches []*clone, a *answer) (layers []string, err error) {
	for i, c := range caches {
		lent := i < len(k.setup.Caches)
		if k.setup.Root && !c.mapped {
			if err := unix.Close(c.fd); err != nil {
				return nil, err
			}
			if lent {
				a.NotLent = "the file system of a lent cache has no id-mapped mounts"
			}
			continue
		}
		at := filepath.Join(stageGoCache, strconv.Itoa(i))
		if err := c.place(at); err != nil {
			return nil, err
		}
		layers = append(layers, at)
		if lent {
			a.Lent++
		}
	}
	return layers, nil
}

// seedGoCache sets the time at which results of tests expired, which is now: one
// of an earlier Run never stands for a test of this one. It also notes that
// the cache was trimmed just now, or the first command would spend its time on
// that and hide old entries from the second.
func (k *keeper) seedGoCache(dir string) error {
	now := time.Now()
	for name, text := range map[string]string{
		"testexpire.txt": strconv.FormatInt(now.UnixNano(), 10) + "\n",
		"trim.txt":       strconv.FormatInt(now.Unix(), 10),
	} {
		if err := k.ownFile(filepath.Join(dir, name), text); err != nil {
			return fmt.Errorf("seed the build cache: %w", err)
		}
	}
	return nil
}

// ownFile makes a new file that belongs to the run user.
func (k *keeper) ownFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	if !k.setup.Root {
		return nil
	}
	return os.Chown(path, k.setup.RunAs, k.setup.RunAs)
}
