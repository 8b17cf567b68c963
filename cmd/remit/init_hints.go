package main

import (
	"os/exec"
	"path/filepath"
	"strings"

	"remit/proof/form"
	"remit/work/harness"
)

// What interpreters and compilers say of a package that is not there. The words come
// from a hostile process: only what can be a name is repeated.
var noPackage = form.Lazy(`(?:No module named |Cannot find (?:module|package) |no required module provides package |no matching package named |cannot load such file -- )['"` + "`" + `]?([A-Za-z0-9_@][A-Za-z0-9._@/-]{0,99})`)

// missingPackage is the package that the output of a command misses, "" for none.
func missingPackage(output string) string {
	m := noPackage().FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return m[1]
}

// toolchainFor is what --toolchain takes, as a word of a shell, for a command whose
// program is not in the sandbox and is on this machine. "" is for any other.
func toolchainFor(c harness.TriedCommand) string {
	program, _, missing := strings.Cut(c.Hint, " is not in the sandbox")
	if !missing || strings.ContainsAny(program, "/ ") {
		return ""
	}
	path, err := exec.LookPath(program)
	if err != nil || filepath.Base(filepath.Dir(path)) != "bin" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) == "rustup" { // it only starts the one that is meant
		return `"$(rustc --print sysroot)"`
	}
	dir, err := filepath.Abs(filepath.Dir(filepath.Dir(path)))
	if err != nil || dir == "/" {
		return ""
	}
	return form.ShellWord(dir)
}
