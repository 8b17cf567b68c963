#!/usr/bin/env bash
# Hold our attestations against the libraries of others: go-securesystemslib for the
# envelopes, in-toto's own types for the statements, ssh-keygen for the receipt,
# OpenTelemetry's types for an export of traces, go-junit and go-sarif for tests and findings,
# the SDK of CloudEvents for the events, go-nostr for what is published at relays. They live in a module of their own (tools/interop),
# so that the program depends on none.
#
#   scripts/interop.sh        needs the Go module proxy, git, bubblewrap
#
# It is not part of the tests: what cannot be had is SKIPPED, loudly, with exit code 0.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'interop: %s\n' "$*"; }

top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
if ! (cd tools/interop && go build -o "$top/interop" . 2>"$top/why"); then
  say "SKIPPED: the libraries of tools/interop cannot be had:"
  tail -n 3 "$top/why"
  exit 0
fi
CGO_ENABLED=0 go build -o "$top/remit" ./cmd/remit
export REMIT_HOME=$top/home GIT_CONFIG_NOSYSTEM=1 HOME=$top
mkdir -m 700 "$top/home"
git init -q -b main "$top/src"
printf 'a\n' >"$top/src/a.txt"
printf 'export: {actions: [relay_publish]}\n' >"$top/src/remit.yaml"
git -C "$top/src" add a.txt remit.yaml
git -C "$top/src" -c user.name=x -c user.email=x@localhost commit -q -m base
remit=$top/remit
"$remit" run --repo "$top/src" --allow a.txt --verify 'grep -q good a.txt' -- sh -c 'echo good > a.txt' >"$top/run.log" 2>&1 || {
  cat "$top/run.log"
  exit 2
}
"$remit" export latest --to attestation --out "$top/out" >/dev/null
for format in otlp junit sarif; do
  "$remit" export latest --to "$format" --out "$top/run.$format" >/dev/null
  "$top/interop" "$format" "$top/run.$format"
  if "$top/interop" "$format" "$top/signers" 2>/dev/null; then
    say "what is no $format was read as one"
    exit 2
  fi
done
"$remit" export latest --to dir --out "$top" >/dev/null
bundle=$(echo "$top"/.autopilot/sessions/*)
"$top/interop" cloudevents "$bundle/events.normalized.jsonl"
"$remit" keys show | sed -n 's/^allowed_signers *//p' >"$top/signers"
"$top/interop" "$top/signers" "$bundle/patch.diff" "$top"/out/*.intoto.jsonl
printf 'x' >>"$bundle/patch.diff"
if "$top/interop" "$top/signers" "$bundle/patch.diff" "$top"/out/*.intoto.jsonl 2>/dev/null; then
  say "another patch was accepted"
  exit 2
fi
"$remit" bridge relay --changes --listen 127.0.0.1:0 --json >"$top/relay.json" &
relay=$!
trap 'kill "$relay" 2>/dev/null || true; rm -rf "$top"' EXIT
for _ in $(seq 100); do
  [ -s "$top/relay.json" ] && break
  sleep 0.1
done
url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$top/relay.json")
(umask 077; printf '%064d\n' 7 >"$top/nostr.key")
pubkey=$("$remit" export latest --to nip34 --relay "$url" --key-file "$top/nostr.key" --json | sed -n 's/.*"pubkey": *"\([^"]*\)".*/\1/p')
# A change that is too large for a patch is a pull request, and its follow-up an update of that.
large() { "$remit" run --repo "$top/src" --allow a.txt --verify 'grep -q good a.txt' "$@" >"$top/run.log" 2>&1 || {
  cat "$top/run.log"
  exit 2
}; "$remit" export latest --to nip34 --relay "$url" --key-file "$top/nostr.key" --clone https://git.example/src.git >/dev/null; }
large -- sh -c 'echo good > a.txt; seq 20000 >> a.txt'
large --continue latest --message more -- sh -c 'echo more >> a.txt'
"$top/interop" nostr "$url" "$pubkey"
if command -v ssh-keygen >/dev/null; then
  ssh-keygen -Y verify -f "$top/signers" -I "$(cut -d' ' -f1 "$top/signers")" -n remit-receipt -s "$bundle/RECEIPT.json.sig" <"$bundle/RECEIPT.json"
else
  say "SKIPPED: ssh-keygen is not installed"
fi
say "ok"
