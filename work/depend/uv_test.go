package depend

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
)

var hashOf = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// uvEntry is a package of a uv.lock, of the public index.
func uvEntry(name, version, hash, more string) string {
	return fmt.Sprintf("\n[[package]]\nname = %q\nversion = %q\nsource = { registry = \"https://pypi.org/simple\" }\n%s"+
		"wheels = [\n    { url = \"https://files.pythonhosted.org/packages/00/%s-%s-py3-none-any.whl\", hash = %q, size = 1 },\n]\n", name, version, more, name, version, hash)
}

const uvHead = `version = 1
revision = 3
requires-python = ">=3.9"

[[package]]
name = "app"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "leftpad" },
    { name = "winpad", marker = "sys_platform == 'win32'" },
]

[package.optional-dependencies]
fast = [{ name = "fastpad" }]

[package.dev-dependencies]
dev = [{ name = "devpad", extra = ["toml"] }]

[package.metadata]
requires-dist = [{ name = "leftpad", specifier = ">=1" }]
`

// pythonRepo has what a repository of this family could be led astray by.
func pythonRepo(files map[string]string) map[string]string {
	all := map[string]string{
		"pyproject.toml": "[project]\nname = \"app\"\nversion = \"0.1.0\"\n[build-system]\nrequires = [\"evil\"]\nbuild-backend = \"evil\"\nbackend-path = [\".\"]\n" +
			"[tool.uv]\nindex-url = \"http://evil.example/simple\"\n[[tool.uv.index]]\nurl = \"http://evil.example/simple\"\ndefault = true\n" +
			"[tool.poetry]\nname = \"app\"\n[tool.poetry.dependencies]\npython = \"^3.9\"\nleftpad = \"^1.0\"\nwinpad = {version = \"*\", platform = \"win32\"}\n" +
			"fastpad = {version = \"*\", optional = true}\n[tool.poetry.extras]\nfast = [\"fastpad\"]\n[tool.poetry.group.dev.dependencies]\ndevpad = {version = \"*\", extras = [\"toml\"]}\n" +
			"[[tool.poetry.source]]\nname = \"evil\"\nurl = \"http://evil.example/simple\"\n",
		"uv.toml": "index-url = \"http://evil.example/simple\"\n", "poetry.toml": "[installer]\n", "pip.conf": "[global]\nindex-url = http://evil.example/\n",
		"evil.py": "open('/workspace/ran', 'w')", "setup.py": "open('/workspace/ran', 'w')", "sitecustomize.py": "open('/workspace/ran', 'w')",
		"src/app/__init__.py": "import leftpad\nvalue = leftpad.value + 1\n",
		"test_it.py":          "import app, devpad, tomlpad, unittest\nclass T(unittest.TestCase):\n  def test_it(self): self.assertEqual(app.value, 42)\n",
	}
	for name, text := range files {
		all[name] = text
	}
	return all
}

