//test:plain-package It only computes: there is one goroutine.

package engine

import (
	"slices"
	"testing"

	"remit/work/tree"
)

// TestScratch: an engine's own files are no change, and it can hide nothing
// else: neither what is named alike nor what the baseline has.
func TestScratch(t *testing.T) {
	t.Parallel()
	var all []tree.Change
	for _, path := range []string{".git", ".case/a/b", ".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x", "lib/a"} {
		all = append(all, tree.Change{Path: path})
	}
	for name, test := range map[string]struct {
		scratch, baseline, want []string
	}{
		"none":             {nil, nil, []string{".git", ".case/a/b", ".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x", "lib/a"}},
		"both":             {[]string{".case", ".git"}, nil, []string{".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x", "lib/a"}},
		"in the baseline":  {[]string{".case", ".git", "lib"}, []string{".case", "lib"}, []string{".case/a/b", ".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x", "lib/a"}},
		"only at the top":  {[]string{"src/.git", "a/b", ""}, nil, []string{".git", ".case/a/b", ".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x", "lib/a"}},
		"twice, and other": {[]string{"lib", "lib", "nothing"}, nil, []string{".git", ".case/a/b", ".casement", ".case.md", "sub/.case/a", "src/.git", ".github/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inv := &Invocation{Scratch: test.scratch}
			var got []string
			for _, c := range inv.Changes(all, func(path string) bool { return slices.Contains(test.baseline, path) }) {
				got = append(got, c.Path)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
