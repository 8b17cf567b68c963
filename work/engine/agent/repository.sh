make_repository() {
  command -v git >/dev/null || {
    echo "remit: the sandbox has no git, so the workspace is no repository" >&2
    return 0
  }
  printf '[safe]\n\tdirectory = *\n' >"$HOME/.gitconfig"
  git init -q --template= -b main >&2 &&
    printf '%s\n' '[user]' 'name = agent' 'email = agent@localhost' '[core]' 'hooksPath = /dev/null' 'fsmonitor = false' \
      '[commit]' 'gpgSign = false' '[gc]' 'auto = 0' '[maintenance]' 'auto = false' >>.git/config &&
    mkdir -p .git/info && echo '* -text -ident -filter -working-tree-encoding' >.git/info/attributes &&
    git -c core.compression=1 -c core.bigFileThreshold=1 add -A -f >&2 &&
    git commit -q --allow-empty -m baseline >&2 || {
    rm -rf .git
    echo "remit: no git repository could be made in the workspace" >&2
  }
}
make_repository