// pythonLayer makes the layer of a repository with an index of its own, and runs
// its tests in it.
func pythonLayer(t *testing.T, e task.Ecosystem, lock func(hash func(name string) string) map[string]string) {
	t.Helper()
	needPip(t)
	r := openRegistry(t)
	hashes := map[string]string{}
	for name, text := range map[string]string{"leftpad": "def main(): print('cli')\nvalue = 41\n", "devpad": "", "tomlpad": "", "winpad": "", "fastpad": ""} {
		hashes[name] = hashOf.FindString(r.wheel(t, name, "1.2.0", text))
	}
	base := Base{Dir: writeTree(t, t.TempDir(), pythonRepo(lock(func(name string) string { return hashes[name] })))}
	b := openBuilder(t, r.URL+"/simple")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: e, Dir: "."}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	l := p.Layers[0]
	var delivered []string
	for _, d := range l.Deliveries {
		delivered = append(delivered, d.Name+"@"+d.Version)
	}
	if sprint(delivered) != "[devpad@1.2.0 leftpad@1.2.0 tomlpad@1.2.0]" || sprint(p.LockFiles) != "[["+string(e)+".lock]]" {
		t.Errorf("delivered: %s by %s", delivered, p.LockFiles)
	}
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), PathDirs: p.Programs(), Env: p.Variables(),
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "rm sitecustomize.py; python3 -m unittest && leftpad-cli && ! test -e ran"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 || !strings.Contains(out.String(), "cli") {
		t.Errorf("exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
	sameElsewhere(t, b, env, base, p)
	env.Prepare[0].Groups = []string{"fast"}
	other, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer other.Release()
	if text := contentOf(t, other.Layers[0].Tree); strings.Contains(text, "devpad.py") || !strings.Contains(text, "fastpad.py") {
		t.Errorf("chosen were the extra fast and no group:\n%s", text)
	}
}

func uvLockText(hash func(string) string) map[string]string {
	return map[string]string{"uv.lock": uvHead +
		uvEntry("devpad", "1.2.0", hash("devpad"), "") + "\n[package.optional-dependencies]\ntoml = [{ name = \"tomlpad\", marker = \"python_full_version >= '3.0'\" }]\n" +
		uvEntry("fastpad", "1.2.0", hash("fastpad"), "") + uvEntry("leftpad", "1.2.0", hash("leftpad"), "") +
		uvEntry("tomlpad", "1.2.0", hash("tomlpad"), "") + uvEntry("winpad", "1.2.0", hash("winpad"), "")}
}

func TestUvLayer(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	pythonLayer(t, task.UV, uvLockText)
}

var zeroHash = "sha256:" + strings.Repeat("0", 64)

// uvAt reads the plan of a uv.lock.
func uvAt(t testing.TB, lock string, groups ...string) (*plan, error) {
	t.Helper()
	dir := writeTree(t, t.TempDir(), map[string]string{"uv.lock": lock, "pyproject.toml": ""})
	return planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.UV, Dir: ".", Groups: groups}, func() []string { return []string{"pypi.example.com"} })
}

// A further index is the user's to configure: only then is it asked, for the packages
// that the lock file has from there.
func TestUvFurtherIndex(t *testing.T) {
	t.Parallel()
	lock := "version = 1\n[[package]]\nname = \"app\"\nversion = \"1\"\nsource = { virtual = \".\" }\ndependencies = [{ name = \"x\" }, { name = \"y\" }]\n" +
		uvEntry("x", "1.0", zeroHash, "") + strings.NewReplacer("pypi.org/simple", "extra.example/whl/", "files.pythonhosted.org", "cdn.example").Replace(uvEntry("y", "1.0", zeroHash, ""))
	dir := writeTree(t, t.TempDir(), map[string]string{"uv.lock": lock})
	for _, hosts := range [][]string{{"pypi.org"}, {"pypi.org", "https://extra.example/other"}, {}} {
		if _, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.UV, Dir: "."}, func() []string { return hosts }); reason.CodeOf(err) != reason.DependencyRefused {
			t.Errorf("%v: %v", hosts, err)
		}
	}
	p, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.UV, Dir: "."}, func() []string { return []string{"pypi.org", "https://extra.example/whl"} })
	if err != nil || len(p.from) != 1 || p.from["y"] != "https://extra.example/whl" {
		t.Errorf("an index of the user's: %v", err)
	}
}

