package verify

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
)

// steered are the paths that count, those that count also when new with a "+".
func steered(t *testing.T, base files, commands ...string) string {
	t.Helper()
	root, err := os.OpenRoot(base.write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := reach(root, commands, DefaultTestPath)
	var out []string
	for p, evenNew := range s.files {
		if _, err := root.Lstat(p); evenNew {
			out = append(out, p+"+")
		} else if err == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	if s.makefiles {
		out = append(out, "*.mk")
	}
	return strings.Join(out, " ")
}

func TestReach(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base    files
		command string
		want    string
	}{
		"a plain runner":           {files{"run.sh": "go test"}, "go test ./...", ""},
		"a script of the command":  {files{"run_tests.sh": "go test ./..."}, "sh run_tests.sh", "run_tests.sh"},
		"the product is called":    {files{"run_tests.sh": "./slug.sh <in | diff - out", "slug.sh": "#!/bin/sh\nmain() { echo; }\nmain \"$@\"\n"}, "sh run_tests.sh", "run_tests.sh"},
		"the product of a make":    {files{"Makefile": "test:\n\t./bin/slug <in | diff - out\n", "bin/slug": "#!/bin/sh\ntr a b\n"}, "make test", "Makefile *.mk"},
		"make and a script":        {files{"Makefile": "test:\n\t@hack/run\n", "hack/run": "#!/bin/sh\nexec go test ./...\n"}, "make test", "Makefile hack/run *.mk"},
		"a script without a place": {files{"Makefile": "test:\n\t./go.sh\n", "go.sh": "cd src; go test ./...\n"}, "make test", "Makefile go.sh *.mk"},
		"a chain":                  {files{"Makefile": "test: ; sh a/b\n", "a/b": "#!/bin/sh\nsh ../c/d \"$1\"\n", "c/d": "#!/bin/bash\npython3 -m pytest -q\n"}, "cd . && make test", "Makefile a/b c/d *.mk"},
		"by variables":             {files{"ci.sh": "HERE=$(dirname \"$0\")\n\"${HERE}/lib/step\" all\n", "lib/step": "#!/bin/sh\nnpm run -s test\n"}, "bash ci.sh", "ci.sh lib/step"},
		"sourced":                  {files{"ci.sh": ". \"$(dirname \"$0\")/env\"\ngo test\n", "env": "X=1\n"}, "./ci.sh", "ci.sh dirname+ env+"},
		"sourced if it is there":   {files{"ci.sh": "[ -f local.env ] && . ./local.env\ngo test\n"}, "./ci.sh", "ci.sh local.env+"},
		"included":                 {files{"Makefile": "include build/rules.inc\n-include local.opts\ntest: ; go test\n", "build/rules.inc": "X = hack/x\n", "hack/x": "#!/bin/sh\n"}, "make test", "Makefile build/rules.inc+ hack/x local.opts+ *.mk"},
		"another makefile":         {files{"ci/all": "test: ; hack/y\n", "hack/y": "#!/bin/sh\n"}, "make -f ci/all test", "ci/all+ hack/y *.mk"},
		"make elsewhere":           {files{"sub/Makefile": "test: ; ./t.sh\n", "sub/t.sh": "go test\n"}, "make -C sub test", "sub/Makefile sub/t.sh *.mk"},
		"a comment about make":     {files{"ci.sh": "# make sure that it works\ngo test\n"}, "sh ci.sh", "ci.sh"},
		"npm":                      {files{"package.json": `{"scripts":{"test":"npm run unit","unit":"node tools/unit.js","dev":"node tools/dev.js"}}`, "tools/unit.js": "", "tools/dev.js": ""}, "npm test", "tools/unit.js"},
		"npm elsewhere":            {files{"web/package.json": `{"scripts":{"test":"node ci/run.js"}}`, "web/ci/run.js": ""}, "npm --prefix web t", "web/ci/run.js"},
		"npm below make":           {files{"Makefile": "check: ; npm run ci\n", "package.json": `{"scripts":{"preci":"sh hack/pre","ci":"jest"}}`, "hack/pre": "#!/bin/sh\n"}, "make check", "Makefile hack/pre *.mk"},
		"python by module":         {files{"dev/t.py": "import pytest\npytest.main()\n"}, "python3 -m dev.t && true", "dev/t.py"},
		"a program in Go":          {files{"internal/ci/main.go": "package main\nvar c = []string{\"go\", \"test\", \"./...\"}\n", "cmd/app/main.go": "package main\n"}, "go run ./internal/ci; go run ./cmd/app", "internal/ci/main.go"},
		"tox":                      {files{"tox.ini": "[testenv]\ncommands = python scripts/run.py\n", "scripts/run.py": ""}, "tox -e py3", "scripts/run.py tox.ini+ tox.toml+"},
		"Minitest in a script":     {files{"Makefile": "all: ; sh a/b && sh a/c\n", "a/b": "#!/bin/sh\nruby -Ilib ./test/all.rb\n", "a/c": "#!/bin/sh\nruby lib/contest.rb\n"}, "make all", "Makefile a/b *.mk"},
		"Rails in a script":        {files{"Makefile": "all: ; sh a/b\n", "a/b": "#!/bin/sh\nbin/rails test\n"}, "make all", "Makefile a/b *.mk"},
		"a Rakefile":               {files{"Rakefile": "require './tasks/unit'\n", "tasks/unit.rb": "require 'minitest/test_task'\n"}, "bundle exec rake test", "Rakefile+ Rakefile.rb+ rakefile+ rakefile.rb+"},
		"a file that is named":     {files{"Makefile": "test: src/a.c\n\tcc -o a src/a.c && ./a\n", "src/a.c": "int main(){}"}, "make test", "Makefile *.mk"},
		"a plugin":                 {files{"x/plug.py": ""}, "pytest -p x.plug", "x/plug.py"},
		"a circle":                 {files{"ci.sh": ". ./ci.sh\nsh hack/a\n", "hack/a": "#!/bin/sh\nsh ci.sh\n"}, "sh ci.sh", "ci.sh+ hack/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Fields(steered(t, tc.base, tc.command))
			if name == "a plugin" { // it may lie in several places
				got = slices.DeleteFunc(got, func(p string) bool { return p != "x/plug.py+" })
				tc.want = "x/plug.py+"
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// What cannot be read, or has no end, ends the search and nothing else.
func TestReachIsBounded(t *testing.T) {
	t.Parallel()
	many := files{"Makefile": "include a.mk\n", "big.sh": strings.Repeat("x", maxConfig+1)}
	for i := range 3 * maxReachFiles {
		many[fmt.Sprintf("hack/s%d", i)] = fmt.Sprintf("#!/bin/sh\nsh big.sh; sh hack/s%d\n", i+1)
		many["Makefile"] += fmt.Sprintf("t%d: ; hack/s%d\n", i, i)
	}
	dir := many.write(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "hack", "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("s1", filepath.Join(dir, "hack", "in")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	follow := func(command string) *reacher {
		r := newReacher(root, nil, DefaultTestPath)
		r.follow(command, "", ".", 0, false)
		return r
	}
	r := follow("make t1; " + strings.Repeat("w w/w ", 10*maxReachWords))
	if r.opens > maxReachFiles || r.looks > maxReachLooks+1 || !r.out.makefiles {
		t.Errorf("%d files, %d looks", r.opens, r.looks)
	}
	r = follow("hack/out; hack/in")
	if _, there := r.out.files["hack/out"]; there {
		t.Error("a link out of the tree was followed")
	}
	if _, _, ok := r.read("hack/out"); ok {
		t.Error("a link out of the tree can be read")
	}
	for _, p := range []string{"hack/in", "hack/s1"} {
		if _, there := r.out.files[p]; !there {
			t.Errorf("%s is not seen", p)
		}
	}
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base    files
		command string
		want    string // "" none
	}{
		"command line":      {nil, "pytest -q -p my.plug tests", "my/plug.py"},
		"glued":             {nil, "pytest -pmyplug", "src/myplug.py"},
		"switched off":      {nil, "pytest -p no:cacheprovider", ""},
		"environment":       {nil, "PYTEST_PLUGINS=a.b,c pytest && true", "c.py"},
		"addopts":           {files{"pytest.ini": "[pytest]\naddopts = -q -p helpers.fix\n"}, "pytest", "helpers/fix/__init__.py"},
		"pyproject":         {files{"pyproject.toml": "[tool.pytest.ini_options]\naddopts = [\"-p\", \"helpers.fix\"]\n"}, "pytest", "helpers/fix.py"},
		"another table":     {files{"pyproject.toml": "[tool.other]\nargs = \"-p helpers.fix\"\n"}, "pytest", ""},
		"setup.cfg":         {files{"setup.cfg": "[tool:pytest]\naddopts=-p helpers.fix\n"}, "pytest", "tests/helpers/fix.py"},
		"conftest":          {files{"conftest.py": "import os\npytest_plugins = [\n  'one.two',  # why\n  \"three\",\n]\n"}, "pytest", "three.py"},
		"one in a text":     {files{"tests/conftest.py": "pytest_plugins: str = 'one.two'\n"}, "pytest", "one/two.py"},
		"no list at all":    {files{"conftest.py": "x = ['one.two']\n"}, "pytest", ""},
		"jest":              {files{"jest.config.js": "module.exports = {setupFiles: ['<rootDir>/jest.setup.js'], collectCoverageFrom: ['src/index.js']}\n", "jest.setup.js": "", "src/index.js": ""}, "npx jest", "jest.setup.js"},
		"a configuration":   {files{"conf/own.ini": "[pytest]\n"}, "pytest -q -c conf/own.ini tests", "conf/own.ini"},
		"in a script":       {files{"package.json": `{"scripts":{"test":"jest --config=etc/unit.json"}}`, "etc/unit.json": "{}"}, "npm test", "etc/unit.json"},
		"loaded first":      {files{"lib/pre.mjs": ""}, "node --import ./lib/pre.mjs --test", "lib/pre.mjs"},
		"compiled":          {files{"src/main.c": "", "run.sh": "cc -c src/main.c\ngo test\n"}, "true && cc -c src/main.c", ""},
		"jest in a package": {files{"package.json": `{"jest":{"setupFiles":["./jest.setup.js"]}}`, "jest.setup.js": ""}, "npx jest", "jest.setup.js"},
		"phpunit":           {files{"phpunit.xml": "<phpunit bootstrap=\"boot/bootstrap.php\"/>", "boot/bootstrap.php": ""}, "phpunit", "boot/bootstrap.php"},
		"mocha":             {files{".mocharc.yml": "require: ./support/register.cjs\n", "support/register.cjs": ""}, "npx mocha", "support/register.cjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Fields(strings.ReplaceAll(steered(t, tc.base, tc.command), "+", ""))
			if tc.want == "" && len(got) > 0 || tc.want != "" && !slices.Contains(got, tc.want) || slices.Contains(got, "src/index.js") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMetadataIsRunnerConfiguration(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"src/evil-1.0.dist-info/entry_points.txt", "evil.egg-info/entry_points.txt", "a/Evil-1.0.DIST-INFO/METADATA", "evil.egg-info", "lib/x.egg/EGG-INFO/entry_points.txt",
		"src/a.pth", "x.egg-link", "src/usercustomize.py", ".mocharc.json", ".mocharc", "jest.config", "web/jest.config.ts", "vitest.config.mts", "vitest.workspace.ts",
		"vite.config.js", ".cargo/config", ".cargo/config.toml", "sub/.cargo/config.toml", ".npmrc", "bunfig.toml", ".mvn/jvm.config", "rust-toolchain.toml",
		".rspec", "spec/spec_helper.rb", "test/test_helper.rb", "lib/minitest/remit_plugin.rb", "lib/minitest/assertions.rb", "phpunit.xml.dist", "tests/Pest.php", "build/CTestTestfile.cmake", "CTestCustom.cmake.in", "test/setup_suite.bash",
		"node.config.json", "a.runsettings", "src/test/resources/junit-platform.properties", ".config/nextest.toml",
	} {
		if !runnerConfig(p) {
			t.Errorf("%q is not seen", p)
		}
	}
	for _, p := range []string{"lib/minitest/loud_plugin.rb", "lib/cart/minitest/test.rb", "entry_points.txt", "src/dist-info.py", "build.rs", "setup.py", "invite.config.js", "src/jest.py", "docs/egg-info.md", "a.path", "eggs/a.py"} {
		if runnerConfig(p) {
			t.Errorf("%q is taken for configuration", p)
		}
	}
}

// TestRewrittenMetadata: what a build leaves is no attack, a plugin that it
// registers is.
func TestRewrittenMetadata(t *testing.T) {
	t.Parallel()
	p := Plan{Lower: files{"setup.py": "", "old.egg-info/SOURCES.txt": "1", "old.egg-info/entry_points.txt": "[console_scripts]\n"}.write(t), Commands: []string{"pip install -e . && pytest"}}
	for name, tc := range map[string]struct {
		left files
		want string
	}{
		"a build":          {files{"src/a.egg-info/PKG-INFO": "x", "src/a.egg-info/entry_points.txt": "[console_scripts]\na = a:main\n", "old.egg-info/SOURCES.txt": "2"}, ""},
		"a plugin":         {files{"evil-1.dist-info/METADATA": "x", "evil-1.dist-info/entry_points.txt": "[pytest11]\ne = e\n"}, "evil-1.dist-info/entry_points.txt"},
		"in an old place":  {files{"old.egg-info/entry_points.txt": "[ pytest11 ]\ne = e\n"}, "old.egg-info/entry_points.txt"},
		"a path file":      {files{"a.pth": "import x"}, "a.pth"},
		"a configuration":  {files{".npmrc": "script-shell=x", "conftest.py": ""}, ".npmrc conftest.py"},
		"a link to points": {files{"e.egg-info/entry_points.txt": linkText + "x"}, "e.egg-info/entry_points.txt"},
	} {
		if got := strings.Join(p.rewritten(tc.left.changes(), nil), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestLaySteering: the attacks on what decides the question, as trees.
func TestLaySteering(t *testing.T) {
	t.Parallel()
	base := files{
		"a.py": "1", "Makefile": "include conf/rules.inc\ntest:\n\thack/run\n", "conf/rules.inc": "", "hack/run": "#!/bin/sh\n. hack/lib\nexec python3 -m unittest\n", "hack/lib": "X=1\n",
		"package.json":   `{"scripts":{"test":"npm run unit","unit":"node tools/unit.js","dev":"x"}}`,
		"tools/unit.js":  "",
		"pyproject.toml": "[project]\nname='a'\n", "setup.py": "setup(name='a')\n", "conftest.py": "pytest_plugins = ['fix.things']\n", "fix/things.py": "1", "build.rs": "fn main(){}",
		"p/p.go": "package p\n", "p/p_test.go": "package p\n", "p/sub/s_test.go": "package sub\n", "p/data/x.txt": "", "p/old.go": "package p\n\n//go:embed *.go\nvar fs embed.FS\n",
	}.write(t)
	embed := func(line string) files {
		return files{"p/new.go": "package p\n\nimport \"embed\"\n\n" + line + "\nvar text embed.FS\n"}
	}
	for _, tc := range []struct {
		name, command, rule string
		patch, heldOut      files
		head, unedited      string
		codes               string
	}{
		{name: "a plugin by metadata, protect", rule: RuleProtect, command: "pytest", patch: files{"a.py": "2", "src/evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n", "src/evil.py": "x"}, head: "+a.py +src/evil.py"},
		{name: "a plugin by metadata", command: "pytest", patch: files{"src/evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n"}, head: "+src/evil-1.0.dist-info/entry_points.txt", unedited: "none", codes: "verifier_tampering"},
		{name: "a path file, protect", rule: RuleProtect, command: "pytest", patch: files{"src/x.pth": "import os"}, head: ""},
		{name: "a plugin by pyproject", command: "pytest", patch: files{"pyproject.toml": "[project]\nname='a'\n[project.entry-points.pytest11]\nevil='evil'\n"}, head: "+pyproject.toml", unedited: "none"},
		{name: "a plugin by pyproject, dotted", command: "pytest", patch: files{"pyproject.toml": "[project]\nname='a'\nentry-points.pytest11.evil='evil'\n"}, head: "+pyproject.toml", unedited: "none"},
		{name: "a plugin by setup.py", command: "pytest", patch: files{"setup.py": "setup(name='a', entry_points={'pytest11': ['e = e']})\n"}, head: "+setup.py", unedited: "none"},
		{name: "another setup.py", command: "pytest", patch: files{"setup.py": "setup(name='b')\n"}, head: "+setup.py"},
		{name: "the module of a plugin, protect", rule: RuleProtect, command: "pytest", patch: files{"fix/things.py": "2", "a.py": "2"}, head: "+a.py"},
		{name: "a module that a plugin hides behind, protect", rule: RuleProtect, command: "pytest -p shadow", patch: files{"src/shadow.py": "2"}, head: ""},
		{name: "a class of JUnit", command: "mvn test", patch: files{"src/main/java/org/junit/Assert.java": "package org.junit;"}, head: "+src/main/java/org/junit/Assert.java", unedited: "none", codes: "verifier_tampering"},
		{name: "a class of JUnit, protect", rule: RuleProtect, command: "mvn test", patch: files{"src/main/java/org/junit/Assert.java": "package org.junit;", "a.py": "2"}, head: "+a.py"},
		{name: "a service of JUnit", command: "mvn test", patch: files{"src/main/resources/META-INF/services/org.junit.platform.launcher.PostDiscoveryFilter": "a.B"}, head: "+src/main/resources/META-INF/services/org.junit.platform.launcher.PostDiscoveryFilter", unedited: "none", codes: "verifier_tampering"},
		{name: "a directory of that name", command: "go test ./...", patch: files{"ci/junit/runner/main.go": "package main"}, head: "+ci/junit/runner/main.go"},
		{name: "a class of one's own", command: "mvn test", patch: files{"src/main/java/org/example/junit/Assert.java": "package org.example.junit;"}, head: "+src/main/java/org/example/junit/Assert.java"},
		{name: "build code", command: "cargo test", patch: files{"build.rs": "2"}, head: "+build.rs"},

		{name: "the script behind make", command: "make test", patch: files{"a.py": "2", "hack/run": "#!/bin/sh\nexit 0\n"}, head: "+a.py +hack/run", unedited: "+a.py"},
		{name: "the script behind make, protect", rule: RuleProtect, command: "make test", patch: files{"a.py": "2", "hack/run": "#!/bin/sh\nexit 0\n"}, head: "+a.py"},
		{name: "what that script reads", command: "sh -c 'make test'", patch: files{"hack/lib": "exit 0\n"}, head: "+hack/lib", unedited: "none", codes: "verifier_tampering"},
		{name: "what the makefile includes", command: "make test", patch: files{"conf/rules.inc": "SHELL=/bin/true\n"}, head: "+conf/rules.inc", unedited: "none"},
		{name: "a script of another command", command: "true", patch: files{"hack/run": "2"}, head: "+hack/run"},
		{name: "the script of an npm script", command: "npm test", patch: files{"tools/unit.js": "2"}, head: "+tools/unit.js", unedited: "none"},
		{name: "an npm script that is called", command: "npm test", patch: files{"package.json": `{"scripts":{"test":"npm run unit","unit":"true","dev":"x"}}`}, head: "+package.json", codes: "verifier_tampering"},
		{name: "a second spelling of scripts", command: "npm test", patch: files{"package.json": `{"scripts":{"test":"true"},"Scripts":{"test":"npm run unit","unit":"node tools/unit.js"}}`}, head: "+package.json", codes: "verifier_tampering"},
		{name: "another npm script", command: "npm test", patch: files{"package.json": `{"scripts":{"test":"npm run unit","unit":"node tools/unit.js","dev":"y"}}`}, head: "+package.json"},

		{name: "embed a test", command: "go test ./...", patch: embed("//go:embed p_test.go"), head: "+p/new.go", codes: "verifier_tampering"},
		{name: "embed by pattern", command: "go test ./...", patch: embed("//go:embed data *_test.go"), head: "+p/new.go", codes: "verifier_tampering"},
		{name: "embed quoted", command: "go test ./...", patch: embed("//go:embed \"p?test.g[o]\""), head: "+p/new.go", codes: "verifier_tampering"},
		{name: "embed a directory", command: "go test ./...", patch: embed("\t//go:embed all:sub"), head: "+p/new.go", codes: "verifier_tampering"},
		{name: "embed everything", command: "go test ./...", patch: embed("//go:embed *"), head: "+p/new.go", codes: "verifier_tampering"},
		{name: "embed what is added", command: "go test ./...", rule: RuleProtect, patch: files{"q/q.go": "package q\n//go:embed x_test.go\nvar s string\n"}, heldOut: files{"q/x_test.go": "package q"}, head: "+q/q.go +q/x_test.go", codes: "verifier_tampering"},
		{name: "embed in a test", command: "go test ./...", patch: files{"p/new_test.go": "package p\n//go:embed p_test.go\nvar s string\n"}, head: "+p/new_test.go", unedited: "none", codes: "verifier_tampering"},
		{name: "embed data", command: "go test ./...", patch: embed("//go:embed data/*.txt sub/*.go.txt"), head: "+p/new.go"},
		{name: "embed as the base does", command: "go test ./...", patch: files{"p/old.go": "package p\n\n//go:embed *.go\nvar fs embed.FS\n\nvar x = 1\n"}, head: "+p/old.go"},
		{name: "embed, free", rule: RuleFree, command: "go test ./...", patch: embed("//go:embed *"), head: "+p/new.go"},
		{name: "a word that is no directive", command: "go test ./...", patch: embed("// see //go:embed *"), head: "+p/new.go"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := Plan{Lower: base, Patch: tc.patch.changes(), HeldOut: tc.heldOut.changes(), Tests: tc.rule, Commands: []string{tc.command}}
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
			o, err := lay(&p)
			if err != nil {
				t.Fatal(err)
			}
			unedited := lookOf(o.unedited)
			if o.edited && unedited == "" {
				unedited = "none"
			}
			if lookOf(o.head) != tc.head || unedited != tc.unedited || codes(o.findings) != tc.codes {
				t.Errorf("head %q unedited %q findings %v", lookOf(o.head), unedited, o.findings)
			}
		})
	}
}

// TestSteeringAttacks runs two attacks that once passed, in the real sandbox.
func TestSteeringAttacks(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	sb := realSandbox(t)
	plugin := files{
		"src/evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n", "src/evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
		"src/evil.py": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    out.get_result().outcome = 'passed'\n    out.get_result().longrepr = None\n",
	}
	python := files{"src/calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 2) == 4\n"}
	makeBase := maps.Clone(goProject.base)
	makeBase["Makefile"], makeBase["hack/run"] = "test:\n\tsh hack/run\n", "#!/bin/sh\nexec go test -vet=off ./...\n"
	for _, tc := range []struct {
		name, command, rule string
		base, patch         files
		want                reason.Code
	}{
		{"a plugin by metadata, protect", "PYTHONPATH=src /usr/bin/python3 -m pytest -q", RuleProtect, python, plugin, reason.VerificationFailed},
		{"a plugin by metadata", "PYTHONPATH=src /usr/bin/python3 -m pytest -q", RuleExtend, python, plugin, reason.VerifierTampering},
		{"what the plugin does", "PYTHONPATH=src /usr/bin/python3 -m pytest -q", RuleFree, python, plugin, ""},
		{"what the script does", "make test", RuleFree, makeBase, files{"hack/run": "#!/bin/sh\nexit 0\n"}, ""},
		{"the script behind make", "make test", RuleExtend, makeBase, files{"hack/run": "#!/bin/sh\nexit 0\n"}, reason.VerifierTampering},
		{"the script behind make, protect", "make test", RuleProtect, makeBase, files{"hack/run": "#!/bin/sh\nexit 0\n"}, reason.VerificationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v, err := Run(t.Context(), sb, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Tests: tc.rule, Commands: []string{tc.command}, Control: ControlOff, Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" { // nothing protects: the attack works
				if v.Status != StatusPass {
					t.Errorf("the attack proves nothing: %s", explain(v))
				}
				return
			}
			if v.Status != StatusFail || !slices.Contains(strings.Fields(codes(v.Findings)), string(tc.want)) {
				t.Errorf("want %s, got %s", tc.want, explain(v))
			}
		})
	}
}
