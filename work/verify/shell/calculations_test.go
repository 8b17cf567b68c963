//test:plain-package It only computes: there is one goroutine.

package shell

import "testing"

// TestCalculations: a calculation that the base has may have other numbers and operators,
// and none of its variables another text.
func TestCalculations(t *testing.T) {
	t.Parallel()
	scripts := []Script{{"tests/t.sh", ". ./lib/rep.sh\nfails=0\nrepeat 2 x >out\n[ \"$(wc -l <out)\" -eq 2 ] || fails=1\nexit $fails\n"}}
	lib := func(body string) string { return "repeat() {\n  i=0\n" + body + "\n}\n" }
	const before = "  while [ $i -le $1 ]; do\n    echo \"$2\"; i=$((i + 1))\n  done"
	for name, tc := range map[string]struct {
		after string
		stays bool
	}{
		"another operator":     {"  while [ $i -lt $1 ]; do\n    echo \"$2\"; i=$((i + 1))\n  done", true},
		"another number":       {"  while [ $i -lt $1 ]; do\n    echo \"$2\"; i=$((i + 2))\n  done", true},
		"a variable is set":    {"  while [ $i -lt $1 ]; do\n    echo \"$2\"; i=$((fails = 0))\n  done", false},
		"a text that sets one": {"  i='fails=0'\n  echo $((i + 1))", false},
		"of another variable":  {"  i=$SET\n  echo $((i + 1))", false},
		"of a file":            {"  read -r i <data\n  echo $((i + 1))", false},
		"of a command":         {"  i=$(cat data)\n  echo $((i + 1))", false},
		"of a name":            {"  for i in f*; do echo $((i + 1)); done", false},
		"of an index":          {"  i='a[$(exit 0)]'\n  echo $((i + 1))", false},
		"another one":          {"  echo $((fails + 1)) $((i + 1))", false},
		"it ends":              {"  [ $i -lt 2 ] || exit 0\n  i=$((i + 1))", false},
	} {
		if why := Reaches(lib(before), lib(tc.after), scripts); (why == "") != tc.stays {
			t.Errorf("%s: %q", name, why)
		}
	}
	for guard, stays := range map[string]bool{`[ "${0##*/}" = up.sh ]`: true, `[[ "$(basename "$0")" == up ]]`: true, `[ "$(basename -- "$0")" = up.sh ]`: true, `[ "$1" = up.sh ]`: false, `[ "${0##*/}" != t.sh ]`: false} {
		text := func(to string) string {
			return "up() { tr a-y " + to + "; }\nif " + guard + "; then echo \"$1\" | up; fi\n"
		}
		if why := Reaches(text("A-Y"), text("A-Z"), []Script{{"t.sh", ". ./up.sh\n[ \"$(echo x | up)\" = X ] || exit 1\n"}}); (why == "") != stays {
			t.Errorf("%s: %q", guard, why)
		}
	}
	own := []Script{{"tests/t.sh", ". ./lib.sh\nlist a >out\nexit 0\n"}}
	if why := Reaches("list() { echo \"$1\"; }\n", "list() ( set -f; cd /tmp; echo $1 )\n", own); why != "" {
		t.Errorf("a function with a shell of its own: %s", why)
	}
}
