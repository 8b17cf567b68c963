package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"remit/work/session"
	"remit/work/workspace"
)

// TestRunsTrimTheCache: base trees of earlier runs go, least recently used
// first, and never one in use.
func TestRunsTrimTheCache(t *testing.T) {
	t.Parallel()
	home := session.Home{Dir: t.TempDir(), CacheBytes: 1}
	run := func(content string) string {
		t.Helper()
		req := newRun(t, newRepo(t, map[string]string{"a.txt": content}), &scripted{files: map[string]string{"a.txt": "b\n"}}, talker{[]string{"tool"}})
		req.Home = home
		if _, err := Run(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		// The tree of this run was in use when the cache was trimmed.
		src, err := workspace.OpenSource(t.Context(), req.Repo)
		if err != nil {
			t.Fatal(err)
		}
		base, err := src.Resolve(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		tree := filepath.Join(home.CacheDir(), "trees", base.Tree)
		if _, err := os.Stat(tree); err != nil {
			t.Errorf("the run's own tree: %v", err)
		}
		return tree
	}
	gone := func(tree string) bool {
		_, err := os.Stat(tree)
		return errors.Is(err, fs.ErrNotExist)
	}
	first := run("1\n")
	second := run("2\n")
	if !gone(first) {
		t.Error("the tree of the first run is still there after the second")
	}
	src, err := workspace.OpenSource(t.Context(), newRepo(t, map[string]string{"a.txt": "2\n"}))
	if err != nil {
		t.Fatal(err)
	}
	base, err := src.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	st, err := workspace.NewStore(t.Context(), filepath.Join(t.TempDir(), "st"), src, base)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	cache, err := workspace.OpenCache(home.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	inUse, err := cache.Checkout(t.Context(), st, base.Tree)
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Release()
	third := run("3\n")
	if gone(second) || filepath.Dir(inUse.Dir) != second {
		t.Errorf("a tree in use was trimmed: %s", inUse.Dir)
	}
	home.CacheBytes = 0 // the default is far above this
	run("4\n")
	if gone(second) || gone(third) {
		t.Error("trees below the cap were trimmed")
	}
}
