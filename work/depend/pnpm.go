package depend

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
)

// The pnpm ecosystem: pnpm-lock.yaml of the versions 6 and 9. It is read as data and
// written again as JSON, which is YAML too, with what decides what is installed.
// Each package of the workspace gets a manifest that has nothing but what the lock
// file says that it needs, at the very version: so no hook, override, catalog or
// patch has anything left to decide, and pnpm resolves nothing.

const (
	pnpmLock      = "pnpm-lock.yaml"
	pnpmWorkspace = "pnpm-workspace.yaml"
	pnpmInstall   = " install --frozen-lockfile --ignore-scripts --ignore-pnpmfile"
	maxPnpmBytes  = 16 << 20
	maxRefBytes   = 4000
)

// pnpmClients are the clients for the forms of lock files: pnpm 9 and 10 differ in
// what they hoist, so that a repository which states 9 gets it.
var (
	pnpm8  = nodeClient{"pnpm", "8.15.9", "sha512-SZQ0ydj90aJ5Tr9FUrOyXApjOrzuW7Fee13pDzL0e1E6ypjNXP0AHDHw20VLw4BO3M1XhQHkyik6aBYWa72fgQ==", "pnpm", "bin/pnpm.cjs"}
	pnpm9  = nodeClient{"pnpm", "9.15.9", "sha512-aARhQYk8ZvrQHAeSMRKOmvuJ74fiaR1p5NQO7iKJiClf1GghgbrlW1hBjDolO95lpQXsfF+UA+zlzDzTfc8lMQ==", "pnpm", "bin/pnpm.cjs"}
	pnpm10 = nodeClient{"pnpm", "10.34.9", "sha512-9JtajqD97bRLs8DB1ldQkqU8KVDZW3rRXfEfF5dId6LeOgHAfpNOmyjOcW5RwJqUlixzBtCb4uHksYqMh2L9Mg==", "pnpm", "bin/pnpm.cjs"}
)

var (
	pnpmMaps     = []string{"dependencies", "devDependencies", "optionalDependencies"}
	pnpmLocked   = []string{"engines", "cpu", "os", "libc", "hasBin", "peerDependencies", "peerDependenciesMeta", "bundledDependencies", "requiresBuild", "dev", "optional", "transitivePeerDependencies"}
	pnpmSnapshot = []string{"optional", "transitivePeerDependencies"}
	// pnpmName splits what a lock file names: a package, its version, and the peers
	// that it was put together with.
	pnpmName = form.Lazy(`^/?((?:@[A-Za-z0-9~_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*)@([0-9][0-9A-Za-z.+-]*)((?:\([A-Za-z0-9@/._+~()-]*\))?)$`)
	pnpmOwn  = form.Lazy(`^([0-9][0-9A-Za-z.+-]*)((?:\([A-Za-z0-9@/._+~()-]*\))?)$`)
)

type pnpmReader struct {
	*nodeReader
	lock, packages, snapshots lockMap
	six                       bool
}

// pnpmPlan reads what is to be installed.
func pnpmPlan(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	r := &pnpmReader{nodeReader: &nodeReader{lockFile: pnpmLock, hint: "make it with `pnpm install --lockfile-only`, and commit it",
		npmReader: &npmReader{base: base, dir: p.Dir, hosts: hosts, out: &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, pnpmLock)}}}}}
	text, err := readInput(base, path.Join(p.Dir, pnpmLock), maxPnpmBytes)
	if err == nil {
		r.lock, err = readLockYAML(text)
	}
	if err != nil {
		return nil, r.invalid(pnpmLock, err, r.hint)
	}
	root, err := r.object(npmPackage)
	if err != nil {
		return nil, r.invalid(npmPackage, err, "commit the manifest of the repository")
	}
	client := pnpm10
	switch version := fmt.Sprint(r.lock["lockfileVersion"]); version {
	case "9.0":
		if stated, _ := root["packageManager"].(string); strings.HasPrefix(stated, "pnpm@9.") {
			client = pnpm9
		}
	case "6.0", "6.1":
		client, r.six = pnpm8, true
	default:
		return nil, r.badLock("it is of version %.20q, and Remit reads 6.0, 6.1 and 9.0", version)
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	o := r.out
	_, command, err := client.install(o, p.Dir)
	if err != nil {
		return nil, err
	}
	r.addStubs()
	o.fetch, o.build = append(o.fetch, command+pnpmInstall), p.Build
	// The first is for pnpm in a script of pnpm, which gets the second as an empty value.
	common := map[string]string{"COREPACK_ROOT": "/nonexistent", "npm_config_manage_package_manager_versions": "false", "npm_config_package_manager_strict": "false", "npm_config_update_notifier": "false"}
	o.env = common
	o.fetchEnv = map[string]string{"npm_config_cache": "/tmp/npm", "CI": "true"}
	maps.Copy(o.fetchEnv, common)
	o.buildEnv = map[string]string{"npm_config_cache": "/tmp/npm", "npm_config_offline": "true", "npm_config_store_dir": "/tmp/pnpm"}
	o.leaveOut = []string{".modules.yaml", ".pnpm-workspace-state.json", ".pnpm-workspace-state-v1.json"} // times, and the order in which packages came
	if len(p.Paths) > 0 {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "%s: paths of a layer of pnpm follow from its lock file", p.Dir).WithHint("leave out paths")
	}
	return o, nil
}

