package verify

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
)

// TestReachSourced: what shell scripts read is a part of the tests where they are, and
// of the product else.
func TestReachSourced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base    files
		command string
		want    string // what counts, with a "?" where package shell has a look
	}{
		"by the script of the command":       {files{"t.sh": ". ./lib.sh\n", "lib.sh": ""}, "sh t.sh", "lib.sh? t.sh"},
		"by a command":                       {files{"lib.sh": ""}, "sh -c '. ./lib.sh; up x | grep X'", "lib.sh?"},
		"by another one":                     {files{"t.sh": ". ./lib.sh\n", "lib.sh": ". ./more.sh\n", "more.sh": ""}, "sh t.sh", "lib.sh? more.sh? t.sh"},
		"by the product":                     {files{"t.sh": "./slug x | diff - out\n", "slug": "#!/bin/sh\n. ./lib.sh\n", "lib.sh": ""}, "sh t.sh", "t.sh"},
		"its arguments in an array":          {files{"t.sh": "got=$(bin/up x)\n", "bin/up": "#!/bin/bash\nargs=(\"$@\")\nall+=(\"$@\")\necho \"${args[0]}\"\n"}, "sh t.sh", "t.sh"},
		"its arguments in a shell":           {files{"t.sh": "bin/up make x\n", "bin/up": "#!/bin/bash\n(\"$@\")\n"}, "sh t.sh", "bin/up t.sh"},
		"by both":                            {files{"t.sh": ". ./lib.sh; ./slug x | diff - out\n", "slug": "#!/bin/sh\n. ./lib.sh\n", "lib.sh": ""}, "sh t.sh", "lib.sh? t.sh"},
		"by a makefile":                      {files{"Makefile": "test:\n\t. ./lib.sh && up x | grep X\n", "lib.sh": ""}, "make test", "Makefile lib.sh"},
		"by a script of npm":                 {files{"package.json": `{"scripts":{"test":". ./lib.sh && up x | grep X"}}`, "lib.sh": ""}, "npm test", "lib.sh"},
		"in a loop over tests":               {files{"run.sh": "for t in tests/*.sh; do sh $t; done\n", "tests/a.sh": ". \"$(dirname \"$0\")/../lib.sh\"\n", "lib.sh": ""}, "sh run.sh", "lib.sh? run.sh"},
		"in a loop of a command":             {files{"tests/a": "#!/bin/bash\nsource \"${BASH_SOURCE%/*}/../src/lib.bash\"\n", "src/lib.bash": ""}, "for t in tests/*; do $t || exit 1; done", "src/lib.bash?"},
		"by tests of a runner":               {files{"tests/a.sh": ". ./lib.sh\n", "lib.sh": ""}, "go test ./...", ""},
		"by a variable":                      {files{"t.sh": "L=src/lib.sh\n. \"$L\"\n", "src/lib.sh": ""}, "sh t.sh", "src/lib.sh? t.sh"},
		"in a directory by a variable":       {files{"t.sh": "D=$(git rev-parse --show-toplevel)/code/sh\n. \"$D/lib.sh\"\n", "code/sh/lib.sh": "", "a/blib.sh": ""}, "sh t.sh", "code/sh/lib.sh? t.sh"},
		"all of a directory":                 {files{"t.sh": "for f in lib/*.sh; do . \"$f\"; done\n", "lib/a.sh": "", "lib/b.sh": "", "lib/c": ""}, "sh t.sh", "lib/a.sh? lib/b.sh? lib/c? t.sh"},
		"from another directory":             {files{"t.sh": "cd tests; . ../lib\n", "lib": ""}, "sh t.sh", "lib? t.sh"},
		"named as well":                      {files{"t.sh": ". ./lib.sh\n", "lib.sh": ""}, "sh t.sh && sh lib.sh", "lib.sh t.sh"},
		"run as the product as well":         {files{"t.sh": ". ./lib.sh\n./lib.sh x | diff - out\n", "lib.sh": "#!/bin/sh\n"}, "sh t.sh", "lib.sh? t.sh"},
		"one that runs tests":                {files{"t.sh": ". ./lib.sh\n", "lib.sh": "go test ./...\n"}, "sh t.sh", "lib.sh t.sh"},
		"one with a name of tests":           {files{"t.sh": ". ./test-lib.sh\n", "test-lib.sh": ""}, "sh t.sh", "t.sh test-lib.sh"},
		"one of the tests":                   {files{"t.sh": ". tests/lib.sh\n", "tests/lib.sh": ". ./code.sh\n", "code.sh": ""}, "sh t.sh", "code.sh? t.sh tests/lib.sh?"},
		"in a directory of tools":            {files{"tests/run.sh": ". scripts/lib.sh\n", "scripts/lib.sh": ""}, "sh tests/run.sh", "scripts/lib.sh? tests/run.sh"},
		"through a circle of product files":  {files{"t.sh": "./slug | diff - out\n", "slug": "#!/bin/sh\n. ./a.sh\n", "a.sh": ". ./b.sh\n", "b.sh": ". ./a.sh\n"}, "sh t.sh", "t.sh"},
		"through a circle that a test opens": {files{"t.sh": ". ./a.sh\n", "a.sh": ". ./b.sh\n", "b.sh": ". ./a.sh\n"}, "sh t.sh", "a.sh? b.sh? t.sh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(tc.base.write(t))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			s := reach(root, []string{tc.command}, DefaultTestPath)
			var got []string
			for _, p := range slices.Sorted(maps.Keys(s.files)) {
				if _, err := root.Lstat(p); err != nil {
					continue
				}
				if s.sourced[p] {
					p += "?"
				}
				got = append(got, p)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), tc.want)
			}
		})
	}
}

