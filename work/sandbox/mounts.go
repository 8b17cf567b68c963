//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// clone is a detached copy of one mount, taken before the stage covers the
// directory in which its source may lie.
type clone struct {
	source
	fd     int
	isDir  bool
	mapped bool
}

// mountView builds the stage: a skeleton tmpfs, the sized tmpfs for everything
// that is written, the clones, and the workspace.
func (k *keeper) mountView(a *answer) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// bwrap looks up its child below /proc by the number that the child has in
	// our pid namespace.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	unix.Umask(0o022)
	lower, err := k.cloneMount(k.setup.Lower)
	if err != nil {
		return err
	}
	caches, err := k.cloneCaches()
	if err != nil {
		return err
	}
	var modules *clone
	if k.setup.Modules != nil {
		if modules, err = k.cloneMount(k.setup.Modules.Cache); err != nil {
			return err
		}
	}
	mounts := make([]*clone, len(k.setup.Mounts))
	for i, m := range k.setup.Mounts {
		if mounts[i], err = k.cloneMount(m); err != nil {
			return err
		}
	}
	if err := k.mountStage(); err != nil {
		return err
	}
	if err := lower.place(stageLower); err != nil {
		return err
	}
	for i, m := range mounts {
		at := filepath.Join(stageMounts, strconv.Itoa(i))
		if err := k.lend(m, at); err != nil {
			return err
		}
		k.binds = append(k.binds, Bind{Host: at, Inside: m.Inside})
	}
	if err := k.lendModules(modules); err != nil {
		return err
	}
	if err := errors.Join(k.mountTerminals(), os.WriteFile(stageMask, nil, 0o444), k.writeEtc()); err != nil {
		return err
	}
	a.LoginNote = k.limitLogin()
	if err := k.mountGoCache(caches, a); err != nil {
		return err
	}
	return k.mountWorkspace(lower, a)
}

// cloneMount opens a source by a detached mount. Its owner is mapped to the
// run user where asked and possible, so that private modes do not matter and
// an overlay can hand ownership on.
func (k *keeper) cloneMount(s source) (*clone, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	fd, err := unix.OpenTree(unix.AT_FDCWD, s.Host, flags)
	if err != nil {
		// Mounts below that this namespace may not separate.
		fd, err = unix.OpenTree(unix.AT_FDCWD, s.Host, flags|unix.AT_RECURSIVE)
	}
	if err != nil {
		return nil, fmt.Errorf("clone mount of %q: %w", s.Host, err)
	}
	c := &clone{source: s, fd: fd}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %q: %w", s.Host, err)
	}
	c.isDir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return nil, fmt.Errorf("make clone of %q read-only: %w", s.Host, err)
	}
	if s.IDMap >= 0 {
		if s.IDMap >= len(k.userns) {
			return nil, fmt.Errorf("map %q: user namespace %d of %d", s.Host, s.IDMap, len(k.userns))
		}
		attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(k.userns[s.IDMap])}
		c.mapped = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr) == nil
	}
	return c, nil
}

// place attaches the clone.
func (c *clone) place(at string) error {
	var err error
	if c.isDir {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err == nil {
		err = unix.MoveMount(c.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	_ = unix.Close(c.fd)
	if err != nil {
		return fmt.Errorf("place clone of %q: %w", c.Host, err)
	}
	return nil
}

// lend shows a source at a path of the stage. A directory is shown through an
// overlay without an upper layer: the mount table inside then does not tell
// where it lies on the host, and a unix socket in it answers nobody, because
// the overlay gives it another inode than the one that is listened on.
func (k *keeper) lend(c *clone, at string) error {
	if !c.isDir || k.setup.PlainBinds {
		return c.place(at)
	}
	below := at + ".below"
	if err := errors.Join(c.place(below), os.Mkdir(at, 0o755)); err != nil {
		return err
	}
	options := "lowerdir=" + stageEmpty + ":" + below
	if !k.setup.Root {
		options += ",userxattr"
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if unix.Mount("overlay", at, "overlay", flags, options) == nil {
		return nil
	}
	// A source that no overlay takes; the scan for sockets has to do.
	if err := unix.Mount(below, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %q: %w", c.Host, err)
	}
	return nil
}

func (k *keeper) mountStage() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", stage, "tmpfs", flags, "mode=0755,size=4m"); err != nil {
		return fmt.Errorf("mount stage: %w", err)
	}
	for _, dir := range []string{stageDisk, stageMounts, stageWorkspace, stageEtc, stageEmpty} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	size := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", k.setup.DiskBytes, k.setup.Inodes)
	if err := unix.Mount("tmpfs", stageDisk, "tmpfs", flags, size); err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	return nil
}

func (k *keeper) writeEtc() error {
	for name, content := range etcFiles() {
		if err := os.WriteFile(filepath.Join(stageEtc, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, name := range etcFromHost {
		info, err := os.Stat(filepath.Join("/etc", name))
		if err != nil {
			continue
		}
		if info.IsDir() {
			err = os.Mkdir(filepath.Join(stageEtc, name), 0o755)
		} else {
			err = os.WriteFile(filepath.Join(stageEtc, name), nil, 0o644)
		}
		if err != nil {
			return err
		}
		k.etc = append(k.etc, name)
	}
	return nil
}
