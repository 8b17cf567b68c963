package verify

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"strconv"
	"strings"

	"remit/work/tree"
)

// Some code is for tests although its path does not say so: a package of
// assertions that only tests import. A patch that changes it changes what the
// tests say, so it is treated like a test.

// maxImporters bounds the files whose imports are read.
const maxImporters = 20_000

// testSupport says whether a file of the base is Go code for tests alone: it
// uses package testing, and only test files import its package.
func testSupport(root *os.Root, p string) bool {
	if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") || !imports(root, p, "testing") {
		return false
	}
	target, _ := moduleOf(root.ReadFile, path.Dir(p))
	all, err := filesBelow(root, ".")
	if err != nil {
		return false
	}
	byTests, read := false, 0
	for _, f := range all {
		if !strings.HasSuffix(f, ".go") || path.Dir(f) == path.Dir(p) {
			continue
		}
		if read++; read > maxImporters {
			return false
		}
		if !imports(root, f, target) {
			continue
		}
		if !strings.HasSuffix(f, "_test.go") {
			return false
		}
		byTests = true
	}
	return byTests
}

// imports says whether a Go file of the base imports a package.
func imports(root *os.Root, file, target string) bool {
	src, err := root.ReadFile(file)
	if err != nil || len(src) > maxTestFile || !strings.Contains(string(src), strconv.Quote(target)) {
		return false
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		return false
	}
	for _, i := range parsed.Imports {
		if i.Path.Value == strconv.Quote(target) {
			return true
		}
	}
	return false
}

// vendors says whether a change adds a vendor directory of Go to a module that
// had none: the go command then builds the tests from what lies in it, in the
// place of the modules that go.sum names.
func vendors(root *os.Root, c tree.Change) bool {
	if path.Base(c.Path) != "modules.txt" || path.Base(path.Dir(c.Path)) != "vendor" || c.Kind == tree.Delete {
		return false
	}
	_, err := root.Lstat(c.Path)
	return err != nil
}
