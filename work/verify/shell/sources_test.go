package shell

import (
	"slices"
	"testing"
)

func TestSources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		". ./lib.sh":                                      {"./lib.sh"},
		"if ! . ./a.sh; then exit 1; fi":                  {"./a.sh"},
		"X=1 source \"$ROOT/a.sh\" arg":                   {"\"$ROOT/a.sh\"", "arg"},
		"command . ./a.sh; builtin source b":              {"./a.sh", "b"},
		`\. ./a.sh`:                                       {"./a.sh"},
		". \\\n ./a.sh":                                   {"./a.sh"},
		"eval \"$(cat a.sh)\"; source <(cat b.sh)":        {"\"$(cat a.sh)\"", "<(cat b.sh)"},
		"bash -c '. ./a.sh; f'; sh -ec \"$(cat b.sh)\"":   {"./a.sh", "\"$(cat b.sh)\""},
		"sh \"$(dirname \"$0\")/../a.sh\" add; sh ./b.sh": nil,
		"cat a.sh t.sh | sh; cat c.sh | grep x":           {"cat a.sh t.sh"},
		"BASH_ENV=./a.sh bash t.sh":                       {"./a.sh"},
		"bash --rcfile a.sh -i":                           {"--rcfile", "a.sh", "-i"},
		"echo . ./a.sh; echo 'source b.sh'":               nil,
		"it does not ( parse":                             nil,
	} {
		if got := Sources(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
