package depend

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/tree"
)

// The yarn ecosystem from yarn 2 on: a yarn.lock with __metadata. Its entries and the
// manifests that it names are read as data and written again, and a client that Remit
// names by digest installs them into node_modules. The checksums of this form are
// those of zip files that yarn makes of what it fetched: the client compares them, and
// the lock file that Remit wrote with what it would write itself (--immutable).
// yarnPath, plugins and every other setting of the repository are not there.

const (
	berryConfig  = ".yarnrc.yml"
	berryInstall = " install --immutable --mode=skip-build"
	berryArchive = "::__archiveUrl=" // an address in the place of the usual one, escaped
	berryHint    = "run `yarn install` of yarn 3 or 4, and commit the lock file"
)

// berryClients are the clients by the version of the lock files that they write: another
// one would write it anew.
var berryClients = map[string]nodeClient{
	"6": berryClient("3.8.7",
		"sha512-YMoAlLR9f+kxXjK72ggBIidi3ulQQrQpMSxzrLUt0OUk9Xdst2v26LBSYFlzOm+7KRNWgYIJpFjA8uRnCgB5xQ=="),
	"8": berryClient("4.12.0",
		"sha512-r0AVfpKUXIbgajKFY0wWMZLwZou+CJmtqt+Y5LTimbPaA78srI0SnLJIS4ikPE1mv8YTPQ7mqRUdoDB7W+kDDA=="),
	"9": berryClient("4.14.1",
		"sha512-62uYRCYBnAwNZ1Y4uMh0iUXtgZe4frwAgd5dJFoTu/uWMZWpJzxY2ib0cAva1eiy1L2jiDR0dS1Os+1osiIxvA=="),
	"10": berryClient("4.18.1",
		"sha512-EH+A4TxAtBWXKE0DGQxW9Bo9crXHLJ73mfxjTQJuv8XonNWWTpei8BQ5JjczHJNU9GROTycwMFn8iOvRIZXUcA=="),
}

func berryClient(version, integrity string) nodeClient {
	return nodeClient{"@yarnpkg/cli-dist", version, integrity, "yarn", "bin/yarn.js"}
}

var (
	// A patch that is a part of the client itself, under both names that it had.
	berryPatch = form.Lazy(`^patch:([A-Za-z0-9@/._-]{1,214})@(npm%3A)?([A-Za-z0-9._~^<>=|* +-]{1,500})` +
		`#(optional!|~)builtin<compat/[a-z]{1,30}>(::version=[0-9A-Za-z.+-]{1,255}&hash=[0-9a-f]{1,128})?$`)
	berryWorkspace = form.Lazy(`^workspace:[A-Za-z0-9@/._*^~+-]{1,500}$`)
	berryChecksum  = form.Lazy(`^([0-9a-z]{1,8}/)?[0-9a-f]{128}$`)
	berryCacheKey  = form.Lazy(`^[0-9]{1,3}(c[0-9])?$`)
	berryCondition = form.Lazy(`^[A-Za-z0-9_=&|()! .-]{1,300}$`)
	berryTarget    = form.Lazy(`^[A-Za-z0-9@/._*^~:-]{1,300}$`)
)

// berryDeps are the mappings of an entry that name what a package needs.
var berryDeps = []string{"dependencies", "peerDependencies"}

type berryReader struct {
	*yarnReader
	cacheKey string   // how the zip files were made whose checksums are locked
	prefix   string   // of a checksum that was made so
	dirs     []string // of the workspace, without its root
	unlocked map[string]bool
}

