// Package form holds text against the form that a rule states for it. A
// regular expression of this package is compiled when it is first used: most
// commands of the program use few of them, and compiling all of them costs more
// than such a command.
package form

import (
	"regexp"
	"strings"
	"sync"
)

// Lazy returns a function that compiles the expression at its first call and
// returns the same expression from then on. Like [regexp.MustCompile] it panics
// when the expression is not valid.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// plainWord needs no quotes in a shell.
var plainWord = Lazy(`^[A-Za-z0-9_./@%+=:,-]+$`)

// ShellWord writes a text as one word of a POSIX shell, in quotes where it needs them.
func ShellWord(text string) string {
	if plainWord().MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
