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
		"a function of the tests":               {append: "check() { :; }\n", want: "the tests call check"},
		"a program of the tests":                {append: "diff() { :; }\n", want: "the tests call diff"},
		"a program of a trap":                   {append: "rm() { exit 0; }\n", want: "the tests call rm"},
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
		"a constant":                            {old: "KEY=${1%=*}", new: "NEVER=x", want: "sets NEVER"},
		"eval":                                  {old: "KEY=${1%=*}", new: "eval \"$1\"", want: "eval"},
		"a command in a variable":               {old: "KEY=${1%=*}", new: "x=exit; $x 0", want: "$x 0"},
		"a command in quotes":                   {old: "KEY=${1%=*}", new: "ex'i't 0", want: "0"},
		"a command by a backslash":              {old: "KEY=${1%=*}", new: "\\exit 0", want: "0"},
		"a command by braces":                   {old: "KEY=${1%=*}", new: "{exit,0}", want: "{exit,0}"},
		"a variable before a function":          {old: "KEY=${1%=*}", new: "fails=0 upper x", want: "sets fails"},
		"kill":                                  {old: "KEY=${1%=*}", new: "kill $$", want: "kill $$"},
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
		"what counts":                           {old: "fails=$((fails+1)); }", new: ":; }", scripts: "tally\n", want: "tally ends the tests"},
		"what is gone":                          {old: "assert_slug() { is_slug \"$1\"; }\n", scripts: "assert_slug x\n", want: "assert_slug: the function is gone"},
		"what nothing calls is gone":            {old: "assert_slug() { is_slug \"$1\"; }\n"},
		"called by a variable":                  {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "f=upper; $f x\n", want: "upper has exit 0"},
		"called by a name that is put together": {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "for f in up lo; do \"${f}per\" x; done\n", want: "upper has exit 0"},
		"called by an argument":                 {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "try() { \"$@\" || exit 1; }\ntry upper x\n", want: "upper has exit 0"},
		"named in a text":                       {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "echo upper is tried\n"},
		"called by a trap":                      {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "trap upper EXIT\n", want: "upper has exit 0"},
		"called in the shell by ${ ;}":          {old: "tr a-z A-Z", new: "tr a-z A-Z; exit 0", scripts: "upper x\n", want: "upper has exit 0"},
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
