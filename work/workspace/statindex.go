package workspace

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The stat index of a checkout says what stat answered for every path when the checkout was complete. A path that is
// written, replaced, renamed or has its mode changed gets another ctime; a path that is added or removed changes the
// ctime of its directory. So comparing it proves that nothing was touched, without reading a file. Its format:
//
//	remit-checkout v1 <tree> <files> <bytes> <bytes on disk>\n
//	<mode, octal> <size> <mtime, ns> <ctime, ns> <inode> <path>\0      (for every path; the top has the path ".")
//	<sha256 of all of the above, hexadecimal>
type statHead struct {
	Tree  string
	Files int
	Bytes int64 // in regular files
	Disk  int64 // blocks in use
}

const headFormat = "remit-checkout v1 %s %d %d %d\n"

type statRecord struct {
	mode, ino          uint64
	size, mtime, ctime int64
	path               string
}

var errStatIndex = errors.New("malformed stat index")

func recordOf(path string, st *unix.Stat_t) statRecord {
	r := statRecord{mode: uint64(st.Mode), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), path: path}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		r.size = 0
	}
	return r
}

// writeStatIndex looks at every path of a new checkout and writes dst/index. Where the umask took permissions away they
// are given back first: a tree has the same modes on every machine.
func writeStatIndex(dst, tree string, dirs []treeDir, size int64) error {
	fd, err := unix.Open(filepath.Join(dst, "tree"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return infrastructure(err)
	}
	defer closeFD(fd)
	head := statHead{Tree: tree, Bytes: size}
	var records bytes.Buffer
	add := func(path string, perm uint32) error {
		st, err := statWithPerm(fd, path, perm)
		if err != nil {
			return infrastructure(fmt.Errorf("%q: %w", path, err))
		}
		r := recordOf(path, st)
		fmt.Fprintf(&records, "%o %d %d %d %d %s\x00", r.mode, r.size, r.mtime, r.ctime, r.ino, r.path)
		head.Disk += st.Blocks * 512
		return nil
	}
	if err := add(".", 0o755); err != nil {
		return err
	}
	for _, dir := range dirs {
		for _, e := range dir.entries {
			perm := uint32(0o755)
			switch e.mode {
			case modeSymlink:
				perm = 0
			case modeFile, modeGroup:
				perm = 0o644
			}
			if e.mode != modeDir && e.mode != modeGitlink {
				head.Files++
			}
			if err := add(dir.join(e.name), perm); err != nil {
				return err
			}
		}
	}
	return saveStatIndex(filepath.Join(dst, "index"), head, records.Bytes())
}

func saveStatIndex(file string, head statHead, records []byte) error {
	h := sha256.New()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return infrastructure(err)
	}
	w := bufio.NewWriterSize(f, 64<<10)
	both := io.MultiWriter(w, h)
	fmt.Fprintf(both, headFormat, head.Tree, head.Files, head.Bytes, head.Disk)
	both.Write(records) //nolint:errcheck // a bufio.Writer keeps its error for Flush
	fmt.Fprintf(w, "%x", h.Sum(nil))
	err = w.Flush()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return infrastructure(err)
	}
	return nil
}

// statWithPerm stats a path after making sure of its permissions (0: a link, which has none).
func statWithPerm(fd int, path string, perm uint32) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	if perm == 0 || modeOf(&st)&0o7777 == perm {
		return &st, nil
	}
	if err := unix.Fchmodat(fd, path, perm, 0); err != nil {
		return nil, err
	}
	err := unix.Fstatat(fd, path, &st, unix.AT_SYMLINK_NOFOLLOW)
	return &st, err
}

// modeOf is the type and the permissions of a file.
func modeOf(st *unix.Stat_t) uint32 {
	return uint32(st.Mode) //nolint:unconvert // 16 bits on some systems
}

// readIndexHead reads the first line and what follows it about the top.
func readIndexHead(file string) (head statHead, top statRecord, err error) {
	f, err := os.Open(file)
	if err != nil {
		return head, top, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, 512), 512)
	line, err := r.ReadString('\n')
	if err != nil {
		return head, top, errStatIndex
	}
	if head, err = parseStatHead(line); err != nil {
		return head, top, err
	}
	item, err := r.ReadString(0)
	if err != nil {
		return head, top, errStatIndex
	}
	top, err = parseRecord(strings.TrimSuffix(item, "\x00"))
	return head, top, err
}

func parseStatHead(line string) (h statHead, err error) {
	n, err := fmt.Sscanf(line, headFormat, &h.Tree, &h.Files, &h.Bytes, &h.Disk)
	if n != 4 || err != nil || fmt.Sprintf(headFormat, h.Tree, h.Files, h.Bytes, h.Disk) != line {
		return h, errStatIndex
	}
	return h, nil
}

// parseStatIndex reads a whole index and checks its digest.
func parseStatIndex(b []byte) (statHead, []statRecord, error) {
	cut := len(b) - 2*sha256.Size
	if cut < 0 || fmt.Sprintf("%x", sha256.Sum256(b[:cut])) != string(b[cut:]) {
		return statHead{}, nil, errStatIndex
	}
	line, rest, ok := strings.Cut(string(b[:cut]), "\n")
	head, err := parseStatHead(line + "\n")
	if !ok || err != nil {
		return statHead{}, nil, errStatIndex
	}
	var records []statRecord
	for rest != "" {
		var item string
		if item, rest, ok = strings.Cut(rest, "\x00"); !ok {
			return statHead{}, nil, errStatIndex
		}
		r, err := parseRecord(item)
		if err != nil {
			return statHead{}, nil, err
		}
		records = append(records, r)
	}
	return head, records, nil
}
