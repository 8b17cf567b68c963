package detect

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// golang finds modules and workspaces of Go. Modules that no go.work joins are
// tested one by one.
func (f *finder) golang() {
	modules := f.places("go.mod")
	tests := func(dir string) bool {
		return len(f.tests(dir, modules, func(n string) bool { return strings.HasSuffix(n, "_test.go") })) > 0
	}
	joined := f.goWorkspace(modules, tests)
	for _, dir := range modules {
		p := Project{Dir: dir, Ecosystem: "go", Manager: "go", Manifest: in(dir, "go.mod"), Lock: f.lockOf(dir, "go.sum")}
		f.project(p)
		f.goModule(dir)
		switch {
		case slices.Contains(joined, dir):
		case !tests(dir):
			f.note(p.Manifest, "the module has no test file")
		case dir == ".":
			f.command(p.Manifest, "go test ./...")
		default:
			f.command(p.Manifest, "go -C "+dir+" test ./...")
		}
	}
}

// goModule notes what of a module needs a hand.
func (f *finder) goModule(dir string) {
	src, ok := f.text(in(dir, "go.mod"))
	if !ok {
		return
	}
	mod, err := modfile.Parse("go.mod", src, nil)
	if err != nil {
		mod, err = modfile.ParseLax("go.mod", src, nil) // it has a directive of a later Go
	}
	if err != nil {
		f.note(in(dir, "go.mod"), "cannot be parsed")
		return
	}
	for _, r := range mod.Replace {
		if r.New.Version == "" && strings.HasPrefix(path.Join(dir, r.New.Path), "..") {
			f.note(in(dir, "go.mod"), "replaces a module with a directory outside of the repository: that is not in the checkout that is verified")
		}
	}
	if len(mod.Require) > 0 && !f.has[in(dir, "go.sum")] && !slices.Contains(f.foreign, in(dir, "vendor")) {
		f.note(in(dir, "go.mod"), "requires modules, and there is no go.sum: run `go mod tidy`, and commit it")
	}
}

// goWorkspace takes the modules of a go.work at the top: one command tests all
// that have tests. It returns the modules.
func (f *finder) goWorkspace(modules []string, tests func(string) bool) (joined []string) {
	src, ok := f.text("go.work")
	if !ok {
		return nil
	}
	work, err := modfile.ParseWork("go.work", src, nil)
	if err != nil {
		f.note("go.work", "cannot be parsed")
		return nil
	}
	f.project(Project{Dir: ".", Ecosystem: "go", Manager: "go", Manifest: "go.work", Lock: f.lockOf(".", "go.work.sum"), Workspace: true})
	line := "go test"
	for _, use := range work.Use {
		dir := path.Clean(use.Path)
		if !slices.Contains(modules, dir) || slices.Contains(joined, dir) {
			continue
		}
		joined = append(joined, dir)
		switch {
		case !tests(dir):
		case dir == ".":
			line += " ./..."
		default:
			line += " ./" + dir + "/..."
		}
	}
	if line != "go test" {
		f.command("go.work", line)
	}
	return joined
}

// lockOf is the path of the first of the lock files that a directory has.
func (t *tree) lockOf(dir string, names ...string) string {
	if name := t.first(dir, names...); name != "" {
		return in(dir, name)
	}
	return ""
}
