package shell

import (
	"slices"
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		". ./lib.sh":                                      {"./lib.sh"},
		"if ! . ./a.sh; then exit 1; fi":                  {"./a.sh"},
		"X=1 source \"$ROOT/a.sh\" arg":                   {"\"$ROOT/a.sh\"", "arg"},
		"command . ./a.sh; builtin source b":              {"./a.sh", "b"},
		`\. ./a.sh`:                                       {"./a.sh"},
		". \\\n ./a.sh":                                   {"./a.sh"},
		"eval \"$(cat a.sh)\"; source <(cat b.sh)":        {"\"$(cat a.sh)\"", "<(cat b.sh)"},
		"bash -c '. ./a.sh; f'; sh -ec \"$(cat b.sh)\"":   {"./a.sh", "\"$(cat b.sh)\""},
		"sh \"$(dirname \"$0\")/../a.sh\" add; sh ./b.sh": nil,
		"cat a.sh t.sh | sh; cat c.sh | grep x":           {"cat a.sh t.sh"},
		"BASH_ENV=./a.sh bash t.sh":                       {"./a.sh"},
		"bash --rcfile a.sh -i":                           {"--rcfile", "a.sh", "-i"},
		"echo . ./a.sh; echo 'source b.sh'":               nil,
		"it does not ( parse":                             nil,
	} {
		if got := Sources(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestShadows: what takes the place of a command of the tests of bats is found, and what
// does not is let be.
func TestShadows(t *testing.T) {
	t.Parallel()
	tests := []Script{
		{"test/sq.bats", "setup() { source lib/sq.sh; }\n@test \"squares\" {\n  run sq 2\n  diff want got\n  gives 4\n}\ngives() { [ \"$output\" = \"$1\" ]; }\n"},
		{"test/helper.bash", "mock() { echo x; }\n"},
	}
	const before = "sq() { echo $(( $1 + $1 )); }\nlog() { eval \"$1\"; }\n"
	for name, tc := range map[string]struct {
		after string
		found bool
	}{
		"a fix":                     {"sq() { echo $(( $1 * $1 )); }\nlog() { eval \"$1\"; }\n", false},
		"a new function":            {before + "cube() { echo $(( $1 * $1 * $1 )); }\njoin() { echo \"$*\"; }\n", false},
		"a bracket":                 {before + "function [ { builtin [ \"$@\" || true; }\n", true},
		"test":                      {before + "test() { return 0; }\n", true},
		"run":                       {before + "run() { output=$(\"$@\"); status=0; }\n", true},
		"an assertion of a library": {before + "assert_equal() { :; }\n", true},
		"a program of the tests":    {before + "diff() { return 0; }\n", true},
		"another program":           {before + "gzip() { command gzip -9 \"$@\"; }\n", false},
		"a function of the tests":   {before + "if true; then gives() { :; }; fi\n", true},
		"one of their helper":       {before + "mock() { :; }\n", true},
		"within a function":         {"sq() { eval 'test() { :; }'; echo 4; }\nlog() { eval \"$1\"; }\n", true},
		"an alias":                  {before + "alias diff=true\n", true},
		"a path":                    {"sq() { PATH=$PWD/lib/shim:$PATH; }\nlog() { eval \"$1\"; }\n", true},
		"fail, which no test uses":  {before + "fail() { return 1; }\n", false},
		"a trap":                    {"sq() { trap 'exit 0' ERR; }\nlog() { eval \"$1\"; }\n", true},
		"no script":                 {before + "if then\n", true},
	} {
		if why := Shadows(before, tc.after, tests); (why != "") != tc.found {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := Shadows("import os\nif os: pass\n", "import os\nif os:\n  pass\n", tests); why != "" {
		t.Error(why)
	}
}

// TestCounters: a file that scripts read does not come by what they count their failures
// in, however they count and it comes.
func TestCounters(t *testing.T) {
	t.Parallel()
	const before = "f() { KEY=$1; }\n"
	for test, name := range map[string]string{
		"fails=0\nok || fails=1\nexit $fails\n":                        "fails",
		"bad=0\nok || bad=$((bad + 1))\n[ \"$bad\" = 0 ]\n":            "bad",
		"ok || ((bad++))\nfinish\n":                                    "bad",
		"ok || (( bad += 1 ))\nfinish\n":                               "bad",
		"ok || bad=1\n[[ $bad -eq 0 ]] && echo fine\n":                 "bad",
		"check() { [ $1 = $2 ] || status=1; }\ntest \"$status\" = 0\n": "status",
	} {
		tests := []Script{{"test/a.sh", test}}
		for code, found := range map[string]bool{
			"f() { X=0; KEY=$1; }\n": true, "f() { KEY=$1; }\nreadonly X=0\n": true, "f() { unset X; KEY=$1; }\n": true, "f() { read X; }\n": true,
			"f() { printf -v X 0; }\n": true, "f() { (( X = 0 )); }\n": true, "f() { declare -n r=X; r=0; }\n": true, "f() { for X in 0; do :; done; }\n": true,
			"f() { : ${X:=0}; }\n": true, "f() { let X=0; }\n": true, "f() { export X=0; }\n": true,
			"f() { local X=0; X=1; KEY=$1; }\n": false, "f() { echo \"X is $X\"; }\n": false, "f() { KEY=0; }\n": false, "g() { n=$((n + 1)); }\n" + before: false,
		} {
			if why := Shadows(before, strings.ReplaceAll(code, "X", name), tests); (why != "") != found {
				t.Errorf("%q of %q: %q", code, test, why)
			}
		}
	}
}

// TestVariables: a file that scripts read does not set their variables for them; which it
// uses for itself is its own matter.
func TestVariables(t *testing.T) {
	t.Parallel()
	const before = "f() { KEY=$1; }\n"
	tests := []Script{{"test/a.sh", "ROOT=$(pwd)\n. \"$ROOT/lib.sh\"\ntests=0; fails=0; n=0\nwant=\"1 2\"\ngot=$(f a)\nst=0\nmain ok || st=$?\nok() { local own=$1; tests=$((tests+1)); ((n++)); local testExpected=$2; [ \"$own\" = x ] || fails=1; }\n" +
		"[ \"$got\" = \"$want\" ] && [ \"$st\" -eq 0 ] || fails=1\n${DIFF:-diff} \"$ROOT/a\" b || fails=1\necho \"$tests tests, $n\"\n[ $fails = 0 ]\n"}}
	for code, found := range map[string]bool{
		"ROOT=x": true, "readonly got want=": true, "f() { readonly want=5; }": true, "readonly st=0": true, "declare -gi st": true, "if true; then want=5; fi": true, "DIFF=true": true, "f() { DIFF=true; }": true, "export DIFF=true": true,
		"unset want": true, "for want in a; do :; done": true,
		"if [ -n \"${want-}\" ]; then exit 0; fi": true, "f() { echo \"$want\"; }": true, "f() ( echo \"$want\" )": true, "f() { echo \"$testExpected\"; }": true, "f() { want=$1; echo \"$want\"; }": false, "f() { echo \"$got\"; }": false, "if [ \"$0\" = x ]; then exit 0; fi": false, "[ -n \"$ROOT\" ] || exit 1": false, "[ -z \"$want\" ] || exit \"$?\"": true,
		"tests=": false, "n=1": false, "f() { got=1; }": false, "f() { local want=1; }": false, "own=1": false, "other=1": false, "( ROOT=x )": false, "f() ( DIFF=x )": false, "echo \"$ROOT\"": false,
	} {
		if why := Shadows(before, before+code+"\n", tests); (why != "") != found {
			t.Errorf("%q: %q", code, why)
		}
	}
}
