package depend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/tree"
)

// pnpm and yarn are seldom where a sandbox sees them: people have them from
// corepack, or in their home. So Remit names them itself, by version and digest; npm
// fetches them as any other package, and the layer holds them, so that `pnpm test`
// works wherever the layer does.

// nodeClient is a package manager by version and digest.
type nodeClient struct {
	name, version, integrity string
	program, file            string // and where its package has it
}

// install adds what installs the client into a directory of its own, and returns
// that directory, relative to the workspace, and the command that starts it in dir.
func (c nodeClient) install(o *plan, dir string) (home, command string, err error) {
	local := ".remit-" + c.program
	home = path.Join(dir, local)
	lock := npmObject{"name": "remit-client", "version": "0.0.0", "lockfileVersion": 3, "requires": true, "packages": npmObject{
		"": npmObject{"name": "remit-client", "version": "0.0.0", "dependencies": npmObject{c.name: c.version}},
		"node_modules/" + c.name: npmObject{"version": c.version, "integrity": c.integrity, "bin": npmObject{c.program: c.file},
			"resolved": npmDefault + c.name + "/-/" + path.Base(c.name) + "-" + c.version + ".tgz"}}}
	for name, v := range map[string]npmObject{npmPackage: {"name": "remit-client", "version": "0.0.0", "private": true,
		"dependencies": npmObject{c.name: c.version}}, npmLock: lock} {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return "", "", err
		}
		o.files = append(o.files, file{path.Join(home, name), append(text, '\n')})
	}
	o.client = " with " + c.program + " " + c.version + ", which writes lock files of this form"
	o.packages[c.name], o.packages[c.name+"@"+c.version] = true, true
	o.fetch = append(o.fetch, npmFetch+" --prefix "+local)
	o.tools = []string{"node", "npm"}
	o.paths = append(o.paths, home)
	o.pathDirs = []string{path.Join(home, npmModules, ".bin")}
	return home, "node " + path.Join(local, npmModules, ".bin", c.program), nil
}

// nodeReader reads the manifests of a repository of Node for pnpm and yarn.
type nodeReader struct {
	*npmReader
	lockFile, hint string
	stubs          []file // for the programs of the workspace
}

// addStubs writes those that are in the place of no other file.
func (r *nodeReader) addStubs() {
	for _, stub := range r.stubs {
		if !slices.ContainsFunc(r.out.files, func(f file) bool { return f.path == stub.path }) {
			r.out.files = append(r.out.files, stub)
		}
	}
	slices.SortFunc(r.out.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
}

func (r *nodeReader) badLock(format string, args ...any) error {
	return r.invalid(r.lockFile, fmt.Errorf(format, args...), r.hint)
}

func (r *nodeReader) refuse(name, format string, args ...any) error {
	return reason.Errorf(reason.DependencyRefused, "%s: the package %.200q %s", path.Join(r.dir, r.lockFile), name, fmt.Sprintf(format, args...)).
		WithHint("take a released version of %.200q from the registry; git, path and URL dependencies are not fetched", name)
}

// at holds the address of a package's file against the rules, as npm's lock files have it.
func (r *nodeReader) at(name, version, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || !r.known(name, strings.ToLower(u.Host)) {
		return r.refuse(name, "%s is to come from %.200q, and Remit fetches from the registry only", version, address)
	}
	return nil
}

// allow lets a package be asked for.
func (r *nodeReader) allow(name, version, integrity string) error {
	switch {
	case len(name) > 214 || !npmName().MatchString(name) || !npmVersion().MatchString(version):
		return r.refuse(name, "has the name or version %.100q, which is none of the registry", version)
	case !npmIntegrity().MatchString(integrity):
		return reason.Errorf(reason.DependencyRefused, "%s has no digest of the package %.200q %.50q", path.Join(r.dir, r.lockFile), name, version).
			WithHint(noDigest)
	}
	r.out.packages[name], r.out.packages[name+"@"+version] = true, true
	r.out.held(name+"@"+version, integrity)
	return nil
}

var hashBang = form.Lazy(`^#![ -~]{1,100}\n`)

// member reads the manifest of a package of the workspace, and returns what is kept
// of it: name, version and programs. For each program a file with its first line is
// written, by which a client says how it is started.
func (r *nodeReader) member(dir string) (manifest, kept npmObject, err error) {
	if dir != "." && !tree.ValidPath(dir) {
		return nil, nil, r.badLock("%.200q is no directory of the repository", dir)
	}
	name := path.Join(dir, npmPackage)
	m, err := r.object(name)
	if err != nil {
		return nil, nil, r.invalid(name, err, "the lock file names this package: make it again, or commit the file")
	}
	kept = npmObject{"private": true}
	for key, form := range map[string]func() *regexp.Regexp{"name": npmName, "version": npmVersion} {
		if text, ok := m[key].(string); ok && form().MatchString(text) {
			kept[key] = text
		}
	}
	programs := npmObject{}
	switch bin := m["bin"].(type) {
	case string:
		programs[path.Base(fmt.Sprint(m["name"]))] = bin
	case npmObject:
		programs = bin
	}
	bins := npmObject{}
	for program, v := range programs {
		at, ok := v.(string)
		if at = path.Clean(at); !ok || !tree.ValidPath(at) || !npmName().MatchString(program) || strings.Contains(program, "/") ||
			slices.Contains(strings.Split(at, "/"), npmModules) || strings.HasPrefix(at, ".") || strings.Contains(at, "/.") {
			continue // a client would leave it out too, or it is the place of its settings
		}
		bins[program] = at
		if text, err := readInput(r.base, path.Join(r.dir, dir, at), 1<<20); err == nil {
			r.stubs = append(r.stubs, file{path.Join(r.dir, dir, at), hashBang().Find(text)})
		} else if !errors.Is(err, fs.ErrNotExist) {
			delete(bins, program)
		}
	}
	if len(bins) > 0 {
		kept["bin"] = bins
	}
	return m, kept, nil
}
