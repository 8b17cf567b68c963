package workspace

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
	"remit/work/tree"
)

// A check of a property starts some twenty processes, so there are few unless the command line wants more; another
// run draws others.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	code := m.Run()
	if template.dir != "" {
		_ = os.RemoveAll(template.dir)
	}
	os.Exit(code)
}

// repo is a user's repository, made with plain git.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, args ...string) *repo {
	t.Helper()
	return newRepoAt(t, t.TempDir(), args...)
}

func newRepoAt(t *testing.T, dir string, args ...string) *repo {
	t.Helper()
	r := &repo{t: t, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git(append([]string{"init", "-q", "-b", "main"}, args...)...)
	return r
}

// gitBinary is found before any test changes PATH.
var gitBinary = func() string {
	path, err := exec.LookPath("git")
	if err != nil {
		panic(err)
	}
	return path
}()

// git runs plain git in the repository, with an environment that no user can disturb.
func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.tryGit(args...)
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func (r *repo) tryGit(args ...string) (string, error) {
	cmd := exec.Command(gitBinary, append([]string{"-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000", "GIT_ALLOW_PROTOCOL=file:ext",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repo) path(name string) string { return filepath.Join(r.dir, name) }

func (r *repo) write(name, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit() string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "c")
	return r.git("rev-parse", "HEAD")
}

func (r *repo) open() *Source {
	r.t.Helper()
	s, err := OpenSource(r.t.Context(), r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// store opens a store for HEAD.
func (r *repo) store() *Store {
	r.t.Helper()
	src := r.open()
	base, err := src.Resolve(r.t.Context(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	st, err := NewStore(r.t.Context(), filepath.Join(r.t.TempDir(), "store"), src, base)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { st.Close() })
	return st
}

// template is the repository of seeded, made once: git starts four times for it.
var template struct {
	once sync.Once
	dir  string
	err  error
}

// seeded is a repository with a bit of everything, and its store.
func seeded(t *testing.T) (*repo, *Store) {
	t.Helper()
	template.once.Do(func() {
		if template.dir, template.err = os.MkdirTemp("", "workspace-template-"); template.err != nil {
			return
		}
		r := newRepoAt(t, template.dir)
		r.write("README.md", "hello\n")
		r.write("src/a.go", "package a\n")
		r.write("src/deep/er/b.txt", "b\n")
		r.write("run.sh", "#!/bin/sh\n")
		template.err = errors.Join(os.Chmod(r.path("run.sh"), 0o755), os.Symlink("README.md", r.path("link")))
		r.commit()
	})
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "repo")}
	if err := errors.Join(template.err, os.CopyFS(r.dir, os.DirFS(template.dir))); err != nil {
		t.Fatal(err)
	}
	return r, r.store()
}

func file(path, content string) tree.Change {
	return tree.Change{Path: path, Kind: tree.File, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func executable(path, content string) tree.Change {
	c := file(path, content)
	c.Executable = true
	return c
}

func symlink(path, target string) tree.Change {
	return tree.Change{Path: path, Kind: tree.Symlink, Target: target}
}

func remove(path string) tree.Change { return tree.Change{Path: path, Kind: tree.Delete} }

func special(path, note string) tree.Change {
	return tree.Change{Path: path, Kind: tree.Special, Note: note}
}

func mustImport(t *testing.T, st *Store, base string, changes ...tree.Change) string {
	t.Helper()
	im, err := st.Import(t.Context(), base, changes)
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Refused) > 0 || len(im.Ignored) > 0 {
		t.Fatalf("refused %v, ignored %v", im.Refused, im.Ignored)
	}
	return im.Tree
}

// listing is a tree as text: "mode path content".
func listing(t *testing.T, st *Store, tree string) string {
	t.Helper()
	entries, err := st.List(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, e := range entries {
		content := ""
		if e.Mode != modeGitlink {
			c, err := st.read(t.Context(), e.ID, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			content = string(c)
		}
		b.WriteString(strings.Join([]string{modeText(e.Mode), e.Path, content}, " ") + "|")
	}
	return b.String()
}

func modeText(mode uint32) string {
	return map[uint32]string{modeFile: "f", modeExec: "x", modeSymlink: "l", modeGitlink: "s"}[mode]
}

func wantCode(t *testing.T, err error, code reason.Code) {
	t.Helper()
	if reason.CodeOf(err) != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
}

func refusedCodes(fs []reason.Finding) string {
	var s []string
	for _, f := range fs {
		s = append(s, string(f.Code)+" "+f.Path)
	}
	return strings.Join(s, ", ")
}

var someTime = time.Unix(1700000000, 0)

func (r *repo) commitLink(name, target string) error { return os.Symlink(target, r.path(name)) }

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
