package verify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
)

// TestBrings: which new paths take the place of what a command would make or do.
func TestBrings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base     files
		commands string
		yes, no  string
	}{
		"a target":                {files{"Makefile": "test:\n\tgrep -q y a.txt\n"}, "make test", "test test/x", "tests test.py a/test"},
		"a phony one":             {files{"Makefile": ".PHONY: \\\n  test\ntest:\n\tgrep -q y a.txt\n"}, "make test", "", "test"},
		"by a variable":           {files{"Makefile": "T = te\nALL := $(T)st # all\n.PHONY: help\nhelp: ; echo\n$(ALL) ${X}: ; true\n"}, "make test", "test", "help"},
		"what it needs":           {files{"Makefile": "check: build/ok.stamp | out\n\t./t\nbuild/ok.stamp: gen\n\ttouch $@\ngen out:\n\t./make-it\nother: ; true\n"}, "make check", "gen out out/x", "check build/ok.stamp other build"},
		"a directory":             {files{"Makefile": "test: | bin\n\t./bin/h\nbin:\n\t@mkdir -p bin\n"}, "make test", "test", "bin/h"},
		"called by a recipe":      {files{"Makefile": "all:\n\t$(MAKE) -s unit\n\t@make more\nunit more:\n\ttrue\nlint: ; true\n"}, "make", "unit more all", "lint"},
		"the first":               {files{"Makefile": ".SUFFIXES: .c\n.c.o:\n\tcc\nfirst second: ; true\n"}, "make", "first", "second"},
		"there already":           {files{"Makefile": "test: sub\n\ttrue\nsub: ; true\n", "sub/a": "", "test": ""}, "make test", "", "sub/b"},
		"in a directory":          {files{"sub/Makefile": "test:\n\ttrue\n"}, "make -C sub test", "sub/test", "test"},
		"in one that is computed": {files{"Makefile": ".PHONY: test\nD = sub\ntest:\n\tfor d in $(D); do $(MAKE) -C $$d unit; done\n", "sub/Makefile": "unit:\n\ttrue\nmore:\n\ttrue\n"}, "make test", "sub/unit", "sub/more unit"},
		"of a script":             {files{"ci.sh": "cd sub && make unit\n", "sub/Makefile": "include mk/x.inc\nall: ; true\n", "sub/mk/x.inc": "unit: a\n\ttrue\na: ; true\n"}, "sh ci.sh", "sub/a sub/all", "sub/unit"},
		"included twice":          {files{"a/Makefile": "include ../c.mk\n", "b/Makefile": "include ../c.mk\n", "c.mk": "run: ; true\n"}, "make -C a run && make -C b run", "a/run b/run", "a/c"},
		"a pattern":               {files{"Makefile": "test: x.ok\n%.ok: ; python3 $*.py\nlib/%.js: src/%.ts\n", "x.py": "", "src/a.ts": ""}, "make test", "x.ok d/y.ok", "lib/a.js a.js"},
		"what it includes":        {files{"Makefile": "OBJ = a.o\nCONF=config.inc\n-include $(OBJ:.o=.d) $(CONF)\ninclude $(wildcard conf.d/*) $(shell ls *.conf)\n-include more/*.extra\ntest: ; true\n"}, "make test", "build/a.d config.inc conf.d/x y.conf more/z.extra", "config.h conf.e/x a.c"},
		"lists of sources":        {files{"Makefile": "SRC := $(shell find . -name '*.c') $(wildcard main.c util.c)\nOBJ = $(SRC:.c=.o)\n-include $(SRC:.c=.d) $(patsubst %.c,%.dep,$(SRC))\n.PHONY: test\ntest: t\n\t./t\n", "main.c": ""}, "make test", "main.d sub/x.dep", "main.c util.c new.c sub/new.c new.h"},
		"what it asks for":        {files{"Makefile": "SRC = $(wildcard src/*.c)\nCFLAGS := $(shell cat cflags)\nifeq ($(wildcard .skip),)\nendif\n.PHONY: test\ntest:\n\t[ -x tbin ] || cc -o tbin t.c\n\t./tbin\n"}, "make test", "", "src/new.c"},
		"programs":                {files{"Makefile": "export PATH := $(CURDIR)/bin:$(PATH)\n.PHONY: test\ntest:\n\tgrep x y\n"}, "make test", "bin/grep", "sbin/grep"},
		"searched":                {files{"Makefile": "VPATH=src:tests\n.PHONY: test\ntest: suite\n\t./suite\n", "tests/suite.c": "", "src/a.c": ""}, "make test", "suite.c src/suite.c", "src/b.c suite.h"},
		"headers of tests":        {files{"Makefile": ".PHONY: test\ntest: ; cc -Isrc t.c\n"}, "make test", "src/assert.h lib/gtest/gtest.h c.h.gch", "src/my_assert.h src/check_all.h"},
		"objects":                 {files{"Makefile": "test: t\n\t./t\n", "t.c": "", "tool.sh": ""}, "make test", "", "t t.o tool test.c"}, // make makes them, as they are older
		"no make":                 {files{"Makefile": "test: ; true\n", "t.c": ""}, "go test ./...", "", "test t.o target/x build/x"},
		"lines that are not":      {files{"Makefile": "vpath %.c src\nifeq ($(A),b:c)\nendif\nexport X := y:z\ndefine F\nendef\n$(info a: b)\na\\\nb: c=d\n: x\ntest: ; true\n"}, "make test", "test", "x.c a b z"},
		"maven":                   {files{"pom.xml": "<a/>", "m/pom.xml": "<a/>"}, "mvn -o -q test", "target/test-classes/A.class m/target/x", "src/target/A.java"},
		"gradle":                  {files{"build.gradle.kts": "", "src/build/B.java": ""}, "./gradlew test", ".gradle/8/x.bin build/test-results/a.xml", "src/build/C.java"},
		"cargo":                   {files{"Cargo.toml": "", "target/kept": ""}, "cargo test", "", "target/debug/x src/target/mod.rs"},
		"dotnet":                  {files{"t/T.csproj": ""}, "dotnet test", "t/bin/T.dll t/obj/x", "bin/x"},
		"cmake":                   {files{"CMakeLists.txt": ""}, "cmake -S . -B out && cmake --build out && ctest --test-dir out", "out/CMakeCache.txt out CMakeCache.txt CMakePresets.json", "output"},
		"task":                    {files{"Taskfile.yaml": "", "a.sh": "task test\n"}, "sh a.sh", ".task/checksum/test", "task"},
		"rake":                    {files{"Rakefile": ""}, "rake test", "rakelib/a.rake a.rake rakefile", "rakelib/a.rb"},
		"tox":                     {files{"tox.ini": ""}, "tox -q", ".tox/py/bin/pytest", ""},
		"tsc":                     {files{"tsconfig.json": ""}, "npm test", "a.tsbuildinfo", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(tc.base.write(t))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			s := reach(root, []string{tc.commands}, DefaultTestPath)
			for _, p := range strings.Fields(tc.yes) {
				if !s.brings(root, p) && !s.covers(p, false) {
					t.Errorf("%s is not seen", p)
				}
			}
			for _, p := range strings.Fields(tc.no) {
				if _, inBase := tc.base[p]; !inBase && s.brings(root, p) || s.covers(p, inBase) {
					t.Errorf("%s is taken for something made", p)
				}
			}
		})
	}
}

