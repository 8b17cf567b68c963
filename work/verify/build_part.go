package verify

import (
	"bytes"
	"encoding/xml"
	"path"
	"slices"
	"strings"
)

// The runner's part of the files of build tools that say which tests there are.

// pomSettings are properties of Maven that decide about tests.
var pomSettings = whenUsed(`^(?:skipTests|skipITs|maven\.test\..*|surefire\..*|failsafe\..*|test|it\.test|groups|excludedGroups|argLine)$`)

// pomPart is the plugins of a pom.xml that run tests, the properties that they
// read, and where tests lie, each with its place in the document. Of a plugin
// everything counts.
func pomPart(src []byte) string {
	var lines, at []string
	whole := 0 // the depth of the plugin that is taken as a whole
	dec := xml.NewDecoder(bytes.NewReader(src))
	var plugin []string // what a plugin holds so far
	for {
		token, err := dec.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case xml.Directive:
			return string(src) // it may define entities: nothing of it can be left out
		case xml.StartElement:
			at = append(at, t.Name.Local)
			if t.Name.Local == "plugin" && whole == 0 {
				whole, plugin = len(at), nil
			}
		case xml.CharData:
			text := strings.TrimSpace(string(t))
			if text == "" || len(at) == 0 {
				continue
			}
			name := at[len(at)-1]
			if line := strings.Join(at, "/") + "=" + text; whole > 0 {
				plugin = append(plugin, line)
			} else if name == "testSourceDirectory" || slices.Contains(at, "testResources") || len(at) > 1 && at[len(at)-2] == "properties" && pomSettings().MatchString(name) {
				lines = append(lines, line)
			}
		case xml.EndElement:
			if len(at) == whole {
				if text := strings.Join(plugin, "\n"); strings.Contains(text, "surefire") || strings.Contains(text, "failsafe") {
					lines = append(lines, text)
				}
				whole = 0
			}
			at = at[:max(len(at)-1, 0)]
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// cmakeTests are the commands of CMake that declare tests, or bend them.
var cmakeTests = whenUsed(`(?is)\b(add_test|set_tests_properties|set_property\s*\(\s*TEST|enable_testing|include\s*\(\s*CTest|[a-z_]*discover_tests|ctest_[a-z_]+)\b[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?`)

// cmakePart is the commands of a CMakeLists.txt that declare tests, one a line, in
// their order.
func cmakePart(src []byte) string {
	var bare []string
	for line := range strings.Lines(string(src)) {
		if text, _, commented := strings.Cut(line, "#"); commented {
			line = text + "\n"
		}
		bare = append(bare, line)
	}
	var lines []string
	for _, m := range cmakeTests().FindAllString(strings.Join(bare, ""), -1) {
		lines = append(lines, strings.Join(strings.Fields(m), " "))
	}
	return strings.Join(lines, "\n")
}

// onlyAdds says whether a part differs from the base's by further tests alone.
func onlyAdds(p, before, after string) bool {
	if path.Base(p) != "CMakeLists.txt" {
		return false
	}
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range now {
		switch {
		case len(old) > 0 && line == old[0]:
			old = old[1:]
		case !strings.HasPrefix(strings.ToLower(line), "add_test"):
			return false
		}
	}
	return len(old) == 0
}
