#!/usr/bin/env bash
# The Go tests, and the second verifier over the vectors. Long tests go by turn, so that a
# run takes minutes: each run tries another part of them. REMIT_TURN=all tries everything,
# with the race detector too; with --race only what the detector is for is tested, with it.
# Ends with what was skipped and why, and one line of counts.
# Arguments, if any, are packages instead of ./...
set -euo pipefail
cd "$(dirname "$0")/.."
detector=
if [ "${1:-}" = --race ]; then
  detector=only
  shift
fi
[ $# -gt 0 ] || set -- ./...

# No debugger reads these programs. Without its tables the compiler takes four
# fifths of the time, the linker two thirds; a panic names its lines all the same.
lean=-dwarf=false

# SQLite, as Go made from C, takes many times as long with the detector, and so
# does the arithmetic of signatures; neither shares memory with our goroutines.
# Only packages without generic code can be left out: the linker takes one copy
# of a generic function for all, and without its marks locks seem to be missing.
alien=()
for packages in modernc.org/sqlite/lib github.com/decred/... github.com/btcsuite/...; do
  alien+=("-gcflags=$packages=-race=false $lean")
done

# The turn comes from the commit: the same again for the same commit, another for the next.
head=$(git rev-parse --verify -q HEAD 2>/dev/null || echo $RANDOM)
turn=${REMIT_TURN:-$((16#${head:0:7}))}
export REMIT_TURN=$turn
[ "$turn" != all ] || detector=${detector:-all}

# Where there is memory, compilers collect no garbage, which is a fifth of their time. The
# tests do.
compile=()
free=$(scripts/free-memory.sh)
[ "$free" -lt 10 ] || compile=(-toolexec "env GOGC=off")

race=()
if [ -n "$detector" ] && CGO_ENABLED=1 go env CC >/dev/null 2>&1 && command -v "$(go env CC)" >/dev/null 2>&1; then
  race=(-race "-gcflags=all=$lean" "${alien[@]}")
  export CGO_ENABLED=1
elif [ -n "$detector" ]; then
  echo "test: NO RACE DETECTOR: it needs a C compiler, and $(go env CC) is not installed" >&2
fi

# What a test leaves behind must not outlive the run, and the caller's own
# sessions must not be seen by it.
scratch=$(mktemp -d)
trap 'umount -l "$scratch" 2>/dev/null; chmod -R u+w "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
# The tests make and remove some hundred thousand small files, which costs a third
# of their system time on a disk. What links programs is large, and stays there.
if [ "$free" -ge 12 ] &&
  mount -t tmpfs -o size=8g,mode=1777 remit-test "$scratch" 2>/dev/null; then
  export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} TMPDIR=$scratch
fi
export REMIT_HOME=$scratch/home
# Every process with the detector sleeps for a second before it ends, in case a
# thread still runs. A test waits for its goroutines itself.
export GORACE="${GORACE:-} atexit_sleep_ms=0"

# A python3 of a version manager (pyenv, asdf) is a script that starts a dozen programs
# before the interpreter. The tests start python3 some hundred times: they get the
# interpreter that the script would choose.
if python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && [ -x "$python" ]; then
  mkdir "$scratch/bin"
  ln -s "$python" "$scratch/bin/python3"
  export PATH=$scratch/bin:$PATH
fi

# The builds of the tests share what the program is made of: they have the flags of scripts/build.sh.
export GOFLAGS="${GOFLAGS:-} ${TRIMPATH--trimpath}"
CGO_ENABLED=0 go build -o "$scratch/summary" scripts/test-summary.go

# The second verifier shares no code with the first: if they disagree, this
# fails. It reports like a Go test, so that it is counted like one.
second_verifier() {
  local outcome=pass
  if ! python3 vectors/verify.py --self-test vectors >"$scratch/second" 2>&1; then
    outcome=fail
    python3 - "$scratch/second" <<'PY'
import json, sys

for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    print(json.dumps({"Action": "output", "Package": "vectors", "Test": "verify.py", "Output": line}))
PY
  fi
  printf '{"Action":"%s","Package":"vectors","Test":"verify.py"}\n{"Action":"%s","Package":"vectors"}\n' $outcome $outcome
}

# The detector finds nothing where there is one goroutine, and costs several times
# the computing. Which packages are tested with it is said by packages, in the first
# line of one of their test files, with the reason:
#   (no mark)                 with the detector
#   //test:plain-package WHY  without it, as the package is shipped
#   //test:both-package WHY   without it, and then with it but for its test files that have
#                             "//go:build !race": what they do has one goroutine, and is long
# TestDetectorMarks of the root package holds the marks against the files.
marked() { grep -rlE "^//test:$1 [A-Z]" --include='*_test.go' . | sed -E 's|^\./||; s|(^\|/)[^/]*$||; s|^.|/&|; s|^|remit|' | sort -u; }

# tests runs go test; a failure is remembered. scripts/lint.sh vets.
tests() {
  nice -n "${priority:-0}" go test "${compile[@]}" -vet=off -ldflags=-w -timeout "${TEST_TIMEOUT:-45m}" -json "$@" </dev/null || echo $? >"$scratch/failed"
}

packages=$(go list "$@" | sort -u)
mapfile -t packages <<<"$packages"
set +e
{
  plain=("${packages[@]}") raced=()
  if [ ${#race[@]} != 0 ]; then
    mapfile -t raced < <(comm -23 <(printf '%s\n' "${packages[@]}") <(marked plain-package))
    mapfile -t plain < <(comm -12 <(printf '%s\n' "${packages[@]}") <(sort -u <(marked plain-package) <(marked both-package)))
    [ "$detector" = all ] || plain=()
  fi
  # Many tests wait, for leases and for programs that hang, so more of them go on
  # at a time than there are cores: the second pass is compiled and tested where the
  # first one leaves time, and shown behind it. What does not build is reported by
  # its test.
  [ ${#raced[@]} = 0 ] || {
    nice go build "${compile[@]}" "${race[@]}" -o /dev/null "${raced[@]}" </dev/null >/dev/null 2>&1
    priority=3 tests "${race[@]}" "${raced[@]}"
  } >"$scratch/raced" &
  [ ${#plain[@]} = 0 ] || CGO_ENABLED=0 tests -parallel 4 "${plain[@]}"
  wait $!
  [ ! -e "$scratch/raced" ] || cat "$scratch/raced"
  second_verifier
} | "$scratch/summary"
summary=$?
set -e
if [ -e "$scratch/failed" ] && [ $summary = 0 ]; then
  echo "test: go test exited $(cat "$scratch/failed") although no test failed" >&2
  exit 1
fi
exit $summary
