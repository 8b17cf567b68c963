package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/form"
	"remit/proof/reason"
)

// bundleName is the naming rule of ProfileBundle: ASCII, no leading dash (a
// name must not look like an option), no empty segment.
var bundleName = form.Lazy(`^[A-Za-z0-9_.][A-Za-z0-9._-]*(/[A-Za-z0-9_.][A-Za-z0-9._-]*)*$`)

// CheckName returns everything that is wrong with one file name under a
// profile: nil means that the name is the same plain relative path on every
// system. The findings carry no gate.
func CheckName(profile Profile, name string) []reason.Finding {
	var found []reason.Finding
	add := func(code reason.Code, format string, args ...any) {
		found = append(found, reason.Finding{Code: code, Path: name, Detail: fmt.Sprintf(format, args...)})
	}
	if !utf8.ValidString(name) {
		add(reason.PathInvalid, "the name is not valid UTF-8")
	}
	if i := strings.IndexFunc(name, unsafeRune); i >= 0 {
		add(reason.PathControl, "the name holds a control or direction-changing character at byte %d", i)
	}
	if strings.HasPrefix(name, "/") {
		add(reason.PathAbsolute, "the name is absolute")
	}
	if strings.Contains(name, `\`) {
		add(reason.PathBackslash, "the name holds a backslash, a separator on Windows")
	}
	if strings.Contains(name, ":") {
		add(reason.PathDrive, "the name holds a colon: a drive letter or a stream on Windows")
	}
	if limit := maxName(profile); len(name) > limit {
		add(reason.PathTooLong, "the name has %d bytes, the limit is %d", len(name), limit)
	}
	if depth := strings.Count(name, "/") + 1; depth > MaxDepth {
		add(reason.PathTooLong, "the name has %d segments, the limit is %d", depth, MaxDepth)
	}
	checkSegments(strings.TrimPrefix(name, "/"), add)
	if profile == ProfileBundle && len(found) == 0 && !bundleName().MatchString(name) {
		add(reason.PathInvalid, "the name must match %s", bundleName())
	}
	return found
}

func maxName(profile Profile) int {
	if profile == ProfileBundle {
		return MaxNameBytes
	}
	return MaxPortableNameBytes
}

// checkSegments checks what stands between the slashes. A backslash separates
// as well: on Windows `..\x` climbs.
func checkSegments(name string, add func(reason.Code, string, ...any)) {
	for seg := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '\\' }) {
		if slices.Contains(strings.Split(seg, "/"), "..") {
			add(reason.PathTraversal, `the name holds a ".." segment`)
			break
		}
	}
	for seg := range strings.SplitSeq(name, "/") {
		switch {
		case seg == "":
			add(reason.PathInvalid, "the name holds an empty segment")
		case seg == ".":
			add(reason.PathInvalid, `the name holds a "." segment`)
		case seg == "..": // reported above
		case len(seg) > MaxSegmentBytes:
			add(reason.PathTooLong, "a segment has %d bytes, the limit is %d", len(seg), MaxSegmentBytes)
		case strings.HasSuffix(seg, ".") || strings.HasSuffix(seg, " "):
			add(reason.PathReserved, "segment %q ends in a dot or space, which Windows drops", seg)
		case isDevice(seg):
			add(reason.PathReserved, "segment %q is a device on Windows", seg)
		}
	}
}

// unsafeRune is true for what must not reach a terminal or a C string: NUL
// and other controls (C0, DEL, C1), line separators, and the marks that
// reorder text (a name that shows as "gnp.exe" need not end that way).
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) ||
		r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 ||
		r == 0x200E || r == 0x200F || r == 0x061C || r == 0x2028 || r == 0x2029
}

// isDevice reports whether Windows opens a device instead of a file for this
// segment: the extension and spaces before it do not help ("nul .txt").
func isDevice(seg string) bool {
	base, _, _ := strings.Cut(seg, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CLOCK$", "CONIN$", "CONOUT$":
		return true
	}
	digit, ok := strings.CutPrefix(base, "COM")
	if !ok {
		digit, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, digit)
}

// namedEntry is a name as a container holds it: a directory entry ends in "/".
type namedEntry struct {
	name string
	dir  bool
}

// checkNames checks each name and then all together: equal names, names that
// differ only in case, and a file where another name needs a directory.
func checkNames(profile Profile, entries []namedEntry, found *findings) {
	sorted := make([]foldedName, len(entries))
	for i, e := range entries {
		bare := e.name
		if e.dir {
			bare = strings.TrimSuffix(bare, "/")
		}
		found.addAll(CheckName(profile, bare))
		sorted[i] = foldedName{namedEntry: namedEntry{name: bare, dir: e.dir}, key: fold(bare)}
	}
	slices.SortStableFunc(sorted, func(a, b foldedName) int { return compareTree(a.key, b.key) })
	for i := range len(sorted) - 1 {
		compareNeighbours(sorted[i], sorted[i+1], found)
	}
}

// foldedName is a name with its key on case-insensitive file systems.
type foldedName struct {
	namedEntry
	key string
}

// compareTree orders names as a tree walk does: whatever is below a name
// follows it directly. Clashes are then between neighbours, and no set of all
// directories is needed, which hostile depth would blow up.
func compareTree(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareNeighbours reports the clash of two names that follow each other in
// the tree walk.
func compareNeighbours(a, b foldedName, found *findings) {
	switch {
	case a.key == b.key && a.dir != b.dir:
		found.add(reason.PathFileDirClash, b.name, "a file and a directory have this name")
		return
	case a.name == b.name:
		found.add(reason.PathDuplicate, b.name, "the name occurs more than once; readers disagree on which entry counts")
		return
	case !a.dir && strings.HasPrefix(b.key, a.key+"/"):
		found.add(reason.PathFileDirClash, b.name, "the name needs a directory where the file %q is", a.name)
		return
	}
	// The directories that both are in must be spelled alike, and so must the
	// whole names if they fold to one.
	restA, restB := a.name, b.name
	for moreA, moreB := true, true; moreA && moreB; {
		var segA, segB string
		segA, restA, moreA = strings.Cut(restA, "/")
		segB, restB, moreB = strings.Cut(restB, "/")
		if fold(segA) != fold(segB) {
			return
		}
		if segA != segB {
			found.add(reason.PathCaseClash, b.name, "the name differs from %q only in case, as far as both go", a.name)
			return
		}
	}
}

// fold maps names that a case-insensitive file system treats as one to one
// key: the smallest rune of each simple case folding orbit.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
