package depend

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
)

// planAt reads the npm plan of a repository.
func planAt(t testing.TB, files map[string]string) (*plan, error) {
	t.Helper()
	dir := writeTree(t, t.TempDir(), files)
	return planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.NPM, Dir: "."}, func() []string { return []string{"npm.example.com"} })
}

const someDigest = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="

// withEntry is a repository whose lock file has one package more.
func withEntry(t testing.TB, key string, entry map[string]any) map[string]string {
	return map[string]string{"package.json": `{"name": "app", "version": "1.0.0"}`, "package-lock.json": lockText(t, map[string]any{
		"": map[string]any{"name": "app", "version": "1.0.0"}, key: entry})}
}

func TestDependenciesThatAreRefused(t *testing.T) {
	t.Parallel()
	resolved := func(from string) map[string]any {
		return map[string]any{"version": "1.0.0", "resolved": from, "integrity": someDigest}
	}
	manifest := func(kind, name, spec string) map[string]string {
		files := withEntry(t, "node_modules/x", resolved("https://registry.npmjs.org/x/-/x-1.0.0.tgz"))
		files["package.json"] = `{"name": "app", "version": "1.0.0", "` + kind + `": {"` + name + `": "` + spec + `"}}`
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"git over ssh":              {withEntry(t, "node_modules/x", resolved("git+ssh://git@example.com/x.git#0123")), "git+ssh"},
		"git":                       {withEntry(t, "node_modules/x", resolved("git://example.com/x.git")), "git://"},
		"path of a file":            {withEntry(t, "node_modules/x", resolved("file:../x.tgz")), "file:"},
		"another host":              {withEntry(t, "node_modules/x", resolved("http://evil.example/x/-/x-1.0.0.tgz")), "evil.example"},
		"host in the user name":     {withEntry(t, "node_modules/x", resolved("https://registry.npmjs.org@evil.example/x/-/x-1.0.0.tgz")), "evil.example"},
		"no digest":                 {withEntry(t, "node_modules/x", map[string]any{"version": "1.0.0", "resolved": "https://registry.npmjs.org/x/-/x-1.0.0.tgz"}), "digest"},
		"digest that is none":       {withEntry(t, "node_modules/x", map[string]any{"version": "1.0.0", "integrity": "md5-00"}), "digest"},
		"link out of the workspace": {withEntry(t, "node_modules/x", map[string]any{"link": true, "resolved": "../x"}), "the path"},
		"link to what is no workspace": {map[string]string{"package.json": `{}`, "lib/package.json": `{}`, "package-lock.json": lockText(t, map[string]any{
			"": map[string]any{}, "lib": map[string]any{}, "node_modules/x": map[string]any{"link": true, "resolved": "lib"}})}, "the path lib"},
		"version that is a path":       {withEntry(t, "node_modules/x", map[string]any{"version": "../../etc", "integrity": someDigest}), "version"},
		"name that is a path":          {withEntry(t, "node_modules/x", map[string]any{"name": "../x", "version": "1.0.0", "integrity": someDigest}), "../x"},
		"dependency of a package":      {withEntry(t, "node_modules/x", map[string]any{"version": "1.0.0", "integrity": someDigest, "dependencies": map[string]any{"y": "git+https://example.com/y"}}), "git+https"},
		"manifest: git":                {manifest("dependencies", "x", "git+ssh://git@example.com/x.git"), "git+ssh"},
		"manifest: short for a host":   {manifest("devDependencies", "x", "someone/x"), "someone/x"},
		"manifest: short with a host":  {manifest("devDependencies", "x", "github:someone/x"), "github:"},
		"manifest: file":               {manifest("optionalDependencies", "x", "file:../x"), "file:"},
		"manifest: link":               {manifest("dependencies", "x", "link:../x"), "link:"},
		"manifest: directory":          {manifest("dependencies", "x", "../x"), "../x"},
		"manifest: file of a package":  {manifest("dependencies", "x", "x.tgz"), "x.tgz"},
		"manifest: URL":                {manifest("dependencies", "x", "https://example.com/x.tgz"), "https:"},
		"manifest: alias of a path":    {manifest("dependencies", "x", "npm:../x@1"), "npm:"},
		"manifest: overrides with git": {manifest("overrides", "x", "git://example.com/x"), "git:"},
	} {
		_, err := planAt(t, c.files)
		if reason.CodeOf(err) != reason.DependencyRefused || !strings.Contains(err.Error(), c.says) && c.says != "npm:" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLockFilesThatAreInvalid(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"no lock file":                {"package.json": "{}"},
		"version 1":                   {"package.json": "{}", "package-lock.json": `{"lockfileVersion": 1, "dependencies": {}}`},
		"no JSON":                     {"package.json": "{}", "package-lock.json": "lockfileVersion: 3"},
		"no packages":                 {"package.json": "{}", "package-lock.json": `{"lockfileVersion": 3}`},
		"no entry for the repository": {"package.json": "{}", "package-lock.json": `{"lockfileVersion": 3, "packages": {}}`},
		"no manifest":                 {"package-lock.json": `{"lockfileVersion": 3, "packages": {"": {}}}`},
		"a path that goes up":         withEntry(t, "../node_modules/x", map[string]any{"version": "1.0.0", "integrity": someDigest}),
		"an entry that is none":       {"package.json": "{}", "package-lock.json": `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/x": 3}}`},
	} {
		if _, err := planAt(t, files); reason.CodeOf(err) != reason.LockFileInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	dir := writeTree(t, t.TempDir(), map[string]string{"elsewhere.json": `{"lockfileVersion": 3, "packages": {"": {}}}`, "package.json": "{}"})
	must(t, os.Symlink("elsewhere.json", filepath.Join(dir, "package-lock.json")))
	if _, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.NPM, Dir: "."}, nil); reason.CodeOf(err) != reason.LockFileInvalid {
		t.Errorf("a lock file that is a link: got %v", err)
	}
}

