//go:build linux

package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// moduleCache is a Go module cache of our own.
type moduleCache struct{ dir string }

// add puts a module into the cache and returns its lines of a go.sum.
func (c moduleCache) add(t *testing.T, path, version string, files map[string]string) string {
	t.Helper()
	files = maps.Clone(files)
	files["go.mod"] = "module " + path + "\n"
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		write(t, filepath.Join(c.dir, path+"@"+version, name), files[name])
		fmt.Fprintf(&all, "%x  %s\n", sha256.Sum256([]byte(files[name])), path+"@"+version+"/"+name)
	}
	sum := sha256.Sum256([]byte(all.String()))
	hash := "h1:" + base64.StdEncoding.EncodeToString(sum[:])
	at := filepath.Join(c.dir, "cache/download", path, "@v", version)
	write(t, at+".ziphash", hash)
	write(t, at+".mod", files["go.mod"])
	write(t, at+".info", `{"Version":"`+version+`"}`)
	write(t, at+".zip", "not needed")
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", path, version, hash, path, version, hashOfGoMod([]byte(files["go.mod"])))
}

// lentOf is what a tree of files gets of the cache.
func lentOf(t *testing.T, cache string, files map[string]string) *lentModules {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	lent, err := new(modulesOf).lend(t.Context(), cache, dir)
	must(t, err)
	return lent
}

func TestModulesThatAreNamedAreLent(t *testing.T) {
	t.Parallel()
	c := moduleCache{t.TempDir()}
	a := c.add(t, "example.com/a", "v1.0.0", map[string]string{"a.go": "package a\n"})
	b := c.add(t, "example.com/b", "v1.2.3-0.20200101000000-abcdefabcdef", map[string]string{"b.go": "package b\n"})
	secret := c.add(t, "corp.example/secret", "v1.0.0", map[string]string{"s.go": "package s\n"})
	write(t, c.dir+"/golang.org/toolchain@v0.0.1-go1.99.1.linux-"+runtime.GOARCH+"/VERSION", "go1.99.1\n")
	write(t, c.dir+"/github.com/!big/name@v1.0.0/x.go", "package x\n")
	write(t, c.dir+"/cache/download/github.com/!big/name/@v/v1.0.0.ziphash", "h1:"+strings.Repeat("A", 43)+"=\n")
	_, modOnly, _ := strings.Cut(secret, "\n")
	guessed := "corp.example/secret v1.0.0 h1:" + strings.Repeat("B", 43) + "=\n"
	const dirA, dirB = "example.com/a@v1.0.0", "example.com/b@v1.2.3-0.20200101000000-abcdefabcdef"
	tests := []struct {
		name  string
		files map[string]string
		dirs  []string
		count int // files
	}{
		{"nothing", map[string]string{"a.txt": a}, nil, 0},
		{"one", map[string]string{"go.sum": a}, []string{dirA}, 3},
		{"every go.sum", map[string]string{"go.sum": a, "x/y/go.sum": b, "go.work.sum": a}, []string{dirA, dirB}, 6},
		{"escaped", map[string]string{"go.sum": "github.com/Big/name v1.0.0 h1:" + strings.Repeat("A", 43) + "=\n"}, []string{"github.com/!big/name@v1.0.0"}, 3},
		{"a guess at a private module", map[string]string{"go.sum": guessed, "go.mod": "module m\nrequire corp.example/secret v1.0.0\n"}, nil, 0},
		{"its go.mod only", map[string]string{"go.sum": modOnly}, nil, 2},
		{"vendored", map[string]string{"go.sum": a, "vendor/modules.txt": "", "vendor/example.com/x/go.sum": b}, nil, 0},
		{"toolchain", map[string]string{"go.mod": "module m\n\ngo 1.25\n\ntoolchain go1.99.1 // it\n"}, []string{"golang.org/toolchain@v0.0.1-go1.99.1.linux-" + runtime.GOARCH}, 3},
		{"hostile", map[string]string{"go.sum": a + "../../.. v1.0.0 h1:x=\n/etc v1 h1:" + strings.Repeat("A", 43) + "=\n" +
			"example.com/../b v1.0.0 h1:" + strings.Repeat("A", 43) + "=\nexample.com/a ../v1.0.0 h1:" + strings.Repeat("A", 43) + "=\n" +
			"\x00 \xff h1:" + strings.Repeat("A", 43) + "=\nexample.com/a v1.0.0/../../b h1:" + strings.Repeat("A", 43) + "=\n",
			"go.mod": "toolchain go1.99.1/../../x\ntoolchain go1.99.1 evil\n"}, []string{dirA}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lent := lentOf(t, c.dir, test.files)
			if lent == nil {
				lent = new(lentModules)
			}
			if !slices.Equal(lent.Dirs, test.dirs) || len(lent.Files) != test.count {
				t.Errorf("dirs %q, files %q", lent.Dirs, lent.Files)
			}
		})
	}
}

