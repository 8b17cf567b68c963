package remit_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sourceFile is what the rules need to know of one Go file.
type sourceFile struct {
	path    string // slash-separated, relative to the module root
	test    bool
	imports []importAt
	uses    []useAt
	// startsGit holds the lines where os/exec runs "git".
	startsGit []int
}

type importAt struct {
	path string
	line int
}

type useAt struct {
	name string // package path, dot, function
	line int
}

// goFiles parses every Go file of this module, tests and build-tagged ones
// included; nested modules, testdata and hidden folders are not part of it.
func goFiles(t *testing.T) []sourceFile {
	t.Helper()
	var out []sourceFile
	err := walkModule(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			return fmt.Errorf("read Go file: %w", err)
		}
		f, err := parseSource(name, src)
		if err != nil {
			return err
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// walkModule calls visit with the slash-separated path of every file that the
// go command would take as part of this module.
func walkModule(visit func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if !d.IsDir() {
			return visit(filepath.ToSlash(name))
		}
		base := d.Name()
		if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
}

// parseSource extracts imports and what a file takes from the packages it imports.
func parseSource(name string, src []byte) (sourceFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return sourceFile{}, fmt.Errorf("parse %s: %w", name, err)
	}
	out := sourceFile{path: name, test: strings.HasSuffix(name, "_test.go")}
	local := map[string]string{} // name in the file -> import path
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return sourceFile{}, fmt.Errorf("import in %s: %w", name, err)
		}
		out.imports = append(out.imports, importAt{imported, fset.Position(spec.Pos()).Line})
		as := path.Base(imported)
		if spec.Name != nil {
			as = spec.Name.Name
		}
		local[as] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && local[id.Name] != "" {
				out.uses = append(out.uses, useAt{local[id.Name] + "." + sel.Sel.Name, fset.Position(sel.Pos()).Line})
			}
		}
		if call, ok := n.(*ast.CallExpr); ok && startsGit(call, local) {
			out.startsGit = append(out.startsGit, fset.Position(call.Pos()).Line)
		}
		return true
	})
	return out, nil
}

// startsGit recognises exec.Command("git", …) and exec.CommandContext(ctx, "git", …).
func startsGit(call *ast.CallExpr, local map[string]string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok || local[id.Name] != "os/exec" {
		return false
	}
	program := map[string]int{"Command": 0, "CommandContext": 1, "LookPath": 0}
	i, ok := program[sel.Sel.Name]
	if !ok || len(call.Args) <= i {
		return false
	}
	lit, ok := call.Args[i].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	s, err := strconv.Unquote(lit.Value)
	return err == nil && path.Base(s) == "git"
}

// TestParserSeesThrough proves that renamed and grouped imports, and uses
// of them, are recognised.
func TestParserSeesThrough(t *testing.T) {
	t.Parallel()
	const src = `package p
import (
	run "os/exec"
	clock "time"
)
func f(x struct{ Now func() }) {
	_ = run.CommandContext(nil, "git", "status")
	_ = run.Command("/usr/bin/git")
	_ = run.Command("ls", "git")
	_ = clock.Now()
	x.Now()
}`
	f, err := parseSource("work/git/a.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{7, 8}; !slices.Equal(f.startsGit, want) {
		t.Errorf("git is started on lines %v, want %v", f.startsGit, want)
	}
	if !slices.Contains(f.uses, useAt{"time.Now", 10}) {
		t.Errorf("uses %v lack time.Now on line 10", f.uses)
	}
	if slices.ContainsFunc(f.uses, func(c useAt) bool { return c.line == 11 }) {
		t.Errorf("uses %v take a field for a package", f.uses)
	}
}
