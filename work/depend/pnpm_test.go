package depend

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// publishClient puts the real client into a registry, taken from npm's cache or its
// registry. It skips the test, loudly, where neither has it.
func publishClient(t testing.TB, r *npmRegistry, c nodeClient) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("npm", "pack", c.name+"@"+c.version, "--prefer-offline", "--ignore-scripts", "--silent", "--pack-destination", dir)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("SKIPPED, %s@%s cannot be had from npm: %v %s", c.name, c.version, err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("npm pack left %q: %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	if got := integrity(text); got != c.integrity {
		t.Fatalf("%s@%s has the digest %s, and Remit wants %s", c.name, c.version, got, c.integrity)
	}
	r.files["/"+c.name+"/-/"+filepath.Base(c.name)+"-"+c.version+".tgz"] = text
}

// nodeRepo is a workspace of two packages, with what could lead its client astray.
func nodeRepo(manager string) map[string]string {
	return map[string]string{
		"package.json": `{"name": "app", "version": "1.0.0", "private": true, "packageManager": "` + manager + `", "workspaces": ["packages/*"],
  "scripts": {"preinstall": "touch /workspace/ran", "test": "node test.js"}, "dependencies": {"left": "^1.0.0"}, "devDependencies": {"@scope/right": "2.0.0"}}`,
		"packages/a/package.json": `{"name": "@w/a", "version": "1.0.0", "scripts": {"prepare": "touch /workspace/ran"}, "dependencies": {"@w/b": "1.0.0", "other": "npm:left@1.2.3"}}`,
		"packages/a/index.js":     "module.exports = require('other') + require('@w/b')",
		"packages/b/package.json": `{"name": "@w/b", "version": "1.0.0", "bin": {"bee": "cli.js", "bad": "../../x", "rc": ".npmrc"}, "peerDependencies": {"left": "*"}, "devDependencies": {"left": "1.2.3"}}`,
		"packages/b/index.js":     "module.exports = require('left')",
		"packages/b/cli.js":       "#!/usr/bin/env node\nconsole.log('bee')\n",
		"pnpm-workspace.yaml":     "packages:\n  - 'packages/*'\nhoistPattern: ['*']\npnpmfile: ./x.cjs\nregistry: http://evil.example/\n",
		".npmrc":                  "registry=http://evil.example/\n@scope:registry=http://evil.example/\ngit=./x\nscript-shell=./x\nnode-options=--require=./x\npnpmfile=./x.cjs\nglobal-pnpmfile=./x.cjs\nhoist=true\nuse-node-version=1.2.3\n",
		".pnpmfile.cjs":           "require('fs').writeFileSync('/workspace/ran', '')",
		"x.cjs":                   "require('fs').writeFileSync('/workspace/ran', '')",
		".yarnrc":                 "yarn-path ./x.cjs\nregistry \"http://evil.example/\"\n--install.mutex file:/tmp/x\n",
		".yarnrc.yml":             "yarnPath: ./x.cjs\nplugins:\n  - ./x.cjs\nnpmRegistryServer: http://evil.example/\nnodeLinker: node-modules\n",
		"x":                       "#!/bin/sh\ntouch /workspace/ran\n",
		"test.js":                 "if (require('left') !== 42) process.exit(1)",
	}
}

// nodePackages publishes what the workspace needs.
func nodePackages(t testing.TB, r *npmRegistry) (left, right string) {
	t.Helper()
	l := r.publish(t, "left", "1.2.3", map[string]string{"index.js": "module.exports = 42", "package.json": `{"scripts": {"install": "touch /workspace/ran built"}}`})
	s := r.publish(t, "@scope/right", "2.0.0", map[string]string{"index.js": "module.exports = 41",
		"cli.js": "#!/usr/bin/env node\nconsole.log('cli')", "package.json": `{"bin": {"right": "cli.js"}, "peerDependencies": {"left": "*"}}`})
	return l["integrity"].(string), s["integrity"].(string)
}

const pnpmHead = "lockfileVersion: '%s'\n\nsettings:\n  autoInstallPeers: true\n  excludeLinksFromLockfile: false\n\nimporters:\n\n  .:\n" +
	"    dependencies:\n      left:\n        specifier: ^1.0.0\n        version: 1.2.3\n    devDependencies:\n      '@scope/right':\n        specifier: 2.0.0\n        version: 2.0.0(left@1.2.3)\n" +
	"\n  packages/a:\n    dependencies:\n      '@w/b':\n        specifier: 1.0.0\n        version: link:../b\n      other:\n        specifier: npm:left@1.2.3\n        version: %sleft@1.2.3\n" +
	"\n  packages/b:\n    devDependencies:\n      left:\n        specifier: 1.2.3\n        version: 1.2.3\n\npackages:\n"

