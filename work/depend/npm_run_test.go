package depend

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/work/sandbox"
)

const npmApp = `{"name": "app", "version": "1.0.0", "scripts": {"preinstall": "touch /workspace/ran", "test": "node test.js"},
  "dependencies": {"left": "^1.0.0"}, "devDependencies": {"@scope/right": "2.0.0"}}`

// app is a repository with two dependencies, one of which has an install script.
func app(t testing.TB, r *npmRegistry) map[string]string {
	t.Helper()
	packages := map[string]any{
		"": map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]any{"left": "^1.0.0"},
			"devDependencies": map[string]any{"@scope/right": "2.0.0"}},
		"node_modules/left": r.publish(t, "left", "1.2.3", map[string]string{"index.js": "module.exports = require('@scope/right') + 1",
			"package.json": `{"scripts": {"install": "echo 40 > built"}}`}),
		"node_modules/@scope/right": r.publish(t, "@scope/right", "2.0.0", map[string]string{"index.js": "module.exports = 41",
			"cli.js": "#!/usr/bin/env node\nconsole.log('cli')", "package.json": `{"bin": {"right": "cli.js"}}`}),
	}
	return map[string]string{"package.json": npmApp, "package-lock.json": lockText(t, packages), "test.js": "if (require('left') !== 42) process.exit(1)"}
}

func TestNpmLayer(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	base := Base{Dir: writeTree(t, t.TempDir(), app(t, r)), Tree: "1111111111111111111111111111111111111111"}
	b := openBuilder(t, r.URL, "npm")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}, Env: map[string]string{"NODE_ENV": "test"}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	if len(p.Layers) != 1 || p.Env["NODE_ENV"] != "test" || sprint(p.LockFiles) != "[[package-lock.json]]" {
		t.Fatalf("prepared %+v", p)
	}
	l := p.Layers[0]
	if len(l.Deliveries) != 2 || l.Deliveries[0].Name != "@scope/right" || l.Deliveries[1].Version != "1.2.3" || len(l.Deliveries[1].SHA256) != 64 {
		t.Errorf("delivered: %+v", l.Deliveries)
	}
	if _, err := os.Stat(filepath.Join(l.Tree, "node_modules/left/built")); err == nil {
		t.Error("an install script ran in the fetch")
	}
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), Env: p.Env,
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "npm test && node_modules/.bin/right"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 || !strings.Contains(out.String(), "cli") {
		t.Errorf("npm test: exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
	asked := len(r.asked)
	again, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer again.Release()
	if again.Layers[0].ContentSHA256 != l.ContentSHA256 || len(r.asked) != asked {
		t.Error("a layer that is in the store was fetched again")
	}
	sameElsewhere(t, b, env, base, p)
}

func TestNpmBuild(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	r := openRegistry(t)
	base := Base{Dir: writeTree(t, t.TempDir(), app(t, r)), Tree: "1111111111111111111111111111111111111111"}
	b := openBuilder(t, r.URL, "npm")
	p, err := b.Prepare(context.Background(), task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: ".", Build: []string{"npm rebuild"}}}}, base)
	must(t, err)
	defer p.Release()
	text, err := os.ReadFile(filepath.Join(p.Layers[0].Tree, "node_modules/left/built"))
	if err != nil || strings.TrimSpace(string(text)) != "40" {
		t.Errorf("the install script did not run in the build: %q, %v", text, err)
	}
	if p.Layers[0].Recipe.BaseTree != base.Tree {
		t.Error("the recipe does not name the tree that the build saw")
	}
}
