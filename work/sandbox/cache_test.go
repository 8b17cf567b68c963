//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/work/tree"
)

// plainModule compiles without the standard library, so that a cold build is
// cheap and the number of compilations is the number of its packages.
func plainModule(t testing.TB) string {
	t.Helper()
	needGo(t)
	dir := t.TempDir()
	write(t, dir+"/go.mod", "module example.com/x\n\ngo 1.21\n")
	write(t, dir+"/a/a.go", "package a\n\nfunc A() int { return 1 }\n")
	write(t, dir+"/b/b.go", "package b\n\nimport \"example.com/x/a\"\n\nfunc B() int { return a.A() }\n")
	return dir
}

func needGo(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED, no go command")
	}
}

// compilations counts what go build -x or go test -x says that it started.
func compilations(out string) int { return strings.Count(out, "/compile -o ") }

// entry is the path of an entry of the build cache; kind is "a" or "d".
func entry(digit, kind string) string {
	return digit + digit + "/" + strings.Repeat(digit, 64) + "-" + kind
}

// keptFiles lists a kept cache.
func keptFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	must(t, walk(dir, func(p string, info os.FileInfo) {
		if !info.IsDir() {
			names = append(names, strings.TrimPrefix(p, dir+"/"))
		}
	}))
	return names
}

func TestLentCacheSparesCompiling(t *testing.T) {
	t.Parallel()
	d, lower, kept := open1(t), plainModule(t), filepath.Join(t.TempDir(), "kept")
	first := shell(t, d, Spec{Lower: lower, KeepCache: kept}, "go build -x ./...")
	if n := compilations(first.out); n != 2 {
		t.Fatalf("%d compilations in a cold run:\n%s", n, first.out)
	}
	files := keptFiles(t, kept)
	if c := first.GoCache; c.NotKept != "" || c.Files != len(files) || c.Files < 4 || c.Bytes <= 0 {
		t.Errorf("%+v with %d files", c, len(files))
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("kept: %v, %v", info, err)
	}
	before := state(t, kept)
	more := filepath.Join(t.TempDir(), "more")
	edited := []tree.Change{text("b/b.go", "package b\n\nimport \"example.com/x/a\"\n\nfunc B() int { return 2 * a.A() }\n", false)}
	for _, c := range []struct {
		name   string
		s      Spec
		script string
		want   int
	}{
		{"the same tree", Spec{Caches: []string{kept}}, "go build -x ./...", 0},
		{"one edited package", Spec{Caches: []string{kept}, Apply: edited, KeepCache: more}, "go build -x ./...", 1},
		{"two caches", Spec{Caches: []string{more, kept}, Apply: edited}, "go build -x ./...", 0},
		{"the other order", Spec{Caches: []string{kept, more}, Apply: edited}, "go build -x ./...", 0},
		{"both commands of a run", Spec{Caches: []string{kept}, Apply: edited}, "go build ./... && go build -x ./...", 0},
		{"none", Spec{}, "go build -x ./...", 2},
	} {
		c.s.Lower = lower
		o := shell(t, d, c.s, c.script)
		if n := compilations(o.out); n != c.want || o.GoCache.Lent != len(c.s.Caches) || o.GoCache.NotLent != "" || o.GoCache.NotKept != "" {
			t.Errorf("%s: %d compilations instead of %d, %+v:\n%s", c.name, n, c.want, o.GoCache, o.out)
		}
	}
	if state(t, kept) != before {
		t.Error("the lent cache was changed")
	}
	// What was lent is not kept again.
	for _, name := range keptFiles(t, more) {
		if _, err := os.Stat(filepath.Join(kept, name)); err == nil {
			t.Errorf("%s is in both caches", name)
		}
	}
}

// A lent cache changes neither the environment nor the arguments of a command.
func TestLentCacheIsNotAnnounced(t *testing.T) {
	t.Parallel()
	d, kept := open1(t), filepath.Join(t.TempDir(), "kept")
	const script = "env; cat /proc/self/cmdline /proc/1/cmdline | tr '\\0' ' '; ls -ld /cache /cache/*"
	s := Spec{Lower: t.TempDir()}
	without := shell(t, d, s, script)
	shell(t, d, Spec{Lower: s.Lower, KeepCache: kept}, "mkdir -p /cache/go-build/11 && echo x >/cache/go-build/"+entry("1", "d"))
	s.Caches = []string{kept}
	if with := shell(t, d, s, script); with.GoCache.Lent != 1 || stripTimes(with.out) != stripTimes(without.out) {
		t.Errorf("with a cache\n%s\nwithout\n%s", with.out, without.out)
	}
}

