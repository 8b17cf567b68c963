package twin

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// batsProject is a test file with what people write for bats.
const batsProject = `#!/usr/bin/env bats
# bats file_tags=cart

setup() {
  upper() { printf '%s\n' "$1" | tr a-z A-Z; }
  [ -n "$BATS_TEST_TMPDIR" ]
  cd "$BATS_TEST_TMPDIR"
}

assert_output() {
  if [ "$1" = --partial ]; then
    case $output in *"$2"*) return 0;; esac
    return 1
  fi
  [ "$output" = "$1" ] || { echo "want $1, got $output" >&2; return 1; }
}
assert_equal() { [ "$1" == "$2" ]; }
assert_success() { [ "$status" -eq 0 ]; }
assert_failure() { if [ $# -gt 0 ]; then [ "$status" -eq "$1" ]; else [ "$status" -ne 0 ]; fi; }
refute_output() { [ "$output" != "$1" ]; }
flunk() { echo "$1" >&2; return 1; }

@test "single brackets" {
  run upper ab
  [ "$status" -eq 0 ]
  [ "$output" = "AB" ]
  [ "${lines[0]}" = 'AB' ]
  test "$output" != "ab"
}

@test 'double brackets' {
  run upper "a b"
  [[ $status == 0 ]]
  [[ "$output" == "A B" ]]
  [[ "$output" == *"B"* ]]
  [[ $output == A* && $output == *B ]]
  [[ ! $output == "x" ]]
  [[ "$output" =~ ^A ]]
  (( status == 0 ))
  ((status==0))
}

@test "assertions" {
  run upper ab
  assert_success
  assert_output "AB"
  assert_output --partial "A"
  assert_equal "$output" "AB"
  refute_output "ab"
  run false
  assert_failure
  assert_failure 1
}

@test "commands" {
  upper ab > out
  grep -q "AB" out
  grep -q AB out
  upper ab | grep -q AB
  printf 'AB\n' > want
  diff want out
  cmp -s want out
}

@test "conditions" {
  upper ab > out
  [ -s out ] || flunk "nothing there"
  if ! grep -q AB out; then
    flunk "no AB"
  fi
  if grep -q XY out; then
    false
  else
    [ -f out ]
  fi
  for word in a b; do
    [ "$(upper $word)" != "$word" ]
  done
  [ -f out ] && [ -s out ]
  ( cd / && [ "$PWD" = "/" ] )
  [ -e missing ] || true
}

@test "on one line" { run upper q; [ "$output" = Q ]; }

@test "the last one is false where it fails" {
  upper a
  [ -f x ] && true || [ 1 -eq 1 ]
}

@test "not everywhere" {
  [ 1 -eq 1 ]
  if [ -n "${NEVER:-}" ]; then
    skip "not now"
  fi
  command -v sh >/dev/null || skip
  [ 1 -eq 1 ]
}

@test "run with a status" {
  bats_require_minimum_version 1.5.0 2>/dev/null || true
  run -0 upper ab
  run ! false
  run -1 false
}

@test "with set -u and a here document" {
  set -u
  cat > in <<EOT
}
  @tested "no" {
EOT
  [ "$(wc -l < in)" -eq 2 ]
}

@test "other IFS" {
  IFS=0123456789
  [ "$(upper x)" = "X" ]
}`

// ranBats runs a file and returns which tests have passed.
func ranBats(t *testing.T, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cart.bats"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runTool(t, dir, "bats", "-t", "cart.bats")
	passed = map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(not )?ok \d+ (.*?)( # skip.*)?$`).FindAllStringSubmatch(out, -1) {
		passed[m[2]] = m[1] == ""
	}
	return passed, out
}

// TestBatsRun: neutral edits change no verdict, and each sabotage makes its test fail and
// no other.
func TestBatsRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	needTool(t, "bats")
	f, err := ParseShell("test/cart.bats", []byte(batsProject))
	if err != nil {
		t.Fatal(err)
	}
	triesAll(t, f, func(text []byte) (map[string]bool, string) { return ranBats(t, text) })
}

