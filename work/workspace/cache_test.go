package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remit/proof/reason"
)

func newCache(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "cache"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustCheckout(t *testing.T, c *Cache, st *Store, tree string) *Checkout {
	t.Helper()
	co, err := c.Checkout(t.Context(), st, tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(co.Release)
	return co
}

func TestCheckoutIsTheTree(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	tree := mustImport(t, st, st.Baseline().Tree, file("odd\n\xff", "o"), file("big", strings.Repeat("x", 3*maxQueued)),
		symlink("out", "/etc/passwd"), symlink("src/up", "../.."), executable("bin/x", ""))
	co := mustCheckout(t, c, st, tree)
	if co.Warm || co.Files != 10 {
		t.Errorf("%+v", co)
	}
	want := "README.md=hello\n|big=" + strings.Repeat("x", 3*maxQueued) +
		"|bin/x=|link->README.md|odd\n\xff=o|out->/etc/passwd|run.sh=#!/bin/sh\n|src/a.go=package a\n|src/deep/er/b.txt=b\n|src/up->../.."
	if got := diskListing(t, co.Dir); got != want {
		t.Errorf("got %.300q", got)
	}
	for name, perm := range map[string]os.FileMode{"run.sh": 0o755, "bin/x": 0o755, "README.md": 0o644, "src": 0o755, ".": 0o755} {
		if info, err := os.Lstat(filepath.Join(co.Dir, name)); err != nil || info.Mode().Perm() != perm {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	again := mustCheckout(t, c, st, tree)
	if !again.Warm || again.Files != co.Files || again.Bytes != co.Bytes || again.Dir != co.Dir {
		t.Errorf("%+v", again)
	}
	if err := errors.Join(again.Verify(t.Context()), again.verifyDeep(t.Context())); err != nil {
		t.Error(err)
	}
	if empty := mustCheckout(t, c, st, st.git.Format.EmptyTree()); empty.Files != 0 || empty.Verify(t.Context()) != nil || empty.verifyDeep(t.Context()) != nil {
		t.Error("the empty tree")
	}
}

func TestDamagedCheckoutIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	r.git("gc", "-q")
	tests := map[string]struct {
		damage func(dir string)
		deep   bool // the content check finds it too
	}{
		"content":        {func(d string) { os.WriteFile(d+"/README.md", []byte("HELLO\n"), 0o644) }, true},
		"same again":     {func(d string) { os.WriteFile(d+"/README.md", []byte("hello\n"), 0o644) }, false},
		"hidden":         {func(d string) { hide(d+"/README.md", "HELLO\n") }, true},
		"mode":           {func(d string) { os.Chmod(d+"/README.md", 0o755) }, true},
		"setuid":         {func(d string) { os.Chmod(d+"/run.sh", 0o755|os.ModeSetuid) }, true},
		"replaced":       {func(d string) { os.WriteFile(d+"/n", []byte("hello\n"), 0o644); os.Rename(d+"/n", d+"/README.md") }, false},
		"missing":        {func(d string) { os.Remove(d + "/src/a.go") }, true},
		"more":           {func(d string) { os.WriteFile(d+"/src/deep/new", nil, 0o644) }, true},
		"new directory":  {func(d string) { os.Mkdir(d+"/src/deep/new", 0o755) }, true},
		"came and went":  {func(d string) { os.Mkdir(d+"/src/x", 0o755); os.Remove(d + "/src/x") }, false},
		"link":           {func(d string) { os.Remove(d + "/link"); os.Symlink("run.sh", d+"/link") }, true},
		"dir is a link":  {func(d string) { os.Rename(d+"/src", d+"/../src"); os.Symlink("../src", d+"/src") }, true},
		"file is a fifo": {func(d string) { os.Remove(d + "/README.md"); syscall.Mkfifo(d+"/README.md", 0o644) }, true},
		"tree missing":   {func(d string) { os.RemoveAll(d) }, true},
		"index missing":  {func(d string) { os.Remove(d + "/../index") }, false},
		"index cut":      {func(d string) { os.Truncate(d+"/../index", 100) }, false},
		"index empty":    {func(d string) { os.Truncate(d+"/../index", 0) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCache(t)
			co := mustCheckout(t, c, st, st.Baseline().Tree)
			test.damage(co.Dir)
			if test.deep {
				wantCode(t, co.verifyDeep(t.Context()), reason.TreeMismatch)
			} else {
				wantCode(t, co.Verify(t.Context()), reason.TreeMismatch)
			}
			co.Release()
			again := mustCheckout(t, c, st, st.Baseline().Tree)
			if again.Warm {
				t.Error("the damaged checkout was used again")
			}
			if err := errors.Join(again.Verify(t.Context()), again.verifyDeep(t.Context())); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(filepath.Join(c.dir, "tmp")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestCopiedCache: a checkout that came with a copy of the cache, as a backup of a home
// has it, is not the one that was built, and is built again before anything uses it.
func TestCopiedCache(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	tree := st.Baseline().Tree
	mustCheckout(t, c, st, tree).Release()
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", c.dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	there, err := OpenCache(copied)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := there.Find(t.Context(), tree); found != nil || err != nil {
		t.Errorf("a copied checkout is taken for one that was built: %v", err)
	}
	if co := mustCheckout(t, there, st, tree); co.Warm || co.Verify(t.Context()) != nil {
		t.Error("a copied checkout is used")
	}
	if co := mustCheckout(t, c, st, tree); !co.Warm || co.Verify(t.Context()) != nil {
		t.Error("the one that was copied is not used any more")
	}
}

// hide changes a file without a trace in size, mtime or inode.
func hide(name, content string) {
	info, _ := os.Stat(name)
	f, _ := os.OpenFile(name, os.O_WRONLY, 0)
	f.WriteString(content)
	f.Close()
	os.Chtimes(name, info.ModTime(), info.ModTime())
}

func TestHalfAnEntryIsBuiltAgain(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	os.MkdirAll(filepath.Join(c.entry(st.Baseline().Tree), "tree", "leftover"), 0o755)
	co := mustCheckout(t, c, st, st.Baseline().Tree)
	if co.Warm || strings.Contains(diskListing(t, co.Dir), "leftover") {
		t.Error("used")
	}
}

func TestConcurrentBuildersShareOneCheckout(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	c := newCache(t)
	stores := []*Store{st, r.store(), r.store()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	built := 0
	for i := range 9 {
		wg.Go(func() {
			other := &Cache{dir: c.dir} // as another process has it
			co, err := other.Checkout(t.Context(), stores[i%3], st.Baseline().Tree)
			if err != nil {
				t.Error(err)
				return
			}
			defer co.Release()
			if !co.Warm {
				mu.Lock()
				built++
				mu.Unlock()
			}
			if err := co.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if built != 1 {
		t.Errorf("built %d times", built)
	}
}

func TestTrimKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	base := st.Baseline().Tree
	var trees []string
	for _, name := range []string{"one", "two", "three"} {
		tree := mustImport(t, st, base, file(name, name))
		trees = append(trees, tree)
		co := mustCheckout(t, c, st, tree)
		if name != "two" {
			co.Release()
		}
	}
	for i, tree := range trees { // "one" was used last
		when := time.Unix(1700000000-int64(i), 0)
		if err := os.Chtimes(c.lock(tree, "use"), when, when); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Unix(1600000000, 0)
	stale := filepath.Join(c.dir, "tmp", "build-dead")
	os.MkdirAll(stale, 0o755)
	os.Chtimes(stale, old, old)

	exists := func() (s string) {
		for _, tree := range trees {
			if _, err := os.Stat(c.entry(tree)); err == nil {
				s += "x"
			} else {
				s += "-"
			}
		}
		return s
	}
	if freed, err := c.Trim(t.Context(), 1<<40); err != nil || freed != 0 || exists() != "xxx" {
		t.Error(freed, err, exists())
	}
	entries, err := c.entries()
	if err != nil || len(entries) != 3 || entries[0].bytes == 0 {
		t.Fatal(entries, err)
	}
	if freed, err := c.Trim(t.Context(), entries[0].bytes*2+1); err != nil || freed != entries[0].bytes || exists() != "xx-" {
		t.Error(freed, err, exists())
	}
	if _, err := c.Trim(t.Context(), 0); err != nil || exists() != "-x-" {
		t.Error(err, exists())
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("the remains of a dead process are still there")
	}
	if co := mustCheckout(t, c, st, trees[0]); co.Warm || co.Verify(t.Context()) != nil {
		t.Error("after trimming")
	}
}

// TestTrimStops: a trim that runs out of time leaves whole checkouts or none, and
// what it began to remove goes with a later one.
func TestTrimStops(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	co := mustCheckout(t, c, st, st.Baseline().Tree)
	co.Release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if freed, err := c.Trim(over, 0); err == nil || freed != 0 || co.Verify(t.Context()) != nil {
		t.Errorf("freed %d, %v", freed, err)
	}
	if removed, err := c.remove(over, co.tree); err != nil || !removed {
		t.Error(removed, err)
	}
	left := func() []string {
		names, err := filepath.Glob(filepath.Join(c.dir, "tmp", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	trash := left()
	if len(trash) != 1 {
		t.Fatalf("in tmp: %q", trash)
	}
	old := time.Now().Add(-2 * trashAfter)
	if err := os.Chtimes(trash[0], old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Trim(t.Context(), 1<<40); err != nil || len(left()) != 0 {
		t.Errorf("%v, in tmp: %q", err, left())
	}
}

func TestCheckoutHonoursTheContext(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	c := newCache(t)
	building, err := tryLock(c.lock(st.Baseline().Tree, "build"), syscall.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	defer building.release()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := c.Checkout(ctx, st, st.Baseline().Tree); !errors.Is(err, cause) {
		t.Error(err)
	}
}

// A tree can name one directory a thousand times, which names the next a thousand times, …
func TestTreeBombIsRefused(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	blob := r.git("rev-parse", "HEAD:README.md")
	id := mktree(t, r, "100644 blob "+blob+"\tf\n")
	for range 5 {
		var b strings.Builder
		for n := range 1100 {
			fmt.Fprintf(&b, "040000 tree %s\td%d\n", id, n)
		}
		id = mktree(t, r, b.String())
	}
	_, err := newCache(t).Checkout(t.Context(), st, id)
	wantCode(t, err, reason.RepositoryInvalid)
	_, err = st.Changes(t.Context(), st.git.Format.EmptyTree(), id)
	wantCode(t, err, reason.RepositoryInvalid)
}

func mktree(t *testing.T, r *repo, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tree")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := r.git("-c", "core.protectNTFS=false", "-c", "alias.mk=!git mktree --missing < \""+name+"\"", "mk")
	return cmd
}

func TestHostileTreesAreRefused(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	blob := r.git("rev-parse", "HEAD:README.md")
	c := newCache(t)
	for _, name := range []string{"..", ".", ".git", ".GIT", "git~1", ".git ", ".g\u200cit", strings.Repeat("x", 300)} {
		for _, text := range []string{"100644 blob " + blob + "\t" + name + "\n", "120000 blob " + blob + "\t" + name + "\n"} {
			id := rawTree(t, r, text)
			_, err := c.Checkout(t.Context(), st, id)
			wantCode(t, err, reason.PathUnrepresentable)
			// As the base of a run it is no finding: nothing can begin.
			_, err = r.open().Resolve(t.Context(), r.git("commit-tree", "-m", "hostile", id))
			wantCode(t, err, reason.RepositoryInvalid)
		}
	}
	for name, text := range map[string]string{
		"twice":           "120000 blob " + blob + "\ta\n100644 blob " + blob + "\ta.b\n040000 tree " + r.git("rev-parse", "HEAD:src") + "\ta\n",
		"same name twice": "100644 blob " + blob + "\ta\n100644 blob " + blob + "\ta\n",
		"order":           "100644 blob " + blob + "\tb\n100644 blob " + blob + "\ta\n",
		"mode":            "100666 blob " + blob + "\ta\n",
		"not a tree":      "040000 tree " + blob + "\ta\n",
		"not a blob":      "100644 blob " + r.git("rev-parse", "HEAD:src") + "\ta\n",
	} {
		_, err := c.Checkout(t.Context(), st, rawTree(t, r, text))
		if reason.CodeOf(err) != reason.RepositoryInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(c.dir, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// rawTree writes a tree object exactly as described, however wrong it is.
func rawTree(t *testing.T, r *repo, text string) string {
	t.Helper()
	var raw []byte
	for line := range strings.Lines(text) {
		meta, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f := strings.Fields(meta)
		raw = append(raw, strings.TrimPrefix(f[0], "0")+" "+name+"\x00"...)
		for i := 0; i < len(f[2]); i += 2 {
			raw = append(raw, unhex(f[2][i])<<4|unhex(f[2][i+1]))
		}
	}
	name := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return r.git("hash-object", "-w", "-t", "tree", "--literally", name)
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