func pnpmLock9(left, right string) string {
	return fmt.Sprintf(pnpmHead, "9.0", "") + "\n  '@scope/right@2.0.0':\n    resolution: {integrity: " + right + "}\n    engines: {node: '>=6'}\n    hasBin: true\n    peerDependencies:\n      left: '*'\n" +
		"\n  left@1.2.3:\n    resolution: {integrity: " + left + "}\n    deprecated: |-\n      use right: it is\n      better\n\nsnapshots:\n\n" +
		"  '@scope/right@2.0.0(left@1.2.3)':\n    dependencies:\n      left: 1.2.3\n\n  left@1.2.3: {}\n"
}

func pnpmLock6(left, right string) string {
	return fmt.Sprintf(pnpmHead, "6.0", "/") + "\n  /@scope/right@2.0.0(left@1.2.3):\n    resolution: {integrity: " + right + "}\n    hasBin: true\n    peerDependencies:\n      left: '*'\n" +
		"    dependencies:\n      left: 1.2.3\n    dev: true\n\n  /left@1.2.3:\n    resolution: {integrity: " + left + "}\n    requiresBuild: true\n"
}

// nodeLayer makes the layer of the workspace with a registry of its own, and runs
// commands of the client in it.
func nodeLayer(t *testing.T, e task.Ecosystem, c nodeClient, lock func(left, right string) map[string]string, run, links string) {
	t.Helper()
	r := openRegistry(t)
	publishClient(t, r, c)
	files := nodeRepo(c.program + "@" + c.version)
	for name, text := range lock(nodePackages(t, r)) {
		files[name] = text
	}
	base := Base{Dir: writeTree(t, t.TempDir(), files), Tree: "1111111111111111111111111111111111111111"}
	b := openBuilder(t, r.URL, "npm")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: e, Dir: "."}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	l := p.Layers[0]
	var delivered []string
	for _, d := range l.Deliveries {
		delivered = append(delivered, d.Name+"@"+d.Version)
	}
	if want := []string{"@scope/right@2.0.0", "left@1.2.3", c.name + "@" + c.version}; len(delivered) != 3 || !strings.Contains(sprint(delivered), want[0]) ||
		!strings.Contains(sprint(delivered), want[1]) || !strings.Contains(sprint(delivered), want[2]) {
		t.Errorf("delivered: %s", delivered)
	}
	if text := contentOf(t, l.Tree); strings.Contains(text, "/built\"") || !strings.Contains(text, links) {
		t.Errorf("an install script ran, or there is no %s:\n%s", links, text)
	}
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), PathDirs: p.Programs(), Env: p.Variables(), Limits: sandbox.Limits{Wall: time.Minute},
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "rm .npmrc .pnpmfile.cjs .yarnrc .yarnrc.yml pnpm-workspace.yaml; " + run + ` && node_modules/.bin/right && node -e "process.exit(require('./packages/a') === 84 ? 0 : 1)" && ! test -e ran`}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 || !strings.Contains(out.String(), "cli") || !strings.Contains(out.String(), "bee") {
		t.Errorf("exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
	for range len(r.asked) {
		if asked := <-r.asked; !strings.HasPrefix(asked, "GET ") || !strings.HasSuffix(asked, ".tgz") {
			t.Errorf("the registry was asked: %s", asked)
		}
	}
	sameElsewhere(t, b, env, base, p)
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\n" + y[i]
		}
	}
	return fmt.Sprint(len(x), len(y))
}

func TestPnpmLayer(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name   string
		client nodeClient
		lock   func(left, right string) string
	}{{"9", pnpm10, pnpmLock9}, {"6", pnpm8, pnpmLock6}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, i, 4)
			nodeLayer(t, task.PNPM, c.client, func(left, right string) map[string]string {
				return map[string]string{"pnpm-lock.yaml": c.lock(left, right)}
			},
				"pnpm test && cd packages/a && pnpm exec bee && cd ../..", `l "packages/a/node_modules/@w/b" "../../../b"`)
		})
	}
}

// pnpmAt reads the plan of a pnpm-lock.yaml.
func pnpmAt(t testing.TB, lock string, more map[string]string) (*plan, error) {
	t.Helper()
	files := nodeRepo("pnpm@10.0.0")
	files["pnpm-lock.yaml"] = lock
	for name, text := range more {
		files[name] = text
	}
	return planOf(os.DirFS(writeTree(t, t.TempDir(), files)), task.Prepare{Ecosystem: task.PNPM, Dir: "."}, func() []string { return []string{"npm.example.com"} })
}

