package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

// Bounds of the search for untracked tests. What lies beyond them is not named.
const (
	maxUntrackedEntries = 100_000
	maxUntrackedDepth   = 64
	MaxUntrackedTests   = 100
)

// Directories that hold what tools have installed or made: no test of the user's
// is new in them.
var madeDirs = []string{"node_modules", "venv", "site-packages", "__pycache__", "vendor", "target", "dist", "build"}

// UntrackedTests lists regular files of the work tree that isTest takes for tests
// and that no commit has and the index does not know: a run, which starts from a
// commit, does not see them. What the work tree's .gitignore files ignore is left
// out, and so is what lies in hidden directories, in other repositories and in
// directories that tools fill. Names only, in order, at most MaxUntrackedTests;
// nothing is opened but directories, the index and .gitignore files. A bare
// repository has none.
func (s *Source) UntrackedTests(ctx context.Context, isTest func(path string) bool) ([]string, error) {
	if s.Bare() {
		return nil, nil
	}
	var found []string
	err := s.probe(nil, func(d git.Dir) error {
		blind := d
		blind.Alternates = nil // git writes here: it must not see the source's objects
		index, _, err := s.readIndex(func() error { return blind.NormalizeIndex(ctx) }, d.Path)
		if err != nil {
			return err
		}
		u := &untracked{ctx: ctx, isTest: isTest, tracked: map[string]bool{}, rules: map[string][]byte{}}
		for _, e := range index {
			u.tracked[e.path] = true
			u.whole = u.whole || e.mode == modeDir
		}
		if err := u.walk(s.loc.worktree); err != nil {
			return err
		}
		found, err = u.withoutIgnored(blind)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for untracked tests: %w", err)
	}
	return found[:min(len(found), MaxUntrackedTests)], nil
}

type untracked struct {
	ctx     context.Context
	isTest  func(string) bool
	tracked map[string]bool
	whole   bool // the index is sparse: some of its entries are directories
	found   []string
	rules   map[string][]byte // .gitignore files on the way
	entries int
}

// walk visits the directories below top, following no link.
func (u *untracked) walk(top string) error {
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	for queue := []string{""}; len(queue) > 0 && u.entries < maxUntrackedEntries && len(u.found) < 10*MaxUntrackedTests; queue = queue[1:] {
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		below, err := u.directory(fd, queue[0])
		if err != nil {
			return err
		}
		queue = append(queue, below...)
	}
	slices.Sort(u.found)
	return nil
}

// directory looks at one directory and returns those in it. One that is gone or
// cannot be read has nothing to tell.
func (u *untracked) directory(root int, dir string) ([]string, error) {
	fd, err := openBelow(root, dir)
	if gone(err) || errors.Is(err, unix.EACCES) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	names, err := readNames(fd)
	if err != nil {
		return nil, err
	}
	if dir != "" && slices.Contains(names, ".git") {
		return nil, nil // another repository
	}
	if slices.Contains(names, ".gitignore") {
		if err := u.readRules(fd, path.Join(dir, ".gitignore")); err != nil {
			return nil, err
		}
	}
	var below []string
	for _, name := range names {
		var st unix.Stat_t
		u.entries++
		p := path.Join(dir, name)
		if strings.HasPrefix(name, ".") || CheckPath(p) != nil || unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		switch modeOf(&st) & unix.S_IFMT {
		case unix.S_IFDIR:
			sparse := u.whole && u.tracked[p+"/"]
			if !slices.Contains(madeDirs, name) && !sparse && strings.Count(p, "/") < maxUntrackedDepth {
				below = append(below, p)
			}
		case unix.S_IFREG:
			if !u.tracked[p] && u.isTest(p) {
				u.found = append(u.found, p)
			}
		}
	}
	return below, nil
}

func (u *untracked) readRules(dir int, file string) error {
	f, err := openAt(dir, ".gitignore")
	if err != nil {
		return nil // a link, or gone: git does not read it either
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile+1))
	if err != nil || len(text) > maxIgnoreFile {
		return err
	}
	u.rules[file] = text
	return nil
}

// withoutIgnored asks git, in a directory of ours that has nothing but the
// .gitignore files.
func (u *untracked) withoutIgnored(d git.Dir) ([]string, error) {
	if len(u.found) == 0 || len(u.rules) == 0 {
		return u.found, nil
	}
	d.WorkTree = filepath.Join(d.Path, "rules")
	if err := writeRules(d.WorkTree, u.rules); err != nil {
		return nil, err
	}
	ignored, err := d.CheckIgnore(u.ctx, u.found)
	return slices.DeleteFunc(u.found, func(p string) bool { return slices.Contains(ignored, p) }), err
}

// maxIgnoreFile bounds a .gitignore file.
const maxIgnoreFile = 8 << 20

// withoutIgnored takes the ignored paths out of the candidates. git itself decides, looking at a directory of ours that
// holds nothing but the base's .gitignore files on the way to the candidates: no link can lead it elsewhere, and
// what the sandbox wrote has no say.
func (im *importer) withoutIgnored(ctx context.Context, candidates []candidate) ([]candidate, error) {
	var paths []string
	for _, c := range candidates {
		if !c.tracked && c.Kind != tree.Delete {
			paths = append(paths, ignorePath(c.Change))
		}
	}
	rules, err := im.ignoreFiles(ctx, paths)
	if err != nil || len(rules) == 0 {
		return candidates, err
	}
	var ignored []string
	err = im.store.scratch(false, func(d git.Dir) error {
		d.WorkTree = filepath.Join(d.Path, "rules")
		if err := writeRules(d.WorkTree, rules); err != nil {
			return reason.Errorf(reason.InfrastructureFault, "laying out .gitignore files: %w", err)
		}
		ignored, err = d.CheckIgnore(ctx, paths)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking what is ignored: %w", err)
	}
	set := map[string]bool{}
	for _, p := range ignored {
		set[p] = true
	}
	return slices.DeleteFunc(candidates, func(c candidate) bool {
		drop := !c.tracked && c.Kind != tree.Delete && set[ignorePath(c.Change)]
		if drop {
			im.result.Ignored = append(im.result.Ignored, c.Path)
		}
		return drop
	}), nil
}

// ignorePath is what git is asked about: a nested git directory is ignored with the directory that it is in.
func ignorePath(c tree.Change) string {
	if c.Kind == tree.Special && path.Base(c.Path) == ".git" && c.Path != ".git" {
		return path.Dir(c.Path)
	}
	return c.Path
}

// ignoreFiles reads the .gitignore files in the directories above the paths.
func (im *importer) ignoreFiles(ctx context.Context, paths []string) (map[string][]byte, error) {
	rules, seen := map[string][]byte{}, map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			file := path.Join(dir, ".gitignore")
			at, err := im.store.find(ctx, im.base, file)
			if err != nil {
				return nil, err
			}
			if m := plainMode(at.entry.mode); m != modeFile && m != modeExec { // git does not follow a link here either
				continue
			}
			if rules[file], err = im.store.read(ctx, at.entry.id, maxIgnoreFile); err != nil {
				return nil, err
			}
		}
	}
	return rules, nil
}

func writeRules(dir string, rules map[string][]byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for file, text := range rules {
		if parent := path.Dir(file); strings.Contains(file, "/") {
			if err := root.MkdirAll(parent, 0o700); err != nil {
				return err
			}
		}
		if err := root.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
