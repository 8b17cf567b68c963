package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// checkEmpty accepts a directory that is empty or does not exist.
func checkEmpty(dir string) error {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("extract: %w", err)
	case len(list) > 0:
		return fmt.Errorf("extract: %q is not empty", dir)
	}
	return nil
}

// deliver writes the deliverable workspace: from the audited files, not from a
// workspace in which commands ran. It appears under its name only when it is
// complete.
func (a *audit) deliver(ctx context.Context) error {
	target := filepath.Clean(a.opt.Extract)
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, ".remit-extract-")
	if err != nil {
		return err
	}
	err = extract(ctx, dir, a.contents.files)
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), checkEmpty(target)) // a command may have written there
	}
	if err == nil {
		if err = os.Remove(target); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(dir, target)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// extract writes hashed files below dir. Names have passed gate 2; os.Root
// keeps them inside dir all the same, and O_EXCL keeps them from writing to
// anything that is there. Every file is hashed again on the way.
func extract(ctx context.Context, dir string, files []*member) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = withHasher(func(h *hasher) error {
		for _, f := range files {
			if err := extractFile(ctx, h, root, f); err != nil {
				return fmt.Errorf("extract %q: %w", f.name, err)
			}
		}
		return nil
	})
	return errors.Join(err, root.Close())
}

func extractFile(ctx context.Context, h *hasher, root *os.Root, f *member) error {
	if err := root.MkdirAll(path.Dir(f.name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.exec {
		mode = 0o755
	}
	out, err := root.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(h.copy(ctx, out, f), out.Close())
}

// removeWorkspace removes a workspace in which commands ran, which may have
// taken away the right to write to their directories.
func removeWorkspace(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("remove the workspace: %w", err)
	}
	walkErr := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return root.Chmod(name, 0o700) // comes before the directory is listed
		}
		return err
	})
	if err := errors.Join(root.Close(), os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("remove the workspace: %w", errors.Join(err, walkErr))
	}
	return nil
}
