#!/usr/bin/env bash
# Binaries for every target with their sums into dist/. With goreleaser, what
# .goreleaser.yaml says; without it, a plain cross build. Each is built twice, by
# scripts/release-twice.sh: a build that cannot be repeated is not released. Each gets
# provenance and a bill of materials, by the key of this machine's REMIT_HOME.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
commit=${COMMIT:-$(git rev-parse --verify -q HEAD 2>/dev/null || echo unknown)}
# What a maker has set for their own builds is not in a release.
export VERSION=$version COMMIT=$commit GOFLAGS='' GOEXPERIMENT='' GOAMD64=v1 GOARM64=v8.0 GOWORK=off
targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)

sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf dist
mkdir dist
for target in "${targets[@]}"; do
  name=remit_${version}_${target/\//_}
  echo "release: $name"
  GOOS=${target%/*} GOARCH=${target#*/} scripts/build.sh "dist/$name"
done
scripts/release-twice.sh dist

scripts/build.sh "$scratch/remit"
"$scratch/remit" keys attest dist/remit_* --version "$version" --commit "$commit" >/dev/null
"$scratch/remit" keys show | sed -n 's/^allowed_signers *//p' >dist/allowed_signers
for target in "${targets[@]}"; do
  "$scratch/remit" audit "dist/remit_${version}_${target/\//_}" --allowed-signers dist/allowed_signers
done
(cd dist && sums remit_* >SHA256SUMS && cat SHA256SUMS)
echo "release: every binary was built twice with equal bytes"