// TestRulesAreBounded: a makefile that grows when it is read ends.
func TestRulesAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("X0 = aaaaaaaa\nL = $(L)$(M)\nM = $(L)$(M)\n")
	for i := range 200 {
		fmt.Fprintf(&text, "X%d = %s\n", i+1, strings.Repeat(fmt.Sprintf("$(X%d) ", i), 100))
	}
	text.WriteString("$(X200) $(L): $(X200)\n" + strings.Repeat("t: t u\nu: t\n", 5000) + strings.Repeat("x", 1<<20) + "\n")
	for i := range 2 * maxTargets {
		fmt.Fprintf(&text, "g%d: g%d\n", i, i+1)
	}
	m := newRules()
	began := time.Now()
	m.read(text.String())
	if n := len(m.asked(map[string]bool{"g0": true}, false)); n == 0 || len(m.order) > maxTargets || time.Since(began) > time.Minute {
		t.Errorf("%d targets, %d asked for, in %s", len(m.order), n, time.Since(began))
	}
}

// TestBroughtAttacks runs, in the real sandbox, what keeps a build tool from its work.
func TestBroughtAttacks(t *testing.T) {
	t.Parallel()
	sb := realSandbox(t)
	grep := files{"Makefile": "test:\n\tgrep -q y a.txt\n", "a.txt": "x\n"}
	rake := files{"Rakefile": "task(:test) { sh 'grep -q y a.txt' }\n", "a.txt": "x\n"}
	suite := func(makefile string) files {
		return files{"Makefile": makefile, "src/slug.c": "int slug(int x){ return x; }\n", "tests/suite.c": "#include <assert.h>\nint slug(int);\nint main(void){ assert(slug(1)==2); return 0; }\n"}
	}
	const listed = "OBJS=src/slug.o tests/suite.o\n.PHONY: test\ntest: suite\n\t./suite\nsuite: $(OBJS)\n\tcc -o $@ $(OBJS)\n"
	for i, tc := range []struct {
		name, needs, command string
		base, patch          files
		want                 reason.Code
	}{
		{"a file with the name of the target", "make", "make -s test", grep, files{"test": "y\n"}, reason.VerifierTampering},
		{"a directory with its name", "make", "make -s test", grep, files{"test/a": "y\n"}, reason.VerifierTampering},
		{"an honest change", "make", "make -s test", grep, files{"a.txt": "y\n", "notes": "x\n"}, ""},
		{"a stamp that stands for the tests", "make", "make -s check", files{"Makefile": ".PHONY: check\ncheck: .checked\n.checked:\n\tgrep -q y a.txt\n\ttouch $@\n", "a.txt": "x\n"}, files{".checked": ""}, reason.VerifierTampering},
		{"a dependency file", "cc", "make test", suite("OBJ=src/slug.o tests/suite.o\n.PHONY: test\ntest: suite\n\t./suite\nsuite: $(OBJ)\n\tcc -o $@ $^\n-include $(OBJ:.o=.d)\n"), files{"src/slug.d": "test:\n\t@echo ok\n"}, reason.VerifierTampering},
		{"a Rakefile in front", "rake", "rake test", rake, files{"rakefile": "task(:test) { }\n"}, reason.VerifierTampering},
		{"a task that ends the run", "rake", "rake test", rake, files{"rakelib/a.rake": "exit! 0\n"}, reason.VerifierTampering},
		{"an honest change of C", "cc", "make test", suite(listed), files{"src/slug.c": "int plus(int);\nint slug(int x){ return plus(x); }\n", "src/plus.c": "int plus(int x){ return x+1; }\n",
			"Makefile": strings.Replace(listed, "src/slug.o", "src/slug.o src/plus.o", 1)}, ""},
		{"an honest change, sources that find finds", "cc", "make test", suite("SRC := $(shell find . -name '*.c')\n.PHONY: test\ntest: suite\n\t./suite\nsuite: $(SRC)\n\tcc -o $@ $^\n-include $(SRC:.c=.d)\n"),
			files{"src/slug.c": "int plus(int);\nint slug(int x){ return plus(x); }\n", "plus.c": "int plus(int x){ return x+1; }\n"}, ""},
		{"an honest change, sources by name", "cc", "make test", suite("SRC = $(wildcard src/slug.c tests/suite.c)\n.PHONY: test\ntest: suite\n\t./suite\nsuite: $(SRC)\n\tcc -o $@ $^\n"),
			files{"src/slug.c": "int slug(int x){ return x+1; }\n"}, ""},
		{"a change of rake's project", "rake", "rake test", rake, files{"a.txt": "y\n"}, ""},
	} {
		if !tally.ByTurn(t, i, 10) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			needs(t, sb, t.TempDir(), tc.needs+" --version")
			run := func(rule string) *Verdict {
				t.Helper()
				v, err := Run(t.Context(), sb, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Tests: rule, Commands: []string{tc.command}, Control: ControlOff, Scratch: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if v := run(RuleFree); v.Status != StatusPass {
				t.Errorf("where nothing protects, it proves nothing: %s", explain(v))
			}
			v := run(RuleExtend)
			if tc.want == "" && v.Status != StatusPass || tc.want != "" && (v.Status != StatusFail || !slices.Contains(strings.Fields(codes(v.Findings)), string(tc.want))) {
				t.Errorf("want %q, got %s", tc.want, explain(v))
			}
		})
	}
}

