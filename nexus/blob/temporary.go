package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// unfinished begins the name of a file that is being written. No blob's does.
const unfinished = "new-"

// temporary makes a new file beside its later name. Its name is no blob's.
func (d *Dir) temporary(dir string) (*os.File, string, error) {
	for {
		name := filepath.Join(dir, unfinished+rand.Text())
		f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}

// Prune implements Store. A file of an upload in progress was changed a moment ago,
// by this process or another one that shares the directory: a file that was not
// changed for longer than any upload takes is left over.
func (d *Dir) Prune(ctx context.Context, age time.Duration) (removed int, err error) {
	before := time.Now().Add(-age)
	all := d.root.FS()
	list, err := fs.Glob(all, "??/"+unfinished+"*")
	if err != nil {
		return 0, fmt.Errorf("look for unfinished blobs: %w", err)
	}
	for _, name := range list {
		if err := context.Cause(ctx); err != nil {
			return removed, err
		}
		info, err := fs.Stat(all, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it became a blob meanwhile
		}
		if err != nil {
			return removed, fmt.Errorf("look at unfinished blob %s: %w", path.Base(name), err)
		}
		if !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("remove unfinished blob: %w", err)
		}
		removed++
	}
	return removed, nil
}
