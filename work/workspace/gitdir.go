package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/git"
)

// maxLine bounds the one-line files of a git directory, maxConfig its configuration.
const (
	maxLine   = 16 << 10
	maxConfig = 1 << 20
)

// location is where the parts of a repository lie.
type location struct {
	worktree string // "" for a bare repository
	gitDir   string // HEAD, index
	common   string // refs, objects, config; differs from gitDir in a linked work tree
}

// locate finds the repository that path is in, as git does, but only by looking at files. A `.git` that redirects to
// another directory is followed only if that directory names this work tree in return; otherwise the writer of
// the redirect could have any repository of the user read.
func locate(path string) (location, error) {
	start, err := filepath.Abs(path)
	if err != nil {
		return location{}, reason.Errorf(reason.NotARepository, "%q: %w", path, err)
	}
	if info, err := os.Stat(start); err != nil {
		return location{}, reason.Errorf(reason.NotARepository, "opening %q: %w", path, err).WithHint("give the path of a git repository")
	} else if !info.IsDir() {
		return location{}, notARepository(path)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(filepath.Join(dir, ".git"))
		if err == nil {
			return fromDotGit(dir, info)
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return location{}, reason.Errorf(reason.NotARepository, "looking for a repository: %w", err)
		}
		if dir == start && checkGitDir(dir, dir) == nil {
			return location{gitDir: dir, common: dir}, refuseCommonDir(dir)
		}
		if dir == filepath.Dir(dir) {
			return location{}, notARepository(path)
		}
	}
}

// refuseCommonDir refuses a git directory that says its refs and objects are in another one: only that of a linked work
// tree does, which is found by its `.git` file and confirmed from the other side.
func refuseCommonDir(gitDir string) error {
	if _, err := os.Lstat(filepath.Join(gitDir, "commondir")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return invalid(filepath.Join(gitDir, "commondir"), "it leads to another repository, which cannot confirm it").
		WithHint("give the path of the work tree, or that of the repository that has the objects")
}

func notARepository(path string) error {
	return reason.Errorf(reason.NotARepository, "%q is not in a git repository", path).
		WithHint("give the path of a git repository, or make one with `git init` and a first commit")
}

func fromDotGit(dir string, info os.FileInfo) (location, error) {
	dotGit := filepath.Join(dir, ".git")
	switch {
	case info.IsDir():
		loc := location{worktree: dir, gitDir: dotGit, common: dotGit}
		if err := checkGitDir(dotGit, dotGit); err != nil {
			return loc, err
		}
		return loc, refuseCommonDir(dotGit)
	case info.Mode().IsRegular():
		return fromGitFile(dir, dotGit)
	case info.Mode()&os.ModeSymlink != 0:
		return location{}, invalid(dotGit, "it is a symbolic link, and its target cannot confirm it").
			WithHint("give the path of the repository that it points to")
	}
	return location{}, invalid(dotGit, "it is neither a directory nor a file")
}

func invalid(file, format string, args ...any) *reason.Error {
	err := reason.Errorf(reason.RepositoryInvalid, format, args...)
	err.File = file
	return err
}

// fromGitFile follows "gitdir: <path>", which linked work trees and submodules have.
func fromGitFile(dir, dotGit string) (location, error) {
	text, err := readLine(dotGit)
	if err != nil {
		return location{}, invalid(dotGit, "reading it: %w", err)
	}
	target, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok || target == "" {
		return location{}, invalid(dotGit, "it does not begin with \"gitdir: \"")
	}
	gitDir := absolute(dir, target)
	common, err := git.CommonDir(gitDir)
	if err != nil {
		return location{}, err
	}
	if err := checkGitDir(gitDir, common); err != nil {
		return location{}, err
	}
	loc := location{worktree: dir, gitDir: gitDir, common: common}
	if common != gitDir {
		err = confirmLinked(loc)
	} else {
		err = confirmWorktree(loc)
	}
	return loc, err
}

// confirmLinked checks that the main repository knows the linked work tree: its directory worktrees/<id> is this one,
// and the file gitdir in it names our `.git`.
func confirmLinked(loc location) error {
	back, err := readLine(filepath.Join(loc.gitDir, "gitdir"))
	registered := filepath.Join(loc.common, "worktrees", filepath.Base(loc.gitDir))
	if err != nil || !sameFile(registered, loc.gitDir) || !sameFile(absolute(loc.gitDir, back), filepath.Join(loc.worktree, ".git")) {
		return unconfirmed(loc)
	}
	return nil
}

// confirmWorktree checks core.worktree, which every submodule's git directory has.
func confirmWorktree(loc location) error {
	config, err := readConfig(loc)
	if err != nil {
		return err
	}
	if back := config.worktree; back == "" || !sameFile(absolute(loc.gitDir, back), loc.worktree) {
		return unconfirmed(loc)
	}
	return nil
}

func unconfirmed(loc location) error {
	return invalid(filepath.Join(loc.worktree, ".git"), "it points to a git directory that does not point back").
		WithHint("for a moved work tree run `git worktree repair`; otherwise give the path of the git directory itself")
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// checkGitDir asks what git asks: HEAD, and directories for objects and refs.
func checkGitDir(gitDir, common string) error {
	if _, err := readHead(gitDir); err != nil {
		return invalid(gitDir, "not a git directory: HEAD: %w", err)
	}
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(common, name)); err != nil || !info.IsDir() {
			return invalid(common, "not a git directory: no directory %q", name)
		}
	}
	return nil
}

