#!/usr/bin/env bash
# One shipped issue through the whole pipeline, as a stranger would do it:
# scripts/demo.sh [FIXTURE [LANGUAGE]]. Needs bin/remit (make build).
#
# Everything lies in .remit-demo, which git ignores, so that the commands
# printed at the end work.
set -euo pipefail
cd "$(dirname "$0")/.."
fixture=${1:-r1-string-slugify}
language=${2:-go}
case_dir=fixtures/$fixture/$language
[ -f "$case_dir/task.yaml" ] || {
  echo "demo: no fixture $case_dir (there are: $(cd fixtures && echo r1-*/*))" >&2
  exit 1
}
[ -x bin/remit ] || {
  echo "demo: bin/remit is not built: run make build" >&2
  exit 1
}

# The compiled standard library of Go is kept with what this user's own runs use:
# it is made once, for the demo and for them.
export REMIT_GOCACHE=${REMIT_GOCACHE:-${REMIT_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/remit}/gocache}
# Absolute, because sessions are found from any directory.
export REMIT_HOME=$PWD/.remit-demo/home
run_dir=.remit-demo/$fixture-$language-$(date -u +%Y%m%dT%H%M%SZ)-$$
mkdir -p "$run_dir" "$REMIT_HOME"
cp -R "$case_dir/repo" "$run_dir/repo"
# No configuration of the user: a signing key or a template must not change the demo.
demo_git() {
  GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -C "$run_dir/repo" \
    -c user.name=Demo -c user.email=demo@example.com "$@"
}
demo_git init -q -b main
demo_git add -A
demo_git commit -q -m "Import $fixture"

step() { printf '\n==> %s\n' "$*"; }

step "bin/remit run --repo $run_dir/repo --task $case_dir/task.yaml --engine fake --fake-patch $case_dir/fix.patch"
# What comes next is said once, at the end, with the REMIT_HOME that it needs.
bin/remit run --repo "$run_dir/repo" --task "$case_dir/task.yaml" --engine fake \
  --fake-patch "$case_dir/fix.patch" </dev/null | sed '/^Next:$/,$d' || {
  status=$?
  echo "demo: the run ended with exit code $status (2 fail, 3 blocked): the lines above say why" >&2
  exit $status
}
# One JSON document on stdout; python3 is a stated requirement, jq is not.
session=$(bin/remit show latest --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["session_id"])')

step "bin/remit diff $session"
bin/remit diff "$session"

step "bin/remit export $session --to zip"
bundle=$run_dir/bundle.zip
bin/remit export "$session" --to zip --out "$bundle"
[ -s "$bundle" ] || {
  echo "demo: the bundle $bundle was not written" >&2
  exit 1
}

step "bin/remit audit $bundle"
bin/remit audit "$bundle"

if [ -n "$(demo_git status --porcelain)" ]; then
  echo "demo: the target repository was changed, which must never happen" >&2
  exit 1
fi

cat <<NEXT

The repository $run_dir/repo is untouched; the change is in the bundle $bundle.
Next:
  export REMIT_HOME=$REMIT_HOME REMIT_GOCACHE=$REMIT_GOCACHE
  bin/remit show $session            # what happened, step by step
  bin/remit replay $session          # the same as it went on
  bin/remit verify $session          # run the verifier again, on a fresh checkout
  bin/remit reproduce $bundle --repo $run_dir/repo
  bin/remit accept $session --reason "reviewed"
  bin/remit export $session --to branch
NEXT