// Nothing of the repository reaches the fetch but names, versions and digests.
func TestPnpmFetchesFromData(t *testing.T) {
	t.Parallel()
	more := map[string]string{"pnpm-workspace.yaml": nodeRepo("")["pnpm-workspace.yaml"] + "configDependencies: {evil: 1.0.0+sha512-x}\n"}
	for name, lock := range map[string]string{"9": pnpmLock9(someDigest, someDigest), "6": pnpmLock6(someDigest, someDigest)} {
		p, err := pnpmAt(t, lock, more)
		must(t, err)
		var names []string
		for _, f := range p.files {
			names = append(names, f.path)
			for _, word := range []string{"scripts", "evil", "./x", "pnpmfile", "packageManager", "../../x", "console"} {
				if strings.Contains(string(f.text), word) {
					t.Errorf("%s: %s has %q:\n%s", name, f.path, word, f.text)
				}
			}
		}
		if want := "[.npmrc .remit-pnpm/package-lock.json .remit-pnpm/package.json package.json packages/a/package.json packages/b/cli.js packages/b/package.json pnpm-lock.yaml pnpm-workspace.yaml]"; sprint(names) != want {
			t.Errorf("%s: the fetch has %s", name, names)
		}
		if want := "[node_modules packages/a/node_modules packages/b/node_modules .remit-pnpm]"; sprint(p.paths) != want {
			t.Errorf("%s: the layer is at %s", name, p.paths)
		}
		if p.packages["@w/b"] || p.packages["other"] || !p.packages["left@1.2.3"] || !p.packages["@scope/right"] {
			t.Errorf("%s: may be asked for: %v", name, p.packages)
		}
	}
	p, err := pnpmAt(t, pnpmLock9(someDigest, someDigest), map[string]string{"package.json": strings.Replace(nodeRepo("")["package.json"], `""`, `"pnpm@9.1.0"`, 1)})
	if err != nil || !p.packages["pnpm@9.15.9"] {
		t.Errorf("a repository that states pnpm 9: %v", err)
	}
}

