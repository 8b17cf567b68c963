package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/reason"
)

// PublishBranch writes commit, which lives in store, into a user's repository as the new branch refs/heads/<branch>.
// It only adds: the objects that the commit has and its parents have not, as one checked pack, and the ref. HEAD,
// index, work tree, configuration and existing refs stay as they are; a branch that exists, or that a HEAD points
// to (even unborn), is refused with output_exists, unless it is at this very commit: then nothing is left to do.
//
// This and DeleteBranch are the only calls with a user's directory as GIT_DIR, and only for update-ref, which knows how refs are
// stored and locked there. Of all that a repository can configure, update-ref can be made to start one thing, the
// reference-transaction hook; core.hooksPath on the command line removes it. The objects are written with a
// directory of ours as GIT_DIR.
func PublishBranch(ctx context.Context, srcGitDir string, store Dir, commit, branch string) error {
	if !store.Format.IsID(commit) {
		return fmt.Errorf("publishing a branch: %q is not a commit id", commit)
	}
	if !ValidBranch(branch) {
		return invalidBranch(branch)
	}
	common, err := CommonDir(srcGitDir)
	if err != nil {
		return err
	}
	ref := "refs/heads/" + branch
	source := Dir{Path: common, Format: store.Format}
	there, missing := source.RevParse(ctx, ref)
	if missing == nil && there == commit {
		return nil // done before
	}
	if err := refuseHead(srcGitDir, common, ref); err != nil {
		return err
	}
	if missing == nil {
		return branchExists(branch)
	}
	if err := sendObjects(ctx, store, filepath.Join(common, "objects"), commit); err != nil {
		return fmt.Errorf("publishing branch %q: %w", branch, err)
	}
	err = source.run(ctx, call{args: []string{"update-ref", "--no-deref", ref, commit, store.Format.Zero()}})
	if _, ok := errors.AsType[*Error](err); ok {
		if _, found := source.RevParse(ctx, ref); found == nil {
			return branchExists(branch)
		}
	}
	if err != nil {
		return fmt.Errorf("publishing branch %q: %w", branch, err)
	}
	return nil
}

// MayPublish says why [PublishBranch] would refuse a branch for its name, or for a work tree that has it checked out.
// It starts nothing.
func MayPublish(srcGitDir, branch string) error {
	if !ValidBranch(branch) {
		return invalidBranch(branch)
	}
	common, err := CommonDir(srcGitDir)
	if err != nil {
		return err
	}
	return refuseHead(srcGitDir, common, "refs/heads/"+branch)
}

// DeleteBranch removes a branch that [PublishBranch] has made, as long as it is still at commit and no work tree has
// it checked out; gone says that there is none. Otherwise the error is ref_moved, and nothing is removed: the
// repository is locked, and the ref compared, by git itself. The objects stay until git collects them.
func DeleteBranch(ctx context.Context, srcGitDir string, format Format, branch, commit string) (gone bool, err error) {
	common, err := CommonDir(srcGitDir)
	if err != nil {
		return false, err
	}
	ref := "refs/heads/" + branch
	if !ValidBranch(branch) || !format.IsID(commit) {
		return false, fmt.Errorf("removing a branch: %q at %q is none", branch, commit)
	}
	source := Dir{Path: common, Format: format}
	there, missing := source.RevParse(ctx, ref)
	if missing != nil {
		return true, nil //nolint:nilerr // what does not resolve needs no removing
	}
	moved := func(why string, args ...any) error {
		return reason.Errorf(reason.RefMoved, "branch %q is not removed: "+why, append([]any{branch}, args...)...)
	}
	if there != commit {
		return false, moved("it is at %.12s now, and was left at %.12s", there, commit)
	}
	if err := refuseHead(srcGitDir, common, ref); err != nil {
		return false, moved("a work tree has it checked out")
	}
	err = source.run(ctx, call{args: []string{"update-ref", "--no-deref", "-d", ref, commit}})
	if _, ok := errors.AsType[*Error](err); ok {
		if now, missing := source.RevParse(ctx, ref); missing == nil && now != commit {
			return false, moved("it is at %.12s now", now)
		}
	}
	if err != nil {
		return false, fmt.Errorf("removing branch %q: %w", branch, err)
	}
	return false, nil
}

func invalidBranch(branch string) error {
	return reason.Errorf(reason.OpNotAllowed, "branch name %q is not allowed", branch).WithHint("see `git help check-ref-format`")
}

func branchExists(branch string) error {
	return reason.Errorf(reason.OutputExists, "branch %q exists", branch).WithHint("choose another name; nothing is ever overwritten")
}

