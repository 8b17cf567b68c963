package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"remit/proof/form"
)

// A path inside of an argument, such as that of sh -c.
var pathInside = form.Lazy(`(?:^|[\s'"=(<])(/[A-Za-z0-9._+@/-]+)`)

// shownBelow are the places of the host that every sandbox shows.
var shownBelow = []string{"/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/dev/", "/proc/"}

// notLent are files of this machine that a command line names inside of a longer
// argument. Only an argument that is a path by itself is lent to the sandbox.
func notLent(argv []string) (paths []string) {
	for _, arg := range argv {
		for _, m := range pathInside().FindAllStringSubmatch(arg, -1) {
			path := m[1]
			if slices.Contains(argv, path) || slices.Contains(paths, path) || slices.ContainsFunc(shownBelow, func(below string) bool { return strings.HasPrefix(path, below) }) {
				continue
			}
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// hintLent says what of a command line that failed was not lent.
func hintLent(w io.Writer, argv []string) {
	for _, path := range notLent(argv) {
		fmt.Fprintf(w, "hint: %[1]s is not lent to the sandbox: a program of your own and arguments that are absolute paths are, words inside of an argument are not; "+
			"name it as an argument of its own, such as sh -c 'cat \"$1\"' sh %[1]s\n", plain(path))
	}
}
