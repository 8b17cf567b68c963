package depend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/tree"
)

// The npm ecosystem: package.json files and package-lock.json (or
// npm-shrinkwrap.json), versions 2 and 3. Both are read as data and written anew
// with the keys below and nothing else; what a lock file names must come from the
// registry by name, version and digest.

const (
	npmFetch     = "npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier"
	npmModules   = "node_modules"
	npmLock      = "package-lock.json"
	npmShrinked  = "npm-shrinkwrap.json"
	npmPackage   = "package.json"
	npmConfig    = ".npmrc"
	maxLockBytes = 64 << 20
	maxManifests = 2000
)

// npmMaps are the keys of dependencies, in a manifest and in a lock file.
var npmMaps = []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"}

// npmKept are further keys of a manifest that decide what is installed, and the
// names of programs that a workspace links.
var npmKept = []string{"name", "version", "peerDependenciesMeta", "bundleDependencies", "overrides", "workspaces", "bin", "os", "cpu", "libc"}

// npmLocked are further keys of an entry of a lock file.
var npmLocked = []string{"name", "version", "link", "dev", "optional", "devOptional", "peer", "inBundle", "hasInstallScript", "hasShrinkwrap",
	"peerDependenciesMeta", "bundleDependencies", "workspaces", "bin", "os", "cpu", "libc", "engines"}

// npmHosts are the hosts under which the public registry is known.
var npmHosts = []string{"registry.npmjs.org", "registry.yarnpkg.com"}

const npmDefault = "https://registry.npmjs.org/"

type npmObject = map[string]any

// npmPlan reads what is to be installed. hosts are further hosts of the registry:
// those of the user's own one.
func npmPlan(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	n := &npmReader{base: base, dir: p.Dir, hosts: hosts, out: &plan{packages: map[string]bool{}}}
	lockName := npmShrinked
	lock, err := n.object(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		lockName = npmLock
		lock, err = n.object(lockName)
	}
	if err != nil {
		return nil, n.invalid(lockName, err, "commit the lock file that `npm install --package-lock-only` makes")
	}
	if err := n.lock(lockName, lock); err != nil {
		return nil, err
	}
	n.out.lockFiles = []string{path.Join(p.Dir, lockName)}
	n.out.fetch, n.out.build = []string{npmFetch}, p.Build
	if n.legacyPeers() {
		n.out.fetch[0] += " --legacy-peer-deps"
	}
	n.out.fetchEnv = map[string]string{"npm_config_cache": "/tmp/npm"}
	n.out.buildEnv = map[string]string{"npm_config_cache": "/tmp/npm", "npm_config_offline": "true"}
	n.out.tools = []string{"node", "npm"}
	if len(p.Paths) > 0 {
		n.out.paths = n.out.paths[:0]
		for _, dir := range p.Paths {
			n.out.paths = append(n.out.paths, path.Join(p.Dir, dir))
		}
	}
	return n.out, nil
}

// legacyPeers reports whether the repository's .npmrc has npm leave peer
// dependencies alone: a lock file made so is only in order with the same word. It
// is the one setting that is read; the file itself is never given to npm.
func (n *npmReader) legacyPeers() bool {
	text, err := readInput(n.base, path.Join(n.dir, npmConfig), 1<<20)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == "legacy-peer-deps" && strings.TrimSpace(value) == "true" {
			return true
		}
	}
	return false
}

type npmReader struct {
	base  fs.FS
	dir   string
	hosts func() []string
	out   *plan
}

func (n *npmReader) invalid(name string, err error, hint string) error {
	e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", path.Join(n.dir, name), err)
	e.File = path.Join(n.dir, name)
	return e.WithHint("%s", hint)
}

// object reads a JSON object from the base.
func (n *npmReader) object(name string) (npmObject, error) {
	text, err := readInput(n.base, path.Join(n.dir, name), maxLockBytes)
	if err != nil {
		return nil, err
	}
	var o npmObject
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	return o, nil
}

