#!/usr/bin/env bash
# Records docs/casts/*.cast anew: the first verified change of a Go, a Node and a
# Python repository. Needs an installed remit (make install), git, npm with its
# registry, and Codex (make agents); the model is a script. Not part of the tests:
# they hold the commands of the recordings against the program.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
cache=${REMIT_GOCACHE:-$(go env GOCACHE)/../remit-casts}
export HOME=$scratch/you REMIT_AGENTS=$top/.tools/agents REMIT_GOCACHE=$cache
export GIT_AUTHOR_NAME=you GIT_AUTHOR_EMAIL=you@example.com GIT_COMMITTER_NAME=you GIT_COMMITTER_EMAIL=you@example.com
mkdir -p "$HOME"

# repository LANGUAGE: a repository with what the commit before remit.yaml has.
repository() {
  mkdir "$HOME/$1"
  cd "$HOME/$1"
  [ ! -d "$top/fixtures/r1-string-slugify/$1" ] || cp -r "$top/fixtures/r1-string-slugify/$1/repo/." "$top/fixtures/r1-string-slugify/$1/ISSUE.md" .
  git init -q -b main
}

begin() { git add -A && git commit -q -m 'One bug'; }

repository go
cat >../fix.sh <<'SH'
sed -i 's/return strings.ReplaceAll.*/return strings.Join(strings.Fields(strings.ToLower(s)), "-")/' slugify.go
SH
chmod +x ../fix.sh
begin
python3 "$top/scripts/record.py" "$top/docs/casts/go.cast" 'Remit in a Go repository' <<'SH'
remit init --yes
git add remit.yaml && git commit -q -m 'Add remit.yaml'
remit run -- ../fix.sh
SH

repository node
cat >package.json <<'JSON'
{"name": "slugify", "version": "1.0.0", "scripts": {"test": "mocha"}, "devDependencies": {"chai": "^4.5.0", "mocha": "^10.8.2"}}
JSON
mkdir lib test
echo "exports.slugify = (s) => s.replaceAll(' ', '-');" >lib/slugify.js
cat >test/slugify.js <<'JS'
const { expect } = require('chai');
const { slugify } = require('../lib/slugify');

describe('slugify', () => {
  it('joins words by a hyphen', () => expect(slugify('release notes')).to.equal('release-notes'));
  it('joins by one hyphen only', () => expect(slugify('release   notes')).to.equal('release-notes'));
  it('is lower case', () => expect(slugify('Release')).to.equal('release'));
});
JS
echo node_modules >.gitignore
cat >../fix.sh <<'SH'
sed -i "s/=> .*/=> s.trim().toLowerCase().split(\/\\\\s+\/).join('-');/" lib/slugify.js
SH
chmod +x ../fix.sh
npm install --silent --no-audit --no-fund
begin
python3 "$top/scripts/record.py" "$top/docs/casts/node.cast" 'Remit in a Node repository' <<'SH'
remit init --yes
git add remit.yaml && git commit -q -m 'Add remit.yaml'
remit run -- ../fix.sh
SH

repository python
cat >"$scratch/model.yaml" <<'YAML'
conversations:
  - when: {user: "^Call the tool ready"}
    otherwise: {text: ready}
  - turns:
      - calls: [{name: exec_command, arguments: {cmd: "sed -i 's/return.*/return \"-\".join(text.lower().split())/' slugify.py"}}]
    otherwise: {text: It is fixed.}
YAML
remit model script "$scratch/model.yaml" --listen 127.0.0.1:8080 >/dev/null &
begin
python3 "$top/scripts/record.py" "$top/docs/casts/python.cast" 'Remit with Codex in a Python repository' <<'SH'
remit init --yes
remit agent setup codex --model-provider local --model gpt-5.5 --local-model --base-url http://127.0.0.1:8080/v1 --yes
git add remit.yaml && git commit -q -m 'Add remit.yaml'
remit run --engine codex --issue ISSUE.md
SH
