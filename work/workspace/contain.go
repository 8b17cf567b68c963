package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/reason"
)

// A repository can name places outside of itself from which git reads objects: alternates, and symbolic links in its
// object store. The maker of the repository would choose what of this machine is read: the content of another one, by
// the ids of its objects. So everything that git will open has to lie in the repository, or for a source that was
// opened with OpenSourceIn below the directories that are lent.

// maxBorrowed is how long a chain of alternates may be, as in git.
const maxBorrowed = 5

// OpenSourceIn is OpenSource for a machine that lends the directories in roots and nothing else: all that is read lies
// below one of them, also the git directory that a linked work tree or a submodule leads to, and the objects that one
// repository borrows from another. The error is forbidden for a git directory elsewhere, and repository_invalid for
// objects elsewhere.
func OpenSourceIn(ctx context.Context, path string, roots []string) (*Source, error) {
	return openSource(ctx, path, append([]string{}, roots...)) // none is none, and not those of the repository
}

// containment is where a source may be read.
type containment struct {
	roots []string // without symbolic links
	lent  bool     // the roots were chosen by the operator; errors then do not tell what lies elsewhere
	seen  []string // object stores that were looked through
}

// confine refuses a source of which a part lies elsewhere. roots is nil for one that may read only itself.
func confine(loc location, roots []string) error {
	c := &containment{lent: roots != nil}
	if !c.lent {
		roots = []string{loc.gitDir, loc.common}
		if loc.worktree != "" {
			roots = append(roots, loc.worktree)
		}
	}
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			return invalid(root, "resolving it: %w", err)
		}
		c.roots = append(c.roots, real)
	}
	for _, dir := range []string{loc.gitDir, loc.common} {
		if !c.inside(dir) {
			return reason.Errorf(reason.Forbidden, "the git directory of this repository lies outside of the directories that may be read").
				WithHint("give a clone that has a git directory of its own in a directory that the operator lends")
		}
	}
	return c.store(filepath.Join(loc.common, "objects"), 0)
}

func (c *containment) inside(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && slices.ContainsFunc(c.roots, func(root string) bool {
		rel, err := filepath.Rel(root, real)
		return err == nil && filepath.IsLocal(rel)
	})
}

// store looks through one object store, and those that it borrows from.
func (c *containment) store(dir string, depth int) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return invalid(dir, "resolving it: %w", err)
	}
	if !c.inside(dir) {
		return c.refuse(dir, "is a symbolic link to", real)
	}
	if slices.Contains(c.seen, real) {
		return nil
	}
	if c.seen = append(c.seen, real); depth > maxBorrowed {
		return invalid(dir, "a chain of more than %d alternates leads to it", maxBorrowed)
	}
	if err := c.links(real, 0); err != nil {
		return err
	}
	file := filepath.Join(real, "info", "alternates")
	text, err := readBounded(file, maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return invalid(file, "reading it: %w", err)
	}
	for line := range bytes.Lines(text) {
		name := strings.TrimSuffix(string(line), "\n")
		if name == "" || name[0] == '#' {
			continue
		}
		if name[0] == '"' {
			return invalid(file, "it has a quoted name, which is not supported: %.100s", name)
		}
		target := absolute(real, name)
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			continue // git passes it over
		}
		if !c.inside(target) {
			return c.refuse(file, "borrows objects from", target)
		}
		if err := c.store(target, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// links refuses symbolic links in an object store that lead elsewhere. The files of a store lie at most two
// directories deep.
func (c *containment) links(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return invalid(dir, "looking for links: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue // it leads nowhere
			}
			if !c.inside(path) {
				return c.refuse(path, "is a symbolic link to", real)
			}
			if info, err := os.Stat(real); err == nil && info.IsDir() && depth < 2 {
				err = c.links(real, depth+1)
				if err != nil {
					return err
				}
			}
		case e.IsDir() && depth < 2:
			if err := c.links(path, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *containment) refuse(file, does, target string) error {
	if c.lent {
		return invalid(file, "it leads to objects outside of the directories that may be read").
			WithHint("give a repository that has all of its objects: `git clone --no-local` makes one")
	}
	return invalid(file, "it %s %q, which is not in the repository", does, target).
		WithHint("make a clone that has all of its objects, `git clone --no-local REPO COPY`, and give that; " +
			"or complete this one: `git repack -a -d`, then remove objects/info/alternates")
}