// read reads the parts of the lock file, and writes them again.
func (r *pnpmReader) read() error {
	r.packages, _ = r.lock["packages"].(lockMap)
	r.snapshots, _ = r.lock["snapshots"].(lockMap)
	if r.six {
		r.snapshots = r.packages
	}
	if patched, _ := r.lock["patchedDependencies"].(lockMap); len(patched) > 0 {
		return r.refuse(slices.Sorted(maps.Keys(patched))[0], "is patched, and Remit fetches what the registry has")
	}
	packages, err := r.locked()
	if err != nil {
		return err
	}
	snapshots, err := r.put()
	if err != nil {
		return err
	}
	importers, dirs, err := r.importers()
	if err != nil {
		return err
	}
	settings := npmObject{}
	stated, _ := r.lock["settings"].(lockMap)
	for _, key := range []string{"autoInstallPeers", "excludeLinksFromLockfile"} {
		if v, ok := stated[key].(bool); ok {
			settings[key] = v
		}
	}
	out := npmObject{"lockfileVersion": r.lock["lockfileVersion"], "settings": settings, "importers": importers, "packages": packages}
	if r.six { // the two halves of an entry are one there
		for key, entry := range snapshots {
			maps.Copy(packages[key].(npmObject), entry.(npmObject)) //nolint:forcetypeassert // written above
		}
	} else {
		out["snapshots"] = snapshots
	}
	if err := r.write(pnpmLock, out); err != nil {
		return err
	}
	if err := r.write(pnpmWorkspace, npmObject{"packages": dirs}); err != nil {
		return err
	}
	return r.settings(settings)
}

// locked reads the packages: each is of the registry, by name, version and digest.
func (r *pnpmReader) locked() (npmObject, error) {
	out := npmObject{}
	for _, key := range slices.Sorted(maps.Keys(r.packages)) {
		entry, _ := r.packages[key].(lockMap)
		m := pnpmName().FindStringSubmatch(key)
		resolution, _ := entry["resolution"].(lockMap)
		address, _ := resolution["tarball"].(string)
		integrity, _ := resolution["integrity"].(string)
		switch from := firstOf(resolution, "repo", "directory", "path", "tarball", "url"); {
		case entry == nil || resolution == nil || len(key) > maxRefBytes:
			return nil, r.badLock("%.200q is no package", key)
		case m == nil && from == "":
			from = key
			fallthrough
		case m == nil || resolution["repo"] != nil || resolution["directory"] != nil || resolution["type"] != nil || resolution["path"] != nil || entry["patched"] != nil:
			return nil, r.refuse(key, "is to come from %.200q, and Remit fetches from the registry only", from)
		}
		if err := r.at(m[1], m[2], address); err != nil {
			return nil, err
		}
		if err := r.allow(m[1], m[2], integrity); err != nil {
			return nil, err
		}
		kept := pick(entry, pnpmLocked)
		kept["resolution"] = npmObject{"integrity": integrity}
		out[key] = kept
	}
	return out, nil
}

func firstOf(m lockMap, keys ...string) string {
	for _, key := range keys {
		if text, ok := m[key].(string); ok {
			return text
		}
	}
	return ""
}

// put reads how the packages are put together.
func (r *pnpmReader) put() (npmObject, error) {
	out := npmObject{}
	for _, key := range slices.Sorted(maps.Keys(r.snapshots)) {
		entry, _ := r.snapshots[key].(lockMap) // nil for one that needs nothing
		m := pnpmName().FindStringSubmatch(key)
		if m == nil || len(key) > maxRefBytes || strings.Contains(key, "..") || !r.six && r.packages[m[1]+"@"+m[2]] == nil {
			return nil, r.badLock("%.200q is put together from no package", key)
		}
		if entry["patched"] != nil {
			return nil, r.refuse(m[1], "is patched, and Remit fetches what the registry has")
		}
		kept := pick(entry, pnpmSnapshot)
		for _, kind := range []string{"dependencies", "optionalDependencies"} {
			needs, _ := entry[kind].(lockMap)
			for name, v := range needs {
				if ref, ok := v.(string); !ok || !npmName().MatchString(name) || !r.exists(name, ref) {
					return nil, r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", fmt.Sprint(v))
				}
			}
			if needs != nil {
				kept[kind] = needs
			}
		}
		out[key] = kept
	}
	return out, nil
}

