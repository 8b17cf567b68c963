#!/usr/bin/env bash
# Install the program, its man pages and its completions:
#
#   scripts/install.sh              to PREFIX: /usr/local as root, else ~/.local
#   scripts/install.sh uninstall    remove the same files
#
#   PREFIX=DIR     where it will be used from
#   DESTDIR=DIR    put before PREFIX, for those who make packages
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ]; then default=/usr/local; else default=${HOME:?}/.local; fi
prefix=${PREFIX:-$default}
case $prefix in /*) ;; *)
  echo "install: PREFIX=$prefix is not an absolute path" >&2
  exit 1
  ;;
esac
root=${DESTDIR:-}$prefix
bin=$root/bin man=$root/share/man/man1
bash_dir=$root/share/bash-completion/completions zsh_dir=$root/share/zsh/site-functions fish_dir=$root/share/fish/vendor_completions.d

if [ "${1:-install}" = uninstall ]; then
  rm -f "$bin/remit" "$man"/remit.1 "$man"/remit-*.1 "$bash_dir/remit" "$zsh_dir/_remit" "$fish_dir/remit.fish"
  echo "install: removed from $root; sessions, keys and caches stay where \`remit doctor\` named them"
  exit 0
fi

[ -x bin/remit ] || {
  echo "install: bin/remit is not built: run make build (as the user who has Go)" >&2
  exit 1
}
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
bin/remit man "$fresh/man"
for shell in bash zsh fish; do bin/remit completion "$shell" >"$fresh/$shell"; done

mkdir -p "$bin" "$man" "$bash_dir" "$zsh_dir" "$fish_dir"
install -m 755 bin/remit "$bin/remit"
install -m 644 "$fresh"/man/*.1 "$man/"
install -m 644 "$fresh/bash" "$bash_dir/remit"
install -m 644 "$fresh/zsh" "$zsh_dir/_remit"
install -m 644 "$fresh/fish" "$fish_dir/remit.fish"
echo "install: $bin/remit, $(find "$fresh/man" -name '*.1' | wc -l) man pages and the completions of bash, zsh and fish"
# shellcheck disable=SC2016 # the shell that it is pasted into expands $PATH
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) printf 'install: %s is not on your PATH. For this shell, and in your ~/.profile:\n  export PATH="%s:$PATH"\n' "$prefix/bin" "$prefix/bin" ;;
esac
