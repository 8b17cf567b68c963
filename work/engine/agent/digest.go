package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/proof/canon"
)

// digests remembers what a file hashed to, as long as it is the same one,
// unchanged: an agent has hundreds of megabytes, and a run asks twice.
var digests sync.Map // fileState -> string

type fileState struct {
	path     string
	size     int64
	modified time.Time
}

// FileDigest is the digest of a file.
func FileDigest(name string) (string, error) {
	digest, err := digestOf(name)
	if err != nil {
		return "", unavailable("reading the agent's program: %w", withoutPath(err))
	}
	return digest, nil
}

func digestOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	state := fileState{name, info.Size(), info.ModTime()}
	if known, ok := digests.Load(state); ok {
		return known.(string), nil
	}
	digest, _, err := canon.DigestReader(f)
	if err == nil {
		digests.Store(state, digest)
	}
	return digest, err
}

// maxPackages bounds the closure of an agent's dependencies.
const maxPackages = 4096

// Closure returns the package and everything that it depends on, as node would
// find it. A dependency that is not there and is not optional is an error.
func (p *Package) Closure() ([]*Package, error) {
	all, seen := []*Package{p}, map[string]bool{p.Dir: true}
	for i := 0; i < len(all); i++ {
		for _, d := range all[i].dependencies {
			found, err := all[i].dependency(d.name)
			switch {
			case errors.Is(err, fs.ErrNotExist) && d.optional:
				continue
			case err != nil:
				return nil, unavailable("%s needs the package %s: %w", all[i].Name, d.name, withoutPath(err))
			case seen[found.Dir]:
				continue
			case len(all) == maxPackages:
				return nil, unavailable("%s depends on more than %d packages", p.Name, maxPackages)
			}
			seen[found.Dir] = true
			all = append(all, found)
		}
	}
	slices.SortFunc(all, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return all, nil
}

// loadable are the kinds of files that node can load: what a package has
// besides (documentation, types, source maps) is never executed.
var loadable = map[string]bool{".js": true, ".cjs": true, ".mjs": true, ".json": true, ".node": true, ".wasm": true}

// TreeDigest is the digest of every file that node could load from the
// packages: of the list of their paths below root and digests.
func TreeDigest(ctx context.Context, root string, packages []*Package) (string, error) {
	files := map[string]string{}
	for _, p := range packages {
		err := filepath.WalkDir(p.Dir, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case e.IsDir() && e.Name() == "node_modules":
				return fs.SkipDir // has packages of its own, which are in the closure or unused
			case !e.Type().IsRegular() || !loadable[path.Ext(e.Name())]:
				return nil
			}
			below, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(below)], err = digestOf(name)
			return err
		})
		if err != nil {
			return "", unavailable("reading the package %s: %w", p.Name, withoutPath(err))
		}
	}
	list := make([]string, 0, len(files))
	for name, digest := range files {
		list = append(list, digest+"  "+name)
	}
	slices.Sort(list)
	return canon.Digest([]byte(strings.Join(list, "\n") + "\n")), nil
}