// exists reports whether a dependency is one of the packages that are put together.
func (r *pnpmReader) exists(name, ref string) bool {
	key := ref
	if pnpmOwn().MatchString(ref) {
		if key = name + "@" + ref; r.six {
			key = "/" + key
		}
	}
	_, there := r.snapshots[key]
	return there
}

// importers reads what the packages of the repository need, and writes their
// manifests.
func (r *pnpmReader) importers() (npmObject, []any, error) {
	all, ok := r.lock["importers"].(lockMap)
	if !ok {
		all = lockMap{".": r.lock} // one package, before 9
	}
	if len(all) > maxManifests {
		return nil, nil, r.badLock("it names more than %d packages of the repository", maxManifests)
	}
	out, dirs := npmObject{}, []any{}
	r.out.paths = []string{path.Join(r.dir, npmModules)}
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		entry, _ := all[dir].(lockMap)
		manifest, kept, err := r.member(dir)
		if err != nil {
			return nil, nil, err
		}
		importer := npmObject{}
		for _, kind := range pnpmMaps {
			needs, _ := entry[kind].(lockMap)
			if len(needs) == 0 {
				continue
			}
			refs, specs := npmObject{}, npmObject{}
			for _, name := range slices.Sorted(maps.Keys(needs)) {
				need, _ := needs[name].(lockMap)
				version, _ := need["version"].(string)
				spec, err := r.spec(all, dir, name, version)
				if err != nil {
					return nil, nil, err
				}
				refs[name], specs[name] = npmObject{"specifier": spec, "version": version}, spec
			}
			importer[kind], kept[kind] = refs, specs
		}
		if err := r.fresh(dir, manifest, entry); err != nil {
			return nil, nil, err
		}
		out[dir] = importer
		if dir != "." {
			dirs = append(dirs, dir)
			if len(importer) > 0 {
				r.out.paths = append(r.out.paths, path.Join(r.dir, dir, npmModules))
			}
		}
		if err := r.write(path.Join(dir, npmPackage), kept); err != nil {
			return nil, nil, err
		}
	}
	if out["."] == nil {
		return nil, nil, r.badLock("it has no entry for the repository itself")
	}
	return out, dirs, nil
}

// spec is what a manifest says to get the version that is locked.
func (r *pnpmReader) spec(all lockMap, dir, name, version string) (string, error) {
	if !npmName().MatchString(name) {
		return "", r.refuse(name, "has a name that is none")
	}
	if at, link := strings.CutPrefix(version, "link:"); link {
		if _, known := all[path.Join(dir, at)]; !known || path.IsAbs(at) {
			return "", r.refuse(name, "is to come from the path %.200q, which is no package of the workspace", at)
		}
		return "workspace:*", nil
	}
	if len(version) > maxRefBytes || !r.exists(name, version) {
		return "", r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", version)
	}
	if m := pnpmOwn().FindStringSubmatch(version); m != nil {
		return m[1], nil
	}
	m := pnpmName().FindStringSubmatch(version) // another name than its own
	return "npm:" + m[1] + "@" + m[2], nil
}

// fresh refuses a lock file that says something else than a manifest. What overrides,
// hooks and extensions make of a manifest is not known here.
func (r *pnpmReader) fresh(dir string, manifest npmObject, entry lockMap) error {
	locked := map[string]string{}
	for _, kind := range pnpmMaps {
		needs, _ := entry[kind].(lockMap)
		for name, v := range needs {
			need, _ := v.(lockMap)
			locked[name] = fmt.Sprint(need["specifier"])
			if specifiers, ok := r.lock["specifiers"].(lockMap); ok {
				locked[name] = fmt.Sprint(specifiers[name])
			}
		}
	}
	if r.lock["overrides"] != nil || r.lock["packageExtensionsChecksum"] != nil || r.lock["pnpmfileChecksum"] != nil || r.lock["ignoredOptionalDependencies"] != nil {
		return nil
	}
	for _, kind := range pnpmMaps {
		wanted, _ := manifest[kind].(npmObject)
		for name, v := range wanted {
			if spec, there := locked[name]; !there || spec != fmt.Sprint(v) {
				return r.badLock("%s wants %.100q as %.100q, and the lock file has %.100q", path.Join(dir, npmPackage), name, fmt.Sprint(v), spec)
			}
		}
	}
	return nil
}
