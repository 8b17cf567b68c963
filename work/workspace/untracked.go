package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/work/git"
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
