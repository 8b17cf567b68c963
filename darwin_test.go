package remit_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDarwin checks the types of every package as they are for darwin, where all that
// needs no sandbox is to work. It compiles nothing: of packages of others only the
// declarations are read, and of the databases nothing at all.
func TestDarwin(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module", "./...")
	cmd.Env = append(cmd.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	files := token.NewFileSet()
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			ImportMap       map[string]string
			Module          *struct{ Main bool }
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		ours := p.Module != nil && p.Module.Main
		if p.ImportPath == "unsafe" || strings.HasPrefix(p.ImportPath, "modernc.org/") {
			continue
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		conf := types.Config{
			IgnoreFuncBodies: !ours, FakeImportC: true, Sizes: types.SizesFor("gc", "arm64"),
			Importer: importing(func(path string) (*types.Package, error) {
				if to, mapped := p.ImportMap[path]; mapped {
					path = to
				}
				if known[path] == nil {
					known[path] = types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
					known[path].MarkComplete()
				}
				return known[path], nil
			}),
			Error: func(err error) {
				if ours && !strings.Contains(p.ImportPath, "nexus/store") { // which has the database
					t.Error(err)
				}
			},
		}
		known[p.ImportPath], _ = conf.Check(p.ImportPath, files, parsed, nil)
	}
}

// importing is an importer of types that is a function.
type importing func(string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }
