package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// PrefixVariable names a directory with installed agents.
const PrefixVariable = "REMIT_AGENTS"

// defaultPrefix is where make agents installs, seen from the project.
const defaultPrefix = ".tools/agents"

const manifest = "package.json"

// maxManifest bounds a package.json.
const maxManifest = 1 << 20

// Package is an installed npm package.
type Package struct {
	Dir     string // absolute, without symbolic links
	Name    string
	Version string

	dependencies []dependency
}

type dependency struct {
	name     string
	optional bool
}

// Find returns the agent's package. bin is what the user named: the executable,
// the package's directory or the prefix that it is installed in; "" to look in
// the known places.
func (a Agent) Find(bin string) (*Package, error) {
	prefixes, start := []string{os.Getenv(PrefixVariable), defaultPrefix}, ""
	if bin != "" {
		prefixes, start = []string{bin}, bin
	}
	for _, prefix := range prefixes {
		if dir := a.installed(prefix); dir != "" {
			return a.above(dir)
		}
	}
	if start == "" {
		var err error
		if start, err = exec.LookPath(a.Program); err != nil {
			return nil, unavailable("the agent %s is not installed: there is no package %s in $%s or %s, and no program %q on PATH",
				a.Name, a.Package, PrefixVariable, defaultPrefix, a.Program)
		}
	}
	return a.above(start)
}

// installed looks below an npm prefix: one of all agents, of this one, or a
// global one. It returns "" if the package is not there.
func (a Agent) installed(prefix string) string {
	if prefix == "" {
		return ""
	}
	for _, below := range []string{"node_modules", filepath.Join(a.Name, "node_modules"), "lib/node_modules"} {
		dir := filepath.Join(prefix, below, filepath.FromSlash(a.Package))
		if _, err := os.Stat(filepath.Join(dir, manifest)); err == nil { //nolint:gosec // G703: where the user says that agents are
			return dir
		}
	}
	return ""
}

// above follows a path to the package that it belongs to.
func (a Agent) above(place string) (*Package, error) {
	real, err := filepath.EvalSymlinks(place)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, unavailable("the agent %s: %w", a.Name, withoutPath(err))
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		p, err := readPackage(dir)
		switch {
		case err == nil && !a.owns(p.Name):
			return nil, unavailable("the given place belongs to the npm package %q, not to %s", p.Name, a.Package)
		case err == nil:
			return p, a.check(p)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, unavailable("the package of %s: %w", a.Name, withoutPath(err))
		case dir == filepath.Dir(dir):
			return nil, unavailable("%s at the given place is in no npm package: its version cannot be found out without starting it", a.Name)
		}
	}
}

// owns reports whether a package is the agent's or the one with its program.
func (a Agent) owns(name string) bool {
	return name == a.Package || slices.Contains(a.platforms(), name)
}

func (a Agent) platforms() []string {
	if a.Platform == nil {
		return nil
	}
	return a.Platform(runtime.GOOS, runtime.GOARCH)
}

// check refuses a major version that was not tested.
func (a Agent) check(p *Package) error {
	major, _, dotted := strings.Cut(p.Version, ".")
	if !dotted {
		return unavailable("%s has the version %q, which is none", a.Name, p.Version)
	}
	if major != a.Major {
		return unavailable("%s has version %s; only major version %s was tested with this release", a.Name, p.Version, a.Major)
	}
	return nil
}