// berryPlan reads what is to be installed.
func berryPlan(base fs.FS, p task.Prepare, hosts func() []string, text []byte) (*plan, error) {
	r := &berryReader{unlocked: map[string]bool{}, yarnReader: &yarnReader{nodeReader: &nodeReader{lockFile: yarnLock, hint: berryHint,
		npmReader: &npmReader{base: base, dir: p.Dir, hosts: hosts,
			out: &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, yarnLock)}}}}}}
	lock, err := readLockYAML(longKeys(text))
	if err != nil {
		return nil, r.invalid(yarnLock, err, berryHint)
	}
	meta, _ := lock["__metadata"].(lockMap)
	version, _ := meta["version"].(string)
	client, known := berryClients[version]
	if !known {
		return nil, r.invalid(yarnLock,
			fmt.Errorf("its __metadata has the version %.20q, and Remit reads 6, 8, 9 and 10", fmt.Sprint(meta["version"])), berryHint)
	}
	if r.cacheKey, _ = meta["cacheKey"].(string); !berryCacheKey().MatchString(r.cacheKey) {
		return nil, r.badLock("its cacheKey is %.50q", fmt.Sprint(meta["cacheKey"]))
	}
	if version != "6" {
		r.prefix = r.cacheKey + "/"
	}
	kept := npmObject{"__metadata": npmObject{"version": version, "cacheKey": r.cacheKey}}
	for _, key := range slices.Sorted(maps.Keys(lock)) {
		entry, ok := lock[key].(lockMap)
		switch {
		case key == "__metadata":
			continue
		case !ok:
			return nil, r.badLock("%.200q is no package", key)
		}
		if kept[key], err = r.entry(key, entry); err != nil {
			return nil, err
		}
	}
	o := r.out
	if kept, err = r.members(kept); err != nil {
		return nil, err
	}
	written, err := writeSyml(kept)
	if err != nil {
		return nil, r.invalid(yarnLock, err, berryHint)
	}
	settings, err := r.settings()
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, file{path.Join(p.Dir, yarnLock), written}, file{path.Join(p.Dir, berryConfig), settings})
	for _, dir := range append([]string{"."}, r.dirs...) {
		o.paths = append(o.paths, path.Join(p.Dir, dir, npmModules))
	}
	_, command, err := client.install(o, p.Dir)
	if err != nil {
		return nil, err
	}
	r.addStubs()
	o.fetch, o.build = append(o.fetch, command+berryInstall), p.Build
	o.fetchEnv = map[string]string{"npm_config_cache": "/tmp/npm", "CI": "true", "YARN_IGNORE_PATH": "1"}
	// The repository's own settings name another client, and often another form of
	// installation: what is installed is found by these.
	o.env = map[string]string{"YARN_IGNORE_PATH": "1", "YARN_NODE_LINKER": "node-modules",
		"YARN_INSTALL_STATE_PATH": "/tmp/yarn-state.gz", "YARN_ENABLE_TELEMETRY": "0"}
	o.buildEnv = map[string]string{"npm_config_cache": "/tmp/npm", "npm_config_offline": "true", "YARN_ENABLE_NETWORK": "0"}
	o.unlocked = func(pkg registry.Package) bool { return r.unlocked[pkg.Name+"@"+pkg.Version] }
	if len(p.Paths) > 0 {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "%s: paths of a layer of yarn follow from its workspaces", p.Dir).
			WithHint("leave out paths")
	}
	return o, nil
}

// longKeys writes keys of more than 1,024 characters, which yarn writes with a question
// mark and the colon in a line of its own, as any other.
func longKeys(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	out := lines[:0]
	for i := 0; i < len(lines); i++ {
		if key, long := strings.CutPrefix(lines[i], "? "); long && i+1 < len(lines) && strings.TrimRight(lines[i+1], "\r") == ":" {
			out, i = append(out, strings.TrimRight(key, "\r")+":"), i+1
			continue
		}
		out = append(out, lines[i])
	}
	return []byte(strings.Join(out, "\n"))
}