// stripTimes shortens the lines of ls -l to mode and name.
func stripTimes(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 9 && strings.HasPrefix(f[0], "d") {
			line = f[0] + " " + f[8] + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestLentCacheIsReadOnly(t *testing.T) {
	t.Parallel()
	e := escape(t, "lent build cache")
	d, kept := open1(e), filepath.Join(t.TempDir(), "kept")
	shell(e, d, Spec{KeepCache: kept}, "cd /cache/go-build && mkdir -p 11 22 && echo one >"+entry("1", "d")+" && echo two >"+entry("2", "d"))
	before := state(t, kept)
	// Each of two runs looks again when both have written.
	signal := t.TempDir() + "/signal"
	write(t, signal, "")
	script := `cd /cache/go-build && [ "$(cat ` + entry("1", "d") + `)" = one ] && echo $MINE >` + entry("1", "d") + ` && rm ` + entry("2", "d") + ` &&
		mkdir -p 33 && echo $MINE >` + entry("3", "d") + ` && echo written && until [ -s /signal ]; do :; done && cat ` + entry("1", "d") + ` ` + entry("3", "d") + ` && ! [ -e ` + entry("2", "d") + ` ]`
	written, ended := make(chan struct{}, 2), make(chan string, 2)
	for _, mine := range []string{"left", "right"} {
		go func() {
			var out bytes.Buffer
			said := writer(func(p []byte) (int, error) {
				if out.Len() == 0 {
					written <- struct{}{}
				}
				return out.Write(p)
			})
			r, err := d.Run(context.Background(), Spec{Lower: kept, Caches: []string{kept}, Env: map[string]string{"MINE": mine}, Binds: []Bind{{signal, "/signal"}},
				Limits: Limits{Wall: time.Minute}, Commands: []Command{{Argv: []string{"sh", "-c", script}, Stdout: said}}})
			if err != nil || r.Commands[0].ExitCode != 0 || r.GoCache.Lent != 1 {
				t.Errorf("%s: %+v, %v", mine, r, err)
			}
			ended <- strings.ReplaceAll(out.String(), mine, "mine")
		}()
	}
	for range 2 {
		select {
		case <-written:
		case <-time.After(time.Minute): // a run that failed says why below
		}
	}
	write(t, signal, "go on")
	for range 2 {
		out := <-ended
		e.Check(out == "written\nmine\nmine\n", "%q", out)
	}
	e.Check(state(t, kept) == before, "the lent cache was changed")
}

func TestCachesAreChecked(t *testing.T) {
	t.Parallel()
	d, dir := open1(t), t.TempDir()
	ok := []Command{{Argv: []string{"true"}}}
	write(t, dir+"/full/file", "")
	write(t, dir+"/file", "")
	for _, name := range []string{"/empty", "/open", "/good"} {
		must(t, os.Mkdir(dir+name, 0o755))
	}
	must(t, os.Chmod(dir+"/open", 0o777))
	must(t, os.Symlink(dir+"/empty", dir+"/link"))
	for name, s := range map[string]Spec{
		"kept in a relative place":  {KeepCache: "kept"},
		"kept where files are":      {KeepCache: dir + "/full"},
		"kept in a file":            {KeepCache: dir + "/file"},
		"kept behind a link":        {KeepCache: dir + "/link"},
		"kept below what is absent": {KeepCache: dir + "/no/such"},
		"lent and open to others":   {Caches: []string{dir + "/good", dir + "/open"}},
		"lent and absent":           {Caches: []string{dir + "/gone"}},
		"lent and a file":           {Caches: []string{dir + "/file"}},
		"lent without a name":       {Caches: []string{""}},
		"lent too often":            {Caches: make([]string, MaxCaches+1)},
	} {
		s.Lower, s.Commands = dir+"/good", ok
		if _, err := d.Run(context.Background(), s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if asRoot() {
		must(t, os.Chown(dir+"/empty", testUID, testUID))
		for name, s := range map[string]Spec{"kept": {KeepCache: dir + "/empty"}, "lent": {Caches: []string{dir + "/empty"}}} {
			s.Lower, s.Commands = dir+"/good", ok
			if _, err := d.Run(context.Background(), s); err == nil {
				t.Errorf("%s in a directory of another user: no error", name)
			}
		}
	}
	most := Spec{Lower: dir + "/good", Commands: ok}
	for range MaxCaches {
		most.Caches = append(most.Caches, t.TempDir())
	}
	if r, err := d.Run(context.Background(), most); err != nil || r.GoCache.Lent != MaxCaches {
		t.Errorf("the most that can be lent: %+v, %v", r, err)
	}
}

func TestNoneNeitherLendsNorKeeps(t *testing.T) {
	t.Parallel()
	lent, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	o := shell(t, openNone(t, t.TempDir()), Spec{Caches: []string{lent}, KeepCache: kept}, `mkdir -p "$GOCACHE/11" && echo x >"$GOCACHE/`+entry("1", "d")+`"`)
	if _, err := os.Stat(kept); err == nil || o.GoCache.NotKept == "" || o.GoCache.NotLent == "" || o.GoCache.Lent != 0 {
		t.Errorf("%+v, %v", o.GoCache, err)
	}
	if o := shell(t, openNone(t, t.TempDir()), Spec{}, "true"); o.GoCache != (GoCache{}) {
		t.Errorf("without a wish: %+v", o.GoCache)
	}
}

// A cache on a file system that cannot show it to the run user is left out.
func TestCacheThatCannotBeLent(t *testing.T) {
	t.Parallel()
	needRoot(t)
	d, kept := open1(t), filepath.Join(t.TempDir(), "kept")
	const unmapped = "/sys/kernel"
	if _, err := os.Stat(unmapped); err != nil {
		t.Skipf("SKIPPED, no file system without id-mapped mounts: %v", err)
	}
	shell(t, d, Spec{KeepCache: kept}, "mkdir -p /cache/go-build/11 && echo one >/cache/go-build/"+entry("1", "d"))
	o := shell(t, d, Spec{Caches: []string{unmapped, kept}}, "cat /cache/go-build/"+entry("1", "d")+"; ls /cache/go-build")
	if !strings.HasPrefix(o.out, "one\n") || strings.Contains(o.out, "notes") || o.GoCache.Lent != 1 || o.GoCache.NotLent == "" {
		t.Errorf("%q, %+v", o.out, o.GoCache)
	}
}

// TestFilledCacheHasWhatVetFinds: a test of a package that uses much of the standard
// library starts vet for itself alone.
func TestFilledCacheHasWhatVetFinds(t *testing.T) {
	t.Parallel()
	needGo(t)
	must(t, BuildCache{}.Fill(t.Context()))
	d, dir := open1(t), t.TempDir()
	write(t, dir+"/go.mod", "module example.com/x\n\ngo 1.21\n")
	write(t, dir+"/x_test.go", "package x\n\nimport (\n\t_ \"net/http/httptest\"\n\t\"testing\"\n)\n\nfunc TestX(*testing.T) {}\n")
	if out := shell(t, d, Spec{Lower: dir}, "go test -x ./...").out; strings.Count(out, "/vet -") != 1 || compilations(out) != 2 {
		t.Errorf("vet is started %d times, the compiler %d times:\n%s", strings.Count(out, "/vet -"), compilations(out), out[max(0, len(out)-2000):])
	}
}

// TestWarmModule: the module that fills it imports what a program may import, and nothing else.
func TestWarmModule(t *testing.T) {
	t.Parallel()
	got := warmModule([]byte("bytes\ncmd/go\ncrypto/internal/boring\ninternal/abi\nnet/http\nplugin\nruntime\nruntime/cgo\ntesting\nvendor/golang.org/x/net\n\"; evil\nA b\n"))["warm_test.go"]
	if want := "import (\n\t_ \"bytes\"\n\t_ \"net/http\"\n\t_ \"runtime\"\n\t\"testing\"\n)"; !strings.Contains(got, want) {
		t.Error(got)
	}
}
