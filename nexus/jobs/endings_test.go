//go:build !race

package jobs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/nexus/jobs"
)

// TestEndings: a requester that waits for a job can rely on the table of its endings. The
// code has no other reason for an ending without a verdict, and the docs have
// the same rows.
func TestEndings(t *testing.T) {
	t.Parallel()
	t.Run("code", func(t *testing.T) {
		t.Parallel()
		registry := reasonNames(t)
		want := map[string]bool{}
		for _, e := range jobs.Endings() {
			want[string(e.Why)] = true
		}
		got := map[string]bool{}
		files, err := filepath.Glob("*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, found := range unpaidReasons(t, name) {
				got[registry[found]] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the code ends jobs for %v, the table has %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	})
	t.Run("docs", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile("../../docs/nexus.md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "\n## How a job ends\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got, want []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| `([a-z_]+)` \\| (yes|no) \\|").FindAllStringSubmatch(section, -1) {
			got = append(got, strings.Join(m[1:], " "))
		}
		for _, e := range jobs.Endings() {
			want = append(want, fmt.Sprintf("%s %s %s", e.State, e.Why, map[bool]string{true: "yes", false: "no"}[e.Lost]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("docs/nexus.md has the endings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// unpaidReasons names the reasons with which a file ends jobs or attempts: in an
// ending, in a loss, and in what takes the offers of a provider away. A provider
// that gives a job up has a verdict all the same, so that its loss is no ending.
func unpaidReasons(t *testing.T, name string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "reason" && s.Sel.Name != "ProviderFailures" {
			found = append(found, s.Sel.Name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if kind := fmt.Sprint(n.Type); kind != "ending" && kind != "lost" {
				return true
			}
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && fmt.Sprint(kv.Key) == "why" {
					add(kv.Value)
				}
			}
		case *ast.CallExpr:
			if f := fmt.Sprint(n.Fun); f == "withdraw" || f == "withdrawOthers" {
				add(n.Args[len(n.Args)-1])
			}
		}
		return true
	})
	return found
}

// reasonNames are the values of the constants of package reason.
func reasonNames(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../proof/reason/registry.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+)\s+Code = "([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = m[2]
	}
	return names
}
