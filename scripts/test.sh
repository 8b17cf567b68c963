#!/usr/bin/env bash
# Vet, all Go tests with the race detector, and the second verifier over the
# vectors. Ends with what was skipped and why, and one line of counts.
# Arguments, if any, are packages instead of ./...
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./...

race=()
if CGO_ENABLED=1 go env CC >/dev/null 2>&1 && command -v "$(go env CC)" >/dev/null 2>&1; then
  race=(-race)
  export CGO_ENABLED=1
else
  echo "test: NO RACE DETECTOR: it needs a C compiler, and $(go env CC) is not installed" >&2
fi

go vet "$@"

# What a test leaves behind must not outlive the run, and the caller's own
# sessions must not be seen by it.
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
export REMIT_HOME=$scratch/home

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

set +e
{
  go test "${race[@]}" -timeout "${TEST_TIMEOUT:-8m}" -json "$@" </dev/null
  echo $? >"$scratch/go"
  second_verifier
} | "$scratch/summary"
summary=$?
set -e
go=$(cat "$scratch/go")
if [ "$go" != 0 ] && [ $summary = 0 ]; then
  echo "test: go test exited $go although no test failed" >&2
  exit 1
fi
exit $summary
