package jobs

import (
	"slices"
	"testing"
)

// TestRepositoryName: what people write for one repository is one name, and what is
// another repository stays another.
func TestRepositoryName(t *testing.T) {
	t.Parallel()
	for want, refs := range map[string][]string{
		"acme/links": {"acme/links", "acme/links.git", "acme/links/", "https://github.com/acme/links", "https://GitHub.com/acme/links.git", "https://user:pass@github.com/acme/links.git/",
			"git@github.com:acme/links.git", "ssh://git@github.com/acme/links", "github.com/acme/links"},
		"git.example.org/acme/links": {"https://git.example.org/acme/links.git", "git@git.example.org:acme/links", "ssh://git@git.example.org/acme/links.git", "git.example.org/acme/links"},
		"git.example.org:3000/a/b":   {"http://git.example.org:3000/a/b.git"},
		"links":                      {"links", "links.git", "/srv/links", "/srv/links.git", "file:///srv/links/", "local:links@0123456789ab", " links "},
		"local:links@x":              {"local:links@x"},
		"/":                          {"/"},
		"":                           {""},
		".git":                       {".git"},
		"a b\u202ec":                 {"a b\u202ec"},
	} {
		for _, ref := range refs {
			if got := RepositoryName(ref); got != want {
				t.Errorf("%q is called %q, want %q", ref, got, want)
			}
			if got := RepositoryName(RepositoryName(ref)); got != want {
				t.Errorf("%q, named twice: %q, want %q", ref, got, want)
			}
		}
	}
	for _, ref := range []string{"acme/links", "https://github.com/acme/links.git", "git@github.com:acme/links.git", "https://git.example.org/acme/links", "links.git"} {
		if !slices.Contains(spellings(RepositoryName(ref)), ref) {
			t.Errorf("%q is no spelling of %q", ref, RepositoryName(ref))
		}
	}
}
