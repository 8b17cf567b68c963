#!/usr/bin/env bash
# Build the release of this tree again, as somebody else and elsewhere, and compare the
# bytes: another user, path, host name, time zone, umask, locale, home, empty caches, and
# the modules from another directory.
#
#   scripts/release-twice.sh DIR    DIR has the binaries, remit_VERSION_OS_ARCH
#   scripts/release-twice.sh        builds them first; OS/ARCH in TARGETS for some of them
#
# As root, the second user is nobody. As another user it is root in a user namespace. What
# a machine does not let differ is said at the end, and is not an error.
set -euo pipefail
cd "$(dirname "$0")/.."

# Files of the first build are read by the second user; TMPDIR may be closed to it.
scratch=$(TMPDIR='' mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
commit=${COMMIT:-$(git rev-parse --verify -q HEAD 2>/dev/null || echo unknown)}
first=${1:-}
if [ -z "$first" ]; then
  first=$scratch/first
  for target in ${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
    echo "release-twice: building $target"
    VERSION=$version COMMIT=$commit GOFLAGS='' GOEXPERIMENT='' GOAMD64=v1 GOARM64=v8.0 GOWORK=off GOOS=${target%/*} GOARCH=${target#*/} \
      scripts/build.sh "$first/remit_${version}_${target/\//_}"
  done
fi
shopt -s nullglob
binaries=()
for name in "$first/remit_${version}_"{linux,darwin}_{amd64,arm64}; do
  [ -f "$name" ] && binaries+=("$name")
done
if [ ${#binaries[@]} = 0 ]; then
  echo "release-twice: $first has no remit_${version}_OS_ARCH: check out the commit of the release, or give its VERSION and COMMIT" >&2
  exit 1
fi

same=()
as=(env)
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  if unshare --uts true 2>/dev/null; then as=(unshare --uts sh -c 'echo elsewhere >/proc/sys/kernel/hostname; exec "$@"' sh "${as[@]}"); else same+=("host name"); fi
elif unshare --user --map-root-user --uts true 2>/dev/null; then
  as=(unshare --user --map-root-user --uts sh -c 'echo elsewhere >/proc/sys/kernel/hostname; exec "$@"' sh)
else
  same+=("user" "host name")
fi

# The umask is the second user's from here: it is that of the tree as well.
umask 027
mkdir -p "$scratch/another place/tree" "$scratch/another place/home" "$scratch/another place/out"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do
  [ -e "$f" ] && printf '%s\0' "$f"
done | tar -c --null -T - | tar -x -C "$scratch/another place/tree"
# The modules as the proxy gave them, so that nothing is fetched twice; go.sum holds.
CGO_ENABLED=0 go mod download
cp -R "$(go env GOMODCACHE)/cache/download" "$scratch/another place/modules"
if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "$scratch/another place"; fi
for name in "${binaries[@]}"; do
  target=${name##*"_${version}_"}
  "${as[@]}" env -i PATH="$(dirname "$(command -v go)"):/usr/bin:/bin" HOME="$scratch/another place/home" TZ=Pacific/Kiritimati LC_ALL=C \
    GOPROXY="file://$scratch/another%20place/modules" GOSUMDB=off GOTOOLCHAIN=local GOMODCACHE="$scratch/another place/home/mod" GOFLAGS=-modcacherw \
    VERSION="$version" COMMIT="$commit" GOOS="${target%_*}" GOARCH="${target#*_}" \
    "$scratch/another place/tree/scripts/build.sh" "$scratch/another place/out/$target"
  cmp "$name" "$scratch/another place/out/$target" || {
    echo "release-twice: ${name##*/} differs between two builds of the same tree" >&2
    exit 2
  }
  echo "release-twice: ${name##*/} is the same bytes again"
done
for what in "${same[@]}"; do
  echo "release-twice: NOT VARIED on this machine: $what"
done
