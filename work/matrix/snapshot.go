package matrix

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"remit/proof/canon"
)

// Snapshot is a directory tree by path: kind, mode, owner, size, inode, times
// of change, and content. Only times of access are left out, since reading is
// allowed.
type Snapshot map[string]string

// TakeSnapshot looks at everything below a directory.
func TakeSnapshot(dir string) (Snapshot, error) {
	out := Snapshot{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[rel], err = describe(path, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking a snapshot of the source: %w", err)
	}
	return out, nil
}

func describe(path string, d fs.DirEntry) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	content := ""
	switch {
	case d.Type().IsRegular():
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		content = canon.Digest(b)
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		content = target
	}
	return fmt.Sprintln(st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Ino, st.Mtim, st.Ctim, content), nil
}

// Differences lists the paths in which two snapshots differ.
func (s Snapshot) Differences(after Snapshot) []string {
	changed := map[string]bool{}
	for path, was := range s {
		if after[path] != was {
			changed[path] = true
		}
	}
	for path := range after {
		if _, was := s[path]; !was {
			changed[path] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}
