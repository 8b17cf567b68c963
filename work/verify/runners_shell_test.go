package verify

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// shellProjects are those of bats and of scripts that test something.
func shellProjects() []runnerProject {
	const (
		head = "#!/bin/sh\n"
		test = "@test \"adds\" {\n  run sh calc.sh add 2 2\n  [ \"$output\" = 4 ]\n}\n\n@test \"subs\" {\n  run sh calc.sh sub 3 2\n  [ \"$output\" = 1 ]\n}\n"
		lib  = "setup() {\n  . ./calc.sh\n}\n\n@test \"nothing\" { sub 0 0; [[ $sum == 0 ]]; }\n\n@test \"adds\" {\n  add 2 2\n  [ \"$sum\" -eq 4 ]\n  [[ $sum == 4 ]]\n}\n\n@test \"subs\" {\n  sub 3 2\n  [ \"$sum\" -eq 1 ]\n}\n"
	)
	sh := func(op string) string {
		return head + "case $1 in\nadd) echo $(($2 " + op + " $3));;\nsub) echo $(($2 - $3));;\nesac\n"
	}
	read := func(add string) string {
		return "add() { " + add + " }\nsub() { sum=$(($1 - $2)); }\n"
	}
	const script = head + "fails=0\nexpect() {\n  if [ \"$2\" != \"$3\" ]; then\n    echo \"$1: want $2, got $3\"\n    fails=$((fails + 1))\n  fi\n}\nexpect adds 4 \"$(sh calc.sh add 2 2)\"\nexpect subs 1 \"$(sh calc.sh sub 3 2)\"\n[ \"$fails\" -eq 0 ] || exit 1\necho passed\n"
	const makes = "test:\n\tsh tests/calc.sh\n.PHONY: test\n"
	// A program that a test starts can change its files and end its processes.
	programs := map[string]files{
		"the running test is another one": {"calc.sh": head + "for f in tests/*.sh test/*.bats; do [ -f \"$f\" ] && printf 'exit 0\\n' >\"$f\"; done\n" + sh("-")},
		"the test is ended":               {"calc.sh": head + "kill -9 $PPID\n"},
		"another program is called":       {"calc.sh": sh("-"), "sh": head + "echo 4\n"},
	}
	return []runnerProject{
		{
			name: "bats", command: "bats test", needs: "bats --version",
			base:   files{"calc.sh": sh("-"), "test/calc.bats": test},
			honest: files{"calc.sh": sh("+")}, wrong: files{"calc.sh": "echo 5\n"}, fixed: []string{"adds"}, kept: []string{"subs"},
			attacks: with(programs, map[string]files{
				"a result line at descriptor 3":         {"calc.sh": "echo 'ok 77 forged' >&3\n" + sh("-")},
				"the lines of the base at descriptor 3": {"calc.sh": "echo 'ok 1 adds' >&3\n" + sh("-")},
				"a setup for the suite":                 {"test/setup_suite.bash": "setup_suite() { exit 0; }\n"},
				"the runner is ended":                   {"calc.sh": "printf 'ok 1 adds\\nok 2 subs\\n' >&3\nkill -9 $PPID\n"},
			}),
		},
		{
			name: "bats with a library", command: "bats test", needs: "bats --version",
			base:   files{"calc.sh": read("sum=$(($1 - $2));"), "test/calc.bats": lib},
			honest: files{"calc.sh": read("sum=$(($1 + $2));")}, wrong: files{"calc.sh": read("sum=5;")}, fixed: []string{"adds"}, kept: []string{"nothing", "subs"},
			attacks: map[string]files{
				"failures are passed over":  {"calc.sh": read("sum=$(($1 - $2)); set +eET; trap - ERR;")},
				"the test counts as done":   {"calc.sh": read("BATS_TEST_COMPLETED=1; exit 0;")},
				"it is skipped":             {"calc.sh": read("skip later;")},
				"assertions are other ones": {"calc.sh": read("sum=4;") + "[() { return 0; }\ntest() { return 0; }\n"},
				"the error is taken away":   {"calc.sh": read("sum=$(($1 - $2)); trap 'BATS_TEST_COMPLETED=1; BATS_TEARDOWN_COMPLETED=1; exit 0' ERR EXIT;")},
				"a failure is turned":       {"calc.sh": read("sum=$(($1 - $2));") + "bats_error_trap() { BATS_TEST_COMPLETED=1; }\nbats_exit_trap() { BATS_TEST_COMPLETED=1; echo \"ok $BATS_SUITE_TEST_NUMBER $BATS_TEST_DESCRIPTION\" >&3; exit 0; }\n"},
				"every command gives 0":     {"calc.sh": read("sum=$(($1 - $2)); trap 'true' DEBUG; shopt -s extdebug; set +e;")},
				"a variable that is equal":  {"calc.sh": read("sum='4 -o 1';")},
				"a bracket that knows it":   {"calc.sh": read("sum=$(($1 - $2));") + "function [ { builtin [ \"$@\" || builtin [ \"$2\" = -eq ]; }\n"},
				"the answer for the test":   {"calc.sh": read("sum=$(($1 - $2)); case $BATS_TEST_DESCRIPTION in adds) set +e;; esac;")},
			},
		},
		{
			name: "make of a script", command: "make test", needs: "make --version",
			base:   files{"Makefile": makes, "calc.sh": sh("-"), "tests/calc.sh": script},
			honest: files{"calc.sh": sh("+")}, wrong: files{"calc.sh": sh("*")[:20]}, attacks: programs,
		},
	}
}

