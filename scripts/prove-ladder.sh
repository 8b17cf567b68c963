#!/usr/bin/env bash
# Takes fake, command and every installed agent up the ladder with the scripted
# model, on throw-away repositories, and prints the control summary.
#   scripts/prove-ladder.sh [ENGINE…]     default: every engine; acp is acp:PROGRAM
# REMIT is the program (default bin/remit), REMIT_HOME where the proofs are kept
# (default: a directory that is removed), THROUGH the last stage (default 6).
# Exit code 0: stages 1 to 3 are proven for every engine that is installed. A stage
# that this version cannot prove is blocked, and its reason is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
remit=${REMIT:-bin/remit}
through=${THROUGH:-6}
if [ -z "${REMIT_HOME:-}" ]; then
  REMIT_HOME=$(mktemp -d)
  trap 'rm -rf "$REMIT_HOME"' EXIT
fi
export REMIT_HOME
if [ -z "${REMIT_AGENTS:-}" ] && [ -d .tools/agents ]; then
  export REMIT_AGENTS=$PWD/.tools/agents
fi
needed=3
[ "$through" -ge "$needed" ] || needed=$through
[ $# -gt 0 ] || set -- fake command codex claude pi case acp:codex-acp acp:claude-agent-acp

failed=0
for word in "$@"; do
  engine=${word%%:*}
  agent=()
  [ "$engine" = "$word" ] || agent=(-- "${word#*:}")
  flags=()
  if [ "$engine" != fake ] && [ "$engine" != command ]; then
    flags=(--scripted)
    bin=()
    [ ${#agent[@]} -eq 0 ] || bin=(--bin "${agent[1]}")
    if ! said=$("$remit" admit source --engine "$engine" "${bin[@]}" --decision admitted --reason 'climbs the ladder with a scripted model' 2>&1); then
      echo "$word: blocked, it is not installed: ${said%%$'\n'*}"
      continue
    fi
  fi
  began=$SECONDS
  "$remit" ladder prove --engine "$engine" "${flags[@]}" --through "$through" "${agent[@]}" 2>"$REMIT_HOME/prove.log" || true
  echo "$word: $((SECONDS - began)) s"
  # What is proven is asked again: it then takes no run.
  if ! "$remit" ladder prove --engine "$engine" "${flags[@]}" --through "$needed" "${agent[@]}" >/dev/null 2>&1; then
    failed=1
    echo "$word: stage $needed is not proven" >&2
    tail -n 20 "$REMIT_HOME/prove.log" >&2
  fi
done
"$remit" ladder status
exit $failed
