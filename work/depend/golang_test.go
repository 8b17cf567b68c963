package depend

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// goModule adds a module to a registry, which then is a module proxy, and returns
// its lines of go.sum.
func (r *npmRegistry) goModule(t testing.TB, name, version string, files map[string]string) string {
	t.Helper()
	src := writeTree(t, t.TempDir(), files)
	var out bytes.Buffer
	must(t, zip.CreateFromDir(&out, module.Version{Path: name, Version: version}, src))
	archive := filepath.Join(t.TempDir(), "m.zip")
	must(t, os.WriteFile(archive, out.Bytes(), 0o600))
	whole, err := dirhash.HashZip(archive, dirhash.Hash1)
	must(t, err)
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(files["go.mod"])), nil
	})
	must(t, err)
	at := "/" + name + "/@v/" + version
	r.files[at+".info"] = []byte(`{"Version":"` + version + `","Time":"2026-01-02T03:04:05Z"}`)
	r.files[at+".mod"], r.files[at+".zip"] = []byte(files["go.mod"]), out.Bytes()
	return name + " " + version + " " + whole + "\n" + name + " " + version + "/go.mod " + mod + "\n"
}

func TestGoLayer(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	sum := r.goModule(t, "example.com/left", "v1.2.3", map[string]string{"go.mod": "module example.com/left\n\ngo 1.21\n", "a.go": "package left\n\nconst Value = 41\n"})
	base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{"go.mod": "module example.com/app\n\ngo 1.21\n\nrequire example.com/left v1.2.3\n", "go.sum": sum,
		"a_test.go": "package app\n\nimport (\n\t\"testing\"\n\n\t\"example.com/left\"\n)\n\nfunc TestIt(t *testing.T) {\n\tif left.Value != 41 {\n\t\tt.Fatal()\n\t}\n}\n"})}
	b := openBuilder(t, r.URL)
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.Go, Dir: "."}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	if l := p.Layers[0]; len(l.Deliveries) == 0 || l.Deliveries[0].Name != "example.com/left" {
		t.Errorf("delivered: %+v", l.Deliveries)
	}
	sameElsewhere(t, b, env, base, p)
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), Env: p.Variables(),
		Commands: []sandbox.Command{{Argv: []string{"go", "test", "./..."}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 {
		t.Errorf("exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
}

func TestGoFilesAreData(t *testing.T) {
	t.Parallel()
	hash := "h1:" + strings.Repeat("A", 43) + "="
	read := func(mod, sum string) (*plan, error) {
		dir := writeTree(t, t.TempDir(), map[string]string{"go.mod": mod, "go.sum": sum})
		return planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.Go, Dir: "."}, nil)
	}
	const mod = "module example.com/app\n\ngo 1.21\n\ntoolchain go1.99.0\n\nrequire example.com/left v1.2.3 // indirect\n\ntool example.com/evil\n"
	p, err := read(mod, "example.com/left v1.2.3 "+hash+"\nexample.com/left v1.2.3/go.mod "+hash+"\nexample.com/right v1.0.0/go.mod "+hash+"\n")
	must(t, err)
	if text := string(p.files[0].text); strings.Contains(text, "toolchain") || strings.Contains(text, "evil") || !strings.Contains(text, "example.com/left v1.2.3") {
		t.Errorf("written: %s", text)
	}
	if p.fetch[0] != "go mod download example.com/left@v1.2.3" || !p.packages["example.com/right@v1.0.0"] || p.packages["example.com/right"] {
		t.Errorf("%q, allowed: %v", p.fetch, p.packages)
	}
	for name, c := range map[string]struct {
		mod, sum string
		code     reason.Code
	}{
		"path":            {mod + "replace example.com/left => ../left\n", "", reason.DependencyRefused},
		"no go.mod":       {"x y z", "", reason.LockFileInvalid},
		"no module":       {"go 1.21\n", "", reason.LockFileInvalid},
		"no hash":         {mod, "example.com/left v1.2.3 x\n", reason.LockFileInvalid},
		"option":          {mod, "-modfile=x v1.2.3 " + hash + "\n", reason.LockFileInvalid},
		"path in a name":  {mod, "../../etc v1.2.3 " + hash + "\n", reason.LockFileInvalid},
		"no such version": {mod, "example.com/left latest " + hash + "\n", reason.LockFileInvalid},
	} {
		if _, err := read(c.mod, c.sum); reason.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
}
