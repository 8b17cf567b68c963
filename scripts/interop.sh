#!/usr/bin/env bash
# Hold our attestations against the libraries of others: go-securesystemslib and sigstore-go
# for the envelopes, in-toto's own types for the statements, ssh-keygen for the receipt, each
# with bytes that are another, too; OpenTelemetry's types for an export of traces, go-junit and go-sarif for tests and findings,
# the SDK of CloudEvents for the events, go-nostr for what is published at relays. They live in a module of their own (tools/interop),
# so that the program depends on none.
#
#   scripts/interop.sh        needs the Go module proxy, git, bubblewrap
#   REMIT_INTEROP_COSIGN=build scripts/interop.sh
#                             and cosign, which is built first (twenty minutes, 3 GB of modules);
#                             with the path of one in the place of build, that one
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
cosign=${REMIT_INTEROP_COSIGN:-}
if [ "$cosign" = build ]; then
  cosign=$top/bin/cosign
  CGO_ENABLED=0 GOBIN=$top/bin go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 2>"$top/why" || {
    say "SKIPPED: cosign cannot be built:"
    tail -n 3 "$top/why"
    cosign=
  }
elif [ -z "$cosign" ]; then
  say "SKIPPED: cosign: REMIT_INTEROP_COSIGN is neither build nor the path of one"
fi
if [ -n "$cosign" ]; then
  # The lines that docs/formats.md has for it, as they stand: the key as PEM, then cosign.
  mkdir "$top/read" "$top/read/bin"
  ln -s "$(realpath "$cosign")" "$top/read/bin/cosign"
  awk -v to="$top/read/block" '/^## /{on = /read by cosign/} on && /^```$/{out = ""} out{print > out} on && /^```sh$/{out = to (++n)}' docs/formats.md
  (cd "$top/read" && PATH=$top/read/bin:$top:$PATH && sh -e block1 && sh -e block2 2>said && grep -q 'Verified OK' said) || {
    say "what docs/formats.md says about cosign does not work:"
    cat "$top/read/said"
    exit 2
  }
  python3 - "$cosign" "$top" "$bundle/patch.diff" <<'PY'
import base64, glob, json, subprocess, sys

cosign, top, patch = sys.argv[1:]
lines = open(top + "/read/signer.pem").read().splitlines()
der = base64.b64decode(lines[1])
with open(top + "/other.pem", "w") as out:
    out.write("\n".join([lines[0], base64.b64encode(der[:-1] + bytes([der[-1] ^ 1])).decode(), lines[2], ""]))


def accepts(statement, kind, blob, key="/read/signer.pem"):
    words = [cosign, "verify-blob-attestation", "--key", top + key, "--insecure-ignore-tlog", "--type", kind]
    runs = [subprocess.run(words + how + [blob], capture_output=True, text=True) for how in (["--signature", statement], ["--bundle", top + "/sigstore.json"])]
    return {r.returncode == 0 and "Verified OK" in r.stderr for r in runs}


with open(top + "/other.diff", "wb") as out:
    out.write(open(patch, "rb").read() + b"\n")
found = sorted(glob.glob(top + "/out/*.intoto.jsonl"))
for statement in found:
    envelope = json.load(open(statement))
    with open(top + "/sigstore.json", "w") as out:
        json.dump({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": envelope,
                   "verificationMaterial": {"publicKey": {"hint": envelope["signatures"][0]["keyid"]}}}, out)
    kind = json.loads(base64.b64decode(envelope["payload"]))["predicateType"]
    if accepts(statement, kind, patch) != {True}:
        sys.exit(f"interop: cosign refuses {statement}")
    if accepts(statement, kind, top + "/other.diff") != {False} or accepts(statement, "https://example.com/other", patch) != {False}:
        sys.exit(f"interop: cosign accepts {statement} for another patch, or as one of another type")
    if accepts(statement, kind, patch, "/other.pem") != {False}:
        sys.exit(f"interop: cosign accepts {statement} by another key")
print(f"ok cosign: {len(found)} statements, and none for another patch, type or key")
sys.exit(0 if len(found) == 4 else "interop: there should be four statements")
PY
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
  python3 - "$top" "$bundle" <<'PY'
import base64, subprocess, sys

top, bundle = sys.argv[1:]
name, options, kind, encoded = open(top + "/signers").read().split()[:4]
armor = open(bundle + "/RECEIPT.json.sig").read().splitlines()
parts = {"receipt": open(bundle + "/RECEIPT.json", "rb").read(), "signature": base64.b64decode("".join(armor[1:-1])), "key": base64.b64decode(encoded)}


def accepts(receipt, signature, key):
    with open(top + "/list", "w") as out:
        out.write(f"{name} {options} {kind} {base64.b64encode(key).decode()}\n")
    with open(top + "/sig", "w") as out:
        out.write("\n".join([armor[0], base64.b64encode(signature).decode(), armor[-1]]) + "\n")
    words = ["ssh-keygen", "-Y", "verify", "-f", top + "/list", "-I", name, "-n", "remit-receipt", "-s", top + "/sig"]
    return subprocess.run(words, input=receipt, capture_output=True).returncode == 0


if not accepts(**parts):
    sys.exit("interop: ssh-keygen refuses the receipt")
for part, text in parts.items():
    places = list(range(0, len(text), 32 if part == "receipt" else 1))  # each is a process
    if part == "signature":
        places.remove(9)  # the version: ssh-keygen reads 0 as it does 1, and we do not
    for i in places:
        if accepts(**{**parts, part: text[:i] + bytes([text[i] ^ 1]) + text[i + 1 :]}):
            sys.exit(f"interop: ssh-keygen accepts the receipt where byte {i} of the {part} is another")
    print(f"ok ssh-keygen: the receipt, and none of {len(places)} with another byte of the {part}")
PY
else
  say "SKIPPED: ssh-keygen is not installed"
fi
say "ok"