// entry reads one package, and returns what is written of it.
func (r *berryReader) entry(key string, entry lockMap) (npmObject, error) {
	resolution, _ := entry["resolution"].(string)
	at := strings.Index(resolution[min(1, len(resolution)):], "@") + 1
	if at == 0 || len(resolution) > maxRefBytes {
		return nil, r.badLock("%.200q has no resolution", key)
	}
	name, from := resolution[:at], resolution[at+1:]
	if !npmName().MatchString(name) {
		return nil, r.refuse(name, "has a name that is none")
	}
	for pattern := range strings.SplitSeq(key, ", ") {
		at := strings.Index(pattern[min(1, len(pattern)):], "@") + 1
		if at == 0 || !npmName().MatchString(pattern[:at]) || !r.fromRegistry(pattern[at+1:]) {
			return nil, r.refuse(pattern[:at], "is to come from %.200q, and Remit fetches from the registry only", pattern[at:])
		}
	}
	kept := npmObject{"resolution": resolution, "version": entry["version"],
		"languageName": entry["languageName"], "linkType": entry["linkType"]}
	for k, form := range map[string]func() *regexp.Regexp{"version": npmVersion, "languageName": npmName, "linkType": npmName} {
		if text, ok := kept[k].(string); !ok || !form().MatchString(text) {
			return nil, r.badLock("%.200q has the %s %.50q", key, k, fmt.Sprint(kept[k]))
		}
	}
	if err := r.needs(key, entry, kept); err != nil {
		return nil, err
	}
	if dir, own := strings.CutPrefix(from, "workspace:"); own {
		if dir != "." && !tree.ValidPath(dir) {
			return nil, r.refuse(name, "is to come from the path %.200q, which is no directory of the repository", dir)
		}
		if dir != "." {
			r.dirs = append(r.dirs, dir)
		}
		return kept, nil
	}
	version := fmt.Sprint(kept["version"])
	if escaped, elsewhere := strings.CutPrefix(from, "npm:"+version+berryArchive); elsewhere {
		address, err := url.PathUnescape(escaped)
		if err != nil || strings.Contains(escaped, "&") {
			return nil, r.badLock("%.200q has the address %.200q", key, escaped)
		}
		if err := r.at(name, version, address); err != nil {
			return nil, err
		}
		// It is asked for under its name, and the index of the registry says where it is.
		from = "npm:" + version
		kept["resolution"] = name + "@" + from
		if r.out.placed == nil {
			r.out.placed = map[string]bool{}
		}
		r.out.placed[name+"@"+version] = true
	}
	patch := berryPatch().FindStringSubmatch(from)
	switch {
	case from == "npm:"+version:
	case patch != nil && patch[1] == name && patch[3] == version: // the client has the patch, and the lock file the package
	default:
		return nil, r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", from)
	}
	return kept, r.checksum(key, name, version, patch != nil, entry, kept)
}

// checksum lets a package be asked for. One for some systems only has none: yarn leaves it
// out, so that the registry's own index is what the file is compared with.
func (r *berryReader) checksum(key, name, version string, patched bool, entry, kept npmObject) error {
	text, _ := entry["checksum"].(string)
	conditions, _ := entry["conditions"].(string)
	switch {
	case len(name) > 214 || !npmVersion().MatchString(version):
		return r.refuse(name, "has the name or version %.100q, which is none of the registry", version)
	case conditions != "" && !berryCondition().MatchString(conditions):
		return r.badLock("%.200q has the conditions %.100q", key, conditions)
	case text == "" && conditions == "":
		return reason.Errorf(reason.DependencyRefused,
			"%s has no checksum of the package %.200q %.50q", path.Join(r.dir, yarnLock), name, version).
			WithHint("leave checksumBehavior out of .yarnrc.yml, and %s", berryHint)
	case text != "" && (!berryChecksum().MatchString(text) || text[:len(text)-128] != r.prefix):
		return reason.Errorf(reason.DependencyRefused,
			"%s: the checksum of %.200q is none of the cacheKey %s, so it cannot be compared", path.Join(r.dir, yarnLock), name, r.cacheKey).
			WithHint("%s", berryHint)
	case text == "" && !patched:
		r.unlocked[name+"@"+version] = true
	}
	if text != "" {
		kept["checksum"] = text
	}
	bins, _ := entry["bin"].(lockMap)
	for program, v := range bins {
		at, ok := v.(string)
		if !ok || !npmName().MatchString(program) || !tree.ValidPath(path.Clean(at)) {
			return r.badLock("%.200q has the program %.100q", key, program)
		}
	}
	if len(bins) > 0 {
		kept["bin"] = bins
	}
	if conditions != "" {
		kept["conditions"] = conditions
	}
	r.out.packages[name], r.out.packages[name+"@"+version] = true, true
	return nil
}

// fromRegistry reports whether a range can only be answered by the registry, by a package
// of the workspace, or by a patch of the client's own over the first.
func (r *berryReader) fromRegistry(spec string) bool {
	if m := berryPatch().FindStringSubmatch(spec); m != nil {
		return npmName().MatchString(m[1]) && fromRegistry(m[3])
	}
	if berryWorkspace().MatchString(spec) {
		return !strings.Contains(spec, "..")
	}
	spec = strings.TrimPrefix(spec, "npm:")
	if at := strings.LastIndexByte(spec, '@'); at > 0 {
		if !npmName().MatchString(spec[:at]) {
			return false
		}
		spec = spec[at+1:]
	}
	return yarnRange().MatchString(spec) && fromRegistry(spec)
}