// Nothing of a repository reaches the fetch but data that was written again: not
// its scripts, and no file that a client of this family reads or runs.
func TestOnlyDataIsFetchedFrom(t *testing.T) {
	t.Parallel()
	packages := map[string]any{
		"":                  map[string]any{"name": "app", "workspaces": []any{"packages/*"}, "dependencies": map[string]any{"x": "^1.0.0"}},
		"packages/a":        map[string]any{"name": "@w/a", "version": "1.0.0", "dependencies": map[string]any{"y": "npm:z@1"}},
		"node_modules/@w/a": map[string]any{"link": true, "resolved": "packages/a"},
		"node_modules/x": map[string]any{"version": "1.0.0", "resolved": "https://npm.example.com/mirror/x/-/x-1.0.0.tgz", "integrity": someDigest,
			"scripts": map[string]any{"install": "./x"}, "hasInstallScript": true},
		"packages/a/node_modules/y": map[string]any{"name": "z", "version": "1.0.1", "resolved": "https://registry.yarnpkg.com/odd/place", "integrity": someDigest},
	}
	hostile := map[string]string{
		".npmrc":          "git=./x\nscript-shell=./x\nnode-options=--require=./x\nregistry=http://evil.example/\nlegacy-peer-deps = true\n",
		".pnpmfile.cjs":   "require('./x')",
		".yarnrc.yml":     "yarnPath: ./x\n",
		".yarnrc":         "yarn-path ./x\n",
		"x":               "#!/bin/sh\ntouch /workspace/ran\n",
		"packages/a/x":    "#!/bin/sh\n",
		"binding.gyp":     "{}",
		"node_modules.js": "",
		"package.json": `{"name": "app", "scripts": {"preinstall": "./x", "prepare": "./x"}, "workspaces": ["packages/*"], "config": {"git": "./x"},
			"publishConfig": {"registry": "http://evil.example"}, "packageManager": "yarn@file:./x", "dependencies": {"x": "^1.0.0"}, "pnpm": {"hooks": "./x"}}`,
		"packages/a/package.json": `{"name": "@w/a", "version": "1.0.0", "scripts": {"install": "./x"}, "dependencies": {"y": "npm:z@1"}}`,
		"package-lock.json":       lockText(t, packages),
	}
	p, err := planAt(t, hostile)
	must(t, err)
	var names []string
	for _, f := range p.files {
		names = append(names, f.path)
		for _, word := range []string{"scripts", "./x", "evil.example", "config", "packageManager", "hooks", "npm.example.com", "odd/place"} {
			if strings.Contains(string(f.text), word) {
				t.Errorf("%s has %q:\n%s", f.path, word, f.text)
			}
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"package-lock.json", "package.json", "packages/a/package.json"}) {
		t.Errorf("the fetch has %q", names)
	}
	if !slices.Equal(p.paths, []string{"node_modules", "packages/a/node_modules"}) {
		t.Errorf("the layer is at %q", p.paths)
	}
	if !strings.HasSuffix(p.fetch[0], "--legacy-peer-deps") || !strings.Contains(p.fetch[0], "--ignore-scripts") {
		t.Errorf("the command is %q", p.fetch)
	}
	for asked, want := range map[string]bool{"x": true, "x@1.0.0": true, "z@1.0.1": true, "y": false, "y@1.0.1": false, "x@1.0.1": false, "app": false} {
		if p.packages[asked] != want {
			t.Errorf("%s may be asked for: %t", asked, p.packages[asked])
		}
	}
}

