package shell

import (
	"strings"
	"testing"
)

// TestTakesAway: what a library may do to the shell of the tests, and what it may not.
func TestTakesAway(t *testing.T) {
	t.Parallel()
	const lib = "add() {\n  echo $(( $1 - $2 ))\n}\n"
	test := Script{Path: "t.sh", Text: "#!/bin/bash\n. ./lib.sh\nFAILED=0\nassert_eq() { if [ \"$1\" != \"$2\" ]; then FAILED=1; fi; }\n" +
		"assert_eq 5 \"$(add 2 3)\"\ndiff golden <(add 1 2)\nexit $FAILED\n"}
	for _, honest := range []string{
		"run() { \"$@\"; }", "dispatch() { \"cmd_$1\" \"$@\"; }", "open_log() { exec 3>>\"$1\"; }", "tool() { exec \"$@\"; }", "exec 2>/dev/null", "go() { \"$BIN/tool\" \"$1\"; }", "\"$BIN/tool\" x >/dev/null",
		". \"${BASH_SOURCE[0]%/*}/more.sh\"", ". \"$(dirname \"$0\")/more.sh\"", "for m in a b; do . \"$DIR/$m.sh\"; done", ". /etc/os-release", "load() { . \"$1/env\"; }",
		"set -eu", "set -euo pipefail", "set -o pipefail", "shopt -s nullglob", "set -- a -n", "f() { set -f; set +f; }", "unset -f add", "f() { local -n r=$1; r=1; }", "f() { printf -v \"$1\" %s \"$2\"; }", "printf -v KEY %s \"$x\"",
		"f() { read -r \"$1\"; }", "read -r KEY VALUE < /dev/null", "declare -a PARTS=()", "declare -A M=([a]=b)", "readonly V=1.0", "export LC_ALL=C", "export V", "declare -r X=\"$Y\"", "local_bin=\"$HOME/bin:$PATH\"", "echo \"PATH\" eval",
		"say() { echo \"$PATH\"; env PATH=/bin tool; }", "command -v tr >/dev/null 2>&1 || { echo no >&2; exit 1; }", "type eval", "[ -n \"$BASH_VERSION\" ]", "case $1 in eval|trap) echo x ;; esac", "MSG=\"trap eval alias PATH=\"",
		"if [ \"$0\" = x ]; then main \"$@\"; exit $?; fi", "f() { mapfile -t LINES < \"$1\"; }", "mapfile -t LINES < /dev/null", "command printf x", "builtin cd /", "f() { command grep x; }", "cat <<'EOF'\neval trap PATH=\nEOF",
		"f() { PATHS=1; ENVIRONMENT=x; }", "f() { exit 2; }", "f() { kill \"$1\"; }", "f() { IFS=, read -ra parts <<< \"$1\"; }", "x=$(eval_it)", "f() { echo \"${x:-trap}\"; }", "f() { $SUDO apt-get install x; }",
		"f() ( trap 'rm x' EXIT; x )", "( PATH=/bin; x )", "f() { PATH=/bin x; }", "f() { local PATH=/bin; }", "f() { local old=$PATH; }", "f() ( FAILED=0; )", "x=$(trap 'y' EXIT)", "( eval x )", "f() { $x y; }; f | cat", "f() { f; }; f", "eval_it() ( eval \"$1\" )", "echo x | ( eval y )", "IFS=: x y",
		"f() { set +e; x; set -e; }", "f() { shopt -s nocasematch; x; shopt -u nocasematch; }", "f() ( set +e; x )", "shopt -s extglob nullglob", "shopt -u nullglob", "f() ( set +o pipefail; x | y )", "set -E", "set +u", "set +x; set +o nounset", "f() { set +o pipefail; x; set -o pipefail; }",
	} {
		if why := Shadows(lib, lib+honest+"\n", []Script{test}); why != "" {
			t.Errorf("honest %q: %s", honest, why)
		}
	}
	for _, cheat := range []string{
		"[() { return 0; }", "function diff { :; }", "setup() {\n  diff() { :; }\n}", "source <(echo 'diff() { :; }')", ". /dev/stdin <<'EOT'\ndiff() { :; }\nEOT", ". /dev/stdin <<< 'x'", ". /dev/fd/9 9<<EOT\nx\nEOT",
		"ev=eval; $ev 'diff() { :; }'", "ev=ev; \"${ev}al\" 'x'", "f() { local e=ev; \"${e}al\" \"$1\"; }", "builtin eval 'x'", "command eval x", "command -p eval x", "builtin -- eval x", "\\eval 'x'", "ev''al 'x'", "e\\val x", "$'eval' x", "$(echo eval) x", "f() { $(echo eval) x; }",
		"h=hash; $h -p /bin/true diff", "hash -p /bin/true diff", "shopt -s expand_aliases; BASH_ALIASES[diff]=true", "BASH_CMDS[diff]=/bin/true", "declare -n cache=BASH_CMDS; cache[diff]=/bin/true", "printf -v 'BASH_CMDS[diff]' /bin/true",
		"printf -v BASH_CMDS[diff] %s /bin/true", "export \"PA\"\"TH=$PWD/lib:$PATH\"", "read -r PATH <<< x", "printf -v PATH %s x", "declare -n p=PATH; p=x", "declare -n p=PA\"TH\"", "for PATH in x; do :; done", "mapfile -t PATH <<< x",
		"unset PATH", "command_not_found_handle() { return 0; }", "t=$(mktemp); echo x > \"$t\"; . \"$t\"", ". /tmp/x.sh", ". /proc/self/fd/0", "mapfile -c 1 -C 'diff() { :; }; :' x <<< a", "x='BASH_CMDS[diff]'; read -r \"$x\" <<< /bin/true",
		"declare BASH_CMDS[diff]=/bin/true", "h=BASH_CMDS; declare \"${h}[diff]=/bin/true\"", "n=BASH_; declare \"${n}CMDS[diff]=/bin/true\"", ": \"${BASH_CMDS[diff]:=/bin/true}\"", "enable -f ./x.so diff", "enable -n [", "trap 'exit 0' EXIT", "alias diff=true",
		"exit 0", "{ exit 0; }", "exec true", "command exit 0", "builtin exit 0", "set -n", "set -o noexec", "set -t", "set -en", "shopt -so noexec", "unset -f assert_eq", "f() { unset -f assert_eq; }", "unset -f \"$x\"", "x() { \"$@\"; }; x eval 'diff() { :; }'",
		"set +e", "f() { set +e; }", "set +eET", "set +o pipefail", "set +o errexit", "set +euo pipefail", "shopt -s nocasematch", "f() { shopt -s extglob nocasematch; }", "shopt -u inherit_errexit", "shopt -uo pipefail", "PATH=x :", "BASH_ENV=x . ./more.sh", "f() { local \"$x\"; PATH=y; }", "echo /bin/true | read -r PATH", "FAILED=0", "readonly FAILED=0", "f() { FAILED=0; }", "export BASH_ENV=x", "BASH_ENV=x", "export LD_PRELOAD=./x.so", "declare -n p=$x; p=y", "unset \"$x\"", "\"$x\" y", "if true; then $x y; fi", "f() { local c=$(printf x); \"$c\" y; }; f", "f() { g; }; g() { $x y; }; f", "time $x y", "for i in 1; do $x y; done", "while $x y; do :; done", "case a in a) $x y ;; esac", "true && $x y",
	} {
		if why := Shadows(lib, lib+cheat+"\n", []Script{test}); why == "" || !strings.HasPrefix(why, "line ") {
			t.Errorf("cheat %q: %q", cheat, why)
		}
	}
	// What is there already is no matter of the change.
	for _, there := range []string{"eval \"$x\"", "trap 'rm x' EXIT", "PATH=/bin:$PATH", "$x y", ". \"$t\"", "set -n"} {
		if why := Shadows(lib+there+"\n", "V=1\n"+lib+there+"\n", []Script{test}); why != "" {
			t.Errorf("%q is in the base: %s", there, why)
		}
	}
}
