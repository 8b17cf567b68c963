#!/usr/bin/env bash
# Install the coding agents that Remit is tested with: exact versions, from the
# npm registry, each in a directory of its own below .tools/agents (or
# $REMIT_AGENTS). Nothing global is touched, no install script of a package is
# run, no agent is started. What is there in the right version is left alone.
#
#   scripts/agents.sh             all
#   scripts/agents.sh pi codex    only these
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${REMIT_AGENTS:-$PWD/.tools/agents}

say() { printf 'agents: %s\n' "$*"; }
die() {
  printf 'agents: %s\n' "$*" >&2
  exit 1
}

# packages AGENT: the agent's own package first. The parts of Pi ask each other
# for ranges, so they are named too.
packages() {
  case $1 in
    pi)
      printf '@mariozechner/pi-%s@0.73.1\n' coding-agent agent-core ai tui
      ;;
    codex) echo @openai/codex@0.169.0 ;;
    claude) echo @anthropic-ai/claude-code@2.1.329 ;;
    acp) printf '@agentclientprotocol/%s\n' codex-acp@2.6.0 claude-agent-acp@0.49.0 ;;
    *) die "unknown agent '$1' (pi, codex, claude or acp)" ;;
  esac
}

# options AGENT: of npm. Each adapter would bring its own build of the agent that
# it drives, of hundreds of megabytes; it gets the one that is installed here.
options() {
  [ "$1" != acp ] || echo --omit=optional
}

# native AGENT: the program that only the package of this platform has.
native() {
  local arch
  case $(uname -m) in
    x86_64) arch=x64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) die "no agent has a program for $(uname -m)" ;;
  esac
  case $1 in
    pi) echo '@mariozechner/pi-coding-agent/dist/cli.js' ;;
    codex) echo "@openai/codex-linux-$arch/vendor/*/bin/codex" ;;
    claude) echo "@anthropic-ai/claude-code-linux-$arch*/claude" ;;
    acp) echo '@agentclientprotocol/codex-acp/dist/index.js' ;;
  esac
}

# version DIR: of the package in a directory, nothing if there is none.
version() {
  [ -f "$1/package.json" ] || return 0
  sed -n 's/^[[:space:]]*"version": *"\([^"]*\)".*/\1/p' "$1/package.json" | head -n 1
}

# ready AGENT NODE_MODULES: every pinned version and the program are there.
ready() {
  local package
  while read -r package; do
    [ "$(version "$2/${package%@*}")" = "${package##*@}" ] || return 1
  done < <(packages "$1")
  compgen -G "$2/$(native "$1")" >/dev/null
}

install() {
  local agent=$1 dir=$prefix/$1 pins options log
  if ready "$agent" "$dir/node_modules" || ready "$agent" "$prefix/node_modules"; then
    say "$(packages "$agent" | head -n 1) is there"
    return
  fi
  command -v npm >/dev/null || die "npm is not installed: it comes with Node.js (https://nodejs.org), 20.6 or newer for pi"
  mapfile -t pins < <(packages "$agent")
  mapfile -t options < <(options "$agent")
  say "installing ${pins[0]}"
  rm -rf "$dir"
  mkdir -p "$dir"
  log=$dir/npm.log
  # Outside any project of ours: npm would look upwards for a package.json.
  if ! (cd "$dir" && npm install --prefix "$dir" --no-save --no-package-lock --ignore-scripts --no-audit --no-fund \
    --no-update-notifier --loglevel error "${options[@]}" "${pins[@]}" </dev/null >"$log" 2>&1); then
    tail -n 20 "$log" >&2
    die "npm could not install ${pins[0]}"
  fi
  ready "$agent" "$dir/node_modules" || die "npm installed something else than ${pins[*]}: see $log"
  say "${pins[0]} installed, $(du -sh "$dir" | cut -f 1)"
}

[ "$(uname -s)" = Linux ] || die "agents run in the sandbox, which needs Linux"
[ $# -gt 0 ] || set -- pi codex claude acp
for agent in "$@"; do
  packages "$agent" >/dev/null
done
for agent in "$@"; do
  install "$agent"
done