// readPackage reads the package.json of a directory. A place that is none, or
// has none, does not exist as a package.
func readPackage(dir string) (*Package, error) {
	f, err := os.Open(filepath.Join(dir, manifest))
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, err
	}
	var m struct {
		Name, Version string
		Dependencies  map[string]string
		Optional      map[string]string `json:"optionalDependencies"`
		Peer          map[string]string `json:"peerDependencies"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	if m.Name == "" {
		return nil, fs.ErrNotExist // only says how files below are to be read
	}
	p := &Package{Dir: dir, Name: m.Name, Version: m.Version}
	for name := range m.Dependencies {
		_, optional := m.Optional[name]
		p.dependencies = append(p.dependencies, dependency{name, optional})
	}
	for _, more := range []map[string]string{m.Optional, m.Peer} {
		for name := range more {
			p.dependencies = append(p.dependencies, dependency{name, true})
		}
	}
	return p, nil
}

// dependency finds a package as node does: in node_modules of the package
// itself, then of each directory above.
func (p *Package) dependency(name string) (*Package, error) {
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) != "node_modules" {
			found, err := readPackage(filepath.Join(dir, "node_modules", filepath.FromSlash(name)))
			if err == nil || !errors.Is(err, fs.ErrNotExist) {
				return found, err
			}
		}
		if dir == filepath.Dir(dir) {
			return nil, fs.ErrNotExist
		}
	}
}

// Native returns the directory of the package with the native program. Its
// version must be the agent's.
func (a Agent) Native(p *Package) (string, error) {
	for _, name := range a.platforms() {
		native := p
		if filepath.Base(p.Dir) != path.Base(name) { // else the user named the native package itself
			var err error
			if native, err = p.dependency(name); errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return "", unavailable("the package %s: %w", name, withoutPath(err))
			}
		}
		// Some name the platform in the version: 1.2.3-linux-x64.
		if want := p.Release(); native.Release() != want {
			return "", unavailable("the package %s has version %s, and %s has %s", name, native.Version, a.Package, want)
		}
		return native.Dir, nil
	}
	return "", unavailable("%s %s has no native program for %s/%s here", a.Name, p.Version, runtime.GOOS, runtime.GOARCH)
}

// NativeProgram finds the package at bin, or in the known places if bin is "",
// and a file of the package with its native program.
func (a Agent) NativeProgram(bin, name string) (p *Package, file string, err error) {
	if p, err = a.Find(bin); err != nil {
		return nil, "", err
	}
	dir, err := a.Native(p)
	if err != nil {
		return nil, "", err
	}
	file, err = File(dir, name)
	return p, file, err
}

// NativeIdentity digests that file.
func (a Agent) NativeIdentity(bin, name string) (evidence.EngineIdentity, error) {
	p, file, err := a.NativeProgram(bin, name)
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	digest, err := FileDigest(file)
	return evidence.EngineIdentity{Name: a.Name, Version: p.Release(), SHA256: digest}, err
}

// Release is the version without the platform that some packages add to it.
func (p *Package) Release() string {
	release, _, _ := strings.Cut(p.Version, "-")
	return release
}

// withoutPath keeps places of this machine out of what becomes evidence.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// File checks that a file of the package can be lent to the sandbox.
func File(dir, name string) (string, error) {
	file := filepath.Join(dir, filepath.FromSlash(name))
	info, err := os.Stat(file)
	if err != nil {
		return "", unavailable("the program %s of the package: %w", name, withoutPath(err))
	}
	if !info.Mode().IsRegular() {
		return "", unavailable("the program %s of the package is no file", name)
	}
	return file, nil
}

// Modules is the node_modules directory that a package is installed in.
func (p *Package) Modules() string {
	dir := filepath.Dir(p.Dir)
	if strings.Contains(p.Name, "/") { // the name of a scope is a directory
		dir = filepath.Dir(dir)
	}
	return dir
}

// Lend shows packages of the node_modules directory root to the sandbox, as the
// directory inside: the whole directory if nothing else is installed in it,
// else each package alone, since what lies beside them does not belong to the agent
// there. The packages are sorted, as Closure returns them.
func Lend(root string, packages []*Package, inside string) ([]sandbox.Bind, error) {
	var out []sandbox.Bind
	lent := map[string]bool{}
	for _, p := range packages {
		if n := len(out); n > 0 && strings.HasPrefix(p.Dir, out[n-1].Host+"/") {
			continue // sorted: what lies in a package comes right after it
		}
		below, err := filepath.Rel(root, p.Dir)
		if err != nil || !filepath.IsLocal(below) {
			return nil, reason.Errorf(reason.ProviderUnavailable, "the package %s is not installed beside the agent", p.Name).
				WithHint("`remit agent setup NAME` installs it in a place of its own")
		}
		lent[below] = true
		out = append(out, sandbox.Bind{Host: p.Dir, Inside: path.Join(inside, filepath.ToSlash(below))})
	}
	if onlyThese(root, lent) {
		return []sandbox.Bind{{Host: root, Inside: inside}}, nil
	}
	return out, nil
}

// onlyThese reports whether a node_modules directory has no other package than
// the named ones. A directory that cannot be read has.
func onlyThese(root string, lent map[string]bool) bool {
	top, err := os.ReadDir(root)
	for _, e := range top {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."): // npm's own: links and a list of the packages
		case strings.HasPrefix(name, "@"):
			scope, scopeErr := os.ReadDir(filepath.Join(root, name))
			for _, in := range scope {
				if !lent[filepath.Join(name, in.Name())] {
					return false
				}
			}
			err = errors.Join(err, scopeErr)
		case !lent[name]:
			return false
		}
	}
	return err == nil
}

// insideNode is where node stands in the sandbox if the system does not show it.
const insideNode = InsideDir + "/node"

// Node is the place of node in the sandbox, and what has to be lent for it.
func Node(agent string) (inside string, lent []sandbox.Bind, err error) {
	node, err := exec.LookPath("node")
	if err == nil {
		node, err = filepath.EvalSymlinks(node)
	}
	if err != nil {
		return "", nil, reason.Errorf(reason.ProviderUnavailable, "%s needs node, and there is no such program on PATH", agent).
			WithHint("install Node.js 20.6 or newer")
	}
	if strings.HasPrefix(node, "/usr/") { // which every sandbox shows
		return node, nil, nil
	}
	return insideNode, []sandbox.Bind{{Host: node, Inside: insideNode}}, nil
}

// Owner is the npm package that a file belongs to, nil if it is in none: one
// that a package manager put below node_modules. A package.json above a program
// of a project of the user does not make it a package.
func Owner(file string) (*Package, error) {
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		above := filepath.Dir(dir)
		if strings.HasPrefix(filepath.Base(above), "@") {
			above = filepath.Dir(above) // of the scope
		}
		if filepath.Base(above) != "node_modules" {
			continue
		}
		p, err := readPackage(dir)
		switch {
		case err == nil:
			return p, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, unavailable("the package of the program: %w", withoutPath(err))
		}
	}
	return nil, nil
}
