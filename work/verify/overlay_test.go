package verify

import (
	"strings"
	"testing"

	"remit/work/tree"
)

func TestDefaultTestPath(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"a_test.go", "x/y/a_test.go", "testdata/golden.txt", "pkg/testdata/a/b", "tests/helper.py", "test_a.py", "a/test_a.py", "a_test.py",
		"conftest.py", "a/conftest.py", "pytest.ini", ".pytest.ini", "src/app.test.ts", "src/app.spec.jsx", "src/__tests__/a.js", "a/__snapshots__/x.snap",
		"src/test/java/AppTest.java", "AppTests.cs", "spec/a_spec.rb", "go.work", ".env", "sitecustomize.py", "jest.config.js", ".cargo/config.toml",
		"vendor/github.com/stretchr/testify/assert/assertions.go", "node_modules/jest/index.js", "pytest.py", "unittest/__init__.py", "__pycache__/a.cpython-311.pyc", "e2e/a.bats",
		"test.c", "tests.h", "src/test-parser.c", "src/parser_test.cc", "a_unittest.cpp", "unittest.hpp", "ParserTest.cxx", "a-tests.mm", "test_a.h",
	} {
		if !DefaultTestPath(p) {
			t.Errorf("%q is not seen", p)
		}
	}
	for _, p := range []string{
		"a.go", "testing.go", "latest/a.go", "contest.py", "attest.py", "cmd/attest/main.go", "src/app.ts", "README.md", "Makefile", "go.mod", "spec/openapi.yaml",
		"protest_a.py", "tools/unittest/readme.md", "inspector.js", "vendor/github.com/x/y/z.go",
		"latest.c", "src/attest.h", "contest.cc", "testable.h", "tester.c", "fastest.hpp",
	} {
		if DefaultTestPath(p) {
			t.Errorf("%q is taken for a test", p)
		}
	}
}

