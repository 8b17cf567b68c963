package shell

import (
	"path"
	"strings"
)

// builtin says whether a name is one of a builtin command of sh, dash, busybox or bash.
func builtin(name string) bool {
	switch name {
	case "echo", "true", "false", ":", "pwd", "return", "test", "[", "printf", "shift", "local", "read",
		".", "source", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "chdir", "command", "compgen", "complete", "compopt", "continue", "declare", "dirs", "disown",
		"enable", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "logout", "mapfile", "newgrp", "popd", "print", "pushd",
		"readarray", "readonly", "set", "shopt", "suspend", "times", "trap", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait", "[[", "coproc", "time", "env", "nohup",
		"setopt", "nameref":
		return true
	}
	return false
}

// Program says whether a name is one of a program that tests use, and whose place a
// function would take.
func Program(name string) bool {
	switch name {
	case "awk", "basename", "bc", "cat", "chmod", "chown", "cmp", "column", "comm", "cp", "curl", "cut", "date", "dd", "df", "diff", "dirname", "du", "egrep", "env", "expr", "factor",
		"fgrep", "file", "find", "fold", "git", "grep", "gawk", "gzip", "head", "hexdump", "hostname", "iconv", "id", "install", "join", "jq", "less", "ln", "ls", "make", "md5sum", "mkdir",
		"mkfifo", "mktemp", "mv", "nl", "nproc", "od", "paste", "patch", "perl", "pr", "printenv", "ps", "python", "python3", "readlink", "realpath", "rev", "rm", "rmdir", "sed", "seq",
		"sha1sum", "sha256sum", "shuf", "sleep", "sort", "split", "stat", "strings", "stty", "sum", "sync", "tac", "tail", "tar", "tee", "timeout", "touch", "tput", "tr", "tree", "tsort",
		"tty", "uname", "uniq", "unzip", "wc", "wget", "which", "who", "xargs", "xxd", "yes", "zcat", "zip", "sh", "bash", "dash":
		return true
	}
	return false
}

// isShell says whether a program reads scripts.
func isShell(program string) bool {
	switch path.Base(program) {
	case "sh", "bash", "dash", "ash", "ksh", "zsh", "busybox":
		return true
	}
	return false
}

// takesCode says whether an option of a shell has it run the next word: -c, -ec.
func takesCode(option string) bool {
	return strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(option, "c")
}