// An install script can try what it likes: it runs where nothing can be reached.
func TestBuildReachesNothing(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	r := openRegistry(t)
	host, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	script := `const fs = require('fs'), net = require('net'), dns = require('dns'), dgram = require('dgram'), http = require('http');
const found = [];
const note = (what, ok) => { if (ok) found.push(what); };
const tcp = (h, p) => new Promise(done => { const s = net.connect(p, h, () => { note('tcp ' + h + ':' + p, true); s.destroy(); done(); }); s.on('error', () => done()); setTimeout(() => { s.destroy(); done(); }, 2000); });
const post = () => new Promise(done => { const q = http.request({host: '127.0.0.1', port: 18080, path: '/npm/left', method: 'POST'}, a => { note('post', true); done(); }); q.on('error', () => done()); q.end('source'); });
const name = n => new Promise(done => dns.resolve(n, e => { note('dns ' + n, !e); done(); }));
const udp = () => new Promise(done => { const s = dgram.createSocket('udp4'); s.on('error', () => done()); s.send('x', 53, '1.1.1.1', e => { note('udp', !e); s.close(); done(); }); });
Promise.all([tcp('127.0.0.1', 18080), tcp('` + host + `', ` + port + `), tcp('1.1.1.1', 443), post(), name('registry.npmjs.org'), udp()])
  .then(() => fs.writeFileSync('found', JSON.stringify(found)));`
	packages := map[string]any{
		"":                  map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]any{"left": "1.0.0"}},
		"node_modules/left": r.publish(t, "left", "1.0.0", map[string]string{"try.js": script, "package.json": `{"scripts": {"install": "node try.js"}}`}),
	}
	base := Base{Tree: "1111111111111111111111111111111111111111", Dir: writeTree(t, t.TempDir(), map[string]string{
		"package.json": `{"name": "app", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`, "package-lock.json": lockText(t, packages)})}
	b := openBuilder(t, r.URL, "npm")
	p, err := b.Prepare(context.Background(), task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: ".", Build: []string{"npm rebuild"}}}}, base)
	must(t, err)
	defer p.Release()
	found, err := os.ReadFile(filepath.Join(p.Layers[0].Tree, "node_modules/left/found"))
	must(t, err)
	if string(found) != "[]" {
		t.Errorf("an install script reached %s", found)
	}
	for range len(r.asked) {
		if asked := <-r.asked; asked != "GET /left/-/left-1.0.0.tgz" {
			t.Errorf("the registry was asked: %s", asked)
		}
	}
}

