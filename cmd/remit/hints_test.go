package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"remit/proof/reason"
)

// mention finds a command of ours in a text for users.
var mention = regexp.MustCompile("`remit ([a-z]+)")

// TestHintsNameRealCommands keeps every hint and document from sending a user
// to a command that does not exist.
func TestHintsNameRealCommands(t *testing.T) {
	t.Parallel()
	known := []string{"help", "completion"}
	for _, c := range newRoot().Commands() {
		known = append(known, c.Name())
	}
	check := func(where, text string) {
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s names `remit %s`, which does not exist", where, m[1])
			}
		}
	}
	for _, info := range reason.All() {
		check(info.String(), info.Hint)
	}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(documents, "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, string(text))
	}
}