// TestIdleMake: a make that had nothing to do is no answer, on a base where a directory
// has the name of the target, and after a run that leaves a file of that name.
func TestIdleMake(t *testing.T) {
	t.Parallel()
	sb := realSandbox(t)
	needs(t, sb, t.TempDir(), "make --version")
	for _, tc := range []struct {
		name     string
		makefile string
		commands []string
		want     string // in the finding
	}{
		{"a directory of that name", "test:\n\tgrep -q y a.txt\n", []string{"make test"}, "nothing ran: make: 'test' is up to date."},
		{"elsewhere", "test:\n\tgrep -q y a.txt\n", []string{"make -w -C . test"}, "nothing ran: make: 'test' is up to date."},
		{"silently", "test:\n\t@grep -q y a.txt\n", []string{"make -s test"}, "make does nothing for the target \"test\""},
		{"by another target", "all: test\n\ntest:\n\tgrep -q y a.txt\n", []string{"make"}, "make does nothing for the target \"test\""},
		{"beside others", ".PHONY: build $(shell true)\nbuild:\n\t@echo built\ntest:\n\tgrep -q y a.txt\n", []string{"make build test"}, "nothing ran: make: 'test' is up to date."},
		{"two, one of them empty", ".PHONY: lint test\nlint:\ntest:\n\t@grep -q y a.txt\n", []string{"make lint test"}, ""},
		{"an order alone", "test: | a.txt\n\t@grep -q y a.txt\n", []string{"make -s test"}, "make does nothing for the target \"test\""},
		{"something is made first", "test: FORCE\n\t@grep -q y a.txt\nFORCE:\n", []string{"make test"}, ""},
		{"without a recipe", "test unit:\n", []string{"make unit test"}, "nothing ran: make: Nothing to be done for 'test'."},
		{"phony", ".PHONY: test\ntest:\n\tgrep -q y a.txt\n", []string{"make test"}, ""},
		{"what is built is there", "data:\ntest:\n\tgrep -q y a.txt\n", []string{"make data", "grep -q y a.txt"}, ""},
		{"tests of another name", ".PHONY: more\nmore: data\n\t@echo ran\ndata:\n", []string{"make data more"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			base := files{"Makefile": tc.makefile, "a.txt": "y\n", "test/kept": "", "data": ""}
			v, err := Run(t.Context(), sb, Plan{Lower: base.write(t), Patch: files{"a.txt": "y\ny\n"}.changes(), Commands: tc.commands, Control: ControlOff, Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if got := explain(v); (tc.want == "") != (v.Status == StatusPass) || !strings.Contains(got, tc.want) {
				t.Errorf("want %q, got %s", tc.want, got)
			}
		})
	}
}

// TestPrebuilt: what a patch brings is older than the base, so that what can be made of the
// base is made, whatever way a makefile has to its name.
func TestPrebuilt(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	sb := realSandbox(t)
	needs(t, sb, t.TempDir(), "cc --version && make --version")
	const no, yes = "int main(void){ return 1; }\n", "#!/bin/sh\nexit 0\n"
	phony := ".PHONY: test\n"
	for name, tc := range map[string]struct {
		command     string
		base, patch files
	}{
		"a sub-make":        {"make test", files{"Makefile": phony + "test:\n\t$(MAKE) -C sub test\n", "sub/Makefile": phony + "test: runall\n\t./runall\nrunall: t.c\n\tcc -o $@ t.c\n", "sub/t.c": no}, files{"sub/runall": yes}},
		"a computed name":   {"make test", files{"Makefile": phony + "OUT := $(abspath out)\ntest: $(OUT)/t\n\t$(OUT)/t\n$(OUT)/t: t.c\n\tmkdir -p out\n\tcc -o $@ t.c\n", "t.c": no}, files{"out/t": yes}},
		"a variable":        {"make OUT=o2 test", files{"Makefile": phony + "OUT ?= build\ntest: $(OUT)/t\n\t$(OUT)/t\n$(OUT)/t: t.c\n\tmkdir -p $(OUT)\n\tcc -o $@ t.c\n", "t.c": no}, files{"o2/t": yes}},
		"an object":         {"make test", files{"Makefile": "VPATH=src\n" + phony + "test: t\n\t./t\nt: t.o\n\tcc -o $@ $^\n", "src/t.c": no}, files{"t": yes}},
		"a chain":           {"make test", files{"Makefile": phony + "test: t\n\t./t\nt: t.o\n\tcc -o $@ t.o\n%.c: %.in\n\tcp $< $@\n", "t.in": no}, files{"t.c": "int main(void){ return 0; }\n"}},
		"made by configure": {"sh configure && make check", files{"configure": "cp Makefile.in Makefile\n", "Makefile.in": phony + "check: t\n\t./t\nt: t.c\n\tcc -o $@ t.c\n", "t.c": no}, files{"t": yes}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := Run(t.Context(), sb, Plan{Lower: tc.base.write(t), Patch: tc.patch.changes(), Commands: []string{tc.command}, Control: ControlOff, Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if v.Status != StatusFail {
				t.Errorf("got %s", explain(v))
			}
		})
	}
}

func TestAddsSources(t *testing.T) {
	t.Parallel()
	const base = "# a remark\nOBJS = a.o \\\n  b.o\nRUN = sh run.sh\ntest: $(OBJS) c.o\n\t$(CC) -o t $(OBJS) c.o\n\t./t c.c\n\t$(RUN)\n"
	for name, tc := range map[string]struct {
		old, new string
		want     bool
	}{
		"an object":                {"b.o", "b.o d.o", true},
		"a prerequisite":           {"$(OBJS) c.o\n\t$(CC)", "$(OBJS) c.o src/d.o\n\t$(CC)", true},
		"linked":                   {"$(OBJS) c.o\n\t./t", "$(OBJS) c.o d.o\n\t./t", true},
		"another remark":           {"# a remark", "# another", true},
		"a line of its own":        {"  b.o\n", "  b.o \\\n  d.o\n", true},
		"in front of a list":       {"OBJS = a.o", "OBJS = d.o a.o", true},
		"in front of a program":    {"RUN = sh run.sh", "RUN = d.c sh run.sh", false},
		"the list goes on":         {"RUN =", "OBJS += d.o\nRUN =", true},
		"another list goes on":     {"RUN =", "RUN += d.o\nRUN =", false},
		"a new list":               {"RUN =", "SRCS = d.c\nRUN =", false},
		"it goes on with a flag":   {"RUN =", "OBJS += -DNDEBUG\nRUN =", false},
		"taken away":               {"a.o \\\n  b.o", "b.o", false},
		"in the place of another":  {"b.o", "d.o", false},
		"an argument of a program": {"./t c.c", "./t c.c d.c", false},
		"a program":                {"sh run.sh", "sh d.c run.sh", false},
		"a flag":                   {"b.o", "b.o -DNDEBUG", false},
		"outside":                  {"b.o", "b.o ../d.o", false},
		"a line":                   {"RUN =", "X = y\nRUN =", false},
	} {
		if got := addsSources(base, strings.Replace(base, tc.old, tc.new, 1)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
