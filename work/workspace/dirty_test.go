package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDirty(t *testing.T) {
	t.Parallel()
	old := time.Unix(1600000000, 0)
	stale := func(t *testing.T, r *repo, name string) { // same content, other stat data
		t.Helper()
		if err := os.Chtimes(r.path(name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		change func(t *testing.T, r *repo)
		want   []string
	}{
		"nothing":              {func(*testing.T, *repo) {}, nil},
		"touched":              {func(t *testing.T, r *repo) { stale(t, r, "a") }, nil},
		"modified":             {func(_ *testing.T, r *repo) { r.write("a", "b\n") }, []string{"a"}},
		"same size, same time": {func(t *testing.T, r *repo) { sameStat(t, r, "a", "B\n") }, []string{"a"}},
		"staged":               {func(_ *testing.T, r *repo) { r.write("a", "b\n"); r.git("add", "a") }, []string{"a"}},
		"staged and undone":    {func(_ *testing.T, r *repo) { r.write("a", "b\n"); r.git("add", "a"); r.write("a", "a\n") }, []string{"a"}},
		"new and staged":       {func(_ *testing.T, r *repo) { r.write("n", ""); r.git("add", "n") }, []string{"n"}},
		"intent to add":        {func(_ *testing.T, r *repo) { r.write("n", ""); r.git("add", "-N", "n") }, []string{"n"}},
		"untracked":            {func(_ *testing.T, r *repo) { r.write("n", "") }, nil},
		"deleted":              {func(_ *testing.T, r *repo) { os.Remove(r.path("a")) }, []string{"a"}},
		"deleted and staged":   {func(_ *testing.T, r *repo) { r.git("rm", "-q", "a") }, []string{"a"}},
		"removed from index":   {func(_ *testing.T, r *repo) { r.git("rm", "-q", "--cached", "a") }, []string{"a"}},
		"no index":             {func(_ *testing.T, r *repo) { os.Remove(r.path(".git/index")) }, []string{"a", "crlf", "d/e", "link", "x"}},
		"mode":                 {func(_ *testing.T, r *repo) { os.Chmod(r.path("x"), 0o644) }, []string{"x"}},
		"mode, no fileMode": {func(_ *testing.T, r *repo) {
			r.git("config", "core.fileMode", "false")
			os.Chmod(r.path("x"), 0o644)
		}, nil},
		"link target":    {func(_ *testing.T, r *repo) { os.Remove(r.path("link")); os.Symlink("b", r.path("link")) }, []string{"link"}},
		"link again":     {func(_ *testing.T, r *repo) { os.Remove(r.path("link")); os.Symlink("a", r.path("link")) }, nil},
		"link to file":   {func(_ *testing.T, r *repo) { os.Remove(r.path("link")); r.write("link", "a") }, []string{"link"}},
		"file to fifo":   {func(t *testing.T, r *repo) { os.Remove(r.path("a")); mkfifo(t, r.path("a")) }, []string{"a"}},
		"file to dir":    {func(_ *testing.T, r *repo) { os.Remove(r.path("a")); r.write("a/b", "") }, []string{"a"}},
		"directory gone": {func(_ *testing.T, r *repo) { os.RemoveAll(r.path("d")) }, []string{"d/e"}},
		"directory behind a link": {func(_ *testing.T, r *repo) {
			os.Rename(r.path("d"), r.path("real"))
			os.Symlink("real", r.path("d"))
		}, []string{"d/e"}},
		"line ends by autocrlf": {func(t *testing.T, r *repo) {
			r.git("config", "core.autocrlf", "true")
			os.Remove(r.path("a"))
			r.git("checkout", "-q", "--", "a")
			stale(t, r, "a")
		}, nil},
		"assume unchanged": {func(_ *testing.T, r *repo) {
			r.git("update-index", "--assume-unchanged", "a")
			r.write("a", "other\n")
		}, nil},
		"skip worktree": {func(_ *testing.T, r *repo) {
			r.git("update-index", "--skip-worktree", "a")
			os.Remove(r.path("a"))
		}, nil},
		"conflict": {func(t *testing.T, r *repo) {
			r.git("checkout", "-q", "-b", "o")
			r.write("a", "theirs\n")
			r.commit()
			r.git("checkout", "-q", "main")
			r.write("a", "ours\n")
			r.commit()
			if _, err := r.tryGit("merge", "o"); err == nil {
				t.Fatal("merged")
			}
		}, []string{"a"}},
		"index version 4": {func(_ *testing.T, r *repo) { r.git("update-index", "--index-version", "4"); r.write("d/e", "x") }, []string{"d/e"}},
		"index version 3": {func(_ *testing.T, r *repo) { r.write("n", ""); r.git("add", "-N", "n"); r.write("d/e", "x") }, []string{"d/e", "n"}},
		"split index": {func(_ *testing.T, r *repo) {
			r.git("update-index", "--split-index")
			r.write("a", "b")
			r.git("add", "a")
		}, []string{"a"}},
		"split index, clean": {func(_ *testing.T, r *repo) { r.git("update-index", "--split-index") }, nil},
		"sparse index": {func(_ *testing.T, r *repo) {
			r.git("sparse-checkout", "init", "--cone", "--sparse-index")
			r.write("a", "b")
		}, []string{"a"}},
		"LFS content": {func(_ *testing.T, r *repo) {
			r.git("read-tree", "HEAD")
			id := r.hash("version https://git-lfs.github.com/spec/v1\noid sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nsize 3\n")
			r.git("update-index", "--add", "--cacheinfo", "100644,"+id+",big")
			r.git("commit", "-q", "-m", "lfs")
			r.write("big", "abc")
		}, nil},
		"LFS content changed": {func(_ *testing.T, r *repo) {
			id := r.hash("version https://git-lfs.github.com/spec/v1\noid sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nsize 3\n")
			r.git("update-index", "--add", "--cacheinfo", "100644,"+id+",big")
			r.git("commit", "-q", "-m", "lfs")
			r.write("big", "abd")
		}, []string{"big"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			r.write("a", "a\n")
			r.write("crlf", "c\r\n")
			r.write("d/e", "e\n")
			r.write("x", "x\n")
			os.Chmod(r.path("x"), 0o755)
			os.Symlink("a", r.path("link"))
			r.commit()
			test.change(t, r)
			src := r.open()
			untouched(t, src, func() {
				got, err := src.Dirty(t.Context())
				if err != nil || !slices.Equal(got, test.want) {
					t.Errorf("got %q, %v, want %q", got, err, test.want)
				}
			})
		})
	}
}

// sameStat writes other content of the same size without a change of size or mtime, right after git looked.
func sameStat(t *testing.T, r *repo, name, content string) {
	t.Helper()
	info, err := os.Stat(r.path(name))
	if err != nil {
		t.Fatal(err)
	}
	r.write(name, content)
	if err := os.Chtimes(r.path(name), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func (r *repo) hash(content string) string {
	r.t.Helper()
	name := filepath.Join(r.t.TempDir(), "blob")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r.git("hash-object", "-w", "--no-filters", name)
}

func TestFingerprintNamesWhatChanged(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("a", "a\n")
	r.write("src/deep/b", "b\n")
	r.write(".git/info/exclude", "x\n")
	r.commit()
	r.write("untracked/nested/.git/HEAD", "x")
	src := r.open()
	began := time.Now().Add(-time.Second) // the clock of files is coarse
	for _, test := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"nothing", func() {}, nil},
		{"read", func() { os.ReadFile(r.path("a")) }, nil},
		{"modified", func() { r.write("src/deep/b", "B\n") }, []string{"worktree: src/deep/b"}},
		{"new", func() { r.write("src/n", "") }, []string{"worktree: src/n"}},
		{"new directory", func() { r.write("n/m", "") }, []string{"worktree: n/m"}},
		{"deleted", func() { os.Remove(r.path("src/n")) }, []string{"worktree: src/n"}},
		{"deleted tree", func() { os.RemoveAll(r.path("n")) }, []string{"worktree: n/m"}},
		{"came and went", func() { r.write("src/x", ""); os.Remove(r.path("src/x")) }, []string{"worktree: src"}},
		{"mode", func() { os.Chmod(r.path("a"), 0o755) }, []string{"worktree: a"}},
		{"replaced", func() { r.write("c", "a\n"); os.Rename(r.path("c"), r.path("a")) }, []string{"worktree: a"}},
		{"hidden by mtime", func() { sameStat(t, r, "a", "A\n") }, []string{"worktree: a"}},
		{"nested git", func() { r.write("untracked/nested/.git/config", "") }, []string{"worktree: untracked/nested/.git/config"}},
		{"branch", func() { r.git("branch", "new") }, []string{"logs: logs/refs/heads/new", "refs: refs/heads/new"}},
		{"packed", func() { r.git("pack-refs", "--all") }, []string{"refs: packed-refs"}},
		{"head", func() { r.git("symbolic-ref", "HEAD", "refs/heads/new") }, []string{"head", "logs: logs/HEAD"}},
		{"index", func() { r.git("update-index", "--force-remove", "a") }, []string{"index"}},
		{"config", func() { r.git("config", "x.y", "z") }, []string{"config: config"}},
		{"config.worktree", func() { r.write(".git/config.worktree", "") }, []string{"config: config.worktree"}},
		{"hook", func() { r.write(".git/hooks/post-checkout", "") }, []string{"hooks: post-checkout"}},
		{"info", func() { r.write(".git/info/attributes", "") }, []string{"info: info/attributes"}},
		{"shallow", func() { r.write(".git/shallow", "x") }, []string{"shallow"}},
		{"objects only", func() { r.hash("new object") }, nil},
		{"unreadable names", func() { r.write("\xff\n", "") }, []string{"worktree: \xff\n"}},
	} {
		before, err := src.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		test.change()
		after, err := src.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range before.Compare(after) {
			if at := src.ChangedAt(what); at.Before(began) || time.Since(at) < -time.Second {
				t.Errorf("%s: %q changed at %s, want it since %s", test.name, what, at, began)
			}
		}
		got := slices.DeleteFunc(before.Compare(after), func(s string) bool { return s == "hooks: ." })
		if test.name == "head" {
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "logs") })
			test.want = test.want[:1]
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestFingerprintWhileSomebodyWorks: files, directories, refs and locks that
// come and go while the source is looked at are no error.
func TestFingerprintWhileSomebodyWorks(t *testing.T) {
	t.Parallel()
	r := simple(t)
	src := r.open()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			for _, name := range []string{"d/e/f", ".git/refs/heads/x/y", ".git/logs/refs/heads/x/y", ".git/index.lock", ".git/sharedindex.1", ".git/hooks/h/i", ".git/info/x/y"} {
				_ = os.MkdirAll(filepath.Dir(r.path(name)), 0o755)
				_ = os.WriteFile(r.path(name), []byte("4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"), 0o644)
			}
			for _, dir := range []string{"d", ".git/refs/heads/x", ".git/logs/refs/heads/x", ".git/hooks/h", ".git/info/x"} {
				_ = os.RemoveAll(r.path(dir))
			}
			_ = os.Rename(r.path(".git/index.lock"), r.path(".git/index.old"))
			_ = os.Remove(r.path(".git/sharedindex.1"))
		}
	}()
	for range 200 {
		if _, err := src.Fingerprint(t.Context()); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	<-stopped
}

func TestFingerprintBoundsItsNamesAndSurvivesJSON(t *testing.T) {
	t.Parallel()
	r := simple(t)
	src := r.open()
	before, err := src.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		r.write("f"+strings.Repeat("x", i), "")
	}
	after, err := src.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := before.Compare(after)
	if len(got) != maxNamed+1 || got[maxNamed] != "worktree: … and 10 more" {
		t.Errorf("got %q", got)
	}
	reread := &Fingerprint{Sections: before.Sections}
	if got := reread.Compare(after); !slices.Equal(got, []string{"worktree"}) {
		t.Errorf("got %q", got)
	}
	if n := after.Sections["worktree"].Count; n != 33 { // and "a file", "sub", "sub/b"
		t.Errorf("counted %d", n)
	}
}

