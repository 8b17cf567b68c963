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

// Prune implements Store. A file that somebody is writing was changed a moment
// ago, in this process or in another one that shares the directory: what nobody
// has changed for longer than any upload takes belongs to nobody.
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
