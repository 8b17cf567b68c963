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
	var served *clone
	if k.setup.Served != nil {
		if served, err = k.cloneMount(*k.setup.Served); err != nil {
			return err
		}
	}
	layers, err := k.cloneLayers()
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
	if k.mounts, err = mountPoints(); err != nil {
		return err
	}
	image, err := k.cloneImage()
	if err != nil {
		return err
	}
	system, err := k.gatherSystem()
	if err != nil {
		return err
	}
	lent := make([]*lending, len(k.setup.Mounts))
	for i, m := range k.setup.Mounts {
		if lent[i], err = k.gather(m, k.setup.MountsBelow); err != nil {
			return err
		}
	}
	if err := k.mountStage(); err != nil {
		return err
	}
	if err := lower.place(stageLower); err != nil {
		return err
	}
	if served != nil {
		if err := served.place(stageTheirs); err != nil {
			return err
		}
	}
	if err := placeLayers(layers); err != nil {
		return err
	}
	if k.system, err = k.lendAll(system, stageSystem); err != nil {
		return err
	}
	if k.binds, err = k.lendAll(lent, stageMounts); err != nil {
		return err
	}
	if err := k.lendModules(modules); err != nil {
		return err
	}
	if err := errors.Join(k.mountTerminals(), os.WriteFile(stageMask, nil, 0o444), k.writeEtc(), k.mountImage(image)); err != nil {
		return err
	}
	a.LoginNote, a.PlainNote = k.limitLogin(), k.plainNote()
	if err := k.mountGoCache(caches, a); err != nil {
		return err
	}
	if err := k.mountServed(); err != nil {
		return err
	}
	return k.mountWorkspace(append(layers, lower), a)
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

func (k *keeper) mountStage() error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", stage, "tmpfs", flags, "mode=0755,size=16m"); err != nil {
		return fmt.Errorf("mount stage: %w", err)
	}
	for _, dir := range []string{stageDisk, stageSystem, stageMounts, stageBelow, stageWorkspace, stageEtc, stageEmpty} {
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

// gatherSystem opens what every command sees of the host.
func (k *keeper) gatherSystem() ([]*lending, error) {
	if k.setup.Image != nil {
		return nil, nil // nothing of the host's
	}
	var system []*lending
	k.links = map[string]string{}
	open := func(host, inside string) error {
		sh, err := k.gather(source{Host: host, Inside: inside, IDMap: -1}, true)
		system = append(system, sh)
		return err
	}
	if err := open("/usr", "/usr"); err != nil {
		return nil, err
	}
	links, dirs := systemPlaces("/")
	k.links = links
	for _, dir := range dirs {
		if err := open(dir, dir); err != nil {
			return nil, err
		}
	}
	for _, name := range etcPlaces() {
		host, err := filepath.EvalSymlinks(filepath.Join("/etc", name))
		if err != nil {
			continue // not every host has all of them
		}
		if info, err := os.Stat(host); err != nil || !info.IsDir() {
			continue
		}
		if err := open(host, filepath.Join("/etc", name)); err != nil {
			return nil, err
		}
	}
	return system, nil
}

// lendAll shows sources at numbered places of the stage.
func (k *keeper) lendAll(sources []*lending, dir string) ([]Bind, error) {
	binds := make([]Bind, 0, len(sources))
	for i, sh := range sources {
		at, err := k.lend(sh, filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		binds = append(binds, Bind{Host: at, Inside: sh.Inside})
	}
	return binds, nil
}

// maxEtcFile bounds a file of /etc that is copied.
const maxEtcFile = 4 << 20

// writeEtc makes /etc: files of ours, copies of those of the host that everybody
// may read, and the places of directories.
func (k *keeper) writeEtc() error {
	files := etcFiles()
	for _, name := range etcPlaces() {
		host, err := filepath.EvalSymlinks(filepath.Join("/etc", name))
		if err != nil {
			continue
		}
		info, err := os.Stat(host)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if err := os.MkdirAll(filepath.Join(stageEtc, name), 0o755); err != nil {
				return err
			}
			continue
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 {
			continue // a copy would show it to more than the host does
		}
		text, err := readSmall(host, maxEtcFile)
		if err != nil {
			return err
		}
		files[name] = string(text)
	}
	for _, name := range belowEtc(phpModules) {
		host, err := filepath.EvalSymlinks(filepath.Join("/etc", name))
		if err != nil {
			continue
		}
		if text, err := readSmall(host, maxEtcFile); err == nil {
			files[name] = modulesOnly(text)
		}
	}
	for name, content := range files {
		to := filepath.Join(stageEtc, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.WriteFile(to, []byte(content), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
