#!/usr/bin/env bash
# Check what this machine needs, and install what is missing where that can be
# done without asking: with apt-get, as root, on Debian or Ubuntu. Everywhere
# else it says exactly what is missing and how to get it.
#
#   scripts/setup.sh build   go
#   scripts/setup.sh run     go, git, a sandbox that works, python3
#   scripts/setup.sh test    the same, and what only tests use
#
# Exit: 0 ready (missing optional tools are named), 1 something needed is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-run}
case $purpose in build | run | test) ;; *)
  echo "setup: unknown purpose '$purpose' (build, run or test)" >&2
  exit 1
  ;;
esac

say() { printf 'setup: %s\n' "$*"; }
bad() { printf 'setup: MISSING: %s\n' "$*" >&2; }

# Names of a tool's package: apt dnf pacman brew; '-' where there is none.
package_names() {
  case $1 in
    git) echo "git git git git" ;;
    bwrap) echo "bubblewrap bubblewrap bubblewrap -" ;;
    python3) echo "python3 python3 python python" ;;
    gcc) echo "gcc,libc6-dev gcc,glibc-devel gcc -" ;;
    pytest) echo "python3-pytest python3-pytest python-pytest pytest" ;;
    minitest) echo "ruby-minitest,rake rubygem-minitest,rubygem-rake ruby-minitest,ruby-rake ruby" ;;
    bundle) echo "ruby-bundler rubygem-bundler ruby-bundler ruby" ;;
    rspec) echo "ruby-rspec rubygem-rspec ruby-rspec rspec" ;;
    phpunit) echo "phpunit phpunit phpunit phpunit" ;;
    ctest) echo "cmake,make cmake,make cmake,make cmake" ;;
    openssl) echo "openssl openssl openssl openssl" ;;
    postgres) echo "postgresql postgresql-server postgresql postgresql" ;;
    ssh-keygen) echo "openssh-client openssh openssh openssh" ;;
    *) echo "$1 $1 $1 $1" ;;
  esac
}

# The command that a person would type to install the tool here.
how_to_install() {
  local apt dnf pacman brew
  read -r apt dnf pacman brew <<<"$(package_names "$1")"
  if command -v apt-get >/dev/null; then
    echo "sudo apt-get install ${apt//,/ }"
  elif command -v dnf >/dev/null; then
    echo "sudo dnf install ${dnf//,/ }"
  elif command -v pacman >/dev/null; then
    echo "sudo pacman -S ${pacman//,/ }"
  elif command -v brew >/dev/null && [ "$brew" != - ]; then
    echo "brew install ${brew//,/ }"
  else
    echo "install the package '${apt//,/ }' (Debian's name for it)"
  fi
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_updated=no
apt_install() {
  local log
  log=$(mktemp)
  if [ $apt_updated = no ]; then
    say "apt-get update"
    # An unreachable mirror is not the end: the package may be in the lists already.
    DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >"$log" 2>&1 || { tail -n 3 "$log" >&2; }
    apt_updated=yes
  fi
  say "apt-get install $*"
  if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# Minitest is a library, and has no program of its own before version 6.
have() {
  case $1 in
    minitest) ruby -e 'require "minitest"' >/dev/null 2>&1 && command -v rake >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

missing=0

# need TOOL WHY: without it nothing works.
need() {
  have "$1" && return
  if can_install; then
    local apt _
    read -r apt _ <<<"$(package_names "$1")"
    # shellcheck disable=SC2086
    apt_install ${apt//,/ } && have "$1" && return
  fi
  bad "$1 ($2). $(how_to_install "$1")"
  missing=1
}

# want TOOL WHY: what lacks without it is named, and the rest works.
want() {
  have "$1" && return
  if can_install; then
    local apt _
    read -r apt _ <<<"$(package_names "$1")"
    # shellcheck disable=SC2086
    apt_install ${apt//,/ } && have "$1" && return
  fi
  say "optional: no $1: $2. $(how_to_install "$1")"
}

# Debian keeps the server's programs off PATH, and tests start their own.
have_postgres() { have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }

want_postgres() {
  have_postgres && return
  can_install && apt_install postgresql && have_postgres && return
  say "optional: no postgres: the store is tested on SQLite only. $(how_to_install postgres)"
}

check_go() {
  local wanted version
  wanted=$(awk '$1 == "go" { print $2 }' go.mod)
  if ! have go; then
    bad "go $wanted or newer. Download it from https://go.dev/dl/ and put its bin directory on PATH"
    missing=1
    return
  fi
  # Inside the module the go command of 1.21 and later fetches the right
  # toolchain by itself, unless GOTOOLCHAIN=local forbids that.
  if ! version=$(go env GOVERSION 2>&1); then
    bad "go $wanted or newer; this one says: $version. Download it from https://go.dev/dl/"
    missing=1
    return
  fi
  version=${version#go}
  version=${version%% *}
  if [ "$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n 1)" != "$wanted" ]; then
    bad "go $wanted or newer, this is $version. Download it from https://go.dev/dl/ (or unset GOTOOLCHAIN)"
    missing=1
    return
  fi
  say "go $version"
}

# The sandbox is the one thing that a package does not guarantee: containers
# and some distributions forbid user namespaces.
check_sandbox() {
  if [ "$(uname -s)" != Linux ] && [ "$purpose" = test ]; then
    say "no sandbox on $(uname -s): tests that need it are skipped"
    return
  fi
  if [ "$(uname -s)" != Linux ]; then
    bad "a Linux kernel: the sandbox needs its namespaces. On $(uname -s), work in a Linux VM or container; show, diff, audit and export work here"
    missing=1
    return
  fi
  need bwrap "the sandbox"
  have bwrap || return 0
  local why
  if why=$(bwrap --unshare-all --unshare-user --die-with-parent --cap-drop ALL \
    --ro-bind / / --proc /proc --dev /dev true </dev/null 2>&1); then
    say "$(bwrap --version), user namespaces work"
    return
  fi
  bad "user namespaces: bubblewrap is installed and cannot start: ${why:-no message}"
  cat >&2 <<'HINT'
setup:   Ubuntu 23.10 and later: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
setup:   older Debian:           sudo sysctl -w kernel.unprivileged_userns_clone=1
setup:   in a container:         docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined --cap-add SYS_ADMIN
HINT
  missing=1
}

check_go
if [ "$purpose" != build ]; then
  need git "baselines, diffs and patches"
  need python3 "the second verifier and the Python fixtures"
  check_sandbox
fi
if [ "$purpose" = test ]; then
  want gcc "tests run without the race detector"
  want pytest "tests of pytest recognition are skipped"
  for runner in bats rspec minitest bundle phpunit ctest; do
    want $runner "the verifier is not tried with $runner"
  done
  want chromium "the pages of the panel are not tried in a browser"
  want openssl "signatures are not cross-checked with openssl"
  want_postgres
  want ssh-keygen "signatures are not cross-checked with ssh-keygen"
fi
if [ $missing != 0 ]; then
  echo "setup: not ready to $purpose" >&2
  exit 1
fi
say "ready to $purpose"