// One version for each side of a marker, reached by two ways, behind a circle.
func TestUvMarkers(t *testing.T) {
	t.Parallel()
	lock := `version = 1
[[package]]
name = "app"
version = "1"
source = { editable = "." }
dependencies = [{ name = "a", marker = "sys_platform == 'linux'" }, { name = "b", marker = "python_version < '3.12'" }]
` + uvEntry("a", "1.0", zeroHash, "dependencies = [{ name = \"b\" }, { name = \"num\", version = \"1.0\", source = { registry = \"https://pypi.org/simple\" }, marker = \"python_version < '3.9'\" }, "+
		"{ name = \"num\", version = \"2.0\", source = { registry = \"https://pypi.org/simple\" }, marker = \"python_version >= '3.9'\" }]\n") +
		uvEntry("b", "1.0", zeroHash, "dependencies = [{ name = \"a\" }]\n") + uvEntry("num", "1.0", zeroHash, "") + uvEntry("num", "2.0", zeroHash, "") + uvEntry("unused", "1.0", zeroHash, "")
	p, err := uvAt(t, lock)
	must(t, err)
	hash := " --hash=" + zeroHash + "\n"
	both := "(python_version < '3.12') or (sys_platform == 'linux')"
	want := "a==1.0 ; " + both + hash + "b==1.0 ; " + both + hash +
		"num==1.0 ; (python_version < '3.12') and (python_version < '3.9') or (python_version < '3.9') and (sys_platform == 'linux')" + hash +
		"num==2.0 ; (python_version < '3.12') and (python_version >= '3.9') or (python_version >= '3.9') and (sys_platform == 'linux')" + hash
	if got := string(p.files[0].text); got != want {
		t.Errorf("written:\n%s\nwant\n%s", got, want)
	}
	if len(p.files) != 1 || p.packages["unused"] || p.env["PYTHONPATH"] != "/workspace" {
		t.Errorf("files %d, packages %v, %v", len(p.files), p.packages, p.env)
	}
}