// readHead returns the text of HEAD. In very old repositories HEAD is a symbolic link.
func readHead(gitDir string) (string, error) {
	path := filepath.Join(gitDir, "HEAD")
	if target, err := os.Readlink(path); err == nil {
		if git.ValidRef(target) && strings.HasPrefix(target, "refs/") {
			return "ref: " + target, nil
		}
		return "", errors.New("it is a symbolic link that names no ref")
	}
	text, err := readLine(path)
	if err != nil {
		return "", err
	}
	if target, ok := strings.CutPrefix(text, "ref:"); ok {
		if target = strings.TrimSpace(target); !git.ValidRef(target) || !strings.HasPrefix(target, "refs/") {
			return "", fmt.Errorf("%.100q is not a ref name", target)
		}
		return "ref: " + target, nil
	}
	if git.FormatOf(text) == "" {
		return "", errors.New("it is neither a ref nor an object id")
	}
	return text, nil
}

// readLine reads a small file without its final line end.
func readLine(path string) (string, error) {
	b, err := readBounded(path, maxLine)
	return strings.TrimRight(string(b), "\r\n"), err
}

// readBounded reads a regular file of at most limit bytes. It neither follows a symbolic link nor waits for a FIFO.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%q has more than %d bytes", path, limit)
	}
	return b, err
}

func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%q is not a regular file", path)
	}
	return f, nil
}

// sourceConfig is the little that we take from a repository's configuration: how its objects are named, and how
// its work tree compares with its index. None of it can start anything.
type sourceConfig struct {
	format     git.Format
	worktree   string // core.worktree
	fileMode   bool   // is the executable bit real?
	trustCtime bool
	symlinks   bool              // false: links are checked out as files
	partial    bool              // objects may be missing
	remotes    map[string]string // name to the last url
}

func readConfig(loc location) (sourceConfig, error) {
	c := sourceConfig{format: git.SHA1, fileMode: true, trustCtime: true, symlinks: true}
	files := []string{filepath.Join(loc.common, "config"), filepath.Join(loc.gitDir, "config.worktree")}
	for _, file := range files {
		src, err := readBounded(file, maxConfig)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, invalid(file, "reading it: %w", err)
		}
		entries, err := git.ParseConfig(context.Background(), src)
		if err != nil {
			return c, invalid(file, "it is not a configuration file: %w", err)
		}
		for _, e := range entries {
			c.set(e.Key, e.Value)
		}
		if c.format == "" {
			return c, invalid(file, "unknown extensions.objectFormat")
		}
	}
	if _, err := os.Stat(filepath.Join(loc.common, "reftable")); err == nil {
		return c, invalid(loc.common, "its refs are stored as a reftable, which is not supported").
			WithHint("run `git refs migrate --ref-format=files`, or give a clone made with `git clone --ref-format=files`")
	}
	return c, nil
}

func (c *sourceConfig) set(key, value string) {
	switch key {
	case "extensions.objectformat":
		if c.format = git.Format(strings.ToLower(value)); !c.format.Valid() {
			c.format = ""
		}
	case "extensions.partialclone":
		c.partial = true
	case "core.worktree":
		c.worktree = value
	case "core.filemode":
		c.fileMode = isTrue(value)
	case "core.trustctime":
		c.trustCtime = isTrue(value)
	case "core.symlinks":
		c.symlinks = isTrue(value)
	default:
		name, isRemote := strings.CutPrefix(key, "remote.")
		if _, ok := strings.CutSuffix(name, ".promisor"); ok && isRemote {
			c.partial = isTrue(value)
		}
		if name, ok := strings.CutSuffix(name, ".url"); ok && isRemote {
			if c.remotes == nil {
				c.remotes = map[string]string{}
			}
			c.remotes[name] = value
		}
	}
}

// isTrue reads a git boolean. A key without a value is true, and reaches us as "".
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}