// What the registry sends must be what the lock file names, and what it lacks is
// said to be the registry's matter.
func TestRegistryThatDiffers(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 8)
	r := openRegistry(t)
	entry := r.publish(t, "left", "1.0.0", map[string]string{"index.js": "as it was locked"})
	r.publish(t, "left", "1.0.0", map[string]string{"index.js": "something else"})
	repo := func(entry map[string]any) Base {
		return Base{Dir: writeTree(t, t.TempDir(), map[string]string{"package.json": `{"name": "app", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`,
			"package-lock.json": lockText(t, map[string]any{"": map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]any{"left": "1.0.0"}},
				"node_modules/left": entry})})}
	}
	b := openBuilder(t, r.URL, "npm")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}}
	if _, err := b.Prepare(context.Background(), env, repo(entry)); reason.CodeOf(err) != reason.EnvironmentUnavailable || !strings.Contains(err.Error(), "EINTEGRITY") {
		t.Errorf("another file than the locked one: %v", err)
	}
	missing := openRegistry(t)
	b = openBuilder(t, missing.URL, "npm")
	_, err := b.Prepare(context.Background(), env, repo(entry))
	coded, ok := errors.AsType[*reason.Error](err)
	if !ok || coded.Code != reason.RegistryMissing || !strings.Contains(err.Error(), "left@1.0.0") || !strings.Contains(coded.Hint, "registry, not the repository") {
		t.Errorf("a package that the registry lacks: %v", err)
	}
	if keys, err := b.Store.Keys(); len(keys) != 0 || err != nil {
		t.Errorf("the store has %v, %v", keys, err)
	}
}

// A lock file that is not complete has the client ask for what it does not name:
// that is the repository's matter, and the hint says so.
func TestHintForIncompleteLock(t *testing.T) {
	t.Parallel()
	for code, want := range map[reason.Code]string{reason.RegistryRefused: "not complete", reason.RegistryMissing: "registry, not the repository"} {
		told := []registry.Delivery{{Name: "left", Version: "1.0.0"}, {Name: "right", Refused: code, Why: "the lock file of the base does not name right"}}
		coded, ok := errors.AsType[*reason.Error](explain(errors.New("exit 1"), task.Prepare{Ecosystem: task.NPM, Dir: "."}, told))
		if !ok || coded.Code != code || !strings.Contains(coded.Hint, want) {
			t.Errorf("%s: %v", code, coded)
		}
	}
}

// A lock file that has nothing but SHA-1 of a package is held to that, though npm
// is not: it takes what the registry says of its own file.
func TestWeakDigests(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 7, 8)
	r := openRegistry(t)
	entry := r.publish(t, "left", "1.0.0", map[string]string{"index.js": "as it was locked"})
	at := "/left/-/left-1.0.0.tgz"
	sum := sha1.Sum(r.files[at])
	entry["integrity"] = "sha1-" + base64.StdEncoding.EncodeToString(sum[:])
	base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{"package.json": `{"name": "app", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`,
		"package-lock.json": lockText(t, map[string]any{"": map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]any{"left": "1.0.0"}},
			"node_modules/left": entry})})}
	b := openBuilder(t, r.URL, "npm")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}}
	good := r.files[at]
	r.publish(t, "left", "1.0.0", map[string]string{"index.js": "something else"})
	other := r.files[at]
	r.files["/left"] = fmt.Appendf(nil, `{"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "left", "version": "1.0.0",
		"dist": {"tarball": "https://registry.npmjs.org%s", "integrity": %q}}}}`, at, integrity(other))
	_, err := b.Prepare(context.Background(), env, base)
	if reason.CodeOf(err) != reason.RegistryAnswer && reason.CodeOf(err) != reason.EnvironmentUnavailable {
		t.Errorf("another file than the locked one: %v", err)
	}
	r.files[at] = good
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	p.Release()
	plan := &plan{}
	plan.held("left@1.0.0", sprint(entry["integrity"]))
	plan.held("right@1.0.0", sprint(entry["integrity"])+" "+integrity(good))
	told := func(name, sum string) []registry.Delivery {
		return []registry.Delivery{{Name: name, Version: "1.0.0", SHA1: sum}}
	}
	if err := plan.compare(told("left", "00")); reason.CodeOf(err) != reason.RegistryAnswer {
		t.Errorf("another SHA-1: %v", err)
	}
	if err := errors.Join(plan.compare(told("left", hex.EncodeToString(sum[:]))), plan.compare(told("right", "00"))); err != nil {
		t.Errorf("the same SHA-1, or one beside a better digest: %v", err)
	}
}