// shScripts are scripts that test something, each for a shell.
var shScripts = map[string]string{
	"counts": `#!/bin/sh
# Counts what is wrong.
fails=0
check() {
	if [ "$2" != "$3" ]; then
		echo "FAIL $1: want $2, got $3" >&2
		fails=$((fails + 1))
	fi
}
upper() { printf '%s\n' "$1" | tr a-z A-Z; }
check "upper" "AB" "$(upper ab)"
check 'a number' 4 "$(expr 2 + 2)"
[ "$(upper x)" = "X" ] || fails=$((fails + 1))
upper q | grep -q Q || { echo "no Q"; fails=$((fails + 1)); }
if ! upper q | grep Q >/dev/null; then
	fails=$((fails+1))
fi
case $(upper a) in A) ;; *) fails=$((fails + 1)) ;; esac
i=0
while [ $i -lt 3 ]; do
	[ "$i" -lt 3 ] || fails=$((fails + 1))
	i=$((i + 1))
done
if [ "$fails" -gt 0 ]; then
	echo "$fails failed"
	exit 1
fi
echo passed
`,
	"strict": `#!/bin/sh -eu
out=$(printf 'ab\n' | tr a-z A-Z)
[ "$out" = "AB" ]
test "$out" != ab
printf '%s\n' "$out" > /dev/null
printf '%s\n' "$out" | grep -q AB
[ -n "$out" ] && true
false || [ 1 -eq 1 ]
if [ -z "${NEVER:-}" ]; then
  [ "$out" = AB ]
fi
! [ "$out" = "x" ]
[ "$out" = "AB" ] && [ -n "$out" ]
`,
	"exits": `die() { echo "$*" >&2; exit 1; }
got=$(echo a)
[ "$got" = "a" ] || die "want a"
[ "$got" = b ] && die "b"
test_returns() {
  [ "$got" = "a" ] || return 1
  if [ "$got" = "b" ]; then
    return 1
  fi
  return 0
}
test_returns || exit 1
test_more() {
  test_returns || return 2
  [ "$got" != "b" ] || die "b"
}
test_more || die "more"
exit 0`,
	"last": `got=$(echo a)
errors=0
[ "$got" = "a" ] || errors=1
[ "$errors" -eq 0 ]
`,
	"bash": `#!/usr/bin/env bash
set -euo pipefail
declare -A seen=()
pass=0 failed=0
assert_eq() {
  local want=$1 got=$2
  if [[ "$want" == "$got" ]]; then
    ((++pass))
  else
    echo "not ok: want $want, got $got"
    ((++failed))
  fi
}
assert_eq "a b" "$(echo a b)"
assert_eq 3 $((1 + 2))
[[ $(echo abc) == a* ]]
[[ "x" =~ ^x$ && $(echo y) == "y" ]]
(( pass == 2 ))
diff <(echo a) <(echo a)
while read -r line; do
  [[ $line == word* ]]
done <<'EOT'
word one
word [ two
EOT
seen[a]=1
[[ ${seen[a]} -eq 1 ]]
exit $((failed > 0))
`,
}

// TestScriptRun: neutral edits change nothing of what a script does, and each sabotage makes
// it fail.
func TestScriptRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needTool(t, "bash")
	for name, src := range shScripts {
		for _, shell := range []string{"sh", "bash"} {
			if name == "bash" && shell == "sh" {
				continue
			}
			t.Run(name+" "+shell, func(t *testing.T) {
				t.Parallel()
				f, err := ParseShell("tests/"+name+".sh", []byte(src))
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				run := func(text []byte) (ok bool, out string) {
					if err := os.WriteFile(filepath.Join(dir, "t.sh"), text, 0o600); err != nil {
						t.Fatal(err)
					}
					args := []string{"t.sh"}
					if strings.HasPrefix(src, "#!/bin/sh -eu") {
						args = []string{"-eu", "t.sh"}
					}
					out = runTool(t, dir, "sh", "-c", shell+` "$@" 2>&1; echo "status $?"`, "sh", args[0], strings.Join(args[1:], ""))
					return strings.Contains(out, "status 0\n"), out
				}
				_, plain := run([]byte(src))
				sites := 0
				for n := range 6 {
					if ok, out := run(mustEdit(t, f, Orders{Seed: seed(n)})); !ok || out != plain {
						t.Fatalf("neutral, seed %d: %s\n%s", n, out, mustEdit(t, f, Orders{Seed: seed(n)}))
					}
				}
				at := filepath.Join(dir, "trace")
				if ok, out := run(mustEdit(t, f, Orders{Seed: seed(1), Trace: at, Key: "k"})); !ok || out != plain {
					t.Fatalf("traced: %s", out)
				}
				read, err := os.Open(at)
				if err != nil {
					t.Fatal(err)
				}
				defer read.Close()
				trace, err := ReadTrace(read)
				if err != nil {
					t.Fatal(err)
				}
				var lost []string
				for _, test := range f.Tests() {
					if got := trace.Files["k"].Tests[test.Trace]; got.Fail > 0 || got.Pass == 0 && strings.HasPrefix(test.Name, "main") {
						t.Errorf("%s is traced as %+v", test.Name, got)
					}
					for _, site := range test.Sites {
						sites++
						seen := trace.Files["k"].Sites[site.ID]
						if (site.Certain && seen == nil) || seen != nil && len(seen.Failed) > 0 {
							t.Errorf("%s: site %+v is traced as %+v", test.Name, site, seen)
						}
						for n := range 3 {
							if !tally.ByTurn(t, sites+n, sabotageTurns) {
								continue
							}
							text := mustEdit(t, f, Orders{Seed: seed(100 + n), Sabotage: map[string]Order{test.Name: {Site: site.ID}}})
							if ok, out := run(text); ok {
								lost = append(lost, fmt.Sprintf("%s: %s, line %d", test.Name, site.Kind, site.Line))
								t.Logf("%s\n%s", out, text)
								break
							}
						}
					}
				}
				slices.Sort(lost)
				if len(lost) > 0 || sites < 4 {
					t.Errorf("of %d sites these do not fail: %q", sites, lost)
				}
			})
		}
	}
}
