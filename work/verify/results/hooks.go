package results

import (
	"embed"
	"io/fs"
	"strings"
)

// The files that Remit lends to a sandbox, read-only, so that runners
// write down what became of each test. A file does nothing in a process that is
// not its runner.
//
//go:embed hooks/node.cjs hooks/mocha.cjs hooks/nodetest.cjs hooks/phpunit.php hooks/ruby/minitest/remit_plugin.rb
var hooks embed.FS

// Hooks are the files by their paths.
func Hooks() map[string][]byte {
	files := make(map[string][]byte)
	err := fs.WalkDir(hooks, "hooks", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(hooks, name)
		files[strings.TrimPrefix(name, "hooks/")] = text
		return err
	})
	if err != nil {
		panic("results: the hooks cannot be read: " + err.Error())
	}
	return files
}

// Collecting is a shell script that runs its arguments behind the second, asks the
// runners below them for results, and prints these behind the mark (collect.go): where
// there are none it prints nothing, so that the same run has the same output again.
// Its first argument is the mark, its second the directory of the hooks. What the
// command's environment says already stays in force in front of it.
const Collecting = `mark=$1 hooks=$2; shift 2
d=$(mktemp -d) && [ -d "$d" ] || exec "$@"
REMIT_RESULTS=$d; export REMIT_RESULTS
if [ -f "$hooks/node.cjs" ]; then
  REMIT_NODE_OPTIONS=--require=$hooks/node.cjs
  NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }$REMIT_NODE_OPTIONS"; export NODE_OPTIONS REMIT_NODE_OPTIONS
fi
REMIT_SPEC_OPTS="--format progress --format json --out $d/rspec-1.json"
SPEC_OPTS="${SPEC_OPTS:+$SPEC_OPTS }$REMIT_SPEC_OPTS"; export SPEC_OPTS REMIT_SPEC_OPTS
if [ -d "$hooks/ruby" ]; then
  REMIT_RUBYLIB=$hooks/ruby
  RUBYLIB="${RUBYLIB:+$RUBYLIB:}$REMIT_RUBYLIB"; export RUBYLIB REMIT_RUBYLIB
fi
if [ -f "$hooks/phpunit.php" ] && command -v php >/dev/null 2>&1; then
  mkdir "$d/php" && printf 'auto_prepend_file=%s\n' "$hooks/phpunit.php" >"$d/php/remit.ini"
  REMIT_PHP=$d/php PHP_INI_SCAN_DIR="${PHP_INI_SCAN_DIR-}:$d/php"; export PHP_INI_SCAN_DIR REMIT_PHP
fi
: >"$d/.begun"
"$@"
c=$?
root=$(pwd -P)
n=0
copy() {
  find . -name node_modules -prune -o -type f -path "$2" -newer "$d/.begun" -print 2>/dev/null | sort | head -n 400 >"$d/.found"
  while IFS= read -r f; do
    n=$((n + 1))
    cat "$f" >"$d/$1-$n.xml"
  done <"$d/.found"
}
if [ -f pom.xml ]; then copy surefire '*/target/*-reports/TEST-*.xml'; fi
if [ -f settings.gradle ] || [ -f settings.gradle.kts ] || [ -f build.gradle ] || [ -f build.gradle.kts ]; then
  copy gradle '*/build/test-results/*/TEST-*.xml'
fi
begun=
for f in "$d"/*-*; do
  if [ -f "$f" ] && [ ! -L "$f" ]; then
    [ "$begun" ] || printf '\n%s begin %s\n' "$mark" "$root"
    begun=yes
    size=$(wc -c <"$f")
    printf '%s file %s %d\n' "$mark" "${f##*/}" "$size"
    [ "$size" -gt 16777216 ] || head -c "$size" "$f"
    printf '\n'
  fi
done
[ -z "$begun" ] || printf '%s end\n' "$mark"
rm -rf "$d"
exit "$c"
`
