package workspace

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"remit/work/git"
)

// verifyDeep compares the checkout with the objects of the tree, byte for byte and name for name: what Verify, which trusts
// the index and the clock, is held against. The error is tree_mismatch as in Verify.
func (co *Checkout) verifyDeep(ctx context.Context) error {
	b, err := co.git.Batch(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	dirs, err := walkTree(b, co.git.Format, co.tree)
	if err != nil {
		return fmt.Errorf("verifying the checkout of tree %s: %w", co.tree, err)
	}
	files, err := openDirStack(co.Dir)
	if err != nil {
		return co.damaged("%w", err)
	}
	defer files.close()
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := verifyDir(co.git.Format, files, dir); err != nil {
			return co.damaged("%w", err)
		}
	}
	return nil
}

func verifyDir(format git.Format, files *dirStack, dir treeDir) error {
	names, err := listBelow(files, dir.path)
	if err != nil {
		return fmt.Errorf("%q: %w", dir.path, err)
	}
	want := make([]string, len(dir.entries))
	for i, e := range dir.entries {
		want[i] = e.name
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		return fmt.Errorf("directory %q has other names", dir.path)
	}
	for _, e := range dir.entries {
		path := dir.join(e.name)
		ok, err := verifyEntry(format, files, path, e)
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		if !ok {
			return fmt.Errorf("%q has other content, type or mode", path)
		}
	}
	return nil
}

func listBelow(files *dirStack, dir string) ([]string, error) {
	at, _, err := files.enter(filepath.Join(dir, "x"))
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // an offset of its own
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return readNames(fd)
}

func verifyEntry(format git.Format, files *dirStack, path string, e treeEntry) (bool, error) {
	dir, name, err := files.enter(path)
	if err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err
	}
	kind, perm := modeOf(&st)&unix.S_IFMT, modeOf(&st)&0o7777
	switch e.mode {
	case modeDir:
		return kind == unix.S_IFDIR && perm == 0o755, nil
	case modeGitlink:
		names, err := listBelow(files, path)
		return err == nil && len(names) == 0, err
	case modeSymlink:
		buf := make([]byte, maxTarget+1)
		n, err := unix.Readlinkat(dir, name, buf)
		return err == nil && format.Sum("blob", buf[:n]) == e.id, err
	}
	if want := map[bool]uint32{true: 0o755, false: 0o644}[e.mode == modeExec]; kind != unix.S_IFREG || perm != want {
		return false, nil
	}
	f, err := openAt(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	id, err := hashFile(format, f, plain)
	return id == e.id, err
}
