package shell

import (
	"strings"
	"testing"
)

const (
	tests = `#!/bin/sh
. ./lib.sh
fails=0
trap 'rm -f "$tmp"' EXIT
check() { # WANT GOT
  if [ "$1" != "$2" ]; then echo "FAIL: slugify: want $1, got $2"; fails=$((fails+1)); fi
}
check "HELLO" "$(upper hello)"
check "a-b" "$(slugify 'A b')"
echo "a b" | slugify_all > out; diff out expected || fails=1
is_slug a-b || fails=1
parse "a=b"; check a "$KEY"
same 1 1
[ "$fails" = 0 ] && echo ok
exit "$fails"
`
	lib = `# a library
SEP=-
die() { echo "$*" >&2; exit 1; }
upper() { printf '%s\n' "$1" | tr a-z A-Z; }
slugify() { printf '%s\n' "$1" | tr A-Z a-z | tr ' ' _; }
slugify_all() { while read -r line; do slugify "$line"; done; }
is_slug() { case $1 in *[!a-z_]*) return 1;; esac; }
parse() { KEY=${1%=*}; VALUE=${1#*=}; }
same() { [ "$1" = "$2" ] || die "differs"; }
tally() { fails=$((fails+1)); }
assert_slug() { is_slug "$1"; }
if [ "${BASH_SOURCE[0]}" = "$0" ]; then slugify "$@"; fi
`
)

