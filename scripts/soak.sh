#!/usr/bin/env bash
# The loops that `make test` runs in a short version, for SOAK_TIME (10m, 1h30m):
#
#   first third  the crash loop: a kill at every journal entry and place, kills of
#                the resumption, kills at random moments until the time is up, two
#                processes on one session, disks that fill up or are read-only,
#                hostile repositories; as root and as an ordinary user
#   second       the authority under fire: a nexus on SQLite and its providers are
#                killed until the time is up; at the same time two replicas on
#                PostgreSQL and three providers, until 500 jobs are settled
#   last         the published agents that are installed, each against every fault
#                of a model; then once every variant of every class of cheats and
#                every honest change; then the escape suite, the cheat corpus, random
#                cheats (REMIT_ADVERSARY, default 500; a seed that is printed, and new
#                in each round) and the failure matrix with both engines, again and again
#
# A round that has begun is ended, so it takes a little longer. Tables and totals
# come last; the exit code is 1 when anything did not hold.
set -euo pipefail
cd "$(dirname "$0")/.."
soak_time=${SOAK_TIME:-10m}
[[ $soak_time =~ ^([0-9]+h)?([0-9]+m)?([0-9]+s)?$ && -n $soak_time ]] || {
  echo "soak: SOAK_TIME=$soak_time is no duration like 10m or 1h30m" >&2
  exit 1
}
hours=${BASH_REMATCH[1]%h} minutes=${BASH_REMATCH[2]%m} seconds=${BASH_REMATCH[3]%s}
total=$((${hours:-0} * 3600 + ${minutes:-0} * 60 + ${seconds:-0}))
third=$((total / 3))

scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
export REMIT_HOME=$scratch/home REMIT_TURN=all
CGO_ENABLED=0 go build ${TRIMPATH--trimpath} -o "$scratch/summary" scripts/test-summary.go

# tests runs go test; a failure is remembered, and the loops go on.
tests() { go test -count=1 -json "$@" || touch "$scratch/failed"; }

rounds() {
  local begun=$SECONDS round=0
  REMIT_SOAK=${third}s tests -timeout 0 \
    -run '^(TestKilled|TestTwoProcesses|TestHomeFillsUp|TestReadOnlyHome|TestGit|TestAttributes|TestShippedProgram|TestAsOrdinaryUser)' ./cmd/remit
  echo "soak: the crash loop took $((SECONDS - begun)) s" >&2
  begun=$SECONDS
  REMIT_SOAK=${third}s tests -timeout 0 -run '^TestUnderFire' ./cmd/remit
  echo "soak: the fire took $((SECONDS - begun)) s" >&2
  begun=$SECONDS
  REMIT_SOAK=${third}s tests -timeout 30m -run '^TestEngines$' ./cmd/remit
  echo "soak: the agents took $((SECONDS - begun)) s" >&2
  # What make test tries by turn.
  tests -timeout 60m -run '^Test(Scripts|Fixtures|TenMergeRequests|CheckPatches|CheckPullRequest|PullRequest)$' ./cmd/remit
  REMIT_SOAK=${third}s tests -timeout 30m -run '^TestBrowser' ./nexus/panel # with axe on every page at three widths; on PostgreSQL and two replicas too
  local corpora=$SECONDS
  REMIT_CHEATS=all REMIT_HONEST=all tests -timeout 90m -run '^Test' ./work/verify
  REMIT_CHEATS=all tests -timeout 30m -run '^TestPostgresInARun$' ./work/harness
  REMIT_CHEATS=all tests -timeout 30m -run 'Sabotage$' ./work/verify/twin
  REMIT_CHEATS=all tests -timeout 30m -run '^Test.*(Layer|Checksum)$' ./work/depend
  echo "soak: the corpora took $((SECONDS - corpora)) s" >&2
  while [ $round = 0 ] || [ $((SECONDS - begun)) -lt $third ]; do
    round=$((round + 1))
    echo "soak: round $round of the suites" >&2
    REMIT_SOAK=${third}s tests -timeout 30m -run '^Test' ./work/sandbox
    REMIT_CHEATS=all tests -timeout 30m -run '^TestCheatCorpus$' ./work/verify
    REMIT_ADVERSARY=${REMIT_ADVERSARY:-500} tests -timeout 60m -run '^TestAdversary$' ./work/verify
    REMIT_SOAK=${third}s tests -timeout 30m -run '^TestMatrixHolds' ./work/matrix
  done
}

echo "soak: $soak_time, the loops begin" >&2
rounds </dev/null | "$scratch/summary"
[ ! -e "$scratch/failed" ] || {
  echo "soak: a go test failed although every test that ended passed" >&2
  exit 1
}
