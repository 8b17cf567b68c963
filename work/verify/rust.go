package verify

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/tree"
	"remit/work/verify/twin"
)

// Tests of Rust stand in files of their own, and beside the code in the same file. There
// the items that only a build for tests has are the tests: they are the base's where
// test files are, and by them a file is known again.

// rustFile says whether cargo may build a file.
func rustFile(p string) bool {
	if path.Ext(p) != ".rs" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "target" || s == "vendor" || strings.HasPrefix(s, ".") })
}

// rustAsserts is a definition that takes the place of a macro by which tests of Rust fail.
var rustAsserts = form.Lazy(`\bmacro_rules!\s*((?:debug_)?assert(?:_eq|_ne)?|panic|unreachable)\b|\bas\s+((?:debug_)?assert(?:_eq|_ne)?|panic|unreachable)\s*[;,}]`)

// takesAsserts says which of these a change of code of Rust takes, and "" where there is
// none: macros of the crate are seen by its tests.
func takesAsserts(root *os.Root, c tree.Change) string {
	if c.Kind != tree.File || !rustFile(c.Path) {
		return ""
	}
	before, err1 := textBefore(root, c.Path)
	after, err2 := textAfter(c)
	if err1 != nil || err2 != nil {
		return ""
	}
	had := map[string]int{}
	for _, m := range rustAsserts().FindAllSubmatch(before, -1) {
		had[string(m[1])+string(m[2])]++
	}
	for _, m := range rustAsserts().FindAllSubmatch(after, -1) {
		name := string(m[1]) + string(m[2])
		if had[name]--; had[name] < 0 {
			return "it takes the place of " + name + "!, by which tests fail"
		}
	}
	return ""
}

// rustTestMark is what a file has that may hold tests.
var rustTestMark = form.Lazy(`#\[[^\]]*\b(?:test|rstest|quickcheck|case)\b`)

// crate is the name of the package that a file is in, as the names of its test binaries
// begin, and the path of the file in it.
func (t *laidTree) crate(p string) (name, rel string) {
	for at := path.Dir(p); ; at = path.Dir(at) {
		src, err := t.read(path.Join(at, "Cargo.toml"))
		if name := packageName(src); err == nil && name != "" {
			return strings.ReplaceAll(name, "-", "_"), strings.TrimPrefix(p, strings.TrimPrefix(at+"/", "./"))
		}
		if at == "." {
			return "", p
		}
	}
}

// packageName is the name that a Cargo.toml gives to its package, "" if it has none.
func packageName(manifest []byte) string {
	inside := false
	for line := range strings.Lines(string(manifest)) {
		line = strings.TrimSpace(line)
		if m := sectionHeader().FindStringSubmatch(line); m != nil {
			inside = m[1] == "package"
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && inside && strings.TrimSpace(key) == "name" {
			value, _, _ = strings.Cut(value, "#")
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// rustRoot says whether a file of a package is the root of a crate, by its path.
var rustRoot = form.Lazy(`^(?:src/(?:lib|main)\.rs|(?:src/bin|tests|examples|benches)/(?:[^/]+\.rs|[^/]+/main\.rs))$`)

// addRust files the tests of a file under the modules that they are in.
func (s *suite) addRust(f *suiteFile) {
	modules := []string{""}
	if !rustRoot().MatchString(f.version) {
		segments := strings.Split(strings.TrimSuffix(f.version, ".rs"), "/")
		if len(segments) > 1 && slices.Contains([]string{"src", "tests", "examples", "benches"}, segments[0]) {
			segments = segments[1:]
		}
		if last := segments[len(segments)-1]; last == "mod" {
			segments = segments[:len(segments)-1]
		}
		modules[0] = strings.Join(segments, "::")
		if len(segments) > 1 && !strings.HasPrefix(f.version, "src/") { // of tests/NAME/main.rs
			modules = append(modules, strings.Join(segments[1:], "::"))
		}
	}
	for _, module := range modules {
		for _, t := range f.tests {
			name := strings.TrimPrefix(module+"::"+t.name, "::")
			s.byPath[name] = append(s.byPath[name], t)
		}
	}
}

// rustTest is the test of an identity of cargo, nil if there is none or more than one.
func (s *suite) rustTest(id string) *suiteTest {
	if len(s.byPath) == 0 {
		return nil
	}
	where, name, ok := strings.Cut(id, " > ")
	if !ok {
		where, name = "", id
	}
	crate, root, _ := strings.Cut(where, " ")
	found := slices.DeleteFunc(slices.Clone(s.byPath[name]), func(t *suiteTest) bool { return root != "" && !inCrateOf(t.file.version, root) })
	if len(found) > 1 && crate != "" {
		found = slices.DeleteFunc(found, func(t *suiteTest) bool { return t.file.pkg != crate && t.file.version != root })
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// inCrateOf says whether a file may be part of the crate with a root.
func inCrateOf(file, root string) bool {
	if file == root || !rustRoot().MatchString(root) {
		return true
	}
	top, _, _ := strings.Cut(root, "/")
	return !rustRoot().MatchString(file) && strings.HasPrefix(file, top+"/")
}

// mixedFile is a change of a file that holds code and tests, with one part of the two.
type mixedFile struct {
	code, tests tree.Change // the patch's code with the base's tests, and the other way round
	inBase      bool
}

// mix takes a change apart that changes the tests in a file of code, nil if it does not.
func mix(root *os.Root, c tree.Change) *mixedFile {
	if c.Kind != tree.File || c.Open == nil || !rustFile(c.Path) {
		return nil
	}
	base, err := root.ReadFile(c.Path)
	if err != nil { // a new file is code, with tests of its own
		return nil
	}
	in, err := c.Open()
	if err != nil {
		return nil
	}
	defer in.Close()
	patched, err := readCapped(in)
	if err != nil {
		return nil
	}
	before, err := twin.RustTests(base)
	if err != nil {
		return nil
	}
	after, err := twin.RustTests(patched)
	if err != nil || bytes.Equal(before, after) {
		return nil
	}
	code, err := twin.WithRustTests(patched, base)
	if err != nil {
		return nil
	}
	m := &mixedFile{code: fileOf(c.Path, code, c.Executable), tests: fileOf(c.Path, base, c.Executable), inBase: len(before) > 0}
	if tests, err := twin.WithRustTests(base, patched); err == nil {
		m.tests = fileOf(c.Path, tests, c.Executable)
	}
	return m
}