func TestRunnerPart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, path, before, after string
		changed                   bool
	}{
		{"a requirement", "go.mod", "module a\ngo 1.26\n", "module a\ngo 1.26\nrequire b v1.0.0\n", false},
		{"a replacement", "go.mod", "module a\n", "module a\nreplace b => ./b\n", true},
		{"a toolchain", "go.mod", "module a\n", "module a\ntoolchain go1.30.0\n", true},
		{"a runtime setting", "go.mod", "module a\ngo 1.26\n", "module a\ngo 1.26\ngodebug panicnil=1\n", true},
		{"nonsense", "go.mod", "module a\n", "module a\nrepl", true},
		{"a dependency", "package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"jest"},"dependencies":{"a":"1"}}`, false},
		{"the test script", "package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"true"}}`, true},
		{"a script that the command names", "package.json", `{"scripts":{"ci":"jest"}}`, `{"scripts":{"ci":"true"}}`, true},
		{"another script", "package.json", `{"scripts":{"dev":"a"}}`, `{"scripts":{"dev":"b"}}`, false},
		{"the project", "pyproject.toml", "[project]\nname='a'\n", "[project]\nname='b'\n", false},
		{"pytest's table", "pyproject.toml", "[project]\n", "[project]\n[tool.pytest.ini_options]\naddopts='-k x'\n", true},
		{"pytest's table, quoted", "pyproject.toml", "", "[\"tool\" . \"pytest\".ini_options]\naddopts='-k x'\n", true},
		{"pytest's table, inline", "pyproject.toml", "", "tool.pytest.ini_options = {addopts='-k x'}\n", true},
		{"pytest's section", "setup.cfg", "[metadata]\nname=a\n", "[metadata]\nname=a\n[tool:pytest]\naddopts=-k x\n", true},
		{"metadata", "setup.cfg", "[metadata]\nname=a\n", "[metadata]\nname=b\n", false},
		{"comments", "tox.ini", "[pytest]\na=1\n", "# more\n[pytest]\n\na=1\n", false},
		{"a dependency of the build", "Cargo.toml", "[dependencies]\n", "[dependencies]\na='1'\n", false},
		{"a dependency of Maven", "pom.xml", "<project/>", "<project><dependencies><dependency><artifactId>a</artifactId></dependency></dependencies></project>", false},
		{"a plugin of the build", "pom.xml", "<project/>", "<project><build><plugins><plugin><artifactId>maven-jar-plugin</artifactId></plugin></plugins></build></project>", false},
		{"surefire", "pom.xml", "<project/>", "<project><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><configuration><skip>true</skip></configuration></plugin></plugins></build></project>", true},
		{"surefire in a profile", "pom.xml", "<project/>", "<project><profiles><profile><build><plugins><plugin><configuration><testFailureIgnore>true</testFailureIgnore></configuration><artifactId>maven-surefire-plugin</artifactId></plugin></plugins></build></profile></profiles></project>", true},
		{"a property that skips", "pom.xml", "<project/>", "<project><properties><maven.test.failure.ignore>true</maven.test.failure.ignore></properties></project>", true},
		{"another property", "pom.xml", "<project/>", "<project><properties><a.version>1</a.version></properties></project>", false},
		{"another place of the tests", "pom.xml", "<project/>", "<project><build><testSourceDirectory>none</testSourceDirectory></build></project>", true},
		{"tests that are not compiled", "pom.xml", "<project/>", "<project><build><plugins><plugin><artifactId>maven-compiler-plugin</artifactId><configuration><testExcludes><testExclude>a</testExclude></testExcludes></configuration></plugin></plugins></build></project>", true},
		{"results that are copied", "pom.xml", "<project/>", "<project><build><plugins><plugin><artifactId>maven-resources-plugin</artifactId><executions><execution><phase>test</phase><goals><goal>copy-resources</goal></goals></execution></executions></plugin></plugins></build></project>", true},
		{"sources that are made", "pom.xml", "<project/>", "<project><build><plugins><plugin><artifactId>antlr4-maven-plugin</artifactId><executions><execution><phase>generate-sources</phase></execution></executions></plugin></plugins></build></project>", false},
		{"a package of .NET", "a/A.csproj", "<Project><PropertyGroup><Version>1</Version></PropertyGroup></Project>", "<Project><PropertyGroup><Version>2</Version></PropertyGroup><ItemGroup><PackageReference Include='a' Version='1'/></ItemGroup></Project>", false},
		{"a target of .NET", "a/A.csproj", "<Project/>", "<Project><Target Name='VSTest'><Message Text='Passed!'/></Target></Project>", true},
		{"an import of .NET", "a/A.fsproj", "<Project/>", "<Project><Import Project='x.targets'/></Project>", true},
		{"what .NET does not compile", "a/A.csproj", "<Project/>", "<Project><ItemGroup><Compile Remove='ATests.cs'/></ItemGroup></Project>", true},
		{"a property of .NET's tests", "a/A.csproj", "<Project/>", "<Project><PropertyGroup><IsTestProject>false</IsTestProject></PropertyGroup></Project>", true},
		{"entities of .NET", "a/A.csproj", "<Project/>", "<!DOCTYPE p [<!ENTITY x 'y'>]><Project/>", true},
		{"a dependency of Gradle", "build.gradle", "dependencies {\n}\nversion = '1'\n", "dependencies {\n  testImplementation('a:b:1')\n  api \"c:d\"\n}\nversion = '2'\n", false},
		{"tests of Gradle", "build.gradle.kts", "", "tasks.test { ignoreFailures = true }\n", true},
		{"a dependency that does more", "build.gradle", "", "testImplementation 'a:b:1'; test.enabled = false\n", true},
		{"entities", "pom.xml", "<project/>", "<!DOCTYPE p [<!ENTITY x 'y'>]><project/>", true},
		{"a source of CMake", "CMakeLists.txt", "enable_testing()\nadd_test(NAME a COMMAND a)\n", "enable_testing()\nadd_library(b b.c)\nadd_test(NAME a COMMAND a)\n", false},
		{"a test that is to fail", "CMakeLists.txt", "add_test(NAME a COMMAND a)\n", "add_test(NAME a COMMAND a)\nset_tests_properties(a PROPERTIES WILL_FAIL ON)\n", true},
		{"a comment of CMake", "CMakeLists.txt", "add_test(NAME a COMMAND a)\n", "# add_test(NAME b COMMAND b)\nadd_test(NAME a COMMAND a) # more\n", false},
		{"no assertions in CMake", "CMakeLists.txt", "", "add_definitions(-DNDEBUG)\n", true},
		{"a build without them", "CMakeLists.txt", "set(X 1)\n", "set(X 1)\nset(CMAKE_BUILD_TYPE Release)\n", true},
		{"a flag of CMake", "CMakeLists.txt", "", "set(CMAKE_C_FLAGS -Wall)\nset(CMAKE_C_STANDARD 11)\n", false},
		{"how CMake starts tests", "CMakeLists.txt", "", "set(CMAKE_CROSSCOMPILING_EMULATOR /bin/true)\n", true},
		{"a command of CMake anew", "CMakeLists.txt", "", "function(add_test)\nendfunction()\n", true},
		{"a function of one's own", "CMakeLists.txt", "", "function(my_help)\nendfunction()\n", false},
		{"the source of a test", "CMakeLists.txt", "add_executable(suite t/a.c)\nadd_test(NAME s COMMAND suite)\n", "add_executable(suite t/b.c)\nadd_test(NAME s COMMAND suite)\n", true},
		{"the source of a program", "CMakeLists.txt", "add_executable(tool a.c)\nadd_test(NAME s COMMAND suite)\n", "add_executable(tool a.c b.c)\nadd_test(NAME s COMMAND suite)\n", false},
		{"a gem", "Gemfile", "source 'https://rubygems.org'\n", "source 'https://rubygems.org'\ngroup :test, :development do\n  gem \"a\", '~> 1.0', require: false # why\nend\n", false},
		{"code in a Gemfile", "Gemfile", "source 'https://rubygems.org'\n", "source 'https://rubygems.org'\nENV['PATH'] = 'b:' + ENV['PATH']\n", true},
		{"code behind a mark that is no remark", "Gemfile", "puts 'a #b'\n", "puts 'a #b'; exit 0\n", true},
		{"a remark behind a dependency of Gradle", "build.gradle", "", "testImplementation 'a:b:1' // why\n", false},
		{"code in a gem", "gems.rb", "", "gem \"#{exit 0}\"\n", true},
		{"a patched crate", "Cargo.toml", "", "[patch.crates-io]\na={path='x'}\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			commands := []string{"npm run ci"}
			if changed := runnerPart(tc.path, []byte(tc.before), commands) != runnerPart(tc.path, []byte(tc.after), commands); changed != tc.changed {
				t.Errorf("changed: %t", changed)
			}
		})
	}
}

