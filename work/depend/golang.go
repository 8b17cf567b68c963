package depend

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// The Go ecosystem: go.mod and go.sum, read as data and written anew. What is
// fetched are the modules that go.sum has a digest of, and nothing else. Without an
// entry for Go a run is still lent what the user's own module cache has of them
// (package sandbox); a layer has all of them, on any machine.

const (
	goDefault  = ".remit-go"
	goMod      = "go.mod"
	goSum      = "go.sum"
	goHint     = "run `go mod tidy`, and commit both files"
	maxModules = 5000
)

var goHash = form.Lazy(`^h1:[A-Za-z0-9+/]{43}=$`)

// goPlan reads what is to be fetched.
func goPlan(base fs.FS, p task.Prepare) (*plan, error) {
	o := &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, goSum)}, build: p.Build, tools: []string{"go"}}
	invalid := func(name string, err error) error {
		e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", path.Join(p.Dir, name), err)
		e.File = path.Join(p.Dir, name)
		return e.WithHint(goHint)
	}
	text, err := readInput(base, path.Join(p.Dir, goMod), 1<<20)
	if err != nil {
		return nil, invalid(goMod, err)
	}
	mod, err := goManifest(p.Dir, text)
	if err != nil {
		if reason.CodeOf(err) == "" {
			err = invalid(goMod, err)
		}
		return nil, err
	}
	if text, err = readInput(base, path.Join(p.Dir, goSum), maxLockBytes); err != nil {
		return nil, invalid(goSum, err)
	}
	sums, modules, err := goSums(text, o.packages)
	if err != nil {
		return nil, invalid(goSum, err)
	}
	cache, err := onePath(p, "Go has one module cache", goDefault)
	if err != nil {
		return nil, err
	}
	o.files = []file{{path.Join(p.Dir, goMod), mod}, {path.Join(p.Dir, goSum), sums}}
	o.paths = []string{path.Join(p.Dir, cache)}
	inside := path.Join(sandbox.WorkspacePath, p.Dir, cache)
	o.fetchEnv, o.env = map[string]string{"GOMODCACHE": inside}, map[string]string{"GOMODCACHE": inside}
	o.fetch = []string{strings.Join(append([]string{"go", "mod", "download"}, modules...), " ")}
	return o, nil
}

// goManifest writes a go.mod that has what decides which modules are taken.
func goManifest(dir string, text []byte) ([]byte, error) {
	f, err := modfile.Parse(goMod, text, nil)
	if err != nil {
		return nil, err
	}
	if f.Module == nil || f.Go == nil {
		return nil, errors.New("it has no module or go line")
	}
	out := new(modfile.File)
	if err := errors.Join(out.AddModuleStmt(f.Module.Mod.Path), out.AddGoStmt(f.Go.Version)); err != nil {
		return nil, err
	}
	for _, r := range f.Require {
		out.AddNewRequire(r.Mod.Path, r.Mod.Version, r.Indirect)
	}
	for _, r := range f.Replace {
		if r.New.Version == "" {
			return nil, reason.Errorf(reason.DependencyRefused, "%s: the module %.200q is replaced by the path %.200q, and Remit fetches from module proxies only", dir, r.Old.Path, r.New.Path).
				WithHint("leave out the entry for go: a run is lent the modules that your own module cache has")
		}
		if err := out.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version); err != nil {
			return nil, err
		}
	}
	for _, e := range f.Exclude {
		if err := out.AddExclude(e.Mod.Path, e.Mod.Version); err != nil {
			return nil, err
		}
	}
	out.Cleanup()
	return out.Format()
}

// goSums writes a go.sum again, and lists the modules whose content it names.
func goSums(text []byte, packages map[string]bool) (sums []byte, modules []string, err error) {
	whole := map[string]bool{}
	var lines []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 || !goHash().MatchString(words[2]) {
			return nil, nil, fmt.Errorf("%.200q is no line of it", line)
		}
		version, modOnly := strings.CutSuffix(words[1], "/go.mod")
		if err := module.Check(words[0], version); err != nil {
			return nil, nil, err
		}
		packages[words[0]+"@"+version] = true
		if !modOnly {
			whole[words[0]+"@"+version] = true
		}
		lines = append(lines, strings.Join(words, " ")+"\n")
	}
	if len(whole) > maxModules {
		return nil, nil, fmt.Errorf("it names more than %d modules", maxModules)
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "")), slices.Sorted(maps.Keys(whole)), nil
}
