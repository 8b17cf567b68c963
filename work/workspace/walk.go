package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A statWalk visits every file below a directory and keeps, for each directory, the names in it with an eight byte
// hash of what stat says about each. It opens directories only: a huge file costs as much as an empty one.

// dirStats is one directory: for each name, in order, the name, a NUL, and 8 bytes.
type dirStats []byte

// statTree maps the path of a directory ("" is the top) to what is in it.
type statTree map[string]dirStats

// statWalk walks a tree without following symbolic links. Where it may not look, that fact is what is recorded. The
// entry `.git` at the top is left out when skipDotGit is set.
func statWalk(root string, skipDotGit bool) (statTree, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	w := &walker{root: fd, queue: []string{""}, skipDotGit: skipDotGit, tree: statTree{}}
	w.wake = sync.NewCond(&w.mu)
	var workers sync.WaitGroup
	for range min(4, runtime.GOMAXPROCS(0)) {
		workers.Go(w.work)
	}
	workers.Wait()
	return w.tree, w.err
}

type walker struct {
	root       int
	skipDotGit bool

	mu    sync.Mutex
	wake  *sync.Cond
	queue []string
	busy  int
	tree  statTree
	err   error
}

func (w *walker) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && w.busy > 0 && w.err == nil {
			w.wake.Wait()
		}
		if len(w.queue) == 0 || w.err != nil {
			w.wake.Broadcast()
			return
		}
		dir := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		w.busy++
		w.mu.Unlock()
		stats, subdirs, err := w.read(dir)
		w.mu.Lock()
		w.busy--
		if err != nil && w.err == nil {
			w.err = err
		}
		w.tree[dir] = stats
		w.queue = append(w.queue, subdirs...)
		w.wake.Broadcast()
	}
}

func (w *walker) read(dir string) (stats dirStats, subdirs []string, err error) {
	fd, err := openBelow(w.root, dir)
	if err != nil {
		if gone(err) {
			return nil, nil, nil
		}
		return unreadable(err), nil, nil
	}
	defer closeFD(fd)
	names, err := readNames(fd)
	if err != nil {
		return unreadable(err), nil, nil
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil { // the directory's own mode and times, under the name "."
		stats = appendStat(stats, ".", &st)
	}
	for _, name := range names {
		if dir == "" && w.skipDotGit && name == ".git" {
			continue
		}
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // gone since
		}
		stats = appendStat(stats, name, &st)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			subdirs = append(subdirs, path.Join(dir, name))
		}
	}
	return stats, subdirs, nil
}

// gone says that a directory vanished or became something else since it was listed; its parent tells that story.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func unreadable(err error) dirStats {
	return append([]byte(".\x00"), hash8([]byte(err.Error()))...)
}

// openBelow opens a directory in steps, because a path may be longer than the system takes at once.
func openBelow(root int, dir string) (int, error) {
	const step = 4000
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	if dir == "" {
		dir = "."
	}
	at := root
	for {
		part := dir
		if len(dir) > step {
			part = dir[:strings.LastIndexByte(dir[:step], '/')]
		}
		fd, err := unix.Openat(at, part, flags, 0)
		if at != root {
			closeFD(at)
		}
		if err != nil || part == dir {
			return fd, err
		}
		at, dir = fd, dir[len(part)+1:]
	}
}

// closeFD closes a descriptor that was only read from.
func closeFD(fd int) { _ = unix.Close(fd) }

// readNames lists a directory in bytewise order.
func readNames(fd int) ([]string, error) {
	var names []string
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// appendStat records what tells one version of a file from another. Reading a file changes none of it.
func appendStat(stats dirStats, name string, st *unix.Stat_t) dirStats {
	var b [48]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(st.Mode))
	binary.LittleEndian.PutUint64(b[8:], uint64(st.Size))
	binary.LittleEndian.PutUint64(b[16:], uint64(st.Mtim.Nano()))
	binary.LittleEndian.PutUint64(b[24:], uint64(st.Ctim.Nano()))
	binary.LittleEndian.PutUint64(b[32:], st.Ino)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		binary.LittleEndian.PutUint64(b[8:], 0) // its size is the file system's affair
	}
	stats = append(append(stats, name...), 0)
	return append(stats, hash8(b[:])...)
}

func hash8(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:8]
}

// each yields the names of a directory with their hashes.
func (s dirStats) each(yield func(name string, stat string) bool) {
	for len(s) > 0 {
		i := slices.Index(s, 0)
		if !yield(string(s[:i]), string(s[i+1:i+9])) {
			return
		}
		s = s[i+9:]
	}
}

// paths lists the directories in order.
func (t statTree) paths() []string { return slices.Sorted(maps.Keys(t)) }
