package task

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// pattern is a glob made ready for matching many names. Allowing and denying
// read the same glob differently: see allows and denies.
type pattern struct {
	text    string
	invalid bool
	allow   string  // doublestar pattern of allows
	deny    matcher // of denies, for names as they are
	folded  matcher // of denies, for folded names
}

func compile(glob string) pattern {
	p := pattern{text: glob, invalid: checkGlob(glob) != nil, allow: glob}
	deny := glob
	if top, ok := tree(glob); ok {
		p.allow, deny = "**/*", "**"
		if top != "" {
			p.allow, deny = top+"/**/*", top+"/**"
		}
	}
	p.deny, p.folded = newMatcher(deny), newMatcher(foldGlob(deny))
	return p
}

func compileAll(globs []string) []pattern {
	patterns := make([]pattern, len(globs))
	for i, glob := range globs {
		patterns[i] = compile(glob)
	}
	return patterns
}

// tree returns P when the glob means the whole tree below P ("P/**", "P/"),
// and "" with true for the whole repository.
func tree(glob string) (string, bool) {
	if glob == "**" || glob == "**/" {
		return "", true
	}
	if top, ok := strings.CutSuffix(glob, "/"); ok && !strings.HasSuffix(top, "/**") {
		return top, true
	}
	return strings.CutSuffix(strings.TrimSuffix(glob, "/"), "/**")
}

// allows reports whether an allow glob covers a clean name. "P/**" is what is
// below P and not P itself: being allowed to edit inside a directory is not
// being allowed to put a file or a symlink in its place. An invalid glob
// allows nothing.
func (p pattern) allows(name string) bool {
	if p.invalid {
		return false
	}
	ok, err := doublestar.Match(p.allow, name)
	return ok && err == nil
}

// denies reports whether a deny glob covers a name, given with its folded
// form. Denying is generous where allowing is strict: "P/**" covers P too, a
// plain name (also after "**/") covers the tree below it, any spelling that a
// case-insensitive or normalising file system takes for the same name counts,
// and an invalid glob denies everything.
func (p pattern) denies(name, folded string) bool {
	return p.invalid || p.deny.covers(name) || p.folded.covers(folded)
}

// matcher decides a deny glob. Most are plain names and trees, for which
// comparing strings is fast; the rest is matched as a glob.
type matcher struct {
	top      string // this name and the tree below it
	anywhere string // "/name/": this component or components, and the tree below, at any depth
	glob     string
}

func newMatcher(deny string) matcher {
	top := strings.TrimSuffix(deny, "/**")
	if isPlain(top) {
		return matcher{top: top}
	}
	if name, ok := strings.CutPrefix(top, "**/"); ok && isPlain(name) {
		return matcher{anywhere: "/" + name + "/"}
	}
	return matcher{glob: deny}
}

func (m matcher) covers(name string) bool {
	switch {
	case m.top != "":
		return name == m.top || strings.HasPrefix(name, m.top) && name[len(m.top)] == '/'
	case m.anywhere != "":
		return strings.Contains("/"+name+"/", m.anywhere)
	}
	ok, err := doublestar.Match(m.glob, name)
	return ok || err != nil
}

// judge is an envelope's path rules, ready for many names.
type judge struct {
	allow, deny, protect []pattern
	envelope             Envelope
}

func (e Envelope) judge() judge {
	return judge{
		allow: compileAll(e.AllowPaths), deny: compileAll(e.DenyPaths), protect: compileAll(e.ProtectPaths),
		envelope: e,
	}
}

// protectedBy returns the first protection rule that a name falls under.
func (j judge) protectedBy(name, folded string) (string, bool) {
	for part := range strings.SplitSeq(folded, "/") {
		if part == ".git" {
			return gitRule, true
		}
	}
	for _, p := range builtinProtection() {
		if p.folded.covers(folded) {
			return p.text, true
		}
	}
	for _, p := range j.protect {
		if p.denies(name, folded) {
			return p.text, true
		}
	}
	return "", false
}

// deniedBy returns the first forbidden path that a name falls under.
func (j judge) deniedBy(name, folded string) (string, bool) {
	for _, p := range j.deny {
		if p.denies(name, folded) {
			return p.text, true
		}
	}
	return "", false
}

// allowed reports whether an allowed path covers a name.
func (j judge) allowed(name string) bool {
	return slices.ContainsFunc(j.allow, func(p pattern) bool { return p.allows(name) })
}

// Limits of one glob. Alternatives multiply, so an unlimited glob could make
// one match take hours.
const (
	MaxGlobBytes        = 1024
	maxGlobAlternatives = 64
)

// checkGlob says what is wrong with a glob, nil when it may stand in a
// contract. The rules keep matching free of surprises:
//
//   - relative, slash-separated, cleaned: no leading slash, no "." or "..", no
//     empty component; a trailing slash means the tree below;
//   - `**` is a whole component, so that it always means "any directories";
//   - a class never matches the slash, so no negated classes; braces do not
//     nest and hold no slash; no backslash.
func checkGlob(glob string) error {
	switch {
	case glob == "":
		return fmt.Errorf("empty glob")
	case len(glob) > MaxGlobBytes:
		return fmt.Errorf("glob of %d bytes, at most %d", len(glob), MaxGlobBytes)
	case !utf8.ValidString(glob) || strings.ContainsRune(glob, utf8.RuneError):
		return fmt.Errorf("glob is not valid UTF-8")
	case strings.ContainsFunc(glob, unicode.IsControl):
		return fmt.Errorf("control character in the glob")
	case strings.HasPrefix(glob, "/"):
		return fmt.Errorf("absolute path; globs are relative to the repository")
	case strings.Contains(glob, `\`):
		return fmt.Errorf("backslash; write slashes, and [*] for a literal star")
	}
	if err := checkBrackets(glob); err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(glob, "/"), "/") {
		switch {
		case part == "":
			return fmt.Errorf("empty path component")
		case part == "." || part == "..":
			return fmt.Errorf("%q component; globs cannot leave the repository", part)
		case strings.Contains(part, "**") && part != "**":
			return fmt.Errorf("%q: ** must be a whole component, as in a/**/*.go", part)
		}
	}
	if !doublestar.ValidatePattern(glob) {
		return fmt.Errorf("malformed glob")
	}
	return nil
}

// checkBrackets walks the classes and alternatives of a glob.
func checkBrackets(glob string) error {
	alternatives, here, inBraces := 1, 1, false
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end <= 0 {
				return fmt.Errorf("character class is empty or not closed")
			}
			class := glob[i : i+end+2]
			if strings.Contains(class, "/") {
				return fmt.Errorf("slash in the class %s", class)
			}
			if slash, err := doublestar.Match(class, "/"); slash || err != nil {
				return fmt.Errorf("class %s would match the slash", class)
			}
			i += end + 1
		case c == '{' && inBraces:
			return fmt.Errorf("braces inside braces")
		case c == '{':
			inBraces, here = true, 1
		case c == '}' && !inBraces:
			return fmt.Errorf("closing brace without an opening one")
		case c == '}':
			inBraces = false
			if alternatives *= here; alternatives > maxGlobAlternatives {
				return fmt.Errorf("more than %d alternatives", maxGlobAlternatives)
			}
		case c == ',' && inBraces:
			here++
		case c == '/' && inBraces:
			return fmt.Errorf("slash inside braces")
		}
	}
	if inBraces {
		return fmt.Errorf("braces are not closed")
	}
	return nil
}

// isPlain reports whether a glob is a plain name.
func isPlain(glob string) bool { return !strings.ContainsAny(glob, "*?[{") }
