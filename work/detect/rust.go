package detect

import (
	"path"
	"slices"
	"strings"

	"remit/law/task"
)

// rust finds crates and workspaces of Cargo. A workspace at the top covers what
// is below it.
func (f *finder) rust() {
	dirs := f.places("Cargo.toml")
	var covered []string // directories of workspaces
	for _, dir := range dirs {
		name := in(dir, "Cargo.toml")
		doc := f.toml(name)
		if doc == nil {
			continue
		}
		if slices.ContainsFunc(covered, func(w string) bool { return w == "." || strings.HasPrefix(dir, w+"/") }) {
			continue
		}
		workspace := doc["workspace"] != nil
		p := Project{Dir: dir, Ecosystem: "rust", Manager: "cargo", Manifest: name, Lock: f.lockOf(dir, "Cargo.lock"), Workspace: workspace}
		f.project(p)
		covered = append(covered, dir)
		f.cargoNeeds(p, doc)
		sources := f.below(dir, func(n string) bool { return path.Ext(n) == ".rs" })
		if !f.contains(sources, "#[test]", "::test]", "::test(", "#[cfg(test)]", "/// ```") {
			f.note(name, "no file of the crate has a test")
			continue
		}
		line := "cargo test --offline"
		if p.Lock != "" {
			line += " --locked"
		}
		if workspace {
			line += " --workspace"
		}
		if dir != "." {
			line += " --manifest-path " + name
		}
		f.command(name, line)
	}
}

// cargoNeeds asks for the dependencies of a crate, or of any of its workspace.
func (f *finder) cargoNeeds(p Project, doc map[string]any) {
	docs := []map[string]any{doc}
	for _, member := range f.below(p.Dir, func(n string) bool { return p.Workspace && path.Base(n) == "Cargo.toml" && n != p.Manifest }) {
		if len(docs) > maxProjects {
			break
		}
		if m := f.toml(member); m != nil {
			docs = append(docs, m)
		}
	}
	for _, d := range docs {
		workspace, _ := d["workspace"].(map[string]any)
		for _, deps := range []any{d["dependencies"], d["dev-dependencies"], d["build-dependencies"], workspace["dependencies"]} {
			table, _ := deps.(map[string]any)
			for _, dep := range table {
				if fromRegistry(dep) {
					f.needs(task.Cargo, p, "cargo generate-lockfile")
					return
				}
			}
		}
	}
}

// fromRegistry reports whether a dependency of Cargo is one that is fetched.
func fromRegistry(dep any) bool {
	table, ok := dep.(map[string]any)
	if !ok {
		return true
	}
	return table["path"] == nil && table["workspace"] == nil
}

// needs asks for the dependencies of a project, which takes a lock file.
func (f *finder) needs(ecosystem task.Ecosystem, p Project, lock string) {
	if p.Lock == "" && slices.Contains(f.can, ecosystem) {
		commit := "and commit it"
		if name := f.ignoredLock(ecosystem, p.Dir); name != "" {
			commit = "and commit it although .gitignore has it (git add -f " + name + ")"
		}
		f.note(p.Manifest, "has dependencies and no lock file: make one (%s), %s; without one they are not installed", lock, commit)
		return
	}
	f.prepare(ecosystem, p)
}

// ignoredLock is the lock file that .gitignore keeps out of the commit, as that of many
// libraries does, "" for none.
func (f *finder) ignoredLock(ecosystem task.Ecosystem, dir string) string {
	src, ok := f.text(".gitignore")
	if !ok {
		return ""
	}
	name := map[task.Ecosystem]string{task.NPM: "package-lock.json", task.Cargo: "Cargo.lock"}[ecosystem]
	for line := range strings.Lines(string(src)) {
		if name != "" && strings.TrimPrefix(strings.TrimSpace(line), "/") == name {
			return in(dir, name)
		}
	}
	return ""
}
