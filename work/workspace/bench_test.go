package workspace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"remit/work/tree"
)

// benchRepo is a packed repository of n small files in directories of twenty, and what is opened of it.
func benchRepo(b *testing.B, n int) (*repo, *Source, Baseline, *Store) {
	b.Helper()
	dir := b.TempDir()
	r := &repo{dir: dir}
	run := func(args ...string) {
		if out, err := r.tryGit(args...); err != nil {
			b.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	run("init", "-q", "-b", "main")
	for i := range n {
		name := r.path(fmt.Sprintf("d%d/e%d/file%d.txt", i/400, i/20, i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, fmt.Appendf(nil, "content of file %d\n", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	run("add", "-A")
	run("commit", "-q", "-m", "c")
	run("gc", "-q")
	src, err := OpenSource(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	base, err := src.Resolve(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	st, err := NewStore(b.Context(), filepath.Join(b.TempDir(), "store"), src, base)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return r, src, base, st
}

var sizes = []int{100, 1000, 20000}

func BenchmarkCheckoutCold(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, _, base, st := benchRepo(b, n)
			for b.Loop() {
				cache, err := OpenCache(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				co, err := cache.Checkout(b.Context(), st, base.Tree)
				if err != nil || co.Files != n {
					b.Fatal(err, co)
				}
				co.Release()
			}
		})
	}
}

func BenchmarkCheckoutWarm(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, _, base, st := benchRepo(b, n)
			cache, err := OpenCache(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			co, err := cache.Checkout(b.Context(), st, base.Tree)
			if err != nil {
				b.Fatal(err)
			}
			co.Release()
			b.Run("checkout", func(b *testing.B) {
				for b.Loop() {
					co, err := cache.Checkout(b.Context(), st, base.Tree)
					if err != nil || !co.Warm {
						b.Fatal(err, co)
					}
					co.Release()
				}
			})
			b.Run("verify", func(b *testing.B) {
				for b.Loop() {
					if err := co.Verify(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("deep", func(b *testing.B) {
				for b.Loop() {
					if err := co.verifyDeep(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkSource(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, src, _, _ := benchRepo(b, n)
			b.Run("fingerprint", func(b *testing.B) {
				for b.Loop() {
					if _, err := src.Fingerprint(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("dirty", func(b *testing.B) {
				for b.Loop() {
					if d, err := src.Dirty(b.Context()); err != nil || len(d) > 0 {
						b.Fatal(err, d)
					}
				}
			})
			b.Run("resolve", func(b *testing.B) {
				for b.Loop() {
					if _, err := src.Resolve(b.Context(), ""); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkStore(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, _, base, st := benchRepo(b, n)
			var head string
			b.Run("import", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					im, err := st.Import(b.Context(), base.Tree, append(changesOf(3), file("x", fmt.Sprint(i))))
					if err != nil {
						b.Fatal(err)
					}
					head = im.Tree
				}
			})
			var patch bytes.Buffer
			b.Run("diff", func(b *testing.B) {
				for b.Loop() {
					patch.Reset()
					if _, err := st.Diff(b.Context(), base.Tree, head, &patch); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("apply", func(b *testing.B) {
				for b.Loop() {
					if got, err := st.Apply(b.Context(), base.Tree, bytes.NewReader(patch.Bytes())); err != nil || got != head {
						b.Fatal(got, err)
					}
				}
			})
		})
	}
}

func changesOf(n int) []tree.Change {
	var changes []tree.Change
	for i := range n {
		changes = append(changes, file(fmt.Sprintf("d0/e%d/file%d.txt", i, i*20), "changed\n"))
	}
	return changes
}
