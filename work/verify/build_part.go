package verify

import (
	"bytes"
	"encoding/xml"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The runner's part of the files of build tools that say which tests there are.

// pomSettings are properties of Maven that decide about tests.
var pomSettings = whenUsed(`^(?:skipTests|skipITs|maven\.test\..*|surefire\..*|failsafe\..*|test|it\.test|groups|excludedGroups|argLine)$`)

// pomTests is said by a plugin, "element=text" a line, that runs tests, chooses which
// there are, or does something between their compilation and the end of the build.
var pomTests = whenUsed(`(?m)surefire|failsafe|/(?:test[A-Z]\w*|skip\w*)(?:/\w+)*=|/phase=(?:process-test-\w+|test\S*|prepare-package|package|\S*integration-test|verify)$`)

// pomPart is the plugins of a pom.xml that have to do with tests, the properties that
// they read, and where tests lie, each with its place in the document. Of a plugin
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
				if text := strings.Join(plugin, "\n"); pomTests().MatchString(text) {
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

// msbuildPart is what a project file of .NET does beside naming its sources and
// packages: targets, tasks, imports, and the properties that decide about tests.
func msbuildPart(src []byte) string {
	var lines, at []string
	dec := xml.NewDecoder(bytes.NewReader(src))
	for {
		token, err := dec.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case xml.Directive:
			return string(src)
		case xml.StartElement:
			at = append(at, t.Name.Local)
			for _, a := range t.Attr {
				if name := t.Name.Local; msbuildTests().MatchString(strings.Join(at, "/")) || name == "Compile" && a.Name.Local == "Remove" || a.Name.Local == "InitialTargets" {
					lines = append(lines, strings.Join(at, "/")+"@"+a.Name.Local+"="+a.Value)
				}
			}
		case xml.CharData:
			if text, where := strings.TrimSpace(string(t)), strings.Join(at, "/"); text != "" && msbuildTests().MatchString(where) {
				lines = append(lines, where+"="+text)
			}
		case xml.EndElement:
			at = at[:max(len(at)-1, 0)]
		}
	}
	return strings.Join(lines, "\n")
}

var msbuildTests = whenUsed(`/(?:Target|UsingTask|Import|Sdk)(?:/|$)|/(?:VSTest\w*|RunSettings\w*|IsTest\w*|Test\w*|Custom(?:Before|After)\w*|OutputPath|OutDir|DefaultItemExcludes|EnableDefaultCompileItems)$`)

// gradlePart is what a build script of Gradle says beside its versions and the plain
// names of its dependencies.
func gradlePart(src []byte) string { return linesBut(src, "//", gradleNames()) }

// linesBut are the lines of a script but for remarks and those of some forms, which may
// have a remark behind them. Of any other line all counts: a mark in a text is no remark.
func linesBut(src []byte, remark string, forms *regexp.Regexp) string {
	var lines []string
	for line := range strings.Lines(string(src)) {
		line = strings.Join(strings.Fields(line), " ")
		if bare, _, _ := strings.Cut(line, " "+remark); line != "" && !strings.HasPrefix(line, remark) && !forms.MatchString(bare) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

var gradleNames = whenUsed(`^(?:version|group|description) ?=? ?["'][\w.+-]*["']$` +
	`|^(?:(?:test|compile|runtime|androidTest|debug|release|kapt|annotation)?[A-Za-z]*(?:[iI]mplementation|[aA]pi|[oO]nly|[pP]rocessor)) ?\(? ?["'][\w.+-]+:[\w.+-]+(?::[\w.+-]+)?["'] ?\)?$`)

var gradleFiles = []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}

// gemfilePart is what a Gemfile says beside where gems are, and which: it is a program.
func gemfilePart(src []byte) string { return linesBut(src, "#", gemfileNames()) }

var gemfileNames = whenUsed(`^(?:source ["'][\w:/.-]+["']|ruby ["'][\w. ~><=]+["']|gemspec|end|group (?:,? ?:\w+)+ do|gem ["'][\w.-]+["'](?:, ?["'][\w. ~><=!-]+["'])*(?:, ?(?:require|groups?): ?(?:false|true|:\w+|\[[:\w, ]*\]))*)$`)

// isGemfile reports whether a file is read by bundler at its start.
func isGemfile(p string) bool { return path.Base(p) == "Gemfile" || path.Base(p) == "gems.rb" }

// isGradle reports whether a file is read by every build of Gradle there.
func isGradle(p string) bool {
	return slices.Contains(gradleFiles, path.Base(p)) || path.Base(p) == "gradle.properties"
}

// cmakeTests are the commands of CMake that declare tests, or bend them: what is compiled
// without assertions, how tests are started, and commands that are defined anew.
var cmakeTests = whenUsed(`(?is)\b(add_test|set_tests_properties|set_property\s*\(\s*TEST|enable_testing|include\s*\(\s*CTest|[a-z_]*discover_tests|ctest_[a-z_]+|(?:function|macro)\s*\(\s*_*(?:add|set|enable|include|target|find)_?[a-z_]*)\b[^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?` +
	`|\b(?:set|add_[a-z_]+|target_[a-z_]+|string|list|option)\s*\([^()]*(?:NDEBUG|CMAKE_BUILD_TYPE|CMAKE_CROSSCOMPILING\w*|CMAKE_TEST_LAUNCHER|CMAKE_TOOLCHAIN_FILE|CMAKE_PROJECT_\w+|(?:C|CXX)_COMPILER_LAUNCHER)[^()]*\)`)

// cmakePrograms are programs with their sources.
var cmakePrograms = whenUsed(`(?is)\b(?:add_executable|target_sources)\s*\(\s*([A-Za-z0-9_.+-]+)\s+([^()]*)\)`)

// cmakePart is the commands of a CMakeLists.txt that declare tests, one a line, in
// their order, and then the sources of the programs that these name.
func cmakePart(src []byte) string {
	var bare []string
	for line := range strings.Lines(string(src)) {
		if text, _, commented := strings.Cut(line, "#"); commented {
			line = text + "\n"
		}
		bare = append(bare, line)
	}
	text := strings.Join(bare, "")
	var lines []string
	for _, m := range cmakeTests().FindAllString(text, -1) {
		lines = append(lines, strings.Join(strings.Fields(m), " "))
	}
	tests := strings.Join(lines, "\n")
	for _, m := range cmakePrograms().FindAllStringSubmatch(text, -1) {
		if !slices.Contains(splitWords().Split(tests, -1), m[1]) {
			continue
		}
		for _, source := range strings.Fields(m[2]) {
			lines = append(lines, "source "+m[1]+" "+source)
		}
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
		case !strings.HasPrefix(strings.ToLower(line), "add_test") && !strings.HasPrefix(line, "source "):
			return false
		}
	}
	return len(old) == 0
}
