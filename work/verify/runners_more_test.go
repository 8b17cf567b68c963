package verify

import (
	"os/exec"
	"strings"
)

// systemProjects are those of the runners that come with a system or a toolchain.
func systemProjects() []runnerProject {
	const (
		rsTests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(2, 2), 4);\n    }\n    #[test]\n    fn subs() {\n        assert_eq!(super::sub(3, 2), 1);\n    }\n}\n"
		rsSub   = "pub fn sub(a: i32, b: i32) -> i32 {\n    a - b\n}\n"
		shell   = "case $1 in add) echo $(($2 %s $3)) ;; sub) echo $(($2 - $3)) ;; esac\n"
	)
	rust := func(body string) string {
		return "pub fn add(a: i32, b: i32) -> i32 {\n    " + body + "\n}\n" + rsSub + rsTests
	}
	sh := func(operator string) string { return strings.Replace(shell, "%s", operator, 1) }
	cmake := "cmake_minimum_required(VERSION 3.10)\nproject(calc NONE)\nenable_testing()\nadd_test(NAME adds COMMAND sh ${CMAKE_SOURCE_DIR}/tests/adds.sh)\nadd_test(NAME subs COMMAND sh ${CMAKE_SOURCE_DIR}/tests/subs.sh)\n"
	shTest := func(call, want string) string {
		return "[ \"$(sh \"$(dirname \"$0\")/../calc.sh\" " + call + ")\" = " + want + " ]\n"
	}
	ruby := func(body string) string { return body + "def sub(a, b) = a - b\n" }
	php := func(body string) string {
		return "<?php\nfunction add($a, $b) { " + body + " }\nfunction sub($a, $b) { return $a - $b; }\n"
	}
	return []runnerProject{
		{
			name: "cargo", command: "cargo test", needs: "cargo --version && cc --version", rust: true,
			base:   files{"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": rust("a - b")},
			honest: files{"src/lib.rs": rust("a + b")}, wrong: files{"src/lib.rs": rust("a * b + 1")},
			fixed: []string{"calc src/lib.rs > tests::adds"}, kept: []string{"calc src/lib.rs > tests::subs"},
			attacks: map[string]files{
				"a raw result line":            {"src/lib.rs": rust("use std::io::Write;\n    std::io::stdout().write_all(b\"test tests::adds ... ok\\n\").unwrap();\n    a - b")},
				"exits with 0 in a call":       {"src/lib.rs": rust("std::process::exit(a - a + b - b)")},
				"another target for the tests": {"src/lib.rs": rust("a - b"), "Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ntest = false\n"},
			},
		},
		{
			name: "ctest", command: "cmake -S . -B build && ctest --test-dir build", needs: "ctest --version && make --version",
			base:   files{"CMakeLists.txt": cmake, "calc.sh": sh("-"), "tests/adds.sh": shTest("add 2 2", "4"), "tests/subs.sh": shTest("sub 3 2", "1")},
			honest: files{"calc.sh": sh("+"), "CMakeLists.txt": cmake + "add_test(NAME more COMMAND true)\n"}, wrong: files{"calc.sh": sh("*")[:10] + "x"},
			fixed: []string{"adds"}, kept: []string{"subs"},
			attacks: map[string]files{
				"the test is to fail":    {"CMakeLists.txt": cmake + "set_tests_properties(adds PROPERTIES WILL_FAIL TRUE)\n"},
				"the test is disabled":   {"CMakeLists.txt": strings.Replace(cmake, "add_test(NAME adds", "# add_test(NAME adds", 1)},
				"prints lines of ctest":  {"calc.sh": "printf '1/2 Test #1: adds ....   Passed    0.01 sec\\n2/2 Test #2: subs ....   Passed    0.01 sec\\n\\n100%% tests passed, 0 tests failed out of 2\\n' >&2\n" + sh("-")},
				"a custom configuration": {"build/CTestCustom.cmake": "set(CTEST_CUSTOM_TESTS_IGNORE adds)\n"},
			},
		},
		{
			name: "rspec", command: "rspec", needs: "rspec --version",
			base:   files{".rspec": "--require ./lib/calc\n", "lib/calc.rb": ruby("def add(a, b) = a - b\n"), "spec/calc_spec.rb": "RSpec.describe 'calc' do\n  it('adds') { expect(add(2, 2)).to eq(4) }\n  it('subs') { expect(sub(3, 2)).to eq(1) }\nend\n"},
			honest: files{"lib/calc.rb": ruby("def add(a, b) = a + b\n")}, wrong: files{"lib/calc.rb": ruby("def add(a, b) = 7\n")},
			fixed: []string{"spec/calc_spec.rb > calc adds"}, kept: []string{"spec/calc_spec.rb > calc subs"},
			attacks: map[string]files{
				"exits with 0 at once":          {"lib/calc.rb": "exit!(0)\n"},
				"exits with 0 in a call":        {"lib/calc.rb": ruby("def add(a, b) = exit!(0)\n")},
				"the file is rewritten at exit": {"lib/calc.rb": ruby("require 'json'\nat_exit do\n  Dir[ENV['REMIT_RESULTS'].to_s + '/*.json'].each do |f|\n    run = JSON.parse(File.read(f))\n    run['examples'].each { |e| e['status'] = 'passed' }\n    run['summary']['failure_count'] = 0\n    File.write(f, JSON.dump(run))\n  end\n  exit!(0)\nend\ndef add(a, b) = a - b\n")},
				"options are added":             {".rspec": "--require ./lib/calc\n--example subs\n"},
			},
		},
		{
			name: "phpunit", command: "phpunit tests", needs: "phpunit --version",
			base:   files{"calc.php": php("return $a - $b;"), "tests/CalcTest.php": "<?php\nrequire_once __DIR__ . '/../calc.php';\nclass CalcTest extends PHPUnit\\Framework\\TestCase {\n  function testAdds() { $this->assertSame(4, add(2, 2)); }\n  function testSubs() { $this->assertSame(1, sub(3, 2)); }\n}\n"},
			honest: files{"calc.php": php("return $a + $b;")}, wrong: files{"calc.php": php("return 7;")},
			fixed: []string{"CalcTest::testAdds"}, kept: []string{"CalcTest::testSubs"},
			attacks: map[string]files{
				"exits with 0 in a call":        {"calc.php": php("exit(0);")},
				"the file is rewritten at exit": {"calc.php": php("return $a - $b;") + "register_shutdown_function(function () {\n  foreach (glob(getenv('REMIT_RESULTS') . '/*.xml') as $f) {\n    file_put_contents($f, preg_replace(['~<failure.*?</failure>~s', '~failures=\"\\d+\"~'], ['', 'failures=\"0\"'], file_get_contents($f)));\n  }\n  exit(0);\n});\n"},
				"a configuration":               {"phpunit.xml": "<phpunit><testsuites><testsuite name=\"x\"><file>none.php</file></testsuite></testsuites></phpunit>\n"},
			},
		},
		{
			name: "surefire", command: "mvn -o -B -Dmaven.repo.local=/usr/share/maven-repo test", needs: "mvn --version && ls /usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin /usr/share/maven-repo/junit/junit/4.x", slow: true,
			base: files{
				"pom.xml":                     "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>example</groupId>\n  <artifactId>calc</artifactId>\n  <version>1</version>\n  <properties>\n    <maven.compiler.source>17</maven.compiler.source>\n    <maven.compiler.target>17</maven.compiler.target>\n  </properties>\n  <dependencies>\n    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency>\n  </dependencies>\n</project>\n",
				"src/main/java/Calc.java":     "public class Calc {\n  static int add(int a, int b) { return a - b; }\n  static int sub(int a, int b) { return a - b; }\n}\n",
				"src/test/java/CalcTest.java": "import static org.junit.Assert.assertEquals;\nimport org.junit.Test;\npublic class CalcTest {\n  @Test public void adds() { assertEquals(4, Calc.add(2, 2)); }\n  @Test public void subs() { assertEquals(1, Calc.sub(3, 2)); }\n}\n",
			},
			honest: files{"src/main/java/Calc.java": "public class Calc {\n  static int add(int a, int b) { return a + b; }\n  static int sub(int a, int b) { return a - b; }\n}\n"},
			wrong:  files{"src/main/java/Calc.java": "public class Calc {\n  static int add(int a, int b) { return 7; }\n  static int sub(int a, int b) { return a - b; }\n}\n"},
			fixed:  []string{"CalcTest::adds"}, kept: []string{"CalcTest::subs"},
			attacks: map[string]files{
				"assertions do nothing":  {"src/main/java/org/junit/Assert.java": "package org.junit;\npublic class Assert {\n  public static void assertEquals(long a, long b) { }\n  public static void assertEquals(Object a, Object b) { }\n}\n"},
				"the test skips itself":  {"src/main/java/Calc.java": "public class Calc {\n  static int add(int a, int b) throws RuntimeException { throw sneaky(); }\n  static int sub(int a, int b) { return a - b; }\n  static RuntimeException sneaky() {\n    try {\n      return (RuntimeException) Class.forName(\"org.junit.AssumptionViolatedException\").getConstructor(String.class).newInstance(\"x\");\n    } catch (ReflectiveOperationException e) {\n      return null;\n    }\n  }\n}\n"},
				"exits with 0 in a call": {"src/main/java/Calc.java": "public class Calc {\n  static int add(int a, int b) { Runtime.getRuntime().halt(0); return 0; }\n  static int sub(int a, int b) { return a - b; }\n}\n"},
			},
		},
	}
}

// rustToolchain is the directory of the installed toolchain, "" if there is none.
func rustToolchain() string {
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