// A tree is hostile: none of these may take long, follow anything, or lend more.
func TestHostileSums(t *testing.T) {
	t.Parallel()
	c := moduleCache{t.TempDir()}
	a := c.add(t, "example.com/a", "v1.0.0", map[string]string{"a.go": "package a\n"})
	outside := t.TempDir()
	write(t, outside+"/go.sum", a)

	tests := map[string]func(dir string){
		"a link":    func(dir string) { must(t, os.Symlink(outside+"/go.sum", dir+"/go.sum")) },
		"linked":    func(dir string) { must(t, os.Symlink(outside, dir+"/sub")) },
		"a fifo":    func(dir string) { must(t, unix.Mkfifo(dir+"/go.sum", 0o644)) },
		"directory": func(dir string) { must(t, os.MkdirAll(dir+"/go.sum/go.mod", 0o755)) },
		"huge": func(dir string) {
			write(t, dir+"/go.sum", a)
			must(t, os.Truncate(dir+"/go.sum", maxSumBytes+1))
		},
		"one long line": func(dir string) { write(t, dir+"/go.sum", strings.Repeat("x", 1<<20)+"\n"+a) },
		"a million lines": func(dir string) {
			var b strings.Builder
			for i := range 1_000_000 {
				if b.Len() > maxSumBytes-200 {
					break
				}
				fmt.Fprintf(&b, "e.x/%d v1.0.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", i)
			}
			write(t, dir+"/a/go.sum", b.String())
			write(t, dir+"/b/go.sum", b.String())
			write(t, dir+"/c/go.sum", a)
		},
	}
	for name, hostile := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			hostile(dir)
			lent, err := new(modulesOf).lend(t.Context(), c.dir, dir)
			if err != nil || lent != nil {
				t.Errorf("%+v, %v", lent, err)
			}
		})
	}
}

func TestTooManyModules(t *testing.T) {
	t.Parallel()
	c := moduleCache{t.TempDir()}
	n := named{}
	for i := range maxLent + 2 {
		path, hash := fmt.Sprintf("example.com/m%d", i), "h1:"+strings.Repeat("A", 43)+"="
		must(t, os.MkdirAll(filepath.Join(c.dir, path+"@v1.0.0"), 0o755))
		write(t, filepath.Join(c.dir, "cache/download", path, "@v/v1.0.0.ziphash"), hash)
		n.sums = append(n.sums, moduleSum{path: path, version: "v1.0.0", sum: hash})
	}
	dirs, _, dropped := n.choose(c.dir)
	if len(dirs) != maxLent || dropped != 2 {
		t.Errorf("%d lent, %d dropped", len(dirs), dropped)
	}
	if caps := (&lentModules{Dirs: dirs, dropped: dropped}).cap(); len(caps) != 1 || caps[0].Observed != maxLent+2 {
		t.Errorf("%+v", caps)
	}
}

// TestModulesInside builds with a lent module, really, and sees nothing of
// another: neither its source, nor that it is there.
func TestModulesInside(t *testing.T) {
	t.Parallel()
	d := open1(t)
	if goRoot() == "" {
		t.Skip("no Go installation on this machine")
	}
	c := moduleCache{t.TempDir()}
	sums := c.add(t, "example.com/a", "v1.0.0", map[string]string{"a.go": "package a\n\nconst Word = \"lent\"\n"})
	c.add(t, "corp.example/secret", "v1.0.0", map[string]string{"s.go": "package s\n"})
	tools, err := findToolchain(nil, BuildCache{})
	must(t, err)
	tools.modCache = c.dir
	dir := t.TempDir()
	write(t, dir+"/go.mod", "module m\n\ngo 1.21\n\nrequire example.com/a v1.0.0\n")
	write(t, dir+"/go.sum", sums)
	// No program, whose runtime a user without a Go build cache would compile.
	write(t, dir+"/m.go", "package m\n\nimport \"example.com/a\"\n\nvar Word = \"it is \" + a.Word\n")
	const script = `for flags in -mod=readonly -mod=mod; do
	GOFLAGS="$GOFLAGS $flags" go build -o /tmp/m.a . 2>&1 || exit 1
	grep -ao 'it is lent' /tmp/m.a | sort -u
done
find /cache/go-mod -name '*.zip' -o -name '*secret*' -o -name 'corp*'
(echo x >/cache/go-mod/x) 2>/dev/null && echo written
(echo x >/cache/go-mod/example.com/a@v1.0.0/a.go) 2>/dev/null && echo written
grep -c HOST /proc/self/mountinfo
true`
	lent := &bwrap{path: d.path, tools: tools, desc: d.desc}
	o := shell(t, lent, Spec{Lower: dir}, strings.ReplaceAll(script, "HOST", strings.TrimPrefix(c.dir, "/")))
	if got := strings.Fields(o.out); !slices.Equal(got, []string{"it", "is", "lent", "it", "is", "lent", "0"}) {
		t.Errorf("%q", o.out)
	}
}

// BenchmarkModules tells what each lent module costs a command.
func BenchmarkModules(b *testing.B) {
	for _, count := range []int{0, 20, 100, 500} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			c := moduleCache{b.TempDir()}
			var sums strings.Builder
			for i := range count {
				path, hash := fmt.Sprintf("example.com/m%d", i), "h1:"+strings.Repeat("A", 43)+"="
				for _, dir := range []string{path + "@v1.0.0", "cache/download/" + path + "/@v"} {
					if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(c.dir, "cache/download", path, "@v/v1.0.0.ziphash"), []byte(hash), 0o600); err != nil {
					b.Fatal(err)
				}
				fmt.Fprintf(&sums, "%s v1.0.0 %s\n", path, hash)
			}
			dir := b.TempDir()
			if err := os.WriteFile(dir+"/go.sum", []byte(sums.String()), 0o600); err != nil {
				b.Fatal(err)
			}
			base := open1(b)
			d := &bwrap{path: base.path, desc: base.desc, tools: toolchain{modCache: c.dir, env: map[string]string{}}}
			for b.Loop() {
				if _, err := d.Run(b.Context(), Spec{Lower: dir, Commands: []Command{{Argv: []string{"true"}}}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
