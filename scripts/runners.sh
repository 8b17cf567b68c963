#!/usr/bin/env bash
# Install the test runners of npm that the verifier is tried with (mocha, jest,
# vitest, bun, deno) into .tools/runners (or $REMIT_RUNNERS): the versions that
# scripts/runners/package-lock.json pins, each package by its hash, no install
# script run. Nothing global is touched. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${REMIT_RUNNERS:-$PWD/.tools/runners}
what="mocha, jest, vitest, bun and deno"

say() { printf 'runners: %s\n' "$*"; }
die() {
  printf 'runners: %s\n' "$*" >&2
  exit 1
}

if cmp -s scripts/runners/package-lock.json "$dir/package-lock.json" && [ -e "$dir/.installed" ]; then
  say "$what are there"
  exit
fi
command -v npm >/dev/null || die "npm is not installed: it comes with Node.js (https://nodejs.org), 20.6 or newer"
rm -rf "$dir"
mkdir -p "$dir"
cp scripts/runners/package.json scripts/runners/package-lock.json "$dir"
say "installing $what"
if ! (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error \
  </dev/null >npm.log 2>&1); then
  tail -n 20 "$dir/npm.log" >&2
  die "npm could not install what scripts/runners/package-lock.json names"
fi
touch "$dir/.installed"
say "installed, $(du -sh "$dir" | cut -f 1)"
