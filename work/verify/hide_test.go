package verify

import (
	"testing"

	"remit/work/verify/results"
)

func TestStub(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ src, want string }{
		{"package a\n\nfunc TestA() {}\n", "\npackage a\n"},
		{"// Copyright 4\n\n//go:build linux\n// +build linux\n\n// package b wants 4\npackage a_test // 4\n\n//go:build no\n", "//go:build linux\n// +build linux\n\npackage a_test\n"},
		{"/*\npackage b\n*/ package a; import \"testing\"\n", "\npackage a\n"},
	} {
		if got, err := stub(&suiteFile{path: "a_test.go", src: []byte(tc.src)}); err != nil || string(got) != tc.want {
			t.Errorf("%q: %q, %v", tc.src, got, err)
		}
	}
	if _, err := stub(&suiteFile{path: "a_test.go", src: []byte("func")}); err == nil {
		t.Error("a file without a package has a stub")
	}
}

// TestHide: files are hidden where no test near them reads sources, and only from
// commands that name their tests.
func TestHide(t *testing.T) {
	t.Parallel()
	file := func(path, pkg, src string) *suiteFile {
		f := &suiteFile{path: path, lang: langGo, pkg: pkg, src: []byte(src)}
		f.tests = []*suiteTest{{file: f, name: "Test" + pkg}}
		return f
	}
	named := func(tests ...string) CommandResult {
		c := CommandResult{Command: "go test ./...", direct: true, PerTest: map[string]results.Outcome{}}
		for _, id := range tests {
			c.PerTest[id] = results.Pass
		}
		return c
	}
	views := []view{{0, 1}, {1, 2}}
	plain := []CommandResult{named("a.Testa", "b.Testb"), {Command: "make"}}
	s := &suite{files: []*suiteFile{
		file("a/a_test.go", "a", "package a"), file("b/b_test.go", "b", `package b; import "go/parser"`), file("b/c_test.go", "b", "package b"),
		{path: "t/test_a.py", lang: langPython}, {path: "h_test.go", pkg: "h", lang: langGo, heldOut: true},
	}}
	s.index()
	s.hide(views, plain)
	for i, want := range []bool{true, false, false, false, false} {
		if f := s.files[i]; s.hiddenIn(views[0], f) != want || s.hiddenIn(views[1], f) {
			t.Errorf("%s: hidden %v, in %v", f.path, f.hidden, s.hides)
		}
	}
	groups := []groupProof{{view: views[0], by: byTest}, {view: views[1]}}
	tests := func(i int) []held { return []held{{suiteTest: s.files[i].tests[0]}} }
	if s.showing(groups, tests(0)) || !s.showing(groups, tests(1)) {
		t.Error("what is hidden is said to be there, or the other way round")
	}
	if groups[1].by = byExit; !s.showing(groups, tests(0)) {
		t.Error("a command that names no tests is said to hide them")
	}

	// A kept test that fails without its sources has them back.
	twins := []*twinRun{
		{views: map[int]*twinView{0: {}, 1: {}}},
		{views: map[int]*twinView{0: {}, 1: {}}},
	}
	ran := func() []*RunResult {
		return []*RunResult{{Commands: []CommandResult{named("a.Testa"), {}}}, {Commands: []CommandResult{named("a.Testa"), {}}}}
	}
	if s.missed(views, plain, ran(), twins...) {
		t.Error("a test that is lost is no sign")
	}
	failed := ran()
	failed[1].Commands[0].PerTest["a.Testa"] = results.Fail
	if !s.missed(views, plain, failed, twins...) {
		t.Error("a test that fails is a sign")
	}
	s.left = []string{"x_test.go: it does not parse"}
	if s.hide(views, plain); len(s.hides) != 0 {
		t.Error("a file that stays needs the others of its package")
	}
}