// TestSourcedLibraries: libraries that tests read into their shell can be mended, and
// cannot end or answer the tests.
func TestSourcedLibraries(t *testing.T) {
	t.Parallel()
	sb := realSandbox(t)
	const lib = "slugify() { printf '%s\\n' \"$1\" | tr A-Z a-z | tr ' ' _; }\nparse() { KEY=${1%%=*}; VALUE=${1#*=}; }\n"
	fix := strings.Replace(lib, "tr ' ' _", "tr ' ' -", 1)
	base := files{
		"lib.sh": lib, "run.sh": "#!/bin/sh\nfor t in tests/*.sh; do bash \"$t\" || exit 1; done\n",
		"tests/slug.sh": "#!/bin/bash\n. ./lib.sh\nfails=0\ncheck() {\n  if [ \"$1\" != \"$2\" ]; then echo \"want $1, got $2\"; fails=1; fi\n}\n" +
			"check a-b \"$(slugify 'A b')\"\nparse \"k=$(slugify 'A b')\"\ncheck a-b \"$VALUE\"\nexit \"$fails\"\n",
	}
	green := maps.Clone(base)
	green["lib.sh"] = fix
	for i, tc := range []struct {
		name, lib string
		want      reason.Code
	}{
		{"mended", fix, ""},
		{"mended with a helper", "_dashes() { tr ' ' -; }\n" + strings.Replace(fix, "tr ' ' -", "_dashes", 1), ""},
		{"calculations", strings.Replace(fix, "KEY=", "local n=0 i; for i in a b; do n=$((n + 1)); done; printf -v KEY %s $n; (( n += 1 )); KEY=", 1), ""},
		{"settings put back", strings.Replace(fix, "KEY=", "local old=$IFS; set -f; IFS=:; set +f; IFS=$old; KEY=", 1), ""},
		{"done when it is read", "declare -a PARTS=()\nMAX=${MAX:-3}\n" + fix, ""},
		{"a guard", fix + "if [ \"$0\" = lib.sh ]; then slugify \"$@\"; exit; fi\n", ""},
		{"ended", lib + "exit 0\n", reason.VerifierTampering},
		{"ended in a branch", lib + "if [ -n \"$0\" ]; then exit 0; fi\n", reason.VerifierTampering},
		{"ended later", lib + "trap 'exit 0' EXIT\n", reason.VerifierTampering},
		{"ended by a function", strings.Replace(lib, "KEY=", "exit 0; KEY=", 1), reason.VerifierTampering},
		{"failures forgotten", strings.Replace(lib, "VALUE=", "fails=0; VALUE=a-b; : ", 1), reason.VerifierTampering},
		{"failures that stay", lib + "readonly fails=0\n", reason.VerifierTampering},
		{"an assertion replaced", lib + "[() { return 1; }\n", reason.VerifierTampering},
		{"a program of the tests replaced", lib + "exit() { command exit 0; }\n", reason.VerifierTampering},
		{"what replaces one read from a text", lib + "source <(echo '[() { return 1; }')\n", reason.VerifierTampering},
		{"a further library", fix + ". ./more.sh\n", ""},
		{"a further library that replaces an assertion", lib + ". \"${BASH_SOURCE[0]%/*}/less.sh\"\n", reason.VerifierTampering},
		{"in one test only", lib + "case $0 in *slug.sh) if() { :; }; exit 0 ;; esac\n", reason.VerifierTampering},
	} {
		if !tally.ByTurn(t, i, 10) {
			continue
		}
		for _, run := range []struct {
			command string
			base    files
		}{{"./run.sh", base}, {"bash tests/slug.sh", base}, {"./run.sh", green}} {
			name := tc.name + ", " + run.command
			if run.base["lib.sh"] == fix {
				if name += ", nothing to mend"; tc.lib == fix {
					continue
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lower := run.base.write(t)
				if err := os.Chmod(lower+"/run.sh", 0o755); err != nil {
					t.Fatal(err)
				}
				v, err := Run(t.Context(), sb, Plan{Lower: lower, Patch: files{"lib.sh": tc.lib, "more.sh": "twice() { echo \"$1$1\"; }\n", "less.sh": "[() { return 1; }\n"}.changes(), Commands: []string{run.command}, Scratch: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				if tc.want == "" && v.Status != StatusPass || tc.want != "" && !slices.Contains(strings.Fields(codes(v.Findings)), string(tc.want)) {
					t.Errorf("want %q, got %s", tc.want, explain(v))
				}
			})
		}
	}
}
