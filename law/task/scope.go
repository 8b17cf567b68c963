package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Scope is what a record lets contracts do in a repository.
type Scope struct {
	AllowedPaths     []string // globs: a contract allows nothing else
	ForbiddenPaths   []string // globs: a contract must not reach them
	ForbiddenActions []string // a contract forbids each of them
}

// Outside lists in what a contract goes beyond the scope; empty when it lies
// inside. Paths are judged by the text of the globs: it may find a contract
// outside that is not, and never the other way round.
func (s Scope) Outside(c *Contract) []string {
	var out []string
	for _, glob := range c.AllowedPaths {
		if !Covered(s.AllowedPaths, glob) {
			out = append(out, fmt.Sprintf("allowed_paths: %q is in none of the paths that the record allows", glob))
		}
	}
	denied := slices.Concat(c.ForbiddenPaths, c.ProtectedPaths)
	for _, p := range builtinProtection() {
		denied = append(denied, p.text)
	}
	for _, glob := range s.ForbiddenPaths {
		reached := func(allowed string) bool { return !apart(allowed, glob) }
		if !Covered(denied, glob) && slices.ContainsFunc(c.AllowedPaths, reached) {
			out = append(out, fmt.Sprintf("forbidden_paths: the record forbids %q, and the contract does not", glob))
		}
	}
	for _, action := range s.ForbiddenActions {
		if !slices.Contains(c.ForbiddenActions, action) {
			out = append(out, fmt.Sprintf("forbidden_actions: the record forbids %s, and the contract does not", action))
		}
	}
	return out
}

// Covered reports whether one of the globs covers every name that glob does,
// judged by their text.
func Covered(globs []string, glob string) bool {
	return CheckGlob(glob) == nil && slices.ContainsFunc(globs, func(outer string) bool { return CheckGlob(outer) == nil && covers(outer, glob) })
}

// CheckGlob says what is wrong with a glob, nil when it may stand in a contract
// or record.
func CheckGlob(glob string) error { return checkGlob(glob) }

// apart reports whether two globs can cover no name together, in any spelling
// that a file system takes for the same, judged by their leading components.
func apart(a, b string) bool {
	as, bs := components(a), components(b)
	for i := range min(len(as), len(bs)) {
		x, y := as[i], bs[i]
		switch {
		case x == "**" || y == "**":
			return false
		case isPlain(x) && isPlain(y):
			if x != y {
				return true
			}
		case isPlain(x), isPlain(y):
			if isPlain(x) {
				x, y = y, x
			}
			if same, err := doublestar.Match(x, y); err == nil && !same {
				return true
			}
		}
	}
	return false
}

func components(glob string) []string {
	return strings.Split(foldGlob(strings.TrimSuffix(glob, "/")), "/")
}