// TestOnlyAdds: a CMake file may get further tests, and nothing that bends those that
// are there.
func TestOnlyAdds(t *testing.T) {
	t.Parallel()
	const base = "enable_testing()\nadd_test(NAME a COMMAND a $<TARGET_FILE:a>)\n"
	for after, want := range map[string]bool{
		base + "add_executable(a a.c)\n":                                                       true,
		base + "add_test(NAME b\n  COMMAND b)\n":                                               true,
		"add_test(NAME b COMMAND b)\n" + base:                                                  true,
		base + "set_property(TEST a PROPERTY DISABLED ON)\n":                                   false,
		base + "SET_TESTS_PROPERTIES(a PROPERTIES WILL_FAIL ON)\nadd_test(NAME b COMMAND b)\n": false,
		"enable_testing()\nadd_test(NAME a COMMAND true)\n":                                    false,
		"enable_testing()\n":                                                                   false,
		"# enable_testing()\nadd_test(NAME a COMMAND a $<TARGET_FILE:a>)\n":                    false,
	} {
		if got := onlyAdds("lib/CMakeLists.txt", cmakePart([]byte(base)), cmakePart([]byte(after))); got != want {
			t.Errorf("%q: %t", after, got)
		}
	}
	if onlyAdds("pom.xml", "", "add_test(x)") {
		t.Error("another file may only add")
	}
}

