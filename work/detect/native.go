package detect

import (
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
)

// native finds what is built from C, C++ and their like, with CMake, Meson or
// autotools. Their steps build on each other: they are one group.
func (f *finder) native() {
	for _, dir := range top(f.places("CMakeLists.txt")) {
		name := in(dir, "CMakeLists.txt")
		f.project(Project{Dir: dir, Ecosystem: "cmake", Manager: "cmake", Manifest: name})
		lists := f.below(dir, func(n string) bool { return path.Base(n) == "CMakeLists.txt" })
		if !f.contains(lists, "enable_testing", "add_test", "include(CTest)", "gtest_discover_tests", "catch_discover_tests") {
			f.note(name, "CMakeLists.txt declares no test (enable_testing, add_test)")
			continue
		}
		build := in(dir, "build")
		f.command(name, "cmake -S "+dir+" -B "+build, "cmake --build "+build, "ctest --test-dir "+build+" --output-on-failure")
	}
	for _, dir := range top(f.places("meson.build")) {
		name := in(dir, "meson.build")
		f.project(Project{Dir: dir, Ecosystem: "meson", Manager: "meson", Manifest: name})
		files := f.below(dir, func(n string) bool { return path.Base(n) == "meson.build" })
		if !f.contains(files, "test(") {
			f.note(name, "meson.build declares no test (test)")
			continue
		}
		build := in(dir, "build")
		f.command(name, "meson setup "+build+" "+dir, "meson test -C "+build)
	}
	if name := f.first(".", "configure.ac", "configure.in"); name != "" && f.first(".", "Makefile.am", "Makefile.in") != "" {
		f.project(Project{Dir: ".", Ecosystem: "autotools", Manager: "make", Manifest: name})
		lines := []string{"./configure", "make check"}
		if !f.has["configure"] {
			lines = append([]string{"autoreconf -i"}, lines...)
		}
		f.command(name, lines...)
	}
}

// bats finds tests of shell scripts.
func (f *finder) bats() {
	var dirs []string
	for _, name := range f.tests(".", nil, func(n string) bool { return path.Ext(n) == ".bats" }) {
		dir := path.Dir(name)
		if !slices.Contains(dirs, dir) && shellDir(dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return
	}
	top, line := dirs[0], "bats "+strings.Join(dirs[:min(len(dirs), 8)], " ")
	if f.npmBats { // a script of npm runs them
		f.other(top, line)
		return
	}
	// bats reads setup_suite.bash only where it is called with its directory.
	for _, dir := range dirs {
		if above := path.Dir(dir); above != "." && f.has[path.Join(above, "setup_suite.bash")] && !f.has[path.Join(dir, "setup_suite.bash")] {
			top, line = above, "bats -r "+above
			break
		}
	}
	f.project(Project{Dir: top, Ecosystem: "bats", Manager: "bats", Manifest: top})
	f.command(top, line)
}

var makeTarget = form.Lazy(`(?m)^((?:[A-Za-z0-9_./-]+ +)*[A-Za-z0-9_./-]+) *::?(?:[^=:]|$)`)

// makefiles finds test targets. They count where nothing else does.
func (f *finder) makefiles() {
	names := []string{"GNUmakefile", "makefile", "Makefile"}
	taken := len(f.facts.Commands) > 0
	for _, dir := range f.places(names...) {
		name := in(dir, f.first(dir, names...))
		target := f.testTarget(name)
		if target == "" {
			if dir == "." && !taken {
				f.note(name, "has no target test or check")
			}
			continue
		}
		line := "make " + target
		if dir != "." {
			line = "make -C " + dir + " " + target
		}
		if taken {
			f.other(name+", target "+target, line)
			continue
		}
		f.project(Project{Dir: dir, Ecosystem: "make", Manager: "make", Manifest: name})
		f.command(name+", target "+target, line)
		taken = dir == "."
	}
}

// testTarget is the target of a makefile that runs the tests, "" for none.
func (f *finder) testTarget(name string) string {
	src, ok := f.text(name)
	if !ok {
		return ""
	}
	found := map[string]bool{}
	for _, m := range makeTarget().FindAllSubmatch(src, 10_000) {
		for target := range strings.FieldsSeq(string(m[1])) {
			found[target] = true
		}
	}
	for _, target := range []string{"test", "check", "tests", "unittest", "unit-test", "test-unit"} {
		if found[target] {
			return target
		}
	}
	return ""
}

// debian finds the list of packages of Debian. They come first: what others build may need
// them.
func (f *finder) debian() {
	const lock = "debian.lock"
	if !f.has[lock] {
		return
	}
	before := f.facts.Prepare
	f.facts.Prepare = nil
	f.prepare(task.Debian, Project{Dir: ".", Lock: lock})
	f.facts.Prepare = append(f.facts.Prepare, before...)
}

// scripts finds a script that is named for tests.
func (f *finder) scripts() {
	for _, name := range []string{"test.sh", "run-tests.sh", "run_tests.sh", "runtests.sh", "tests.sh", "scripts/test.sh", "script/test", "bin/test",
		"test/run.sh", "tests/run.sh", "test/run", "tests/run", "runtests.py", "run_tests.py"} {
		if !f.has[name] {
			continue
		}
		line := "./" + name
		switch {
		case f.exec[name]:
		case path.Ext(name) == ".py":
			line = "python3 " + name
		default:
			line = "sh " + name
		}
		if len(f.facts.Commands) > 0 {
			f.other(name, line)
			continue
		}
		f.command(name, line)
	}
}
