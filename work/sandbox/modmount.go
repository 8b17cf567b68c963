//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// modulesBytes sizes the tmpfs that holds the directories and small files of the
// lent part of the module cache.
const modulesBytes = 256 << 20

// lendModules builds the part of the module cache that is lent: a tmpfs with its
// directories and small files, and a mount for each module. Nothing is there
// that was not named, whatever appears in the cache meanwhile.
func (k *keeper) lendModules(cache *clone) error {
	if cache == nil {
		return nil
	}
	if err := errors.Join(cache.place(stageModCache), os.Mkdir(stageModules, 0o755)); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", stageModules, "tmpfs", flags, fmt.Sprintf("mode=0755,size=%d", modulesBytes)); err != nil {
		return fmt.Errorf("mount modules: %w", err)
	}
	if err := fillModules(stageModCache, stageModules, k.setup.Modules); err != nil {
		return err
	}
	for _, dir := range k.setup.Modules.Dirs {
		if err := k.show(filepath.Join(stageModCache, dir), dir, filepath.Join(stageModules, dir)); err != nil {
			return err
		}
	}
	k.binds = append(k.binds, Bind{Host: stageModules, Inside: insideModCache})
	return nil
}

// fillModules copies what is small from the cache and makes the directories for
// the rest. No sandboxed process has seen either place yet.
func fillModules(from, to string, m *lentModules) error {
	made := map[string]bool{}
	for _, file := range m.Files {
		text, err := readSmall(from+"/"+file, maxModFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not every module has all of them
		}
		if err == nil {
			err = mkdirIn(to, path.Dir(file), made)
		}
		if err == nil {
			err = os.WriteFile(to+"/"+file, text, 0o444)
		}
		if err != nil {
			return fmt.Errorf("lend module file %q: %w", file, err)
		}
	}
	for _, dir := range m.Dirs {
		if err := mkdirIn(to, dir, made); err != nil {
			return fmt.Errorf("lend module %q: %w", dir, err)
		}
	}
	// Two runs over the same tree see the same times.
	for dir := range made {
		if err := os.Chtimes(to+"/"+dir, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			return fmt.Errorf("lend module directory %q: %w", dir, err)
		}
	}
	return nil
}

// mkdirIn makes a directory and those above it, each once.
func mkdirIn(top, dir string, made map[string]bool) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := mkdirIn(top, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return os.Mkdir(top+"/"+dir, 0o755)
}
