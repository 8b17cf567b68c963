package task

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Protection is one rule of the self-modification protection.
type Protection struct {
	Glob string `json:"glob"` // matched like a forbidden path, in every disguise
	Why  string `json:"why"`
}

// protections are the files through which an agent could change its own
// limits, the judge of its work, or the instructions of the next agent.
var protections = []Protection{
	{gitRule, "git's own data; a component .git at any depth, in any disguise"},
	{"remit.yaml", "the repository's policy"},
	{".autopilot/**", "evidence of runs"},
	{".remit/**", "admission, approval and key records"},
	{"**/allowed_signers", "keys that signatures are trusted from"},
	{".github/workflows/**", "CI workflow"},
	{".gitea/workflows/**", "CI workflow"},
	{".forgejo/workflows/**", "CI workflow"},
	{".gitlab-ci.yml", "CI workflow"},
	{".circleci/**", "CI workflow"},
	{".woodpecker/**", "CI workflow"},
	{".woodpecker.yml", "CI workflow"},
	{"Jenkinsfile", "CI workflow"},
	{"azure-pipelines.yml", "CI workflow"},
	{".buildkite/**", "CI workflow"},
	{".travis.yml", "CI workflow"},
	{".drone.yml", "CI workflow"},
	{".githooks/**", "hook"},
	{".husky/**", "hook"},
	{".pre-commit-config.yaml", "hook"},
	{"**/AGENTS.md", "agent instructions"},
	{"**/CLAUDE.md", "agent instructions"},
	{"**/GEMINI.md", "agent instructions"},
	{"**/.claude/**", "agent instructions"},
	{"**/.pi/**", "agent instructions"},
	{"**/.codex/**", "agent instructions"},
}

// ProtectedPaths returns the rules that hold whatever a contract says. A
// policy or a contract can add to them (protected_paths), not take away.
func ProtectedPaths() []Protection { return slices.Clone(protections) }

// gitRule is named for a component .git at any depth.
const gitRule = "**/.git/**"

// builtinProtection is ProtectedPaths ready for matching.
var builtinProtection = sync.OnceValue(func() []pattern {
	patterns := make([]pattern, len(protections))
	for i, p := range protections {
		patterns[i] = compile(p.Glob)
	}
	return patterns
})

// isSeparator also takes the backslash, which separates components where the
// patch may be applied next.
func isSeparator(r rune) bool { return r == '/' || r == '\\' }

// fold returns the name under which every spelling that some file system takes
// for the same file is equal: case (macOS, Windows), Unicode normalisation and
// ignorable code points (HFS+), trailing dots and spaces, alternate data
// streams and short names (NTFS). Bytes that are not UTF-8 are kept.
func fold(name string) string {
	if name == "" {
		return name
	}
	parts := strings.FieldsFunc(name, isSeparator)
	for i, part := range parts {
		parts[i] = foldComponent(part)
	}
	folded := strings.Join(parts, "/")
	if strings.HasSuffix(name, "/") {
		folded += "/"
	}
	return folded
}

// foldGlob folds a glob as fold does its names. Components with wildcards keep
// their colons, dots and spaces, which may belong to a class.
func foldGlob(glob string) string {
	parts := strings.Split(glob, "/")
	for i, part := range parts {
		if isPlain(part) {
			parts[i] = foldComponent(part)
		} else {
			parts[i] = foldLetters(part)
		}
	}
	return strings.Join(parts, "/")
}

func foldLetters(part string) string {
	if isASCII(part) || !utf8.ValidString(part) {
		return lowerASCII(part)
	}
	return norm.NFC.String(strings.Map(foldRune, norm.NFD.String(part)))
}

func foldComponent(part string) string {
	folded := foldLetters(part)
	if stem, _, stream := strings.Cut(folded, ":"); stream && stem != "" {
		folded = stem
	}
	if trimmed := strings.TrimRight(folded, " ."); trimmed != "" {
		folded = trimmed
	}
	if long, ok := shortNames()[folded]; ok {
		return long
	}
	return folded
}

// foldRune maps all cases of a letter to one, and drops what HFS+ and Unicode
// ignore in names: format characters such as the zero-width joiner, variation
// selectors, and the soft hyphen.
func foldRune(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
		return -1
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// shortNames maps the 8.3 names that Windows gives to the components of the
// protection rules, and to .gitmodules, back to the components: git~1 is .git.
var shortNames = sync.OnceValue(func() map[string]string {
	short := map[string]string{}
	for _, p := range append(ProtectedPaths(), Protection{Glob: gitmodules}) {
		for part := range strings.SplitSeq(p.Glob, "/") {
			if isPlain(part) {
				for _, alias := range dosAliases(strings.ToLower(part)) {
					short[alias] = strings.ToLower(part)
				}
			}
		}
	}
	return short
})

// dosAliases returns the short names that a long name can have: six characters
// of the stem, ~ and a digit, three characters of the extension. A name that
// is a valid 8.3 name has none.
func dosAliases(long string) []string {
	stem, ext := strings.TrimLeft(long, "."), ""
	if dot := strings.LastIndexByte(stem, '.'); dot >= 0 {
		stem, ext = stem[:dot], stem[dot+1:]
	}
	if !strings.HasPrefix(long, ".") && len(stem) <= 8 && len(ext) <= 3 {
		return nil
	}
	stem = strings.ReplaceAll(stem, ".", "")
	stem, ext = stem[:min(len(stem), 6)], ext[:min(len(ext), 3)]
	var aliases []string
	for digit := '1'; digit <= '9'; digit++ {
		alias := stem + "~" + string(digit)
		if ext != "" {
			alias += "." + ext
		}
		aliases = append(aliases, alias)
	}
	return aliases
}
