package main

import (
	"os"
	"strings"
	"testing"

	"remit/law/eligibility"
)

// TestEnginesAreDocumented: every engine that drives a foreign agent has a row in
// the table of docs/engines.md. Its package, its line in the table of this program
// and that row are all that a new engine needs.
func TestEnginesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range engineNames() {
		if eligibility.AdmissionRequired(name) != strings.Contains(string(text), "\n| `"+name+"` |") {
			t.Errorf("the table of docs/engines.md and the engines of this program differ about %q", name)
		}
	}
}