// lock reads the lock file, and the manifests of the packages in the repository
// that it names.
func (n *npmReader) lock(name string, lock npmObject) error {
	const hint = "make it again with `npm install --package-lock-only --lockfile-version 3`"
	version, _ := lock["lockfileVersion"].(float64)
	if version != 2 && version != 3 {
		return n.invalid(name, fmt.Errorf("it is of version %v, and Remit reads 2 and 3", lock["lockfileVersion"]), hint)
	}
	packages, ok := lock["packages"].(npmObject)
	if !ok {
		return n.invalid(name, errors.New("it has no packages"), hint)
	}
	out, dirs := npmObject{}, map[string]bool{npmModules: true}
	manifests := 0
	for _, key := range slices.Sorted(maps.Keys(packages)) {
		entry, ok := packages[key].(npmObject)
		if !ok || key != "" && !tree.ValidPath(key) {
			return n.invalid(name, fmt.Errorf("%.200q is no package", key), hint)
		}
		if at, below := modulesOf(key); below {
			dirs[at] = true
			kept, err := n.locked(key, entry, packages)
			if err != nil {
				return err
			}
			out[key] = kept
			continue
		}
		if manifests++; manifests > maxManifests {
			return n.invalid(name, fmt.Errorf("it names more than %d packages of the repository", maxManifests), hint)
		}
		if err := n.manifest(key); err != nil {
			return err
		}
		kept := pick(entry, npmLocked)
		if err := n.specs(key, entry, kept); err != nil {
			return err
		}
		out[key] = kept
	}
	if _, ok := packages[""]; !ok {
		return n.invalid(name, errors.New("it has no entry for the repository itself"), hint)
	}
	for dir := range dirs {
		n.out.paths = append(n.out.paths, path.Join(n.dir, dir))
	}
	slices.Sort(n.out.paths)
	return n.write(npmLock, npmObject{"name": lock["name"], "version": lock["version"], "lockfileVersion": version, "requires": true, "packages": out})
}

// modulesOf is the directory of installed packages that a key of a lock file is
// below.
func modulesOf(key string) (dir string, below bool) {
	parts := strings.Split(key, "/")
	i := slices.Index(parts, npmModules)
	if i < 0 || i == len(parts)-1 {
		return "", false
	}
	return strings.Join(parts[:i+1], "/"), true
}

// manifest reads a package.json of the repository, and writes it again.
func (n *npmReader) manifest(dir string) error {
	name := path.Join(dir, npmPackage)
	m, err := n.object(name)
	if err != nil {
		return n.invalid(name, err, "the lock file names this package: make it again, or commit the file")
	}
	kept := pick(m, npmKept)
	if err := n.specs(dir, m, kept); err != nil {
		return err
	}
	if err := n.overrides(m["overrides"]); err != nil {
		return err
	}
	return n.write(name, kept)
}

// specs copies the dependencies of a package, and refuses those that do not come
// from a registry.
func (n *npmReader) specs(of string, from, to npmObject) error {
	for _, kind := range npmMaps {
		wanted, stated := from[kind]
		if !stated {
			continue
		}
		specs, ok := wanted.(npmObject)
		if !ok {
			return n.invalid(path.Join(of, npmPackage), fmt.Errorf("%s is no object", kind), "correct the file")
		}
		for name, spec := range specs {
			text, ok := spec.(string)
			if !ok || !fromRegistry(text) {
				return n.refused(name, fmt.Sprint(spec))
			}
		}
		to[kind] = specs
	}
	return nil
}

func (n *npmReader) overrides(v any) error {
	switch v := v.(type) {
	case npmObject:
		for name, spec := range v {
			if text, ok := spec.(string); ok && !fromRegistry(text) {
				return n.refused(name, text)
			}
			if err := n.overrides(spec); err != nil {
				return err
			}
		}
	case []any:
		return n.invalid(npmPackage, errors.New("overrides has a list"), "correct the file")
	}
	return nil
}

func (n *npmReader) refused(name, from string) error {
	return reason.Errorf(reason.DependencyRefused, "%s: the package %.200q is to come from %.200q, and Remit fetches from the registry only", n.dir, name, from).
		WithHint("take a released version of %.200q from the registry; git, path and URL dependencies are not fetched", name)
}

// fromRegistry reports whether a version range, a tag or an alias can only be
// answered by the registry.
func fromRegistry(spec string) bool {
	spec, alias := strings.CutPrefix(spec, "npm:")
	if alias {
		name, _, _ := strings.Cut(strings.TrimPrefix(spec, "@"), "@")
		return npmName().MatchString(name) || npmName().MatchString("@"+name)
	}
	return !strings.ContainsAny(spec, "/:\\") && !strings.HasPrefix(spec, "~/") && spec != "." && spec != ".." && !strings.HasSuffix(spec, ".tgz")
}

var (
	npmName      = form.Lazy(`^(@[A-Za-z0-9~_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*$`)
	npmVersion   = form.Lazy(`^[0-9][0-9A-Za-z.+-]{0,255}$`)
	npmIntegrity = form.Lazy(`^sha(1|256|384|512)-[A-Za-z0-9+/]+={0,2}(\s+sha(1|256|384|512)-[A-Za-z0-9+/]+={0,2})*$`)
)

// pick copies the values of some keys, which are texts, numbers, lists and
// mappings: JSON can have nothing else.
func pick(from npmObject, keys []string) npmObject {
	to := npmObject{}
	for _, k := range keys {
		if v, ok := from[k]; ok {
			to[k] = v
		}
	}
	return to
}

func (n *npmReader) write(name string, v npmObject) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	n.out.files = append(n.out.files, file{path.Join(n.dir, name), append(text, '\n')})
	return nil
}
