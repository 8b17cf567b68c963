package depend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// crate adds a crate to a registry, which then is one of cargo's, and returns its
// part of a lock file.
func (r *npmRegistry) crate(t testing.TB, name, version string, files map[string]string) string {
	t.Helper()
	file := tarball(t, name+"-"+version, files)
	sum := sha256.Sum256(file)
	digest := hex.EncodeToString(sum[:])
	r.files["/config.json"] = fmt.Appendf(nil, `{"dl": "%s/dl"}`, r.URL)
	r.files["/dl/"+name+"/"+version+"/download"] = file
	r.files["/"+name[:2]+"/"+name[2:4]+"/"+name] = fmt.Appendf(nil, `{"name":"%s","vers":"%s","deps":[],"cksum":"%s","features":{},"yanked":true}`+"\n", name, version, digest)
	return fmt.Sprintf("\n[[package]]\nname = %q\nversion = %q\nsource = %q\nchecksum = %q\n", name, version, cargoSource, digest)
}

// cargoToolchain is a directory with cargo that a sandbox can be lent.
func cargoToolchain(t testing.TB) []string {
	t.Helper()
	if _, err := os.Stat("/usr/bin/cargo"); err == nil {
		return nil
	}
	home, _ := os.UserHomeDir()
	for _, at := range []string{"stable", "nightly"} {
		if found, _ := filepath.Glob(filepath.Join(home, ".rustup/toolchains", at+"-*/bin/cargo")); len(found) > 0 {
			return []string{filepath.Dir(filepath.Dir(found[0]))}
		}
	}
	t.Skip("SKIPPED, there is no cargo below /usr and none of rustup")
	return nil
}

func TestCargoLayer(t *testing.T) {
	t.Parallel()
	tools := cargoToolchain(t)
	r := openRegistry(t)
	lock := "# by cargo\nversion = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"lefty\",\n]\n" +
		r.crate(t, "lefty", "1.2.3", map[string]string{"Cargo.toml": "[package]\nname = \"lefty\"\nversion = \"1.2.3\"\nedition = \"2018\"\nbuild = \"build.rs\"\n",
			"build.rs": "fn main() { let _ = std::fs::write(\"/workspace/ran\", \"\"); }", "src/lib.rs": "pub const VALUE: u32 = 41;"})
	base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{"Cargo.lock": lock,
		"Cargo.toml":         "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2018\"\n\n[dependencies]\nlefty = \"1\"\n",
		"src/lib.rs":         "#[test]\nfn it() { assert_eq!(lefty::VALUE, 41); }\n",
		".cargo/config.toml": ""})}
	b := openBuilderWith(t, r.URL, tools)
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.Cargo, Dir: "."}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	l := p.Layers[0]
	if len(l.Deliveries) != 1 || l.Deliveries[0].Name != "lefty" || l.Deliveries[0].Version != "1.2.3" {
		t.Errorf("delivered: %+v", l.Deliveries)
	}
	if text := contentOf(t, l.Tree); strings.Contains(text, ".global-cache") || !strings.Contains(text, "config.toml") {
		t.Errorf("the layer has\n%s", text)
	}
	sameElsewhere(t, b, env, base, p)
	var out bytes.Buffer
	res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), Env: p.Variables(), Limits: sandbox.Limits{Wall: 5 * time.Minute},
		Commands: []sandbox.Command{{Argv: []string{"cargo", "test", "--offline", "--locked"}, Stdout: &out, Stderr: &out}}})
	must(t, err)
	if res.Commands[0].ExitCode != 0 || !strings.Contains(out.String(), "1 passed") {
		t.Errorf("exit %d\n%s", res.Commands[0].ExitCode, out.String())
	}
}

func TestCargoLockIsData(t *testing.T) {
	t.Parallel()
	read := func(lock string) (*plan, error) {
		dir := writeTree(t, t.TempDir(), map[string]string{"Cargo.lock": lock, "Cargo.toml": "[package]\nname = \"evil\"\nbuild = \"x.rs\"\n",
			".cargo/config.toml": "[build]\nrustc = \"./x\"\n[registries.x]\ncredential-provider = \"./x\"\n", "rust-toolchain": "./x", "x": "#!/bin/sh"})
		return planOf(os.DirFS(dir), task.Prepare{Ecosystem: task.Cargo, Dir: "."}, nil)
	}
	with := func(fields string) string { return "version = 4\n\n[[package]]\nname = \"left\"\n" + fields }
	sum := "checksum = \"" + strings.Repeat("0", 64) + "\"\n"
	source := "source = \"" + cargoSource + "\"\n"
	p, err := read(with("version = \"1.2.3+more\"\n" + source + sum + "dependencies = [\n \"right\",\n \"up 2.0.0\",\n]\n"))
	must(t, err)
	for _, f := range p.files {
		if strings.Contains(string(f.text), "./x") || strings.Contains(string(f.text), "evil") || strings.Contains(f.path, "rust-toolchain") || f.path == ".cargo/config.toml" {
			t.Errorf("%s has\n%s", f.path, f.text)
		}
	}
	if !strings.Contains(string(p.files[0].text), `version = "=1.2.3", default-features = false`) {
		t.Errorf("the manifest is\n%s", p.files[0].text)
	}
	for text, code := range map[string]reason.Code{
		with("version = \"1.0.0\"\nsource = \"git+https://example.com/x#0123\"\n"):                    reason.DependencyRefused,
		with("version = \"1.0.0\"\nsource = \"registry+https://evil.example/index\"\n" + sum):         reason.DependencyRefused,
		with("version = \"1.0.0\"\n" + source):                                                        reason.DependencyRefused,
		with("version = \"1.0.0\"\n" + source + "checksum = \"00\"\n"):                                reason.DependencyRefused,
		with("version = \"../1\"\n" + source + sum):                                                   reason.LockFileInvalid,
		with("version = \"1.0.0\"\n" + source + sum + "dependencies = [\n \"x\\\"\\n[patch]\",\n]\n"): reason.LockFileInvalid,
		with("version = 1\n"):        reason.LockFileInvalid,
		with("what is this\n"):       reason.LockFileInvalid,
		"version = 2\n[[package]]\n": reason.LockFileInvalid,
		"":                           reason.LockFileInvalid,
		"version = 3\n\n[[package]]\nname = \"a\\\"]\\n[patch.crates-io]\"\nversion = \"1.0.0\"\n" + source + sum: reason.LockFileInvalid,
	} {
		if _, err := read(text); reason.CodeOf(err) != code {
			t.Errorf("%q: got %v, want %s", text, err, code)
		}
	}
}