func TestReaches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scripts  string // appended to the tests
		old, new string
		append   string // to the library
		want     string // "" it stays within
	}{
		"nothing":                               {},
		"a remark":                              {append: "# exit 0\n"},
		"a fix of a filter":                     {old: "tr ' ' _", new: "tr ' ' -"},
		"anything for output":                   {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0"},
		"a helper":                              {old: "slugify() { printf", new: "_strip() { sed 's/ *$//'; }\nslugify() { _strip | printf"},
		"a new function":                        {append: "lower() { printf '%s\\n' \"$1\" | tr A-Z a-z; }\n"},
		"a predicate":                           {old: "*[!a-z_]*) return 1", new: "''|*[!a-z-]*) return 1"},
		"a predicate with more":                 {old: "is_slug() { case", new: "is_slug() { local first rest=x; first=${1%%-*}; [ -n \"$first\" ] || return 1; for part in $1; do echo $part >/dev/null; done; case"},
		"a variable that is the library's":      {old: "KEY=${1%=*}", new: "KEY=${1%%=*}"},
		"a variable that no test reads":         {old: "VALUE=${1#*=}", new: "VALUE=${1#*=}; parsed=yes"},
		"only where it is run":                  {old: "tr ' ' _", new: "tr ' ' -", scripts: "# main\n"},
		"die is called as before":               {old: "is_slug() { case", new: "is_slug() { [ -n \"$1\" ] || return 2; case"},
		"an exit":                               {old: "case $1 in *[!a-z_]*)", new: "exit 0; case $1 in *[!a-z_]*)", want: "line 7: is_slug has exit 0"},
		"an exit of a filter behind a pipe":     {old: "tr ' ' _", new: "tr ' ' -; exit 0", want: "slugify has exit 0"},
		"an exit when it is read":               {append: "exit 0\n", want: "when the file is read"},
		"an exit when it is read, in brackets":  {append: "{ exit 0; }\n", want: "when the file is read"},
		"a function of the tests":               {append: "check() { :; }\n", want: "the name of check, which the tests use"},
		"a program of the tests":                {append: "diff() { :; }\n", want: "the name of diff, which the tests use"},
		"a program of a trap":                   {append: "rm() { exit 0; }\n", want: "the name of rm, which the tests use"},
		"a test":                                {append: "[() { :; }\n", want: "the command ["},
		"a builtin":                             {append: "exit() { :; }\n", want: "the command exit"},
		"what is not found":                     {append: "command_not_found_handle() { exit 0; }\n", want: "command_not_found"},
		"a trap":                                {old: "KEY=${1%=*}", new: "trap 'exit 0' EXIT; KEY=a", want: "trap 'exit 0' EXIT"},
		"a variable of the tests":               {old: "KEY=${1%=*}", new: "KEY=${1%=*}; fails=0", want: "sets fails"},
		"a variable of the tests, read":         {old: "KEY=${1%=*}", new: "KEY=${1%=*}; read -r fails", want: "sets fails"},
		"a variable of the tests, a default":    {old: "KEY=${1%=*}", new: ": ${tmp:=/etc}", want: "sets tmp"},
		"a variable of the tests, printf":       {old: "KEY=${1%=*}", new: "printf -v fails 0", want: "printf -v fails 0"},
		"a variable of the tests, printf, made": {old: "KEY=${1%=*}", new: "o=-v; printf \"$o\" fails 0", want: "printf"},
		"a variable of the tests, calculated":   {old: "KEY=${1%=*}", new: "x=fai; x=${x}ls=0; : $((x))", want: "$((x))"},
		"a variable of the tests, a loop":       {old: "KEY=${1%=*}", new: "for fails in 0; do :; done", want: "sets fails"},
		"the path":                              {old: "KEY=${1%=*}", new: "PATH=.; KEY=a", want: "sets PATH"},
		"a variable of bash":                    {old: "KEY=${1%=*}", new: "BASH_ENV=x", want: "sets BASH_ENV"},
		"a constant of its own":                 {old: "KEY=${1%=*}", new: "NEVER=x; KEY=${1%=*}"},
		"a number in a calculation":             {old: "parse() {", new: "parse() { [ $# -lt 2 ] || return 1;", scripts: "parse a=b\n"},
		"eval":                                  {old: "KEY=${1%=*}", new: "eval \"$1\"", want: "eval"},
		"a command in a variable":               {old: "KEY=${1%=*}", new: "x=exit; $x 0", want: "$x 0"},
		"a command in quotes":                   {old: "KEY=${1%=*}", new: "ex'i't 0", want: "0"},
		"a command by a backslash":              {old: "KEY=${1%=*}", new: "\\exit 0", want: "0"},
		"a command by braces":                   {old: "KEY=${1%=*}", new: "{exit,0}", want: "{exit,0}"},
		"a variable before a function":          {old: "KEY=${1%=*}", new: "fails=0 upper x", want: "sets fails"},
		"kill":                                  {old: "KEY=${1%=*}", new: "kill $$", want: "parse has kill"},
		"set":                                   {old: "KEY=${1%=*}", new: "set +e", want: "set +e"},
		"break":                                 {old: "KEY=${1%=*}", new: "break 2", want: "break 2"},
		"a function in a function":              {old: "KEY=${1%=*}", new: "check() { :; }", want: "check"},
		"a test of bash that is none of sh":     {old: "KEY=${1%=*}", new: "[[ x || exit 0 ]]", want: "does not parse"},
		"another function that ends":            {old: "KEY=${1%=*}", new: "die x", want: "parse calls die, which has exit 1"},
		"another function that calls one":       {old: "KEY=${1%=*}", new: "same 1 2", want: "parse calls die, which has exit 1"},
		"another function that sets":            {old: "KEY=${1%=*}", new: "tally", want: "parse calls tally"},
		"a function of the tests is called":     {old: "KEY=${1%=*}", new: "check 1 1", want: "parse calls check of the tests"},
		"the end is another":                    {old: "exit 1; }", new: "exit 0; }", want: "die"},
		"an assertion":                          {old: "[ \"$1\" = \"$2\" ]", new: "true", want: "same may be an assertion"},
		"an assertion of the library":           {old: "assert_slug() { is_slug \"$1\"; }", new: "assert_slug() { :; }", scripts: "assert_slug x\n", want: "assert_slug may be an assertion"},
		"what counts":                           {old: "fails=$((fails+1)); }", new: ":; }", scripts: "tally\n", want: "tally sets a variable of the tests"},
		"what is gone":                          {old: "assert_slug() { is_slug \"$1\"; }\n", scripts: "assert_slug x\n", want: "assert_slug: the function is gone"},
		"what nothing calls is gone":            {old: "assert_slug() { is_slug \"$1\"; }\n"},
		"called by a variable":                  {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "f=upper; $f x\n", want: "upper has exit 0"},
		"called by a name that is put together": {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "for f in up lo; do \"${f}per\" x; done\n", want: "upper has exit 0"},
		"called by an argument":                 {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "try() { \"$@\" || exit 1; }\ntry upper x\n", want: "upper has exit 0"},
		"named in a text":                       {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "echo upper is tried\n"},
		"called by a trap":                      {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "trap upper EXIT\n", want: "upper has exit 0"},
		"called in the shell by ${ ;}":          {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "upper x\n", want: "upper has exit 0"},
		"a local that comes too late":           {old: "KEY=${1%=*}", new: "fails=0; local fails", want: "sets fails"},
		"a local that may not come":             {old: "KEY=${1%=*}", new: "if false; then local fails; fi; fails=0", want: "sets fails"},
		"a local of its own":                    {old: "KEY=${1%=*}", new: "local tmp=x; tmp=y; KEY=${1%=*}"},
		"read with a value at its option":       {old: "KEY=${1%=*}", new: "local z; read -n1 fails z", want: "read -n1"},
		"printf with %n":                        {old: "KEY=${1%=*}", new: "printf '%n' fails", want: "printf"},
		"an operator of test in a variable":     {old: "KEY=${1%=*}", new: "local o=-v x='a[fails=0]'; [ \"$o\" \"$x\" -a 1 ]", want: "[ "},
		"a variable that becomes words":         {old: "KEY=${1%=*}", new: "local x='-v a[fails=0]'; [ $x ]", want: "[ $x ]"},
		"usual tests":                           {old: "KEY=${1%=*}", new: "[ $# -gt 0 ] && [ ! -e \"$1\" -o -z \"$1\" ] || return 1; KEY=${1%=*}"},
		"more of a variable that it set before": {old: "KEY=${1%=*}", new: "KEY=; KEY=${1%=*}"},
		"another call of what may end the test": {old: "parse() { KEY=${1%=*}; VALUE=${1#*=}; }", new: "parse() { KEY=${1%=*}; end 0; }", append: "end() { exit \"$1\"; }\n", want: "parse calls end"},
		"output that is run":                    {old: "tr a-z A-Z", new: "tr a-z A-Z; echo exit 0", scripts: "eval \"$(upper x)\"\n", want: "run its output as code"},
		"a shell in the test":                   {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "bash -c '. ./lib.sh; upper x || exit 1' || fails=1\n", want: "upper has exit 0"},
		"a shell with a here-document":          {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "bash <<'EOF'\nupper x || exit 1\nEOF\n", want: "upper has exit 0"},
		"a block whose status counts":           {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "out=$(. ./lib.sh; upper x || exit 1) || fails=1\n", want: "upper has exit 0"},
		"a signal":                              {old: "tr a-z A-Z", new: "tr a-z A-Z; kill -TERM $$", want: "upper has"},
		"the rest of the script":                {old: "tr a-z A-Z", new: "tr a-z A-Z <&255", want: "upper has <&"},
		"carriage returns":                      {old: "tr a-z A-Z", new: "tr a-z A-Z; : \\\r\nexit 0", want: "carriage returns"},
		"a constant":                            {old: "SEP=-", new: "SEP=+"},
		"a constant of the tests":               {old: "SEP=-", new: "SEP=-\nfails=-5", want: "sets fails"},
		"a constant of the shell":               {old: "SEP=-", new: "SEP=-\nPATH=.", want: "sets PATH"},
		"a dispatcher, a function for output":   {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "ok() { \"$@\" || fails=1; }\nok true\n"},
		"a dispatcher, a test of its own":       {append: "test_more() { :; }\n", scripts: "for t in $(compgen -A function test_); do \"$t\"; done\n", want: "test_more"},
		"a function that is missing":            {append: "repeat() { echo \"$1$1\"; }\n", scripts: "check aa \"$(repeat a)\"\n"},
		"a break in a loop":                     {old: "KEY=${1%=*}", new: "local i; for i in a b; do break; done; KEY=${1%=*}"},
		"a program of the library":              {append: "tr() { :; }\n", want: "the command tr"},
		"a second definition":                   {append: "upper() { :; }\n", want: "a second function upper"},
		"it does not parse":                     {append: "upper() {\n", want: "does not parse"},
		"the tests are for another shell":       {old: "tr ' ' _", new: "tr ' ' -", append: "#", scripts: "\nzmodload a ((((\n", want: "not understood"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.old != "" && !strings.Contains(lib, tc.old) {
				t.Fatal("no such text")
			}
			got := Reaches(lib, strings.Replace(lib, tc.old, tc.new, 1)+tc.append, []Script{{"test.sh", tests + tc.scripts}})
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzReaches: whatever the texts hold, judging them ends, and one that is as it was
// reaches nothing where it is understood.
func FuzzReaches(f *testing.F) {
	f.Add(lib, strings.Replace(lib, "tr ' ' _", "tr ' ' -", 1), tests)
	f.Add(lib, lib+"exit 0\n", "bash <<'E'\n. ./lib.sh; upper x\nE\nfor t in $(compgen -A function); do \"$t\"; done\n")
	f.Add("f() { ((a[b=1]++)); [[ -v x && $1 -gt 2 ]]; local -a z=([c]=1); printf -v a %n; }\n", "f() { read -ra x <&3; case $1 in a) break;; esac; } >&2\n", "f; \"${p}q\"; f | g; `f`; cat <(f)\n")
	f.Fuzz(func(t *testing.T, before, after, script string) {
		Sources(script)
		_ = Reaches(before, after, []Script{{"t.sh", script}})
		if why := Reaches(before, before, []Script{{"t.sh", script}}); strings.Contains(why, "line ") && !strings.Contains(why, "second function") && !strings.Contains(why, "parse") {
			t.Errorf("what is as it was: %s", why)
		}
	})
}
