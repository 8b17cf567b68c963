package workspace

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"remit/work/git"
)

// fileState is how a file compares with its index entry.
type fileState int

const (
	same       fileState = iota
	differs              // missing, of another type or mode
	suspicious           // other bytes, which a conversion may explain
)

type treeComparer struct {
	source  *Source
	files   *dirStack
	written time.Time // of the index
}

func (c *treeComparer) compare(e indexEntry) (fileState, error) {
	if CheckPath(e.path) != nil { // an index can hold what no tree may
		return differs, nil //nolint:nilerr // that is the answer
	}
	dir, name, err := c.files.enter(e.path)
	if gone(err) {
		return differs, nil
	}
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); gone(err) {
		return differs, nil
	} else if err != nil {
		return 0, err
	}
	link := e.mode == modeSymlink && c.source.config.symlinks
	want := uint32(unix.S_IFREG)
	if link {
		want = unix.S_IFLNK
	}
	if modeOf(&st)&unix.S_IFMT != want {
		return differs, nil
	}
	executable := modeOf(&st)&0o100 != 0
	if e.mode != modeSymlink && c.source.config.fileMode && executable != (e.mode == modeExec) {
		return differs, nil
	}
	if c.unchanged(e, &st) {
		return same, nil
	}
	if link {
		return c.compareLink(dir, name, e)
	}
	return c.compareContent(dir, name, e)
}

// unchanged is git's test: the stat data is that of the index, and the file is older than the index. A file as young
// as the index may have changed after git looked at it, within the same tick of the clock.
func (c *treeComparer) unchanged(e indexEntry, st *unix.Stat_t) bool {
	mtime, ctime := clock(st.Mtim), clock(st.Ctim)
	indexTime := time.Unix(int64(e.mtime[0]), int64(e.mtime[1]))
	return e.mtime == mtime && (e.ctime == ctime || !c.source.config.trustCtime) &&
		e.size == uint32(st.Size) && e.ino == uint32(st.Ino) && e.uid == st.Uid && e.gid == st.Gid &&
		indexTime.Before(c.written)
}

func clock(t unix.Timespec) [2]uint32 {
	return [2]uint32{uint32(t.Sec), uint32(t.Nsec)} // the index keeps 32 bits too
}

func (c *treeComparer) compareLink(dir int, name string, e indexEntry) (fileState, error) {
	buf := make([]byte, maxTarget+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return 0, err
	}
	if c.source.config.format.Sum("blob", buf[:n]) != e.id {
		return differs, nil
	}
	return same, nil
}

func (c *treeComparer) compareContent(dir int, name string, e indexEntry) (fileState, error) {
	f, err := openAt(dir, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, read := range []func(io.Reader) io.Reader{plain, withoutCR} {
		id, err := hashFile(c.source.config.format, f, read)
		if err != nil {
			return 0, err
		}
		if id == e.id {
			return same, nil
		}
	}
	return suspicious, nil
}

// openAt opens a regular file for reading; it neither follows a link nor waits for a FIFO.
func openAt(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	return f, nil
}

func plain(r io.Reader) io.Reader     { return r }
func withoutCR(r io.Reader) io.Reader { return &crlfReader{r: bufio.NewReader(r)} }

// hashFile is the blob id of what read makes of a file. It reads twice, since the length comes before the content.
func hashFile(format git.Format, f *os.File, read func(io.Reader) io.Reader) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	if r := read(f); r != io.Reader(f) {
		if size, err = io.Copy(io.Discard, r); err != nil {
			return "", err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	h := format.NewHash("blob", size)
	if _, err := io.Copy(h, read(f)); err != nil {
		return "", err
	}
	return git.Hex(h.Sum(nil)), nil
}

// crlfReader turns CRLF into LF.
type crlfReader struct{ r *bufio.Reader }

func (c *crlfReader) Read(p []byte) (int, error) {
	for i := range p {
		b, err := c.r.ReadByte()
		if err != nil {
			return i, err
		}
		if b == '\r' {
			if next, err := c.r.Peek(1); err == nil && next[0] == '\n' {
				b, _ = c.r.ReadByte()
			}
		}
		p[i] = b
	}
	return len(p), nil
}

// withoutLFS returns the paths of suspects that are not what an LFS pointer in their blob stands for.
func (c *treeComparer) withoutLFS(ctx context.Context, d git.Dir, suspects []indexEntry) ([]string, error) {
	if len(suspects) == 0 {
		return nil, nil
	}
	b, err := d.Batch(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ids := make([]string, len(suspects))
	for i, e := range suspects {
		ids[i] = e.id
	}
	var changed []string
	err = b.Each(ids, func(o git.Object, r io.Reader) error {
		e := suspects[o.Index]
		if o.Size < maxPointer {
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if p, ok := parsePointer(text); ok && c.isContent(e.path, p) {
				return nil
			}
		}
		changed = append(changed, e.path)
		return nil
	})
	return changed, err
}

func (c *treeComparer) isContent(path string, p pointer) bool {
	dir, name, err := c.files.enter(path)
	if err != nil {
		return false
	}
	f, err := openAt(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != p.size {
		return false
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return err == nil && hex.EncodeToString(h.Sum(nil)) == p.sha256
}
