//go:build linux

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// Everything of the host that is shown is shown through an overlay without an
// upper layer. An overlay gives what it shows an inode of its own: a socket or a
// FIFO of the host does not answer, a lock that is taken inside is none on the
// host, and the mount table inside does not tell where things lie.
//
// An overlay does not cross mounts, and only root may separate a
// directory from the mounts below it. So a directory with mounts below is
// shown as a skeleton: empty directories down to the mounts, and in them one
// overlay for each directory beside. What is mounted there is shown for the
// system's own directories and is an empty directory elsewhere.

// lending is a source on its way inside: clones of its mounts, taken before the
// stage covers the directory in which the source may lie.
type lending struct {
	source
	parts []part // parents first
	file  *clone // the source itself if it is a file; the part is its directory then
}

// part is one mount of a source, or a directory or link of a skeleton.
type part struct {
	rel   string // below the place of the source, "" for the place itself
	clone *clone
	link  string
}

// maxParts bounds a skeleton.
const maxParts = 8192

// mountPoints lists where something is mounted, in order.
func mountPoints() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > 4 {
			points = append(points, unescapeOctal(string(fields[4])))
		}
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}

// unescapeOctal undoes how the kernel writes white space and backslashes.
func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// gather opens a source. through has what is mounted below it shown too.
func (k *keeper) gather(s source, through bool) (*lending, error) {
	sh := &lending{source: s}
	info, err := os.Stat(s.Host)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return sh, k.gatherDir(sh, s.Host, "", through)
	}
	if sh.file, err = k.cloneMount(s); err != nil {
		return nil, err
	}
	s.Host = filepath.Dir(s.Host)
	dir, err := k.cloneMount(s)
	if err != nil {
		return nil, err
	}
	sh.parts = []part{{clone: dir}}
	return sh, nil
}

func (k *keeper) gatherDir(sh *lending, host, rel string, through bool) error {
	if len(sh.parts) > maxParts {
		return reason.Errorf(reason.SandboxUnavailable, "sandbox: cannot show %q: more than %d files and directories lie beside mounts below it", sh.Host, maxParts)
	}
	from := source{Host: host, IDMap: sh.IDMap}
	if !slices.ContainsFunc(k.mounts, func(m string) bool { return m != host && within(m, host) }) {
		c, err := k.cloneMount(from)
		sh.parts = append(sh.parts, part{rel: rel, clone: c})
		return err
	}
	sh.parts = append(sh.parts, part{rel: rel})
	entries, err := os.ReadDir(host)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // then a command could not look either
		return err
	}
	for _, e := range entries {
		from.Host = filepath.Join(host, e.Name())
		p := part{rel: filepath.Join(rel, e.Name())}
		_, mounted := slices.BinarySearch(k.mounts, from.Host)
		switch {
		case mounted && !through && !e.IsDir():
			continue
		case mounted && !through:
		case e.IsDir():
			if err := k.gatherDir(sh, from.Host, p.rel, through); err != nil {
				return err
			}
			continue
		case e.Type()&fs.ModeSymlink != 0:
			p.link, err = os.Readlink(from.Host)
		case e.Type().IsRegular():
			p.clone, err = k.cloneMount(from)
		default:
			continue
		}
		if err != nil {
			return err
		}
		sh.parts = append(sh.parts, p)
	}
	return nil
}

// lend shows a source at a path of the stage and returns where it is.
func (k *keeper) lend(sh *lending, at string) (string, error) {
	if sh.file != nil {
		return k.lendFile(sh, at)
	}
	for _, p := range sh.parts {
		to := filepath.Join(at, p.rel)
		var err error
		switch {
		case p.link != "":
			err = os.Symlink(p.link, to)
		case p.clone == nil:
			err = os.Mkdir(to, 0o755)
		case !p.clone.isDir:
			k.plain = append(k.plain, p.clone.Host)
			err = p.clone.place(to)
		default:
			if err = os.Mkdir(to, 0o755); err == nil {
				err = k.lendDir(p.clone, to)
			}
		}
		if err != nil {
			return "", err
		}
	}
	return at, nil
}

// lendFile shows a file by way of its directory, of which nothing else is shown.
func (k *keeper) lendFile(sh *lending, at string) (string, error) {
	if !k.setup.PlainBinds {
		if err := os.Mkdir(at, 0o755); err != nil {
			return "", err
		}
		through, err := filepath.Join(at, filepath.Base(sh.Host)), k.overDir(sh.parts[0].clone, at)
		if info, statErr := os.Stat(through); err == nil && statErr == nil && info.Mode().IsRegular() {
			_ = unix.Close(sh.file.fd)
			return through, nil
		}
		k.plain = append(k.plain, sh.Host)
	}
	at += ".file"
	return at, sh.file.place(at)
}

// lendDir shows a directory.
func (k *keeper) lendDir(c *clone, at string) error {
	if k.setup.PlainBinds {
		return c.place(at)
	}
	k.below++
	below := filepath.Join(stageBelow, strconv.Itoa(k.below))
	if err := c.place(below); err != nil {
		return err
	}
	return k.show(below, c.Host, at)
}

// overDir is lendDir for a directory that can do without.
func (k *keeper) overDir(c *clone, at string) error {
	k.below++
	below := filepath.Join(stageBelow, strconv.Itoa(k.below))
	return errors.Join(c.place(below), k.overlay(below, at))
}

// overlay lays an overlay without an upper layer over a directory of the stage.
func (k *keeper) overlay(below, at string) error {
	if strings.ContainsAny(below, `:,\`) {
		return fmt.Errorf("no overlay takes the name %q", below)
	}
	options := "lowerdir=" + stageEmpty + ":" + below
	if !k.setup.Root {
		options += ",userxattr"
	}
	return unix.Mount("overlay", at, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options)
}

// show shows a directory of the stage, which is one of the host's, at another.
// What no overlay takes is shown as it is after a search for ways out, and its
// locks are said to be not held back.
func (k *keeper) show(below, host, at string) error {
	if !k.setup.PlainBinds {
		if k.overlay(below, at) == nil {
			return nil
		}
		k.plain = append(k.plain, host)
	}
	if err := unix.Mount(below, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %q: %w", host, err)
	}
	if k.setup.PlainBinds {
		return nil
	}
	return searchWaysOut(at, host)
}

// searchWaysOut refuses a directory with a socket or a FIFO in it, which a
// read-only mount does not stop.
func searchWaysOut(dir, host string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil // then the command, which has no more rights, cannot enter it either
		}
		if err == nil && e.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			rel, _ := filepath.Rel(dir, path)
			err = reason.Errorf(reason.SandboxUnavailable, "sandbox: %q in %q, which no overlay takes, would be a way out", rel, host).
				WithHint("remove the socket or FIFO, or stop the program that made it")
		}
		return err
	})
}

// plainNote says what is shown as it is, "" if nothing is.
func (k *keeper) plainNote() string {
	if len(k.plain) == 0 {
		return ""
	}
	return fmt.Sprintf("no overlay takes %q and %d more: a lock that is taken inside is one on the host", k.plain[0], len(k.plain)-1)
}

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