func TestPnpmLocksThatAreRefused(t *testing.T) {
	t.Parallel()
	good := pnpmLock9(someDigest, someDigest)
	with := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the lock file has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	left := "  left@1.2.3:\n    resolution: {integrity: " + someDigest + "}"
	all := func(name string) string { return strings.ReplaceAll(good, "left", name) }
	for name, c := range map[string]struct {
		lock string
		code reason.Code
		says string
	}{
		"tarball of another host": {with(left, strings.Replace(left, "}", ", tarball: https://evil.example/left.tgz}", 1)), reason.DependencyRefused, "evil.example"},
		"host in the user name":   {with(left, strings.Replace(left, "}", ", tarball: 'https://npm.example.com@evil.example/left.tgz'}", 1)), reason.DependencyRefused, "evil.example"},
		"git":                     {with(left, "  left@1.2.3:\n    resolution: {repo: 'https://example.com/x', commit: '0123', type: git}"), reason.DependencyRefused, "example.com"},
		"tarball key":             {with(left, "  left@https://codeload.github.com/x/tar.gz/0:\n    resolution: {tarball: https://codeload.github.com/x/tar.gz/0}"), reason.DependencyRefused, "codeload"},
		"directory":               {with(left, "  left@file:../left:\n    resolution: {directory: ../left, type: directory}"), reason.DependencyRefused, "../left"},
		"no digest":               {with(left, "  left@1.2.3:\n    resolution: {tarball: https://registry.npmjs.org/left/-/left-1.2.3.tgz}"), reason.DependencyRefused, "no digest"},
		"weak digest":             {with(left, "  left@1.2.3:\n    resolution: {integrity: md5-00}"), reason.DependencyRefused, "no digest"},
		"two digests":             {with(left, left+"\n"+left), reason.LockFileInvalid, "second time"},
		"two in one entry":        {with(left, strings.Replace(left, "}", ", integrity: "+someDigest+"}", 1)), reason.LockFileInvalid, "second time"},
		"link outside":            {with("link:../b", "link:../../../b"), reason.DependencyRefused, "no package of the workspace"},
		"absolute link":           {with("link:../b", "link:/etc"), reason.DependencyRefused, "no package of the workspace"},
		"file":                    {with("version: link:../b", "version: file:packages/b"), reason.DependencyRefused, "file:packages/b"},
		"importer outside":        {with("  packages/a:\n", "  ../a:\n"), reason.LockFileInvalid, "no directory"},
		"absolute importer":       {with("  packages/a:\n", "  /etc:\n"), reason.LockFileInvalid, "no directory"},
		"importer not there":      {with("  packages/a:\n", "  packages/c:\n"), reason.LockFileInvalid, "packages/c"},
		"link of a package":       {with("      left: 1.2.3\n\n  left", "      left: link:../x\n\n  left"), reason.DependencyRefused, "link:../x"},
		"name that is a path":     {all("../left"), reason.DependencyRefused, "../left"},
		"name with a NUL":         {all("l\x00"), reason.LockFileInvalid, "NUL"},
		"long name":               {all(strings.Repeat("l", 300)), reason.DependencyRefused, "none of the registry"},
		"another script's scope":  {strings.ReplaceAll(good, "@scope", "@ѕcope"), reason.DependencyRefused, "ѕcope"},
		"key that is a path":      {with("      left: 1.2.3\n\n  left", "      ../left: 1.2.3\n\n  left"), reason.DependencyRefused, "../left"},
		"peers that are a path":   {strings.ReplaceAll(good, "(left@1.2.3)", "(../../left)"), reason.LockFileInvalid, "../../left"},
		"patched":                 {good + "\npatchedDependencies:\n  left@1.2.3:\n    hash: x\n    path: patches/left.patch\n", reason.DependencyRefused, "patched"},
		"alias of YAML":           {"a: &a [x]\nb: *a\n" + good, reason.LockFileInvalid, "line 1"},
		"merge key":               {"<<: {a: b}\n" + good + "x: *y\n", reason.LockFileInvalid, "alias"},
		"another document":        {good + "---\na: b\n", reason.LockFileInvalid, "another document"},
		"nested too deep":         {good + "x: " + strings.Repeat("[", 100_000), reason.LockFileInvalid, "deeper"},
		"indented too deep":       {good + deepYAML(1000), reason.LockFileInvalid, "too deep"},
		"version 5":               {with("'9.0'", "5.4"), reason.LockFileInvalid, "5.4"},
		"empty":                   {"", reason.LockFileInvalid, "empty"},
		"another range":           {with("specifier: ^1.0.0", "specifier: ^0.9.0"), reason.LockFileInvalid, "^0.9.0"},
	} {
		_, err := pnpmAt(t, c.lock, nil)
		if reason.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s with %q", name, err, c.code, c.says)
		}
	}
	for name, c := range map[string]struct {
		files map[string]string
		code  reason.Code
	}{
		"PnP":                        {map[string]string{".npmrc": "node-linker=pnp\n"}, reason.DependencyRefused},
		"PnP in the workspace":       {map[string]string{"pnpm-workspace.yaml": "nodeLinker: pnp\n"}, reason.DependencyRefused},
		"pattern of two lines":       {map[string]string{"pnpm-workspace.yaml": "hoistPattern: [\"a\\nregistry=http://evil.example/\"]\n"}, reason.LockFileInvalid},
		"pattern with blanks":        {map[string]string{".npmrc": "public-hoist-pattern[]=a b\n"}, reason.LockFileInvalid},
		"workspace with aliases":     {map[string]string{"pnpm-workspace.yaml": "a: &a [b]\nc: [*a, *a]\n"}, reason.LockFileInvalid},
		"manifest that is no object": {map[string]string{"packages/a/package.json": "[]"}, reason.LockFileInvalid},
	} {
		if _, err := pnpmAt(t, good, c.files); reason.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
}

func deepYAML(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzPnpmLock(f *testing.F) {
	f.Add([]byte(pnpmLock9(someDigest, someDigest)))
	f.Add([]byte(pnpmLock6(someDigest, someDigest)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := pnpmAt(t, string(text), nil)
		onlyNames(t, p, err)
	})
}

// onlyNames: what a lock file of this family comes to is an error with a code, or
// packages of the registry by name and version, and files below the workspace.
func onlyNames(t *testing.T, p *plan, err error) {
	t.Helper()
	if refusedWithCode(t, err) {
		return
	}
	for name := range p.packages {
		at := strings.LastIndexByte(name, '@')
		if at > 0 && (!npmName().MatchString(name[:at]) || !npmVersion().MatchString(name[at+1:])) || at <= 0 && !npmName().MatchString(name) {
			t.Errorf("%q may be asked for", name)
		}
	}
	for _, f := range p.files {
		if !filepath.IsLocal(f.path) {
			t.Errorf("a file at %q", f.path)
		}
	}
}
