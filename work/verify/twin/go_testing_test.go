package twin

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuietTesting: the framework of the Go at hand can be edited, on its own
// lines, and a file that is not as it is known is refused.
func TestQuietTesting(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output() // what a program built with -trimpath does not know itself
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range GoTesting {
		src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src/testing", name))
		if err != nil {
			t.Fatal(err)
		}
		out, err := QuietTesting(name, src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, out, 0); err != nil {
			t.Fatal(err)
		}
		if string(out) == string(src) || strings.Count(string(out), "\n") != strings.Count(string(src), "\n") {
			t.Errorf("%s: nothing is edited, or lines have other numbers", name)
		}
		for _, known := range []string{"func (c *common) log(", "func tRunner(", "doPanic :=", ") processRunResult(", "\t\tfail = "} {
			if !strings.Contains(string(src), known) {
				continue
			}
			other := strings.NewReplacer("log(", "log2(", "tRunner(", "tRunner2(", "doPanic", "die", "processRunResult(", "other(", "fail", "_").Replace(known)
			if _, err := QuietTesting(name, []byte(strings.ReplaceAll(string(src), known, other))); err == nil {
				t.Errorf("%s without %q is edited", name, known)
			}
		}
	}
	for _, bad := range []string{"", "package testing", "package testing\n\nfunc ("} {
		if _, err := QuietTesting("testing.go", []byte(bad)); err == nil {
			t.Errorf("%q is edited", bad)
		}
	}
}
