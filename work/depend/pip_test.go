package depend

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// wheel adds a wheel with a module and a program to a registry, and returns its
// line of a requirements file.
func (r *npmRegistry) wheel(t testing.TB, name, version, module string) string {
	t.Helper()
	info := name + "-" + version + ".dist-info/"
	files := map[string]string{
		name + ".py":              module,
		info + "METADATA":         "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": "[console_scripts]\n" + name + "-cli = " + name + ":main\n",
	}
	record := info + "RECORD,,\n"
	for _, n := range slices.Sorted(maps.Keys(files)) {
		record += n + ",,\n"
	}
	files[info+"RECORD"] = record
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(n)
		must(t, err)
		_, err = w.Write([]byte(files[n]))
		must(t, err)
	}
	must(t, z.Close())
	sum := sha256.Sum256(out.Bytes())
	digest, file := hex.EncodeToString(sum[:]), name+"-"+version+"-py3-none-any.whl"
	r.files["/files/"+file] = out.Bytes()
	r.files["/simple/"+name+"/"] = fmt.Appendf(nil, `<!DOCTYPE html><html><body><a href="../../files/%s#sha256=%s">%s</a></body></html>`, file, digest, file)
	return fmt.Sprintf("%s==%s \\\n    --hash=sha256:%s\n", name, version, digest)
}

func needPip(t testing.TB) {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, the python3 below /usr has no pip: %v %s", err, out)
	}
}

func TestPipLayer(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	needPip(t)
	r := openRegistry(t)
	requirements := r.wheel(t, "leftpad", "1.2.0", "def main(): print('cli')\nvalue = 41\n")
	base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{
		"requirements.txt": "--index-url http://evil.example/simple\n# pinned\n" + requirements,
		"setup.py":         "open('/workspace/ran', 'w')", "pip.conf": "[global]\nindex-url = http://evil.example/\n",
		"test_it.py": "import leftpad, unittest\nclass T(unittest.TestCase):\n  def test_it(self): self.assertEqual(leftpad.value, 41)\n"})}
	b := openBuilder(t, r.URL+"/simple")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.Pip, Dir: "."}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	l := p.Layers[0]
	if len(l.Deliveries) != 1 || l.Deliveries[0].Name != "leftpad" || l.Deliveries[0].Version != "1.2.0" {
		t.Errorf("delivered: %+v", l.Deliveries)
	}
	if text := contentOf(t, l.Tree); strings.Contains(text, ".pyc") || strings.Contains(text, ".whl") {
		t.Errorf("the layer has what was compiled, or downloaded:\n%s", text)
	}
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), PathDirs: p.Programs(), Env: p.Variables(),
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "python3 -m unittest && leftpad-cli && .venv/bin/leftpad-cli"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 || strings.Count(out.String(), "cli") != 2 {
		t.Errorf("exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
	sameElsewhere(t, b, env, base, p)
}

func TestRequirementsAreData(t *testing.T) {
	t.Parallel()
	hash := " --hash=sha256:" + strings.Repeat("0", 64)
	read := func(text string) (*plan, error) {
		dir := writeTree(t, t.TempDir(), map[string]string{"requirements.txt": text, "more/dev.txt": "b==2" + hash + "\n-r ../loop.txt", "loop.txt": "-r loop.txt", "up.txt": "-r ../../x.txt"})
		return planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.Pip, Dir: "."}, nil)
	}
	p, err := read("A_b.c[x, y]==1.0.post1 ; python_version >= '3.8' and sys_platform == \"linux\" \\\n   " + hash + hash + "  # via d\n\n# c\n")
	must(t, err)
	if want := "A_b.c[x, y]==1.0.post1 ; python_version >= '3.8' and sys_platform == \"linux\" " + strings.TrimSpace(hash) + hash + "\n"; string(p.files[0].text) != want {
		t.Errorf("written: %q", p.files[0].text)
	}
	if !p.packages["a-b-c"] || !p.packages["a-b-c@1.0.post1"] || p.packages["a-b-c@1.0"] {
		t.Errorf("allowed: %v", p.packages)
	}
	for text, code := range map[string]reason.Code{
		"a==1":                                 reason.DependencyRefused,
		"a" + hash:                             reason.DependencyRefused,
		"a>=1" + hash:                          reason.DependencyRefused,
		"a==1.*" + hash:                        reason.DependencyRefused,
		"a @ https://example.com/a.whl" + hash: reason.DependencyRefused,
		"https://example.com/a.whl" + hash:     reason.DependencyRefused,
		"git+ssh://git@example.com/a.git@main#egg=a": reason.DependencyRefused,
		"./a.whl" + hash: reason.DependencyRefused,
		"-e .":           reason.DependencyRefused,
		"--extra-index-url https://example.com/simple": reason.DependencyRefused,
		"--find-links ./wheels":                        reason.DependencyRefused,
		"-c constraints.txt":                           reason.DependencyRefused,
		"a==1" + hash + " --config-settings=x":         reason.LockFileInvalid,
		"a==1 --hash=md5:00":                           reason.LockFileInvalid,
		"a==1 ; python_version > '3' ; `x`" + hash:     reason.DependencyRefused,
		"-r more/dev.txt":                              reason.LockFileInvalid,
		"-r up.txt":                                    reason.LockFileInvalid,
		"-r https://example.com/requirements.txt":      reason.LockFileInvalid,
		"-r missing.txt":                               reason.LockFileInvalid,
	} {
		if _, err := read(text + "\n"); reason.CodeOf(err) != code {
			t.Errorf("%q: got %v, want %s", text, err, code)
		}
	}
}
