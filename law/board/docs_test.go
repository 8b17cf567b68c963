package board

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocs: docs/governance.md names every rule and every word of this package,
// and no rule that is gone.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "governance.md"))
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile("[\"`]((?:folder|record|workboard|evidence|secret)\\.[a-z_]+)[\"`]")
	rules := func(text []byte) (all []string) {
		for _, m := range rule.FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, name := range files {
		if src, err := os.ReadFile(name); err == nil && !strings.HasSuffix(name, "_test.go") {
			code = append(code, src...)
		}
	}
	if got, want := rules(page), rules(code); len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("the page has %q, the code %q", got, want)
	}
	for _, words := range [][]string{RecordStatuses(), Classifications(), ItemStatuses(), ItemTypes(), {NotPromoted}} {
		for _, w := range words {
			if !strings.Contains(string(page), "`"+w+"`") {
				t.Errorf("the page does not name %s", w)
			}
		}
	}
}
