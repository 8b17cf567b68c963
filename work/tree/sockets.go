package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"remit/proof/reason"
)

// Sockets returns the paths of the unix sockets below root. A socket in a
// directory that is lent to a sandbox is a way out: neither a network
// namespace nor a read-only mount stops a connect to it.
func Sockets(ctx context.Context, root *os.Root) ([]string, error) {
	var found []string
	err := sockets(ctx, root, "", 0, newBudget(), &found)
	return found, err
}

func sockets(ctx context.Context, dir *os.Root, prefix string, depth int, b *budget, found *[]string) error {
	if depth > MaxDepth {
		return reason.Errorf(reason.ResourceLimit, "directories deeper than %d at %q", MaxDepth, prefix)
	}
	f, err := dir.Open(".")
	if err != nil {
		return fmt.Errorf("look for sockets in %q: %w", prefix, err)
	}
	defer f.Close()
	for {
		// ReadDir takes the type from the directory: no stat an entry.
		entries, err := f.ReadDir(512)
		for _, e := range entries {
			if err := b.entry(); err != nil {
				return err
			}
			if e.Type()&fs.ModeSocket != 0 {
				*found = append(*found, prefix+e.Name())
			}
			if e.IsDir() {
				if err := socketsBelow(ctx, dir, prefix, e.Name(), depth, b, found); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("look for sockets in %q: %w", prefix, err)
		}
	}
}

func socketsBelow(ctx context.Context, dir *os.Root, prefix, name string, depth int, b *budget, found *[]string) error {
	sub, err := dir.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil // then the sandbox, which has no more rights, cannot enter it either
	}
	if err != nil {
		return fmt.Errorf("look for sockets in %q: %w", prefix+name, err)
	}
	defer sub.Close()
	return sockets(ctx, sub, prefix+name+"/", depth+1, b, found)
}
