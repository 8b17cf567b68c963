package task

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

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