func FuzzRunnerPart(f *testing.F) {
	f.Add("go.mod", []byte("module a\nreplace b => ./c\n"))
	f.Add("package.json", []byte(`{"scripts":{"test":"x"}}`))
	f.Add("pom.xml", []byte("<project><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId></plugin></plugins></build></project>"))
	f.Add("CMakeLists.txt", []byte("add_test(NAME a COMMAND a)\n"))
	f.Add("pyproject.toml", []byte("[tool.pytest.ini_options]\na=1\n"))
	f.Fuzz(func(t *testing.T, name string, src []byte) {
		if a, b := runnerPart(name, src, nil), runnerPart(name, src, nil); a != b {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

// lookOf is a composed tree as "+path" and "-path".
func lookOf(changes []tree.Change) string {
	var out []string
	for _, c := range changes {
		sign := "+"
		if c.Kind == tree.Delete {
			sign = "-"
		}
		out = append(out, sign+c.Path)
	}
	return strings.Join(out, " ")
}

func TestLay(t *testing.T) {
	t.Parallel()
	base := files{
		"a.py": "1", "test_a.py": "1", "conftest.py": "1", "pkg/b.py": "1", "pkg/test_b.py": "1", "run_tests.sh": "1", "Makefile": "1", "g/build.gradle": "x\n", "g/flags.cmake": "1",
		"pyproject.toml": "[project]\nname='a'\n[tool.pytest.ini_options]\naddopts='-q'\n",
	}.write(t)
	for _, tc := range []struct {
		name           string
		patch, heldOut files
		rule           string
		commands       string
		head, unedited string
		codes, dropped string
	}{
		{name: "code only", patch: files{"a.py": "2"}, head: "+a.py"},
		{name: "a test is added", patch: files{"a.py": "2", "test_new.py": "2"}, head: "+a.py +test_new.py", unedited: "+a.py"},
		{name: "a test is edited", patch: files{"a.py": "2", "test_a.py": "2"}, head: "+a.py +test_a.py", unedited: "+a.py"},
		{name: "a test is edited, protect", rule: RuleProtect, patch: files{"a.py": "2", "test_a.py": "2", "conftest.py": deleted}, head: "+a.py", dropped: "conftest.py test_a.py"},
		{name: "a test is edited, free", rule: RuleFree, patch: files{"a.py": "2", "test_a.py": "2"}, head: "+a.py +test_a.py"},
		{name: "conftest is edited", patch: files{"conftest.py": "2"}, head: "+conftest.py", unedited: "none"},
		{name: "conftest is added", patch: files{"pkg/conftest.py": "2"}, head: "+pkg/conftest.py", unedited: "none", codes: "verifier_tampering"},
		{name: "conftest is added, protect", rule: RuleProtect, patch: files{"pkg/conftest.py": "2"}, dropped: "pkg/conftest.py"},
		{name: "the project's name", patch: files{"pyproject.toml": "[project]\nname='b'\n[tool.pytest.ini_options]\naddopts='-q'\n"}, head: "+pyproject.toml"},
		{name: "the runner's table", patch: files{"pyproject.toml": "[project]\nname='a'\n"}, head: "+pyproject.toml", unedited: "none"},
		{name: "a directory with a test is deleted", patch: files{"pkg": deleted}, head: "-pkg/b.py -pkg/test_b.py", unedited: "-pkg/b.py"},
		{name: "a file in place of a directory with a test", patch: files{"pkg": "x"}, head: "-pkg/b.py -pkg/test_b.py +pkg", unedited: "-pkg/b.py", codes: "verifier_tampering"},
		{name: "a directory in place of a test", patch: files{"test_a.py": deleted, "test_a.py/x": "2"}, head: "-test_a.py +test_a.py/x", unedited: "none", codes: "verifier_tampering"},
		{name: "held out wins", patch: files{"a.py": "2", "test_x.py": "2"}, heldOut: files{"test_x.py": "3"}, head: "+a.py +test_x.py", unedited: "+a.py +test_x.py"},
		{name: "held out is blocked", patch: files{"hidden": "2"}, heldOut: files{"hidden/test_x.py": "3"}, head: "+hidden/test_x.py", codes: "verifier_tampering"},
		{name: "a link out", patch: files{"l": linkText + "/etc/passwd", "m/n": linkText + "../../x", "o/p": linkText + "../a.py"}, head: "+o/p", codes: "verifier_tampering verifier_tampering"},
		{name: "a bad path", patch: files{"../x": "1"}, codes: "patch_invalid"},
		{name: "the script of the command", commands: "sh run_tests.sh", patch: files{"run_tests.sh": "2"}, head: "+run_tests.sh", unedited: "none"},
		{name: "a script that no command names", patch: files{"run_tests.sh": "2"}, head: "+run_tests.sh"},
		{name: "a makefile that comes first", commands: "make check", patch: files{"GNUmakefile": "2", "x/y.mk": "2"}, head: "+GNUmakefile +x/y.mk", unedited: "none"},
		{name: "a makefile that no command names", patch: files{"Makefile": "2"}, head: "+Makefile"},
		{name: "a file in front of make's target", commands: "make check", patch: files{"a.py": "2", "pkg/b.o": "2"}, head: "+a.py +pkg/b.o"},
		{name: "a build script of Gradle", commands: "gradle test", patch: files{"g/build.gradle": "x\ntest.enabled = false\n", "g/sub/build.gradle": "y"}, head: "+g/build.gradle +g/sub/build.gradle", unedited: "+g/sub/build.gradle"},
		{name: "one of Gradle in front of another", commands: "gradle test", patch: files{"g/settings.gradle.kts": "x", "g/buildSrc/a.gradle": "y", "buildSrc/a.py": ""}, head: "+buildSrc/a.py +g/buildSrc/a.gradle +g/settings.gradle.kts", unedited: "+buildSrc/a.py"},
		{name: "what CMake includes", commands: "cmake -B b && ctest --test-dir b", patch: files{"g/flags.cmake": "2", "g/new.cmake": "2"}, head: "+g/flags.cmake +g/new.cmake", unedited: "+g/new.cmake"},
		{name: "a version in Gradle", commands: "gradle test", patch: files{"g/build.gradle": "x\nversion = '2'\n"}, head: "+g/build.gradle"},
		{name: "the makefile of the command", commands: "cd . && make check", patch: files{"Makefile": "2"}, head: "+Makefile", unedited: "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := Plan{Lower: base, Patch: tc.patch.changes(), HeldOut: tc.heldOut.changes(), Tests: tc.rule, Commands: []string{"pytest"}}
			if tc.commands != "" {
				p.Commands = []string{tc.commands}
			}
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
			if lookOf(o.head) != tc.head || unedited != tc.unedited || codes(o.findings) != tc.codes || strings.Join(o.dropped, " ") != tc.dropped {
				t.Errorf("head %q unedited %q findings %v dropped %q", lookOf(o.head), unedited, o.findings, o.dropped)
			}
		})
	}
	special := Plan{Lower: base, Patch: []tree.Change{{Path: "f", Kind: tree.Special, Note: "fifo"}}}
	if err := special.check(); err != nil {
		t.Fatal(err)
	}
	if o, err := lay(&special); err != nil || codes(o.findings) != "patch_invalid" || len(o.head) != 0 {
		t.Errorf("%v %+v", err, o)
	}
}
