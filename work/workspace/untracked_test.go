package workspace

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"remit/work/git"
)

func TestUntrackedTests(t *testing.T) {
	t.Parallel()
	isTest := func(p string) bool { return strings.HasSuffix(p, "_test.go") }
	for name, tc := range map[string]struct {
		change func(r *repo)
		want   []string
	}{
		"nothing":     {func(*repo) {}, nil},
		"one":         {func(r *repo) { r.write("b_test.go", "") }, []string{"b_test.go"}},
		"no test":     {func(r *repo) { r.write("b.go", "") }, nil},
		"below":       {func(r *repo) { r.write("x/y/b_test.go", ""); r.write("d/a_test.go", "") }, []string{"d/a_test.go", "x/y/b_test.go"}},
		"staged":      {func(r *repo) { r.write("b_test.go", ""); r.git("add", "b_test.go") }, nil},
		"to be added": {func(r *repo) { r.write("b_test.go", ""); r.git("add", "-N", "b_test.go") }, nil},
		"modified":    {func(r *repo) { r.write("a_test.go", "x") }, nil},
		"ignored": {func(r *repo) {
			r.write(".gitignore", "gen/\n/b_*\n")
			r.write("b_test.go", "")
			r.write("gen/c_test.go", "")
			r.write("d/b_test.go", "")
		}, []string{"d/b_test.go"}},
		"ignored below": {func(r *repo) {
			r.write("d/.gitignore", "*_test.go\n")
			r.write("d/b_test.go", "")
			r.write("b_test.go", "")
		}, []string{"b_test.go"}},
		"hidden": {func(r *repo) { r.write(".venv/b_test.go", ""); r.write("node_modules/x/b_test.go", "") }, nil},
		"a link": {func(r *repo) {
			os.Symlink("a_test.go", r.path("b_test.go"))
			os.Symlink("d", r.path("e"))
			r.write("d/b_test.go", "")
		}, []string{"d/b_test.go"}},
		"a repository":    {func(r *repo) { newRepoAt(r.t, r.path("other")).write("b_test.go", "") }, nil},
		"a link of rules": {func(r *repo) { os.Symlink("/etc/passwd", r.path(".gitignore")); r.write("b_test.go", "") }, []string{"b_test.go"}},
		"many": {func(r *repo) {
			for i := range MaxUntrackedTests + 20 {
				r.write(fmt.Sprintf("n%03d_test.go", i), "")
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			r.write("a_test.go", "a\n")
			r.write("d/x.go", "a\n")
			r.git("add", "-A")
			r.git("commit", "-qm", "one")
			tc.change(r)
			src, err := OpenSource(t.Context(), r.dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := src.UntrackedTests(t.Context(), isTest)
			if name == "many" {
				if len(got) != MaxUntrackedTests || err != nil {
					t.Errorf("%d files, %v", len(got), err)
				}
				return
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestHoldingFindsContents(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("z/copy.txt", "held\n")
	r.write("deep/er/kept.txt", "held\n")
	if err := os.Symlink("held\n", r.path("link")); err != nil {
		t.Fatal(err)
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "one")
	r.write("later.txt", "other\n")
	src, err := OpenSource(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	base, err := src.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	held, other := git.SHA1.Sum("blob", []byte("held\n")), git.SHA1.Sum("blob", []byte("other\n"))
	got, err := src.Holding(t.Context(), base, []string{held, other})
	if err != nil || len(got) != 1 || got[held] != "deep/er/kept.txt" {
		t.Errorf("got %v, %v", got, err)
	}
}
