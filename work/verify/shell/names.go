package shell

import (
	"slices"
	"strings"
	"sync"

	"remit/proof/form"
)

// Builtin commands of sh, dash, busybox and bash. Those that are true have no effect
// on the shell beyond what a function may have.
var builtins = map[string]bool{
	"echo": true, "true": true, "false": true, ":": true, "pwd": true, "return": true, "test": true, "[": true, "printf": true, "shift": true, "local": true, "read": true,
	".": false, "source": false, "alias": false, "bg": false, "bind": false, "break": false, "builtin": false, "caller": false, "cd": false, "chdir": false, "command": false,
	"compgen": false, "complete": false, "compopt": false, "continue": false, "declare": false, "dirs": false, "disown": false, "enable": false, "eval": false, "exec": false,
	"exit": false, "export": false, "fc": false, "fg": false, "getopts": false, "hash": false, "help": false, "history": false, "jobs": false, "kill": false, "let": false,
	"logout": false, "mapfile": false, "newgrp": false, "popd": false, "print": false, "pushd": false, "readarray": false, "readonly": false, "set": false, "shopt": false,
	"suspend": false, "times": false, "trap": false, "type": false, "typeset": false, "ulimit": false, "umask": false, "unalias": false, "unset": false, "wait": false,
	"[[": false, "coproc": false, "time": false, "env": false, "nohup": false, "setopt": false, "nameref": false,
}

// programs are those that tests use and that a function would take the place of.
var programs = sync.OnceValue(func() []string {
	return strings.Fields(`awk basename bc cat chmod chown cmp column comm cp curl cut date dd df diff dirname du egrep env expr factor fgrep file find fold git grep gawk gzip head
		hexdump hostname iconv id install join jq less ln ls make md5sum mkdir mkfifo mktemp mv nl nproc od paste patch perl pr printenv ps python python3 readlink realpath rev rm rmdir sed seq
		sha1sum sha256sum shuf sleep sort split stat strings stty sum sync tac tail tar tee timeout touch tput tr tree tsort tty uname uniq unzip wc wget which who xargs xxd yes zcat zip sh bash dash`)
})

func isProgram(name string) bool { return slices.Contains(programs(), name) }

func isBuiltin(name string) bool {
	_, is := builtins[name]
	return is
}

var (
	commandName = form.Lazy(`^[A-Za-z0-9_./:+@%,-]+$|^\[$`)
	number      = form.Lazy(`^-?[0-9]+$`)
	// Variables that a shell or a program acts on, however harmless they look.
	ownVariable = form.Lazy(`^(?:BASH.*|LD_.*|LC_.*|GLIBC_.*|PS[0-4]|PATH|IFS|ENV|CDPATH|HOME|TMPDIR|LANG|LANGUAGE|SHELL.*|POSIXLY_CORRECT|GLOBIGNORE|EXECIGNORE|PROMPT_.*|FUNCNEST|TMOUT|TIMEFORMAT|OPT.*|MAIL.*|HIST.*|PWD|OLDPWD)$`)
)
