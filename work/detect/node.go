package detect

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/law/yamldoc"
	"remit/proof/form"
)

// manifest is what counts of a package.json. Its parts are read one by one: one
// that is not what it should be leaves the others.
type manifest struct {
	scripts    map[string]string
	workspaces []string
	depends    []string // names, of all kinds
	manager    string
}

func (f *finder) packageJSON(name string) (manifest, bool) {
	src, ok := f.text(name)
	if !ok {
		return manifest{}, false
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(src, &all); err != nil {
		f.note(name, "is not a JSON object: it was not read")
		return manifest{}, false
	}
	m := manifest{scripts: map[string]string{}}
	var scripts map[string]json.RawMessage
	if raw, stated := all["scripts"]; stated && json.Unmarshal(raw, &scripts) != nil {
		f.note(name, "its scripts are no mapping: they were not read")
	}
	for _, key := range slices.Sorted(maps.Keys(scripts)) {
		var line string
		if json.Unmarshal(scripts[key], &line) != nil {
			if oneLine(key) {
				f.note(name, "its script %q is no text: it was not read", key)
			}
			continue
		}
		m.scripts[key] = line
	}
	_ = json.Unmarshal(all["packageManager"], &m.manager) // what is no text names none
	var named struct {
		Packages []string `json:"packages"`
	}
	if json.Unmarshal(all["workspaces"], &m.workspaces) != nil && json.Unmarshal(all["workspaces"], &named) == nil {
		m.workspaces = named.Packages
	}
	for _, kind := range []string{"dependencies", "devDependencies", "optionalDependencies"} {
		var deps map[string]json.RawMessage
		if json.Unmarshal(all[kind], &deps) == nil {
			m.depends = append(m.depends, slices.Sorted(maps.Keys(deps))...)
		}
	}
	return m, true
}

var nodeManagers = []string{"npm", "pnpm", "yarn", "bun"}

// nodeLocks are the lock files of the package managers, in the order in which
// they count where several are there. Those of npm are first, whatever manager a
// manifest states: they are what environment.prepare can install from.
var nodeLocks = []struct{ file, manager string }{
	{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"},
	{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
}

// nodeManager says which package manager a directory uses, and by which lock file.
func (f *finder) nodeManager(dir string, m manifest) (manager, lock string) {
	stated, _, _ := strings.Cut(m.manager, "@")
	for _, l := range nodeLocks {
		known := l.manager == "npm" || stated == l.manager || !slices.Contains(nodeManagers, stated)
		if known && f.has[in(dir, l.file)] {
			return l.manager, in(dir, l.file)
		}
	}
	if slices.Contains(nodeManagers, stated) {
		return stated, ""
	}
	if f.has[in(dir, "pnpm-workspace.yaml")] {
		return "pnpm", ""
	}
	return "npm", ""
}

// node finds packages of Node. Where the top has a test command, or is a
// workspace, it stands for what is below it.
func (f *finder) node() {
	over := "" // the manager of a package at the top that stands for all
	for _, dir := range f.places("package.json") {
		name := in(dir, "package.json")
		m, ok := f.packageJSON(name)
		if !ok {
			continue
		}
		manager, lock := f.nodeManager(dir, m)
		p := Project{Dir: dir, Ecosystem: "node", Manager: manager, Manifest: name, Lock: lock,
			Workspace: len(m.workspaces) > 0 || f.has[in(dir, "pnpm-workspace.yaml")]}
		if over != "" {
			if m.tests() != "" {
				f.other(name+", scripts."+m.tests(), inDir(over, dir, m.tests()))
			}
			continue
		}
		if dir != "." && m.tests() == "" && lock == "" {
			continue // a package without tests of its own, such as one that only says "type": "module"
		}
		f.project(p)
		line, from := f.nodeCommand(p, m)
		if line != "" {
			f.command(from, line)
		} else {
			f.note(name, "names no test script")
		}
		if line != "" || p.Workspace || dir == "." {
			f.nodeNeeds(p, m)
		}
		if dir == "." && (p.Workspace || line != "") {
			over = manager
		}
	}
}

// tests is the name of the script that runs the tests, "" for none. The one that
// npm writes into every new package runs none.
func (m manifest) tests() string {
	for _, name := range []string{"test", "tests", "test:unit", "test:all", "unit"} {
		if line := strings.TrimSpace(m.scripts[name]); line != "" && !strings.Contains(line, "no test specified") {
			return name
		}
	}
	return ""
}

// inDir is the command that runs a script of a package.
func inDir(manager, dir, script string) string {
	words := []string{manager}
	if dir != "." {
		words = append(words, map[string]string{"npm": "--prefix", "pnpm": "-C", "yarn": "--cwd", "bun": "--cwd"}[manager], dir)
	}
	switch {
	case manager == "bun": // bun test is a runner of its own
		words = append(words, "run", script)
	case script == "test":
		words = append(words, script)
	default:
		words = append(words, "run", script)
	}
	return strings.Join(words, " ")
}

// nodeRunners are the packages that run tests, with what follows their name.
var nodeRunners = []struct{ name, args string }{{"vitest", " run"}, {"jest", ""}, {"mocha", ""}, {"ava", ""}, {"tap", ""}, {"jasmine", ""}}

var nodeTestFile = form.Lazy(`(?:[._-]test|[._-]spec)\.[cm]?[jt]sx?$|^(?:.*/)?(?:test|tests|__tests__)/[^/]*\.[cm]?jsx?$`)

// nodeCommand is how the tests of a package are run, and what says so.
func (f *finder) nodeCommand(p Project, m manifest) (line, from string) {
	if script := m.tests(); script != "" {
		by := p.Manifest + ", scripts." + script
		f.npmBats = f.npmBats || strings.Contains(m.scripts[script], "bats")
		line, from := f.nodeRunner(p, m)
		if other := otherManager(m.scripts[script], p.Manager); other != "" && p.Dir == "." && line != "" {
			f.other(by+", which calls "+other, inDir(p.Manager, p.Dir, script))
			return line, from
		}
		return inDir(p.Manager, p.Dir, script), by
	}
	if p.Dir != "." {
		return "", ""
	}
	if p.Workspace && f.memberTests(m) {
		return f.everyMember(p, m), p.Manifest + ", workspaces"
	}
	if line, from := f.nodeRunner(p, m); line != "" {
		return line, from
	}
	tests := f.tests(".", nil, nodeTestFile().MatchString)
	switch {
	case len(tests) == 0:
	case p.Manager == "bun" && f.contains(tests, "bun:test"):
		return "bun test", tests[0]
	case f.contains(tests, "node:test"):
		return "node --test", tests[0] + ", which uses node:test"
	}
	return "", ""
}

// otherManager is the package manager that a script calls although npm installs
// what it needs, "" for none: that program is not there where the tests run.
func otherManager(script, manager string) string {
	for _, word := range strings.Fields(script) {
		if manager == "npm" && word != "npm" && slices.Contains(nodeManagers, word) {
			return word
		}
	}
	return ""
}

// nodeRunner is the call of a runner among the dependencies of a package.
func (*finder) nodeRunner(p Project, m manifest) (line, from string) {
	for _, r := range nodeRunners {
		if slices.Contains(m.depends, r.name) {
			exec := map[string]string{"npm": "npx --no-install ", "pnpm": "pnpm exec ", "yarn": "yarn ", "bun": "bunx --no-install "}[p.Manager]
			return exec + r.name + r.args, p.Manifest + ", dependency on " + r.name
		}
	}
	return "", ""
}

// memberTests reports whether a package of a workspace has a test script.
func (f *finder) memberTests(m manifest) bool {
	globs := slices.Concat(m.workspaces, f.pnpmGlobs())
	for _, name := range f.below(".", func(n string) bool { return path.Base(n) == "package.json" && n != "package.json" }) {
		if !slices.ContainsFunc(globs, func(glob string) bool { return memberOf(glob, path.Dir(name)) }) {
			continue
		}
		if member, ok := f.packageJSON(name); ok && member.tests() == "test" {
			return true
		}
	}
	return false
}

// memberOf reports whether a glob of a workspace names a directory.
func memberOf(glob, dir string) bool {
	glob = path.Clean(glob)
	if top, deep := strings.CutSuffix(glob, "/**"); deep {
		return strings.HasPrefix(dir, top+"/")
	}
	ok, err := path.Match(glob, dir)
	return ok && err == nil
}

// pnpmGlobs are the packages that pnpm-workspace.yaml names.
func (f *finder) pnpmGlobs() (globs []string) {
	src, ok := f.text("pnpm-workspace.yaml")
	if !ok {
		return nil
	}
	doc := f.yaml("pnpm-workspace.yaml", src)
	for _, v := range listOf(child(doc, "packages")) {
		if text, ok := yamldoc.Text(v); ok {
			globs = append(globs, text)
		}
	}
	return globs
}

// everyMember runs the test script of every package of a workspace.
func (f *finder) everyMember(p Project, m manifest) string {
	switch p.Manager {
	case "pnpm":
		return "pnpm -r test"
	case "yarn":
		if f.has[".yarnrc.yml"] || strings.HasPrefix(m.manager, "yarn@") && !strings.HasPrefix(m.manager, "yarn@1") {
			return "yarn workspaces foreach -A run test"
		}
		return "yarn workspaces run test"
	case "bun":
		return "bun run --filter '*' test"
	}
	return "npm test --workspaces --if-present"
}

// nodeNeeds asks for the packages that a package or its workspace depends on.
func (f *finder) nodeNeeds(p Project, m manifest) {
	depends := len(m.depends) > 0
	if p.Workspace {
		for _, name := range f.below(p.Dir, func(n string) bool { return path.Base(n) == "package.json" }) {
			if depends {
				break
			}
			member, ok := f.packageJSON(name)
			depends = ok && len(member.depends) > 0
		}
	}
	switch {
	case !depends, slices.Contains(f.foreign, in(p.Dir, "node_modules")): // committed
	case slices.Contains(f.can, task.Ecosystem(p.Manager)) && p.Manager != "npm" && p.Lock != "" &&
		!f.contains([]string{p.Lock}, "__metadata:\n  version: 4\n", "__metadata:\n  version: 5\n"): // of yarn 2
		f.prepare(task.Ecosystem(p.Manager), p)
	case p.Manager != "npm" && p.Lock != "":
		f.note(p.Lock, "environment.prepare does not read this lock file: the packages that %s installs are not there; "+
			"`npm install --package-lock-only` makes a lock file of npm beside it, once node_modules is removed, of which npm would take no digests", p.Manager)
	default:
		f.needs(task.NPM, p, "npm install --package-lock-only")
	}
}

// deno finds projects of Deno.
func (f *finder) deno() {
	for _, dir := range f.places("deno.json", "deno.jsonc") {
		if dir != "." {
			continue
		}
		name := f.first(dir, "deno.json", "deno.jsonc")
		f.project(Project{Dir: dir, Ecosystem: "deno", Manager: "deno", Manifest: name, Lock: f.lockOf(dir, "deno.lock")})
		if len(f.tests(".", nil, nodeTestFile().MatchString)) == 0 {
			f.note(name, "no test file was found")
			continue
		}
		command := "deno test --no-remote"
		if text, ok := f.text(name); ok && denoTask().Match(text) {
			command = "deno task test" // with the permissions that the project gives its tests
		}
		f.command(name, command)
	}
}

// denoTask finds a task "test" that tests, also in a file with comments.
var denoTask = form.Lazy(`"tasks"\s*:\s*\{[\s\S]*"test"\s*:\s*(?:\{[^}]*"command"\s*:\s*)?"[^"\n]*\bdeno test\b`)