// needs reads what a package needs.
func (r *berryReader) needs(key string, entry, kept npmObject) error {
	for _, kind := range berryDeps {
		all, _ := entry[kind].(lockMap)
		for name, v := range all {
			if spec, ok := v.(string); !ok || !npmName().MatchString(name) || !r.fromRegistry(spec) {
				return r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", fmt.Sprint(v))
			}
		}
		if len(all) > 0 {
			kept[kind] = all
		}
	}
	for _, kind := range []string{"dependenciesMeta", "peerDependenciesMeta"} {
		all, _ := entry[kind].(lockMap)
		for name, v := range all {
			words, ok := v.(lockMap)
			for word, v := range words {
				_, flag := v.(bool)
				ok = ok && flag && (word == "optional" || word == "built" || word == "unplugged")
			}
			if !ok || !npmName().MatchString(name) {
				return r.badLock("%s of %.200q has %.100q", kind, key, name)
			}
		}
		if len(all) > 0 {
			kept[kind] = all
		}
	}
	return nil
}

// members reads and writes the manifest of the repository and of each workspace. The
// programs of an entry are those that are left of its manifest.
func (r *berryReader) members(lock npmObject) (npmObject, error) {
	slices.Sort(r.dirs)
	if r.dirs = slices.Compact(r.dirs); len(r.dirs) > maxManifests {
		return nil, r.badLock("it names more than %d workspaces", maxManifests)
	}
	bins, named := map[string]any{}, false
	for _, dir := range append([]string{"."}, r.dirs...) {
		m, kept, err := r.member(dir)
		if err != nil {
			return nil, err
		}
		if err := r.manifest(m, kept); err != nil {
			return nil, err
		}
		if dir == "." {
			if kept["resolutions"], err = r.resolutions(m["resolutions"]); err != nil {
				return nil, err
			}
			if len(r.dirs) > 0 {
				kept["workspaces"] = r.dirs
			}
		}
		if err := r.write(path.Join(dir, npmPackage), kept); err != nil {
			return nil, err
		}
		bins[dir] = kept["bin"]
	}
	for _, v := range lock {
		entry, _ := v.(npmObject)
		resolution, _ := entry["resolution"].(string)
		_, dir, own := strings.Cut(resolution, "@workspace:")
		if named = named || own && dir == "."; !own {
			continue
		}
		if delete(entry, "bin"); bins[dir] != nil {
			entry["bin"] = bins[dir]
		}
	}
	if !named {
		return nil, r.badLock("it has no entry for the repository itself")
	}
	return lock, nil
}

// manifest copies what a manifest wants.
func (r *berryReader) manifest(m, kept npmObject) error {
	for _, kind := range npmMaps {
		wanted, _ := m[kind].(npmObject)
		for name, v := range wanted {
			if spec, ok := v.(string); !ok || !npmName().MatchString(name) || !r.fromRegistry(spec) {
				return r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", fmt.Sprint(v))
			}
		}
		if len(wanted) > 0 {
			kept[kind] = wanted
		}
	}
	for _, kind := range []string{"dependenciesMeta", "peerDependenciesMeta"} {
		if meta, ok := m[kind].(npmObject); ok {
			kept[kind] = meta
		}
	}
	if install, _ := m["installConfig"].(npmObject); install["hoistingLimits"] != nil {
		kept["installConfig"] = pick(install, []string{"hoistingLimits"})
	}
	return nil
}

// resolutions are versions that yarn takes in the place of others.
func (r *berryReader) resolutions(v any) (npmObject, error) {
	out := npmObject{}
	all, _ := v.(npmObject)
	for name, v := range all {
		spec, ok := v.(string)
		if !ok || !berryTarget().MatchString(name) || !r.fromRegistry(spec) {
			return nil, r.refuse(name, "is to come from %.200q, and Remit fetches from the registry only", fmt.Sprint(v))
		}
		out[name] = spec
	}
	return out, nil
}
