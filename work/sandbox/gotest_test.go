//go:build linux

package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/work/tree"
)

// testedModule has three packages with tests; the test of package a fails.
func testedModule(t testing.TB) string {
	t.Helper()
	dir := plainModule(t)
	write(t, dir+"/c/c.go", "package c\n\nimport \"example.com/x/b\"\n\nfunc C() int { return b.B() }\n")
	for _, name := range []string{"a", "b", "c"} {
		want := "1"
		if name == "a" {
			want = "2"
		}
		write(t, dir+"/"+name+"/"+name+"_test.go", testOf(name, want))
	}
	write(t, dir+"/Makefile", "test:\n\t@go test $(FLAGS) ./...\n")
	return dir
}

func testOf(name, want string) string {
	upper := strings.ToUpper(name)
	return `package ` + name + `

import (
	"os"
	"testing"
)

func Test` + upper + `(t *testing.T) {
	t.Logf("GOFLAGS=%q", os.Getenv("GOFLAGS"))
	if ` + upper + `() != ` + want + ` {
		t.Error("unexpected")
	}
}
`
}

// TestLentCacheForTests fills one cache with the standard library and a module,
// and lends it to runs that test the module.
func TestLentCacheForTests(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	d, lower, kept := open1(t), testedModule(t), filepath.Join(t.TempDir(), "kept")
	if d.tools.goCache == "" && !asRoot() {
		t.Skip("SKIPPED, this user has no Go build cache, and a cold build takes too long for a test; TestLentCacheSparesCompiling has a module that needs none")
	}
	s := Spec{Lower: lower, Env: map[string]string{"GOENV": "off"}}
	cold := s
	cold.KeepCache = kept
	if o := try(t, d, cold, "go", "test", "-x", "./..."); o.ExitCode != 1 || compilations(o.out) < 6 || o.GoCache.NotKept != "" || !strings.Contains(o.out, "--- FAIL: TestA") {
		t.Fatalf("cold: exit code %d, %d compilations, %+v:\n%s", o.ExitCode, compilations(o.out), o.GoCache, o.out)
	}
	s.Caches = []string{kept}
	t.Run("nothing is compiled", func(t *testing.T) {
		t.Parallel()
		if o := try(t, d, s, "go", "test", "-x", "./..."); o.ExitCode != 1 || compilations(o.out) != 0 {
			t.Errorf("exit code %d, %d compilations:\n%s", o.ExitCode, compilations(o.out), o.out)
		}
	})
	t.Run("one package with its test", func(t *testing.T) {
		t.Parallel()
		edited := s
		edited.Apply = []tree.Change{text("a/a_test.go", testOf("a", "1"), false)}
		if o := shell(t, d, edited, "go test -x ./..."); compilations(o.out) != 2 { // a with its test, and the main of the test
			t.Errorf("%d compilations:\n%s", compilations(o.out), o.out)
		}
	})
	// A result of a test is no cache entry that a run takes from another one.
	t.Run("no result is lent", func(t *testing.T) {
		t.Parallel()
		o := shell(t, d, s, "go test ./b; go test ./b")
		if lines := strings.Split(o.out, "\n"); len(lines) < 2 || strings.Contains(lines[0], "(cached)") || !strings.Contains(lines[1], "(cached)") {
			t.Errorf("%s", o.out)
		}
	})
	t.Run("lent tests", func(t *testing.T) {
		t.Parallel()
		lentTests(t, d, s)
	})
}

// lentTests shows how tests that are not of the tree take the place of its own:
// the go command reads them out of a lent directory (-overlay), whatever
// starts it, and a wrapper (-exec) takes the flags away again before the
// program of the tests begins.
func lentTests(t *testing.T, d Driver, s Spec) {
	const at = "/remit-5f3a9c01d2"
	lent := t.TempDir()
	write(t, lent+"/a_test.go", testOf("a", "1"))
	write(t, lent+"/overlay.json", `{"Replace":{"/workspace/a/a_test.go":"`+at+`/a_test.go","/workspace/b/more_test.go":"`+at+`/more_test.go"}}`)
	write(t, lent+"/more_test.go", strings.Replace(testOf("b", "1"), "TestB", "TestMore", 1))
	write(t, lent+"/run", "#!/bin/sh\nunset GOFLAGS\nexec \"$@\"\n")
	must(t, os.Chmod(lent+"/run", 0o755))
	s.Env = map[string]string{"GOENV": "off", "GOFLAGS": "-buildvcs=false -overlay=" + at + "/overlay.json -exec=" + at + "/run"}
	s.Binds = []Bind{{lent, at}}
	for _, c := range []struct {
		name, script string
	}{
		{"go test", "go test -v ./..."},
		{"make", "make test FLAGS=-v"},
		{"a directory below", "cd c && go test -v ../..."},
	} {
		o := shell(t, d, s, c.script)
		if !strings.Contains(o.out, "--- PASS: TestA ") || !strings.Contains(o.out, "--- PASS: TestMore ") || strings.Count(o.out, `GOFLAGS=""`) != 4 {
			t.Errorf("%s:\n%s", c.name, o.out)
		}
	}
	// The events are those of a run without a wrapper, but no result is cached:
	// the go command has no log of what such a test read.
	plain := s
	plain.Env, plain.Apply = map[string]string{"GOENV": "off"}, []tree.Change{text("a/a_test.go", testOf("a", "1"), false)}
	want := testEvents(t, shell(t, d, plain, "go test -json ./a ./c").out)
	if got := testEvents(t, shell(t, d, s, "go test -json ./a ./c").out); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwithout a wrapper\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if o := shell(t, d, s, "go test ./a && go test ./a"); strings.Contains(o.out, "(cached)") {
		t.Errorf("results: %s", o.out)
	}
}

// testEvents reduces the output of go test -json to what does not depend on time
// or on the flags.
func testEvents(t *testing.T, out string) (events []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e struct{ Action, Package, Test string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		events = append(events, e.Package+" "+e.Test+" "+e.Action)
	}
	slices.Sort(events)
	return events
}
