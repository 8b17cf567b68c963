package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
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
	list, err := Digests(ctx, root, packages, func(name string) bool { return loadable[path.Ext(name)] })
	if err != nil {
		return "", err
	}
	slices.Sort(list)
	return canon.Digest([]byte(strings.Join(list, "\n") + "\n")), nil
}

// Digests are lines of a digest and a path below root: of the files of packages
// that count, and of the text of each link. A package has everything below its
// directory but the other packages, so that what no package.json names is in
// the list too.
func Digests(ctx context.Context, root string, packages []*Package, counts func(name string) bool) ([]string, error) {
	own := make(map[string]bool, len(packages))
	for _, p := range packages {
		own[p.Dir] = true
	}
	var list []string
	for _, p := range packages {
		err := p.walk(ctx, func(name, place string, e fs.DirEntry) (err error) {
			var digest string
			switch {
			case e.IsDir() && place != p.Dir && own[place]:
				return fs.SkipDir
			case e.Type() == fs.ModeSymlink:
				var target string
				target, err = os.Readlink(name)
				digest = "link " + canon.Digest([]byte(target))
			case e.Type().IsRegular() && counts(name):
				digest, err = digestOf(name)
			default:
				return nil
			}
			if err != nil {
				return err
			}
			below, err := filepath.Rel(root, place)
			list = append(list, digest+"  "+strconv.Quote(filepath.ToSlash(below)))
			return err
		})
		if err != nil {
			return nil, unavailable("reading the package %s: %w", p.Name, withoutPath(err))
		}
	}
	return list, nil
}

// walk visits everything in a package: by its name, and by its place below
// p.Dir. The package itself can be a link; what it leads to is what is lent.
func (p *Package) walk(ctx context.Context, visit func(name, place string, e fs.DirEntry) error) error {
	dir, err := filepath.EvalSymlinks(p.Dir)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return visit(name, filepath.Join(p.Dir, below), e)
	})
}
