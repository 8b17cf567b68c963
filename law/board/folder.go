package board

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"remit/proof/reason"
)

// Bounds of a folder.
const (
	MaxFiles       = 10_000    // files and directories
	MaxDepth       = 32        // directories in directories
	MaxRecordBytes = 1 << 20   // of a record, and of the workboard
	MaxFileBytes   = 64 << 20  // of any other file
	MaxFolderBytes = 512 << 20 // of all files
)

// folder is an open directory with the regular files in it.
type folder struct {
	root  *os.Root
	sizes map[string]int64 // of the regular files, by slash path
	names []string         // their paths, in order
	all   int64
}

// errBound ends a walk: a folder above a bound is not read at all.
var errBound = errors.New("the folder is above a bound")

// openFolder lists a directory without following a link.
func openFolder(dir string, out *findings) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, reason.Errorf(reason.FileUnusable, "%w", err).WithHint("name a directory with records and a %s", WorkboardFile)
	}
	f := &folder{root: root, sizes: map[string]int64{}}
	seen := 0
	err = f.list(".", 0, &seen, out)
	if err != nil && !errors.Is(err, errBound) {
		return nil, errors.Join(reason.Errorf(reason.FileUnusable, "%w", err), root.Close())
	}
	slices.Sort(f.names)
	return f, nil
}

// list takes in one directory. The .git of a repository is no record.
func (f *folder) list(dir string, depth int, seen *int, out *findings) error {
	if depth > MaxDepth {
		out.add(dir, 0, "folder.depth", reason.RecordUnreadable, "more than %d directories deep", MaxDepth)
		return errBound
	}
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(MaxFiles + 1 - *seen)
	if closing := d.Close(); err == nil || errors.Is(err, io.EOF) {
		err = closing
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if *seen++; *seen > MaxFiles {
			out.add(dir, 0, "folder.files", reason.RecordUnreadable, "more than %d files and directories", MaxFiles)
			return errBound
		}
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && e.Name() == ".git":
		case e.IsDir():
			if err := f.list(name, depth+1, seen, out); err != nil {
				return err
			}
		case !e.Type().IsRegular():
			out.add(name, 0, "folder.regular", reason.RecordUnreadable, "is no regular file: links and special files are not read")
		default:
			if err := f.take(name, e, out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *folder) take(name string, e fs.DirEntry, out *findings) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	if size, most := info.Size(), bound(name); size > most {
		out.add(name, 0, "folder.size", reason.RecordUnreadable, "has %d bytes, at most %d", size, most)
		return nil
	}
	if f.all += info.Size(); f.all > MaxFolderBytes {
		out.add(name, 0, "folder.size", reason.RecordUnreadable, "the folder has more than %d bytes", MaxFolderBytes)
		return errBound
	}
	f.sizes[name] = info.Size()
	f.names = append(f.names, name)
	return nil
}

// bound is how large a file may be.
func bound(name string) int64 {
	if isRecord(name) || name == WorkboardFile {
		return MaxRecordBytes
	}
	return MaxFileBytes
}

func isRecord(name string) bool { return strings.EqualFold(path.Ext(name), ".md") }

// open opens a listed file. A file that was exchanged for a pipe or a link since
// is refused and cannot hold the check up.
func (f *folder) open(name string) (*os.File, error) {
	before, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || !os.SameFile(info, before) {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", name), err, file.Close())
	}
	return file, nil
}

// read returns the bytes of a listed file.
func (f *folder) read(name string) ([]byte, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	most := bound(name)
	b, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b, err
}
