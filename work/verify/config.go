package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"remit/proof/form"
)

// Some files configure the build or the project and the runner as well. Only
// the runner's part of them is protected: a patch may add a dependency to
// go.mod, and may not replace one.

// maxConfig bounds a configuration file that is read for its runner part.
const maxConfig = 1 << 20

// mixedConfig says whether a file has a runner part. Of one that is
// separable the base's version can be used as a whole without breaking the
// build; the others hold what the new code needs, so a change of their runner
// part cannot be undone and is a finding.
func mixedConfig(p string) (mixed, separable bool) {
	switch path.Base(p) {
	case "pyproject.toml", "setup.cfg", "tox.ini", "setup.py":
		return true, true
	case "go.mod", "package.json", "Cargo.toml", "pom.xml", "CMakeLists.txt":
		return true, false
	}
	switch path.Ext(p) {
	case ".csproj", ".fsproj", ".vbproj":
		return true, false
	}
	return false, false
}

// runnerPart is the text of the runner's part of a file, in a form in which
// equal text means equal configuration. A file that cannot be parsed is
// runner part altogether. Of package.json the scripts count that test, that a
// command names, and that these run.
func runnerPart(p string, src []byte, commands []string) string {
	switch {
	case isGradle(p):
		return gradlePart(src)
	case isGemfile(p):
		return gemfilePart(src)
	}
	switch path.Base(p) {
	case "go.mod":
		return goModPart(src)
	case "package.json":
		return packageJSONPart(src, commands)
	case "pyproject.toml":
		return sectionPart(src, pyprojectSection())
	case "Cargo.toml":
		return sectionPart(src, cargoSection())
	case "setup.py":
		return setupPart(src)
	case "pom.xml":
		return pomPart(src)
	case "CMakeLists.txt":
		return cmakePart(src)
	case "setup.cfg", "tox.ini":
		return sectionPart(src, iniSection())
	default:
		return msbuildPart(src)
	}
}

// goModPart is what decides which code a test is built from and with: replaced
// modules, the toolchain, runtime settings. Requirements are not: their
// content is fixed by go.sum and the read-only module cache.
func goModPart(src []byte) string {
	f, err := modfile.ParseLax("go.mod", src, nil)
	if err == nil {
		f, err = modfile.Parse("go.mod", src, nil)
	}
	if err != nil {
		return string(src)
	}
	var lines []string
	for _, r := range f.Replace {
		lines = append(lines, fmt.Sprintf("replace %s => %s", r.Old, r.New))
	}
	for _, e := range f.Exclude {
		lines = append(lines, fmt.Sprintf("exclude %s", e.Mod))
	}
	for _, g := range f.Godebug {
		lines = append(lines, fmt.Sprintf("godebug %s=%s", g.Key, g.Value))
	}
	if f.Toolchain != nil {
		lines = append(lines, "toolchain "+f.Toolchain.Name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// setupPart is a whole setup.py where it registers a plugin of pytest, and
// nothing else: it is a program, of which no part stands alone.
func setupPart(src []byte) string {
	if !bytes.Contains(src, []byte("pytest11")) {
		return ""
	}
	return string(src)
}

// packageJSONPart is the test scripts, those that they and the commands run, and
// the settings of the usual runners.
func packageJSONPart(src []byte, commands []string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(src, &all) != nil {
		return string(src)
	}
	part := make(map[string]any)
	scripts := npmScripts(src)
	for name := range reachedScripts(scripts, commands) {
		part["scripts."+name] = scripts[name]
	}
	for _, key := range []string{"jest", "mocha", "ava", "nyc", "c8", "vitest", "tap", "imports"} {
		var v any
		if raw, ok := all[key]; ok && json.Unmarshal(raw, &v) == nil {
			part[key] = v
		}
	}
	text, err := json.Marshal(part)
	if err != nil {
		return string(src)
	}
	return string(text)
}

var (
	sectionHeader    = form.Lazy(`^\s*\[+\s*([^\]]*?)\s*\]+`)
	pyprojectSection = form.Lazy(`^tool\.(?:pytest|unittest|nose2?|tox|nox|coverage|poe|pdm\.scripts|hatch\.envs|taskipy|poetry\.plugins)\b|^project\.entry-points(?:\.pytest11)?$|pytest11`)
	cargoSection     = form.Lazy(`^(?:test|bench|lib|patch|replace|profile)\b`)
	iniSection       = form.Lazy(`^(?:tool:pytest|pytest|unittest|nosetests|aliases|tox|testenv.*|coverage:.*|options\.entry_points)$`)
)

// sectionPart is the lines of the matching sections of an INI or TOML file,
// without blank lines and comments. Dotted keys outside of a section are
// matched by their own name.
func sectionPart(src []byte, matches *regexp.Regexp) string {
	var kept []string
	inside := false
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if m := sectionHeader().FindStringSubmatch(line); m != nil {
			inside = matches.MatchString(strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), " ", ""))
		}
		if inside || matches.MatchString(line) || strings.HasPrefix(line, "tool") && strings.Contains(line, "pytest") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// readCapped reads all of r up to maxConfig.
func readCapped(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("larger than %d bytes", maxConfig)
	}
	return b, err
}
