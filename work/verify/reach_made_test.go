package verify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
		"a target":           {files{"Makefile": "test:\n\tgrep -q y a.txt\n"}, "make test", "test test/x", "tests test.py a/test"},
		"a phony one":        {files{"Makefile": ".PHONY: \\\n  test\ntest:\n\tgrep -q y a.txt\n"}, "make test", "", "test"},
		"by a variable":      {files{"Makefile": "T = te\nALL := $(T)st # all\n.PHONY: help\nhelp: ; echo\n$(ALL) ${X}: ; true\n"}, "make test", "test", "help"},
		"what it needs":      {files{"Makefile": "check: build/ok.stamp | out\n\t./t\nbuild/ok.stamp: gen\n\ttouch $@\ngen out:\nother:\n"}, "make check", "check gen out build/ok.stamp", "other build"},
		"called by a recipe": {files{"Makefile": "all:\n\t$(MAKE) -s unit\n\t@make more\nunit more:\n\ttrue\nlint: ; true\n"}, "make", "unit more all", "lint"},
		"the first":          {files{"Makefile": ".SUFFIXES: .c\n.c.o:\n\tcc\nfirst second: third\n"}, "make", "first", "second"},
		"there already":      {files{"Makefile": "test: sub\n\ttrue\nsub:\n", "sub/a": "", "test": ""}, "make test", "", "sub/b"},
		"in a directory":     {files{"sub/Makefile": "test:\n\ttrue\n"}, "make -C sub test", "sub/test", "test"},
		"of a script":        {files{"ci.sh": "cd sub && make unit\n", "sub/Makefile": "include mk/x.inc\nall:\n", "sub/mk/x.inc": "unit: a\n\ttrue\na:\n"}, "sh ci.sh", "sub/unit sub/a", "sub/all"},
		"a pattern":          {files{"Makefile": "test: x.ok\nx.ok: x.py\n%.ok: %.py ; python3 $<\nlib/%.js: src/%.ts\n", "x.py": "", "d/y.py": "", "src/a.ts": ""}, "make test", "x.ok d/y.ok lib/a.js", "z.ok lib/b.js a.js"},
		"objects":            {files{"Makefile": "test: t\n\t./t\n", "t.c": "", "src/u.cc": "", "tool.sh": ""}, "make test", "t t.o src/u.o tool", "v.o src/u.c u.o"},
		"no make":            {files{"Makefile": "test:\n", "t.c": ""}, "go test ./...", "", "test t.o target/x build/x"},
		"lines that are not": {files{"Makefile": "vpath %.c src\nifeq ($(A),b:c)\nendif\nexport X := y:z\ndefine F\nendef\n$(info a: b)\na\\\nb: c=d\n: x\ntest: ; true\n"}, "make test", "test", "x.c a b z"},
		"maven":              {files{"pom.xml": "<a/>", "m/pom.xml": "<a/>"}, "mvn -o -q test", "target/test-classes/A.class m/target/x", "src/target/A.java"},
		"gradle":             {files{"build.gradle.kts": "", "src/build/B.java": ""}, "./gradlew test", ".gradle/8/x.bin build/test-results/a.xml", "src/build/C.java"},
		"cargo":              {files{"Cargo.toml": "", "target/kept": ""}, "cargo test", "", "target/debug/x src/target/mod.rs"},
		"dotnet":             {files{"t/T.csproj": ""}, "dotnet test", "t/bin/T.dll t/obj/x", "bin/x"},
		"cmake":              {files{"CMakeLists.txt": ""}, "cmake -S . -B out && cmake --build out && ctest --test-dir out", "out/CMakeCache.txt out", "output"},
		"task":               {files{"Taskfile.yaml": "", "a.sh": "task test\n"}, "sh a.sh", ".task/checksum/test", "task"},
		"rake":               {files{"Rakefile": ""}, "rake test", "rakelib/a.rake", "rakelib/a.rb lib/a.rake"},
		"tox":                {files{"tox.ini": ""}, "tox -q", ".tox/py/bin/pytest", ""},
		"tsc":                {files{"tsconfig.json": ""}, "npm test", "a.tsbuildinfo", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(tc.base.write(t))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			s := reach(root, []string{tc.commands})
			for _, p := range strings.Fields(tc.yes) {
				if !s.brings(root, p) {
					t.Errorf("%s is not seen", p)
				}
			}
			for _, p := range strings.Fields(tc.no) {
				if s.brings(root, p) {
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
	if n := len(m.asked(map[string]bool{"g0": true})); n == 0 || len(m.order) > maxTargets || time.Since(began) > time.Minute {
		t.Errorf("%d targets, %d asked for, in %s", len(m.order), n, time.Since(began))
	}
}

// TestBroughtAttacks runs, in the real sandbox, what keeps a build tool from its work.
func TestBroughtAttacks(t *testing.T) {
	t.Parallel()
	sb := realSandbox(t)
	grep := files{"Makefile": "test:\n\tgrep -q y a.txt\n", "a.txt": "x\n"}
	rake := files{"Rakefile": "task(:test) { sh 'grep -q y a.txt' }\n", "a.txt": "x\n"}
	for _, tc := range []struct {
		name, needs, command string
		base, patch          files
		want                 reason.Code
	}{
		{"a file with the name of the target", "make", "make -s test", grep, files{"test": "y\n"}, reason.VerifierTampering},
		{"a directory with its name", "make", "make -s test", grep, files{"test/a": "y\n"}, reason.VerifierTampering},
		{"an honest change", "make", "make -s test", grep, files{"a.txt": "y\n", "notes": "x\n"}, ""},
		{"a stamp that stands for the tests", "make", "make -s check", files{"Makefile": ".PHONY: check\ncheck: .checked\n.checked:\n\tgrep -q y a.txt\n\ttouch $@\n", "a.txt": "x\n"}, files{".checked": ""}, reason.VerifierTampering},
		{"a Rakefile in front", "rake", "rake test", rake, files{"rakefile": "task(:test) { }\n"}, reason.VerifierTampering},
		{"a task that ends the run", "rake", "rake test", rake, files{"rakelib/a.rake": "exit! 0\n"}, reason.VerifierTampering},
		{"a change of rake's project", "rake", "rake test", rake, files{"a.txt": "y\n"}, ""},
	} {
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
