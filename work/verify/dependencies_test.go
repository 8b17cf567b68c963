package verify

import (
	"slices"
	"testing"

	"remit/work/sandbox"
)

// A command that changes what a later one of its view loads is like one that edits
// a test. What tools keep in a cache beside the packages is not.
func TestDependenciesThatACommandChanges(t *testing.T) {
	t.Parallel()
	got := replaced(sandbox.LayerChanges{Total: 6, Replaced: []string{"node_modules/mocha/lib/run.js"},
		Added: []string{"node_modules/.vite/results.json", "node_modules/.bin/mocha", "node_modules/chai/node_modules/x/index.js", "node_modules/.cache/a/b", "node_modules/evil.js"}})
	want := []string{"node_modules/mocha/lib/run.js", "node_modules/.bin/mocha", "node_modules/chai/node_modules/x/index.js", "node_modules/evil.js"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
