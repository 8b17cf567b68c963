package verify

import (
	"strings"
	"testing"
)

// TestNotSeen: of tests in a language without an editor the report says that it was not
// seen whether they can fail, and does not say that there are none.
func TestNotSeen(t *testing.T) {
	t.Parallel()
	for want, ran := range map[string][]CommandResult{
		"the base has no test file":                   {{Command: "make test"}, {Command: "pytest", Runner: "pytest"}, {Command: "cargo test", Runner: "cargo"}},
		"not seen whether the tests of deno can":      {{Command: "deno test", Runner: "deno"}, {Command: "true"}, {Command: "deno test x", Runner: "deno"}},
		"not seen whether the tests of bun, deno can": {{Runner: "deno"}, {Runner: "bun"}, {Runner: "gotest"}},
	} {
		if got := noSuite(&suite{}, ran); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := noSuite(&suite{left: []string{"a_test.go: too large"}}, []CommandResult{{Runner: "bats"}}); !strings.Contains(got, "too large") {
		t.Errorf("a file that was left: %q", got)
	}
}
