package depend

import (
	"context"
	"os"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
)

// scopedApp is a repository with a public package and one of a scope.
func scopedApp(t testing.TB, public, own *npmRegistry, scoped string) map[string]string {
	t.Helper()
	entry := own.publish(t, "@acme/right", "2.0.0", map[string]string{"index.js": "module.exports = 41"})
	entry["resolved"] = strings.Replace(entry["resolved"].(string), "https://registry.npmjs.org", scoped, 1)
	packages := map[string]any{
		"":                         map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]any{"left": "^1.0.0", "@acme/right": "2.0.0"}},
		"node_modules/left":        public.publish(t, "left", "1.2.3", map[string]string{"index.js": "module.exports = 1"}),
		"node_modules/@acme/right": entry,
	}
	return map[string]string{"package.json": `{"name": "app", "version": "1.0.0", "dependencies": {"left": "^1.0.0", "@acme/right": "2.0.0"}}`, "package-lock.json": lockText(t, packages)}
}

// TestScopeHasOneRegistry: a package of a scope comes from the registry that the user
// has for it, whatever the lock file says, and the public one hears nothing of it.
func TestScopeHasOneRegistry(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	for name, resolved := range map[string]string{"as the scope's own": "", "as a public one": "https://registry.npmjs.org"} {
		public, own := openRegistry(t), openRegistry(t)
		if resolved == "" {
			resolved = own.URL
		}
		base := Base{Dir: writeTree(t, t.TempDir(), scopedApp(t, public, own, resolved))}
		// A squatter has the name in public.
		public.publish(t, "@acme/right", "2.0.0", map[string]string{"index.js": "module.exports = 'squatted'"})
		b := openBuilder(t, public.URL, "npm")
		b.Upstream = func(context.Context, registry.Ecosystem) (registry.Upstream, error) {
			return registry.Upstream{URL: public.URL, Others: []registry.Upstream{{URL: own.URL, Scope: "@acme"}}}, nil
		}
		p, err := b.Prepare(context.Background(), task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}}, base)
		must(t, err)
		p.Release()
		for from, r := range map[string]*npmRegistry{"public": public, "own": own} {
			for range len(r.asked) {
				if asked := <-r.asked; strings.Contains(asked, "acme") != (from == "own") {
					t.Errorf("%s: the %s registry was asked: %s", name, from, asked)
				}
			}
		}
	}
}

// TestScopesOfOthers: a registry of one scope is none for other packages.
func TestScopesOfOthers(t *testing.T) {
	t.Parallel()
	known := func() []string { return []string{"npm.corp.example", "@acme https://npm.acme.example/x"} }
	for key, c := range map[string]struct {
		resolved string
		code     reason.Code
	}{
		"node_modules/@acme/a":  {"https://npm.acme.example/x/@acme/a/-/a-1.0.0.tgz", ""},
		"node_modules/@acme/b":  {"https://registry.npmjs.org/@acme/b/-/b-1.0.0.tgz", ""},
		"node_modules/@other/a": {"https://npm.acme.example/x/@other/a/-/a-1.0.0.tgz", reason.DependencyRefused},
		"node_modules/a":        {"https://npm.acme.example/x/a/-/a-1.0.0.tgz", reason.DependencyRefused},
		"node_modules/@acme/c":  {"https://evil.example/@acme/c/-/c-1.0.0.tgz", reason.DependencyRefused},
	} {
		dir := writeTree(t, t.TempDir(), withEntry(t, key, map[string]any{"version": "1.0.0", "resolved": c.resolved, "integrity": integrity([]byte("x"))}))
		_, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.NPM, Dir: "."}, known)
		if reason.CodeOf(err) != c.code {
			t.Errorf("%s from %s: %v", key, c.resolved, err)
		}
	}
}