// sendObjects copies commit without what its parents have. Both ends run with the store as GIT_DIR.
func sendObjects(ctx context.Context, store Dir, objects, commit string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := store.run(ctx, call{
			args:   []string{"pack-objects", "--quiet", "--revs", "--stdout", "--no-reuse-delta", "--window=0"},
			stdin:  strings.NewReader(commit + "^!\n"),
			stdout: w,
		})
		w.CloseWithError(err)
		packed <- err
	}()
	target := store
	target.Objects = objects
	err := target.IndexPack(ctx, r)
	r.CloseWithError(io.ErrClosedPipe)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	return err
}

// CommonDir returns the directory that holds refs and objects: of a linked work tree it is another than its own.
func CommonDir(gitDir string) (string, error) {
	text, err := readSmall(filepath.Join(gitDir, "commondir"))
	if errors.Is(err, os.ErrNotExist) {
		return gitDir, nil
	}
	if err != nil {
		return "", reason.Errorf(reason.RepositoryInvalid, "reading commondir: %w", err)
	}
	dir := strings.TrimRight(text, "\r\n")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(gitDir, dir)
	}
	return filepath.Clean(dir), nil
}

// refuseHead keeps a checked out branch from changing under a user at work.
func refuseHead(gitDir, common, ref string) error {
	heads := []string{filepath.Join(gitDir, "HEAD"), filepath.Join(common, "HEAD")}
	linked, err := filepath.Glob(filepath.Join(globEscape(common), "worktrees", "*", "HEAD"))
	if err != nil {
		return fmt.Errorf("listing work trees: %w", err)
	}
	for _, head := range append(heads, linked...) {
		text, err := readSmall(head)
		if err != nil {
			return reason.Errorf(reason.RepositoryInvalid, "reading HEAD: %w", err)
		}
		if target, ok := strings.CutPrefix(text, "ref:"); ok && strings.TrimSpace(target) == ref {
			return reason.Errorf(reason.OutputExists, "%q is a checked out branch", ref).WithHint("choose another name")
		}
		for _, rebase := range []string{"rebase-merge", "rebase-apply"} { // HEAD is detached meanwhile
			name, err := readSmall(filepath.Join(filepath.Dir(head), rebase, "head-name"))
			if err == nil && strings.TrimSpace(name) == ref {
				return reason.Errorf(reason.OutputExists, "%q is a branch that is being rebased", ref).WithHint("choose another name")
			}
		}
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readSmall reads a file of a git directory that has one line. Anything but a small regular file is an error.
func readSmall(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxStderr {
		return "", fmt.Errorf("%q is not a small regular file", path)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// ValidBranch says whether refs/heads/<name> is a ref name that git accepts, and name one that no command line
// takes for something else.
func ValidBranch(name string) bool {
	return name != "HEAD" && !strings.HasPrefix(name, "-") && ValidRef("refs/heads/"+name)
}

// ValidRef follows git-check-ref-format(1), and bounds the length.
func ValidRef(ref string) bool {
	if len(ref) > 1000 || !strings.Contains(ref, "/") || strings.HasSuffix(ref, ".") || strings.Contains(ref, "..") ||
		strings.Contains(ref, "@{") || strings.ContainsAny(ref, " ~^:?*[\\\x7f") {
		return false
	}
	for _, c := range []byte(ref) {
		if c < ' ' {
			return false
		}
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// PublishBeside moves a ref that is no branch (refs/notes/…, refs/attestations/…) of a user's repository from old, "" for a
// ref that is not there yet, to commit, which lives in store and has old as its parent. Like [PublishBranch] it only adds
// objects and moves the one ref; git compares old under its lock, so that a note that another process adds meanwhile is
// not lost: the error is ref_moved.
func PublishBeside(ctx context.Context, srcGitDir string, store Dir, commit, ref, old string) error {
	if !strings.HasPrefix(ref, "refs/notes/") && !strings.HasPrefix(ref, "refs/attestations/") || !ValidRef(ref) || !store.Format.IsID(commit) || old != "" && !store.Format.IsID(old) {
		return fmt.Errorf("publishing beside branches: %q at %q is none", ref, commit)
	}
	common, err := CommonDir(srcGitDir)
	if err != nil {
		return err
	}
	if err := sendObjects(ctx, store, filepath.Join(common, "objects"), commit); err != nil {
		return fmt.Errorf("publishing %s: %w", ref, err)
	}
	if old == "" {
		old = store.Format.Zero()
	}
	source := Dir{Path: common, Format: store.Format}
	err = source.run(ctx, call{args: []string{"update-ref", "--no-deref", ref, commit, old}})
	if now, missing := source.RevParse(ctx, ref); err != nil && (missing != nil) != (old == store.Format.Zero()) || missing == nil && err != nil && now != old {
		return reason.Errorf(reason.RefMoved, "%s is not where it was a moment ago: %w", ref, err).WithHint("give the same command again")
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", ref, err)
	}
	return nil
}