func TestUvLocksThatAreRefused(t *testing.T) {
	t.Parallel()
	app := "version = 1\n[[package]]\nname = \"app\"\nversion = \"1\"\nsource = { virtual = \".\" }\ndependencies = [{ name = \"x\" }]\n"
	x := uvEntry("x", "1.0", zeroHash, "")
	from := func(source string) string {
		return app + strings.Replace(x, `{ registry = "https://pypi.org/simple" }`, source, 1)
	}
	with := func(old, new string) string { return app + strings.Replace(x, old, new, 1) }
	for name, c := range map[string]struct {
		lock string
		code reason.Code
		says string
	}{
		"git":                     {from(`{ git = "https://example.com/x?rev=main#0123" }`), reason.DependencyRefused, "example.com"},
		"url":                     {from(`{ url = "https://example.com/x.whl" }`), reason.DependencyRefused, "example.com"},
		"path":                    {from(`{ path = "../x.whl" }`), reason.DependencyRefused, "../x.whl"},
		"directory":               {from(`{ directory = "../x" }`), reason.DependencyRefused, "../x"},
		"editable outside":        {from(`{ editable = "../x" }`), reason.DependencyRefused, "../x"},
		"editable, no member":     {from(`{ editable = "lib" }`), reason.DependencyRefused, "lib"},
		"absolute path":           {from(`{ virtual = "/etc" }`), reason.DependencyRefused, "/etc"},
		"another index":           {from(`{ registry = "https://evil.example/simple" }`), reason.DependencyRefused, "evil.example"},
		"user name as host":       {from(`{ registry = "https://pypi.org@evil.example/simple" }`), reason.DependencyRefused, "evil.example"},
		"directory as index":      {from(`{ registry = "../wheels" }`), reason.DependencyRefused, "../wheels"},
		"file of another host":    {with("files.pythonhosted.org", "evil.example"), reason.DependencyRefused, "evil.example"},
		"no hash":                 {with(`hash = "`+zeroHash+`", `, ""), reason.DependencyRefused, "no SHA-256"},
		"weak hash":               {with(zeroHash, "md5:00"), reason.DependencyRefused, "no SHA-256"},
		"no wheel":                {with("x-1.0-py3-none-any.whl", "x-1.0.tar.gz"), reason.DependencyRefused, "no wheel"},
		"wheel of another":        {with("x-1.0-py3", "y-1.0-py3"), reason.DependencyRefused, "no wheel of x"},
		"two hashes":              {with("wheels = [\n", "wheels = [{ url = \"https://pypi.org/x-1.0-py3-none-any.whl\", hash = \"sha256:"+strings.Repeat("1", 64)+"\" },"), reason.LockFileInvalid, "two digests"},
		"name that is a path":     {strings.ReplaceAll(app+x, `"x"`, `"../x"`), reason.DependencyRefused, "../x"},
		"name of another script":  {strings.ReplaceAll(app+x, `"x"`, `"х"`), reason.DependencyRefused, "no wheel of"},
		"name with a NUL":         {strings.ReplaceAll(app+x, `"x"`, `"x\u0000"`), reason.DependencyRefused, "no wheel of"},
		"long name":               {strings.ReplaceAll(app+x, `"x"`, `"`+strings.Repeat("x", 300)+`"`), reason.DependencyRefused, "no wheel of"},
		"option as version":       {strings.ReplaceAll(app+x, `"1.0"`, `"1.0 --index-url http://evil.example"`), reason.DependencyRefused, "pinned"},
		"line in a marker":        {strings.Replace(app+x, `{ name = "x" }`, `{ name = "x", marker = "python_version > '3'\n--index-url http://evil.example" }`, 1), reason.DependencyRefused, "pinned"},
		"marker of extras":        {strings.Replace(app+x, `{ name = "x" }`, `{ name = "x", marker = "extra == 'cpu'" }`, 1), reason.LockFileInvalid, "exclude each other"},
		"an edge to nothing":      {app, reason.LockFileInvalid, "of which it has 0"},
		"two that are meant":      {app + x + uvEntry("x", "2.0", zeroHash, ""), reason.LockFileInvalid, "of which it has 2"},
		"no project":              {"version = 1\n" + x, reason.LockFileInvalid, "no package of the repository"},
		"version 2":               {"version = 2\n", reason.LockFileInvalid, "version 2"},
		"no TOML":                 {"version: 1\n", reason.LockFileInvalid, "line 1"},
		"a key twice":             {"version = 1\nversion = 1\n", reason.LockFileInvalid, "line 2"},
		"nested too deep":         {"version = 1\na = " + strings.Repeat("[", 100_000), reason.LockFileInvalid, "deeper"},
		"a line without an end":   {"version = 1\n" + strings.Repeat("a.", 1<<20), reason.LockFileInvalid, "bytes"},
		"text that hides nesting": {"version = 1\na = \"\\\"\"\nb = '''\n'''\nc = " + strings.Repeat("{a=", 100), reason.LockFileInvalid, "line 5"},
	} {
		_, err := uvAt(t, c.lock)
		if reason.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %s with %q", name, err, c.code, c.says)
		}
	}
	if _, err := uvAt(t, app+x, "docs"); reason.CodeOf(err) != reason.LockFileInvalid || !strings.Contains(err.Error(), `"docs"`) {
		t.Errorf("a group that is not there: %v", err)
	}
	if _, err := uvAt(t, from(`{ registry = "https://pypi.example.com/simple" }`)); err != nil {
		t.Errorf("the index that the user is configured for: %v", err)
	}
}

func FuzzUvLock(f *testing.F) {
	f.Add([]byte(uvLockText(func(string) string { return zeroHash })["uv.lock"]))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := writeTree(t, t.TempDir(), map[string]string{"uv.lock": string(text)})
		p, err := planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.UV, Dir: "."}, func() []string { return nil })
		onlyRequirements(t, p, err)
	})
}

// onlyRequirements: what a lock file of Python comes to is an error with a code, or
// a requirements file with nothing but pinned releases.
func onlyRequirements(t *testing.T, p *plan, err error) {
	t.Helper()
	if refusedWithCode(t, err) {
		return
	}
	if len(p.files) != 1 {
		t.Fatalf("%d files", len(p.files))
	}
	for line := range strings.Lines(string(p.files[0].text)) {
		at := strings.Index(line, " --hash=")
		if at < 0 || !pipLine().MatchString(strings.TrimSpace(line[:at])) {
			t.Errorf("a line that pins nothing: %q", line)
		}
	}
}