func TestHugeUntrackedFileCostsNothing(t *testing.T) {
	t.Parallel()
	r := simple(t)
	f, err := os.Create(r.path("huge"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(64 << 30); err != nil {
		t.Skip("no sparse files here: ", err)
	}
	src := r.open()
	start := time.Now()
	untouched(t, src, func() {
		if d, err := src.Dirty(t.Context()); err != nil || len(d) > 0 {
			t.Error(d, err)
		}
		if _, err := src.Resolve(t.Context(), ""); err != nil {
			t.Error(err)
		}
	})
	if d := time.Since(start); d > 30*time.Second { // reading it takes longer
		t.Errorf("it took %v", d)
	}
}

func TestWalkCopesWithDepthAndLinks(t *testing.T) {
	t.Parallel()
	r := simple(t)
	os.Symlink("/", r.path("root"))
	os.Symlink(".", r.path("self"))
	mkfifo(t, r.path("pipe"))
	deep, err := os.OpenRoot(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range 40 { // 8000 bytes of path, more than the system takes at once
		if err := deep.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := deep.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		deep.Close()
		deep = next
	}
	defer deep.Close()
	src := r.open()
	before, err := src.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := before.Sections["worktree"].Count; n != 3+3+40 {
		t.Errorf("counted %d", n)
	}
	if err := deep.WriteFile("x", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := src.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := before.Compare(after); len(got) != 1 || !strings.HasSuffix(got[0], name+"/x") {
		t.Errorf("got %d differences", len(got))
	}
}
