package verify

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

var (
	// A plugin of pytest on its command line or in addopts; "-p no:x" names none.
	pluginOption = whenUsed(`(?:^|[\s"',=\[])-p[\s"',=]*([A-Za-z_][A-Za-z0-9_.]*)(?:[^A-Za-z0-9_.:]|$)`)
	pluginEnv    = whenUsed(`\bPYTEST_PLUGINS=["']?([A-Za-z0-9_.,]+)`)
	pluginList   = whenUsed(`(?s)\bpytest_plugins\b[^=\n]*=\s*(\[.*?\]|\(.*?\)|["'][^"'\n]*["'])`)
	quotedModule = whenUsed(`["']([A-Za-z_][A-Za-z0-9_.]*)["']`)

	// What a configuration of a JavaScript runner loads has a name that says so;
	// other names in it are sources that it measures or maps.
	loadedName = whenUsed(`(?i)(?:setup|teardown|register|bootstrap|helper|reporter|environment|resolver|transform|runner|sequencer|serializer|preset|hooks?|global|test|jest|vitest|mocha)`)
	configText = whenUsed(`^(?:(?:jest|vitest|vite|karma|playwright|cypress|ava|wdio)\.(?:config|conf)\..*|\.mocharc.*|\.nycrc.*|\.taprc|phpunit\.xml.*|\.rspec(?:-local)?)$`)
)

// pytestDirs are where a module that pytest imports may lie.
var pytestDirs = []string{"", "src", "lib", "test", "tests"}

// plugins finds the modules and files that the base's configuration of a runner
// names. They count also when the base does not have them: one that is added
// takes the place of an installed one.
func (r *reacher) plugins(commands []string) {
	var modules []string
	text := strings.Join(commands, "\n")
	for _, name := range []string{"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml"} {
		if src, _, ok := r.read(name); ok {
			text += "\n" + pluginLines(name, src)
		}
	}
	for _, m := range pluginOption().FindAllStringSubmatch(text, maxReachWords) {
		modules = append(modules, m[1])
	}
	for _, m := range pluginEnv().FindAllStringSubmatch(text, maxReachWords) {
		modules = append(modules, strings.Split(m[1], ",")...)
	}
	for _, dir := range pytestDirs {
		src, _, _ := r.read(path.Join(dir, "conftest.py")) // none names none
		for _, m := range pluginList().FindAllStringSubmatch(src, maxReachWords) {
			for _, quoted := range quotedModule().FindAllStringSubmatch(m[1], maxReachWords) {
				modules = append(modules, quoted[1])
			}
		}
	}
	for _, m := range modules {
		for _, dir := range pytestDirs {
			for _, file := range moduleFiles(m) {
				r.note(path.Join(dir, file), true)
			}
		}
	}
	r.loaded()
}

// pluginLines is the part of a configuration that a runner reads.
func pluginLines(name, src string) string {
	if mixed, _ := mixedConfig(name); mixed {
		return runnerPart(name, []byte(src), nil)
	}
	return src
}

// moduleFiles are the files that a Python module can be, relative to a directory
// of the search path.
func moduleFiles(module string) []string {
	p := strings.ReplaceAll(strings.Trim(module, "."), ".", "/")
	if p == "" {
		return nil
	}
	return []string{p + ".py", p + "/__init__.py", p + "/__main__.py"}
}

// loaded takes in what the configurations of runners of JavaScript, PHP and Ruby at the
// top load.
func (r *reacher) loaded() {
	top, err := r.root.Open(".")
	if err != nil {
		return
	}
	defer top.Close()
	names, err := top.Readdirnames(maxReachWords)
	if err != nil {
		return
	}
	slices.Sort(names)
	for _, name := range names {
		if !configText().MatchString(name) && name != "package.json" {
			continue
		}
		src, _, _ := r.read(name) // what cannot be read names nothing
		src = pluginLines(name, src)
		for _, w := range fileWords(src) {
			w = path.Clean(strings.TrimLeft(w, "@+!/-"))
			if inside(w) && scriptExt().MatchString(w) && loadedName().MatchString(path.Base(w)) && r.exists(w) {
				r.note(w, false)
			}
		}
	}
}

// npm follows a script of package.json, with those that run before and after it.
func (r *reacher) npm(dirs []string, name string, depth int) (runs bool) {
	if depth > maxReachDepth {
		return false
	}
	if name == "t" || name == "tst" { // as npm calls it for short
		name = "test"
	}
	for _, d := range dirs {
		p := path.Join(d, "package.json")
		src, _, ok := r.read(p)
		if !ok {
			continue
		}
		scripts := npmScripts([]byte(src))
		for _, n := range []string{"pre" + name, name, "post" + name} {
			key := p + "\x00" + n
			if text, known := scripts[n]; known && !r.seen[key] {
				r.seen[key] = true
				r.out.commands = append(r.out.commands, "npm run "+n)
				runs = r.follow(text, p, d, depth+1, false) || runs
			}
		}
	}
	return runs
}

// npmScripts are the scripts of a package.json that are texts.
func npmScripts(src []byte) map[string]string {
	// Not into a struct: it would take "Scripts" for the same key.
	var all map[string]json.RawMessage
	var values map[string]any
	if json.Unmarshal(src, &all) != nil || json.Unmarshal(all["scripts"], &values) != nil {
		return nil
	}
	scripts := make(map[string]string, len(values))
	for name, value := range values {
		if text, ok := value.(string); ok {
			scripts[name] = text
		}
	}
	return scripts
}

// reachedScripts are the names of the scripts that run when the commands do: those
// that are named, those with "test" in their names, and what these call.
func reachedScripts(scripts map[string]string, commands []string) map[string]bool {
	reached := make(map[string]bool)
	var add func(name string)
	add = func(name string) {
		text, known := scripts[name]
		if !known || reached[name] {
			return
		}
		reached[name] = true
		add("pre" + name)
		add("post" + name)
		for _, m := range npmScript.all(text, maxReachWords) {
			add(m[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		named := func(command string) bool { return slices.Contains(splitWords().Split(command, -1), name) }
		if strings.Contains(name, "test") || slices.ContainsFunc(commands, named) {
			add(name)
		}
	}
	return reached
}
