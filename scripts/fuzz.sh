#!/usr/bin/env bash
# Run every fuzz target for a while each: FUZZTIME=10s scripts/fuzz.sh [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./...
targets=0
while read -r package; do
  while read -r target; do
    case $target in Fuzz*) ;; *) continue ;; esac
    targets=$((targets + 1))
    printf '==> %s %s\n' "$package" "$target"
    # The minimizer can stall on large inputs; a few tries are enough to read them.
    go test -run "^$" -fuzzminimizetime 5x -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
  done < <(go test -list '^Fuzz' "$package")
done < <(go list "$@")
[ $targets -gt 0 ] || {
  echo "fuzz: no fuzz target found" >&2
  exit 1
}
echo "fuzz: $targets targets, nothing found"
