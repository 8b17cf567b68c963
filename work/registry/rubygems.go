package registry

import (
	"bytes"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

var (
	gemName = form.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	gemFile = form.Lazy(`^([A-Za-z0-9_][A-Za-z0-9_.-]*?)-([0-9][0-9A-Za-z.]*(?:-[A-Za-z0-9_.-]+)?)\.gem$`)
	gemLine = form.Lazy(`^([0-9][0-9A-Za-z.]*(?:-[A-Za-z0-9_.-]+)?) [^|\n]*\|(?:[^\n]*,)?checksum:([0-9a-f]{64})(?:,[^\n]*)?$`)
)

// GemFile reads the name of a file of RubyGems, NAME-VERSION.gem or
// NAME-VERSION-PLATFORM.gem. The version is with its platform.
func GemFile(file string) (name, version string, ok bool) {
	m := gemFile().FindStringSubmatch(file)
	if m == nil || len(file) > 255 || strings.Contains(file, "..") {
		return "", "", false
	}
	return m[1], m[2], true
}

// readRubyGems reads a path below /rubygems/, of which the compact index and the files
// are asked for:
//
//	info/NAME        the versions of a gem, with their SHA-256
//	gems/FILE.gem    a gem
func readRubyGems(_ *site, parts []string, _ string) (*question, error) {
	at := strings.Join(parts, "/")
	if len(parts) == 2 && parts[0] == "gems" {
		if name, version, ok := GemFile(parts[1]); ok {
			return &question{pkg: Package{RubyGems, name, version}, path: at, at: at}, nil
		}
	}
	if len(parts) == 2 && parts[0] == "info" && gemName().MatchString(parts[1]) && !strings.Contains(parts[1], "..") {
		return &question{pkg: Package{RubyGems, parts[1], ""}, path: at, at: at, accept: "text/plain", rewrite: gemIndex}, nil
	}
	return nil, refused(reason.RegistryRefused, "the path is none of a gem, or of its entry in the compact index")
}

// gemIndex keeps of a compact index what is asked for: each version with its SHA-256, a
// line each, "VERSION SHA256".
func gemIndex(a answer) (answer, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(a.body) {
		if m := gemLine().FindSubmatch(bytes.TrimRight(line, "\n")); m != nil {
			out.Write(m[1])
			out.WriteByte(' ')
			out.Write(m[2])
			out.WriteByte('\n')
		}
	}
	if out.Len() == 0 {
		return answer{}, refused(reason.RegistryAnswer, "the answer is no compact index of RubyGems with the digests of versions")
	}
	return answer{body: out.Bytes(), kind: "text/plain"}, nil
}

// gemMirror reads what bundler says of its mirror of rubygems.org: "mirror.…=ADDRESS", or
// nothing.
func gemMirror(said string) string {
	_, address, _ := strings.Cut(said, "=")
	return strings.TrimSpace(address)
}
