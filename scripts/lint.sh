#!/usr/bin/env bash
# Every static check. With --offline only those that need nothing installed.
# What could not be checked is said at the end, never passed over.
set -euo pipefail
cd "$(dirname "$0")/.."
golangci_version=v2.15.0
govulncheck_version=v1.8.0
actionlint_version=v1.7.7
tools=$PWD/.tools

failed=0
unchecked=()
step() { printf '==> %s\n' "$*"; }
fail() {
  printf 'lint: %s\n' "$*" >&2
  failed=1
}

# install NAME MODULE VERSION: builds a tool into .tools once per version.
install_tool() {
  local stamp=$tools/$1.$3
  [ -x "$tools/$1" ] && [ -f "$stamp" ] && return
  step "installing $1 $3"
  mkdir -p "$tools"
  GOBIN=$tools GOFLAGS='' go install "$2@$3" && rm -f "$tools/$1".v* && touch "$stamp"
}

step gofmt
unformatted=$(find . -path './.*' -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)
[ -z "$unformatted" ] || fail "not gofmt-ed: $unformatted"

step "go vet"
# As the program is built: most of it is compiled by then.
CGO_ENABLED=0 go vet ${TRIMPATH--trimpath} ./... || fail "go vet found something"

step "bash -n"
for f in scripts/*.sh .ci/run; do
  bash -n "$f" || fail "$f does not parse"
done
if command -v shellcheck >/dev/null; then
  step shellcheck
  shellcheck scripts/*.sh .ci/run || fail "shellcheck found something"
else
  unchecked+=("shellcheck: not installed")
fi

if [ "${1:-}" != --offline ]; then
  step "golangci-lint $golangci_version"
  if install_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint "$golangci_version"; then
    "$tools/golangci-lint" run ./... || fail "golangci-lint found something"
  else
    unchecked+=("golangci-lint: could not be installed")
  fi

  step "actionlint $actionlint_version"
  if install_tool actionlint github.com/rhysd/actionlint/cmd/actionlint "$actionlint_version"; then
    # The workflow of docs/ci.md, as one that uses the action of this directory.
    flows=$(mktemp -d)
    mkdir -p "$flows/.git" "$flows/.github/workflows"
    cp action.yml "$flows/"
    awk '/^```yaml$/ { on = 1; next } /^```$/ { on = 0 } on' docs/ci.md | sed 's#OWNER/remit@COMMIT#./#' >"$flows/.github/workflows/remit.yml"
    (cd "$flows" && "$tools/actionlint" .github/workflows/remit.yml) || fail "actionlint found something in docs/ci.md or action.yml"
    rm -rf "$flows"
  else
    unchecked+=("actionlint: could not be installed")
  fi

  step "govulncheck $govulncheck_version"
  if install_tool govulncheck golang.org/x/vuln/cmd/govulncheck "$govulncheck_version"; then
    code=0
    report=$("$tools/govulncheck" ./... 2>&1) || code=$?
    case $code in
      0) echo "$report" | tail -n 1 ;;
      3) # its documented exit code for findings
        echo "$report"
        fail "govulncheck found something"
        ;;
      *) # no database, no network, or a tree that does not build: nothing was checked
        echo "$report" | tail -n 5 >&2
        unchecked+=("known vulnerabilities: govulncheck exited $code (does https://vuln.go.dev answer?)")
        ;;
    esac
  else
    unchecked+=("known vulnerabilities: govulncheck could not be installed")
  fi
fi

if [ ${#unchecked[@]} -gt 0 ]; then
  printf 'lint: NOT CHECKED: %s\n' "${unchecked[@]}" >&2
  [ -z "${LINT_STRICT:-}" ] || failed=1
fi
[ $failed = 0 ] || exit 1
echo "lint: clean"
