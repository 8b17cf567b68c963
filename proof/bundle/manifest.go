package bundle

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"remit/proof/reason"
)

// Line is one file of a manifest.
type Line struct {
	SHA256 string // 64 lowercase hex digits
	Path   string
}

// Manifest is the content of manifest.txt, sorted by the bytes of the paths.
type Manifest []Line

const (
	hexLen     = 64
	lineIndent = hexLen + 2 // where the path begins
)

// ParseManifest reads a manifest strictly and returns what it could read
// together with everything that is wrong. The manifest is well-formed if and
// only if there are no findings; then Bytes returns src again.
func ParseManifest(profile Profile, src []byte) (Manifest, []reason.Finding) {
	var found findings
	add := func(code reason.Code, line int, format string, args ...any) {
		found.put(reason.Finding{Gate: GateManifest, Code: code, Path: ManifestName, Line: line}, format, args...)
	}
	if len(src) > MaxManifestBytes {
		add(reason.ManifestFormat, 0, "the manifest has %d bytes, the limit is %d", len(src), MaxManifestBytes)
		return nil, found.all()
	}
	if len(src) == 0 {
		add(reason.ManifestFormat, 0, "the manifest is empty")
		return nil, found.all()
	}
	if src[len(src)-1] != '\n' {
		add(reason.ManifestFormat, bytes.Count(src, []byte("\n"))+1, "the last line does not end in LF")
	}
	var m Manifest
	seen := map[string]bool{}
	number := 0
	for text := range bytes.Lines(src) {
		number++
		if number > MaxEntries {
			add(reason.ManifestFormat, number, "the manifest has more than %d lines", MaxEntries)
			break
		}
		line, wrong := parseLine(string(bytes.TrimSuffix(text, []byte("\n"))))
		if wrong != "" {
			add(reason.ManifestFormat, number, "%s", wrong)
			continue
		}
		for _, f := range CheckName(profile, line.Path) {
			add(f.Code, number, "path %q: %s", line.Path, f.Detail)
		}
		if byProduct(line.Path) {
			add(reason.ByProductListed, number, "path %q is a cache, or another by-product of a run", line.Path)
		}
		switch {
		case seen[line.Path]:
			add(reason.ManifestDuplicate, number, "path %q is listed more than once", line.Path)
			continue
		case len(m) > 0 && line.Path < m[len(m)-1].Path:
			add(reason.ManifestUnsorted, number, "path %q must come before %q", line.Path, m[len(m)-1].Path)
		}
		seen[line.Path] = true
		m = append(m, line)
	}
	return m, found.all()
}

// parseLine splits one line; wrong says what keeps it from being one.
func parseLine(text string) (line Line, wrong string) {
	switch {
	case strings.Contains(text, "\r"):
		return line, "the line holds a carriage return"
	case len(text) < hexLen || !isDigest(text[:hexLen]):
		return line, "the line does not begin with 64 lowercase hex digits"
	case !strings.HasPrefix(text[hexLen:], "  "):
		return line, "two spaces must follow the digest"
	case len(text) == lineIndent:
		return line, "the path is missing"
	case text[lineIndent] == ' ':
		return line, "the path begins with a space; exactly two spaces must follow the digest"
	}
	return Line{SHA256: text[:hexLen], Path: text[lineIndent:]}, ""
}

func isDigest(s string) bool {
	return len(s) == hexLen && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

// Bytes returns the text of the manifest, sorted.
func (m Manifest) Bytes() []byte {
	sorted := slices.SortedFunc(slices.Values(m), func(a, b Line) int { return cmp.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	for _, l := range sorted {
		out.WriteString(l.SHA256 + "  " + l.Path + "\n")
	}
	return out.Bytes()
}

// manifestOf lists hashed files, leaving out the manifest itself.
func manifestOf(files []*member) Manifest {
	m := make(Manifest, 0, len(files))
	for _, f := range files {
		if f.name != ManifestName {
			m = append(m, Line{SHA256: hex.EncodeToString(f.sum[:]), Path: f.name})
		}
	}
	return m
}

// compareManifest checks gate 4: every listed file is there with its digest,
// every file but the manifest is listed, and no directory is there for nothing. A file that could not be read to its
// end has no digest to compare: gate_unavailable.
func compareManifest(m Manifest, files []*member, hollow []string) []reason.Finding {
	var found findings
	add := func(code reason.Code, path, format string, args ...any) {
		found.put(reason.Finding{Gate: GateHashes, Code: code, Path: path}, format, args...)
	}
	byName := make(map[string]*member, len(files))
	for _, f := range files {
		byName[f.name] = f
	}
	listed := make(map[string]bool, len(m))
	for _, l := range m {
		listed[l.Path] = true
		f, ok := byName[l.Path]
		switch {
		case !ok:
			add(reason.ManifestFileMissing, l.Path, "the manifest lists a file that is not there")
		case !f.hashed:
			add(reason.GateUnavailable, l.Path, "the file could not be read, so its digest is unknown")
		case hex.EncodeToString(f.sum[:]) != l.SHA256:
			add(reason.ManifestHash, l.Path, "sha256 is %x, the manifest says %s", f.sum, l.SHA256)
		}
	}
	for _, f := range files {
		if f.name != ManifestName && !listed[f.name] {
			add(reason.ManifestUnlisted, f.name, "the manifest does not list this file")
		}
	}
	for _, dir := range hollow {
		add(reason.ManifestUnlisted, dir, "the manifest lists no file in this directory")
	}
	return found.all()
}

// Profile says which rules a bundle is held to.
type Profile string

const (
	// ProfileBundle is a Verified Patch Bundle of Remit: all gates, ASCII
	// names, and a zip that is byte for byte what [WriteZip] writes.
	ProfileBundle Profile = "bundle"

	// ProfilePortable is any self-validating zip: gates 1–4, 9 and 10.
	// Deflate, timestamps, data descriptors, directory entries, the usual
	// extra fields and names with spaces or UTF-8 are allowed.
	ProfilePortable Profile = "portable"
)

// The files whose presence makes content a [ProfileBundle]; detection needs both.
const (
	receiptName = "RECEIPT.json"
	journalName = "journal.jsonl"
)

// ManifestName is the file that lists and hashes all the others.
const ManifestName = "manifest.txt"

// detect derives the profile from the names of the files.
func detect(files []*member) Profile {
	var receipt, journal bool
	for _, f := range files {
		receipt = receipt || f.name == receiptName
		journal = journal || f.name == journalName
	}
	if receipt && journal {
		return ProfileBundle
	}
	return ProfilePortable
}
