package registry

import (
	"strings"

	"remit/proof/reason"
)

// MaxPath is how long a path may be: a path must not carry data out. Module paths
// and names of wheels stay below it.
const MaxPath = 400

// maxSegment is how long a name in it may be.
const maxSegment = 255

// escapes are the only ones that clients need, and what they stand for. A slash
// may be escaped in the name of an npm package alone.
var escapes = map[string]byte{"21": '!', "2b": '+', "40": '@', "2f": '/'}

// segments reads a request target. What is not in its one clean form is refused
// and never cleaned, so that no two readers can take it for two things. The
// slash at the end stays as an empty last segment.
func segments(target string) ([]string, error) {
	switch {
	case len(target) > MaxPath:
		return nil, refused(reason.RegistryRefused, "the path has %d bytes, more than %d", len(target), MaxPath)
	case !strings.HasPrefix(target, "/"):
		return nil, refused(reason.RegistryRefused, "the request is for another server")
	case strings.ContainsAny(target, "?#"):
		return nil, refused(reason.RegistryRefused, "the path has a query")
	}
	parts := strings.Split(target[1:], "/")
	for i, part := range parts {
		plain, err := unescape(part)
		switch {
		case err != nil:
			return nil, err
		case plain == "" && i < len(parts)-1, plain == ".", plain == "..":
			return nil, refused(reason.RegistryRefused, "the path has an empty segment or one of dots")
		case len(plain) > maxSegment:
			return nil, refused(reason.RegistryRefused, "a segment of the path has more than %d bytes", maxSegment)
		}
		parts[i] = plain
	}
	return parts, nil
}

// unescape reads one segment.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", refused(reason.RegistryRefused, "the path has an incomplete escape")
			}
			meant, ok := escapes[strings.ToLower(s[i+1:i+3])]
			if !ok || meant == '/' && !isScope(b.String()) {
				return "", refused(reason.RegistryRefused, "the path has an escape that no name needs")
			}
			b.WriteByte(meant)
			i += 2
			continue
		}
		if !isAlnum(c) && strings.IndexByte("-._~!+@", c) < 0 {
			return "", refused(reason.RegistryRefused, "the path has a character that no name has")
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// isScope reports whether s is the scope of an npm package, to which a name can
// be joined.
func isScope(s string) bool {
	return len(s) > 1 && s[0] == '@' && strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz0123456789-._~") == "" && s[1] != '.' && s[1] != '_'
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