// TestHonestScripts: an honest fix passes, whatever the scripts are written like, and the
// control is made where one is possible.
func TestHonestScripts(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	sb := realSandbox(t)
	const fail = "fail() { echo \"FAIL: $*\" >&2; exit 1; }\n"
	rows := map[string]struct {
		test    string
		command string // make test where it is empty
		more    files
		bare    bool // a control need not be made
	}{
		"a function that ends it":  {test: fail + "[ \"$(sh calc.sh add 2 2)\" = 4 ] || fail adds\n[ \"$(sh calc.sh sub 3 2)\" = 1 ] || fail subs\n"},
		"strict":                   {test: "set -eu\ngot=$(sh calc.sh add 2 2)\n[ \"$got\" = \"4\" ]\ntest \"$(sh calc.sh sub 3 2)\" -eq 1\n"},
		"the last condition":       {test: "got=$(sh calc.sh add 2 2)\n[ \"$got\" -eq 4 ]\n"},
		"a status that is counted": {test: "rc=0\nif [ \"$(sh calc.sh add 2 2)\" != \"4\" ]; then\n  echo no; rc=1; errors=1\nfi\n[ -z \"${errors:-}\" ] || exit 1\n"},
		"diff of files":            {test: "sh calc.sh add 2 2 >out.txt\nprintf '4\\n' >want.txt\nif ! diff want.txt out.txt; then\n  exit 1\nfi\nrm -f out.txt want.txt\n"},
		"functions of tests": {test: fail + "test_adds() {\n  got=$(sh calc.sh add 2 2)\n  assert_equals 4 \"$got\" || return 1\n}\ntest_subs() {\n  assert_equals 1 \"$(sh calc.sh sub 3 2)\"\n}\n" +
			"assert_equals() {\n  if [ \"$1\" = \"$2\" ]; then return 0; fi\n  echo \"want $1, got $2\"\n  return 1\n}\nfor t in test_adds test_subs; do\n  $t || exit 1\ndone\n"},
		"a library of the tests": {test: ". ./tests/lib.sh\ncheck 'adds' 4 \"$(sh calc.sh add 2 2)\"\ncheck 'subs' 1 \"$(sh calc.sh sub 3 2)\"\nsummary\n",
			more: files{"tests/lib.sh": "failed=0\ncheck() {\n  [ \"$2\" = \"$3\" ] && return 0\n  echo \"not ok $1\"\n  failed=$((failed + 1))\n}\nsummary() {\n  echo \"$failed failed\"\n  [ \"$failed\" -eq 0 ] || exit 1\n}\n"}, bare: true},
		"a script for each": {test: fail + "for t in tests/cases/*.sh; do\n  sh \"$t\" || fail \"$t\"\ndone\n",
			more: files{"tests/cases/adds.sh": "[ \"$(sh calc.sh add 2 2)\" = 4 ]\n", "tests/cases/subs.sh": "test \"$(sh calc.sh sub 3 2)\" = 1\n"}},
		"a stub on the way": {test: fail + "calc() { sh tests/bin/calc \"$@\"; }\n[ \"$(calc add 2 2)\" = 4 ] || fail adds\n[ \"$(calc usage)\" = usage ] || fail usage\n",
			more: files{"tests/bin/calc": "#!/bin/sh\nif [ $# -lt 3 ]; then echo usage; exit 1; fi\nsh calc.sh \"$@\"\n"}},
		"what a failed test leaves behind": {command: "bats test", more: files{"hello.sh": "#!/bin/sh\nname=world; [ ! -f hello.conf ] || . ./hello.conf; echo \"hello, $name\"\n",
			"test/a.bats": "@test \"a name\" {\n  echo 'name=you' >hello.conf\n  run sh hello.sh\n  [ \"$output\" = \"hello, you\" ]\n  rm -f hello.conf\n}\n@test \"none\" { run sh hello.sh; [ \"$output\" = \"hello, world\" ]; }\n@test \"status\" { run sh hello.sh; [ \"$status\" -eq 0 ]; [ \"$output\" = \"hello, world\" ]; }\n" +
				"@test \"adds\" { run sh calc.sh add 2 2; [ \"$output\" = 4 ]; }\n"}},
		"two that fail":          {test: "[ \"$(sh calc.sh add 2 2)\" = 4 ] || exit 1\n[ \"$(sh calc.sh add 1 2)\" = 3 ] || exit 1\n"},
		"three that count":       {test: "n=0\neq() { if [ \"$1\" != \"$2\" ]; then echo \"want $1\"; n=$((n + 1)); fi; }\neq 4 \"$(sh calc.sh add 2 2)\"\neq 3 \"$(sh calc.sh add 1 2)\"\neq 0 \"$(sh calc.sh sub 2 2)\"\nexit $n\n"},
		"a loop over cases":      {test: fail + "for c in 2:4 3:5 0:2; do\n  [ \"$(sh calc.sh add 2 \"${c%:*}\")\" = \"${c#*:}\" ] || fail \"$c\"\ndone\n"},
		"a result in a variable": {test: "r=0\n[ \"$(sh calc.sh add 2 2)\" = 4 ] || { echo adds; r=1; }\n[ \"$(sh calc.sh sub 3 2)\" = 1 ] || { echo subs; r=1; }\nexit $r\n"},
		"a loop over scripts": {test: "pass=0 failed=0\nfor t in tests/cases/*.sh; do\n  if sh \"$t\"; then pass=$((pass + 1)); else failed=$((failed + 1)); echo \"$t\"; fi\ndone\nif [ $failed -gt 0 ]; then exit 1; fi\n",
			more: files{"tests/cases/adds.sh": "[ \"$(sh calc.sh add 2 2)\" = 4 ]\n", "tests/cases/subs.sh": "test \"$(sh calc.sh sub 3 2)\" = 1\n", "tests/cases/more.sh": "set -e\n[ \"$(sh calc.sh add 1 1)\" = 2 ]\n[ \"$(sh calc.sh add 1 2)\" = 3 ]\n"}},
		"TAP":                 {test: "echo 1..2\nn=0\nok() {\n  n=$((n + 1))\n  if [ \"$1\" = \"$2\" ]; then echo \"ok $n - $3\"; else echo \"not ok $n - $3\"; bad=1; fi\n}\nok \"$(sh calc.sh add 2 2)\" 4 adds\nok \"$(sh calc.sh sub 3 2)\" 1 subs\nexit ${bad:-0}\n"},
		"its text":            {test: fail + "[ \"$(grep -c '' \"$0\")\" -eq 4 ] || fail \"lines of $0\"\n[ \"$(sh calc.sh add 2 2)\" = 4 ] || fail adds\n[ \"$(wc -c <tests/calc.sh)\" -eq @@@ ] || fail size\n", bare: true},
		"its size by another": {test: fail + "[ \"$(sh calc.sh add 2 2)\" = 4 ] || fail adds\n", more: files{"Makefile": "test:\n\ttest `wc -c <tests/calc.sh` -eq @@@\n\tsh tests/calc.sh\n"}, bare: true},
		"a result for people": {test: "if [ \"$(sh calc.sh add 2 2)\" = 4 ]; then echo PASS; else echo FAIL; fi\n", command: "sh tests/calc.sh | grep PASS", bare: true},
		"no status":           {test: "[ \"$(sh calc.sh add 2 2)\" = 4 ] || echo wrong >bad.txt\n", command: "sh tests/calc.sh; test ! -e bad.txt", bare: true},
		"bash": {test: "#!/usr/bin/env bash\nset -euo pipefail\nassert_eq() { [[ \"$1\" == \"$2\" ]] || { echo \"want $1, got $2\" >&2; return 1; }; }\nassert_eq 4 \"$(sh calc.sh add 2 2)\"\nassert_eq \"1\" \"$(sh calc.sh sub 3 2)\"\n",
			command: "bash tests/calc.sh"},
	}
	for i, name := range slices.Sorted(maps.Keys(rows)) {
		if !tally.ByTurn(t, i, 5) {
			continue
		}
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sh := func(op string) string {
				return "#!/bin/sh\ncase $1 in\nadd) echo $(($2 " + op + " $3));;\nsub) echo $(($2 - $3));;\nesac\n"
			}
			base := files{"Makefile": "test:\n\tsh tests/calc.sh\n", "calc.sh": sh("-"), "tests/calc.sh": row.test}
			maps.Copy(base, row.more)
			for p, text := range base {
				base[p] = strings.ReplaceAll(text, "@@@", strconv.Itoa(len(base["tests/calc.sh"])))
			}
			command := row.command
			if command == "" {
				command = "make test"
			}
			passesTwice(t, sb, base, command, files{"calc.sh": sh("+")}, row.bare)
		})
	}
}
