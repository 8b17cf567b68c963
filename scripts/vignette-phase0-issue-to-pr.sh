#!/usr/bin/env bash
# Gate L: from an issue to a verified, paid and mirrored change, with everything
# that can go wrong on the way. Prints a line for each check; exits 0 only if all
# hold. What it leaves lies in the directory that its first line names.
#
# The caps of a provider are part of what is proved, so the user who runs this
# has to be able to enforce them: root, or one with cgroups of their own.
#
#   scripts/vignette-phase0-issue-to-pr.sh
#
#   VIGNETTE_DIR=DIR            everything goes there (default: a new temporary directory)
#   REMIT_STORE=postgres://…    on this PostgreSQL; the database or schema must be empty
#   REMIT_STORE=postgres        on a PostgreSQL of its own, if this machine has its programs
#   REMIT_BIN=FILE              this program (default: bin/remit, built from this tree)
#   VIGNETTE_TIME=1m            what the walk may take; 3m at most
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'vignette: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

fixture=fixtures/r1-string-slugify/python
target=slugify.py
verify='python3 -m unittest -v'
driver='' walk='' server='' pg='' unused=''

# Whatever happens, nothing stays behind: the driver ends its processes when it
# gets SIGTERM, and the database ends with the script.
cleanup() {
  local status=$?
  trap - EXIT
  if [ -n "$driver" ] && kill -TERM "$driver" 2>/dev/null; then wait "$driver" || true; fi
  if [ -n "$server" ]; then
    kill -QUIT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf ${pg:+"$pg"} ${walk:+"$walk"} ${unused:+"$unused"}
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

dir=${VIGNETTE_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/remit-vignette.XXXXXX")}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)
[ -n "${VIGNETTE_DIR:-}" ] || unused=$dir # removed if the walk does not begin
echo "vignette in $dir"
[ -z "$(ls -A "$dir")" ] || die "$dir is not empty: an earlier walk would be mixed up with this one"

scripts/setup.sh run >"$dir/setup.log" 2>&1 || die "this machine lacks something: $(cat "$dir/setup.log")"
bin=${REMIT_BIN:-bin/remit}
[ -n "${REMIT_BIN:-}" ] || scripts/build.sh "$bin"
[ -x "$bin" ] || die "$bin cannot be run"

# Checked now, and not by the driver after half a minute: a provider that cannot hold its
# caps never comes online.
lacking=$(REMIT_HOME=$dir/doctor "$bin" doctor --json | python3 -c '
import json, sys
checks = json.load(sys.stdin)["checks"]
bad = [c["detail"] for c in checks if c["status"] == "missing"]
print("; ".join(bad or [c["detail"] for c in checks if c["check"] == "sandbox limit" and c["detail"].split(":")[0] in ("cpu", "memory", "pids", "disk")]))') || true
rm -rf "$dir/doctor"
[ -z "$lacking" ] || die "needs a user who can enforce the caps of a provider, and user $(id -un 2>/dev/null || true) cannot ($lacking): run it as root, or with control groups of your own that are delegated with cpu, memory and pids"

unused=''

# The issue as a repository: the bug on main, its known fix on the branch "fixed".
repo=$dir/repositories/slugs
mkdir -p "$(dirname "$repo")"
cp -R "$fixture/repo" "$repo"
in_repo() {
  GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -C "$repo" -c user.name=Vignette -c user.email=vignette@example.com "$@"
}
in_repo init -q -b main
in_repo add -A
in_repo commit -q -m "Import the fixture"
in_repo switch -q -c fixed
in_repo apply --index "$PWD/$fixture/fix.patch"
in_repo commit -q -m "Fix the issue"
in_repo switch -q main

# A PostgreSQL server of its own, on a private directory and a unix socket. The
# server refuses to run as root, so root hands it to an unprivileged user.
start_postgres() {
  local initdb='' candidate user as=()
  initdb=$(command -v initdb || true)
  for candidate in /usr/lib/postgresql/*/bin/initdb; do
    [ -x "$candidate" ] && initdb=${initdb:-$candidate}
  done
  [ -n "$initdb" ] || die "REMIT_STORE=postgres: no initdb in PATH or /usr/lib/postgresql; give postgres://…"
  initdb=$(readlink -f "$initdb")
  pg=$(mktemp -d /tmp/remitpg.XXXXXX) # a socket's path is short by necessity
  if [ "$(id -u)" = 0 ]; then
    user=nobody
    id postgres >/dev/null 2>&1 && user=postgres
    chown "$user" "$pg"
    as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --)
  fi
  "${as[@]}" "$initdb" -D "$pg/data" -U remit --auth=trust --locale=C --encoding=UTF8 --no-sync --no-instructions >"$pg/initdb.log" 2>&1 ||
    die "initdb: $(tail -n 3 "$pg/initdb.log")"
  (cd "$pg" && exec "${as[@]}" "$(dirname "$initdb")/postgres" -D "$pg/data" -k "$pg" -c listen_addresses= -c max_connections=100) >"$pg/log" 2>&1 &
  server=$!
  local tries=0
  until grep -q 'ready to accept connections' "$pg/log"; do
    kill -0 "$server" 2>/dev/null || die "postgres: $(tail -n 3 "$pg/log")"
    tries=$((tries + 1))
    [ $tries -lt 300 ] || die "postgres does not get ready: $(tail -n 3 "$pg/log")"
    sleep 0.1
  done
  store="postgres://remit@/postgres?host=$pg&sslmode=disable"
}

store=''
case ${REMIT_STORE:-sqlite} in
  sqlite) ;;
  postgres) start_postgres ;;
  postgres://* | postgresql://*) store=$REMIT_STORE ;;
  *) die "REMIT_STORE is sqlite, postgres or postgres://…" ;;
esac

walk=$dir/walk
CGO_ENABLED=0 go build ${TRIMPATH--trimpath} -o "$walk" ./scripts/vignette
"$walk" -dir "$dir" -program "$bin" -store "$store" -fixture "$fixture" -repo "$repo" -target "$target" -verify "$verify" -most "${VIGNETTE_TIME:-1m}" &
driver=$!
wait "$driver"
