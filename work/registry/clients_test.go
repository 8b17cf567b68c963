package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// These tests run the real clients against registries of generated packages.

// client runs a program in a directory with nothing of the machine's environment
// but the PATH, and a home of its own.
func client(t *testing.T, dir string, c Client, argv ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath(argv[0])
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this machine has no %s: %v", argv[0], err)
	}
	home := filepath.Join(dir, "home")
	for name, text := range c.Files {
		write(t, filepath.Join(home, name), text)
	}
	cmd := exec.CommandContext(t.Context(), program, argv[1:]...)
	cmd.Dir = filepath.Join(dir, "work")
	if err := os.MkdirAll(cmd.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Programs that a version manager starts look for it, and for toolchains, in the user's home.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PYENV_ROOT=" + os.Getenv("PYENV_ROOT"), "RUSTUP_HOME=" + rustup()}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if argv[0] == "cargo" { // a version manager without a version stands for it in an empty home
		tried := exec.CommandContext(t.Context(), program, "--version")
		tried.Env = cmd.Env
		if said, err := tried.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED, NOT TESTED: cargo does not start here: %v: %.200s", err, said)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func rustup() string {
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir() // without one there is no rustup
	return filepath.Join(home, ".rustup")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tarball packs files as npm and cargo do.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npmRegistry serves packages, each with one version 1.0.0 and its dependencies.
func npmRegistry(t *testing.T, packages map[string][]string) (*table, map[string]string) {
	pages, integrity := map[string]http.HandlerFunc{}, map[string]string{}
	for name, needs := range packages {
		dependencies := map[string]string{}
		for _, n := range needs {
			dependencies[n] = "^1.0.0"
		}
		manifest := map[string]any{"name": name, "version": "1.0.0", "dependencies": dependencies}
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		file := tarball(t, map[string]string{"package/package.json": string(text), "package/index.js": "module.exports = " + fmt.Sprintf("%q", name)})
		sum := sha512.Sum512(file)
		integrity[name] = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
		manifest["dist"] = map[string]string{"integrity": integrity[name], "tarball": "https://registry.npmjs.org/" + name + "/-/" + npmFile(name, "1.0.0")}
		text, err = json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": manifest}})
		if err != nil {
			t.Fatal(err)
		}
		pages["/"+npmPath(name)] = page("application/json", string(text))
		pages["/"+name+"/-/"+npmFile(name, "1.0.0")] = page("application/octet-stream", string(file))
	}
	return registryOf(t, pages), integrity
}

// npm ci installs what the lock file of the default registry names, and npm
// install what a packument names, through the front.
func TestClientNPM(t *testing.T) {
	t.Parallel()
	up, integrity := npmRegistry(t, map[string][]string{"top": {"@scope/leaf", "mid"}, "mid": {"@scope/leaf"}, "@scope/leaf": nil})
	for _, verb := range []string{"ci", "install"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			w, dir := open(t, Options{Upstreams: upstreams(NPM, up.URL)}), t.TempDir()
			write(t, dir+"/work/package.json", `{"name":"app","version":"1.0.0","dependencies":{"top":"^1.0.0"}}`)
			if verb == "ci" {
				lock := map[string]any{"": map[string]any{"name": "app", "version": "1.0.0", "dependencies": map[string]string{"top": "^1.0.0"}}}
				for name, needs := range map[string]map[string]string{"top": {"@scope/leaf": "^1.0.0", "mid": "^1.0.0"}, "mid": {"@scope/leaf": "^1.0.0"}, "@scope/leaf": {}} {
					lock["node_modules/"+name] = map[string]any{"version": "1.0.0", "integrity": integrity[name], "dependencies": needs,
						"resolved": "https://registry.npmjs.org/" + name + "/-/" + npmFile(name, "1.0.0")}
				}
				text, err := json.Marshal(map[string]any{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": lock})
				if err != nil {
					t.Fatal(err)
				}
				write(t, dir+"/work/package-lock.json", string(text))
			}
			out, err := client(t, dir, Configure(NPM, w.base), "npm", verb)
			if err != nil {
				t.Fatalf("npm %s: %v\n%s", verb, err, out)
			}
			got, err := os.ReadFile(dir + "/work/node_modules/@scope/leaf/index.js")
			if err != nil || string(got) != `module.exports = "@scope/leaf"` {
				t.Errorf("installed %q, %v", got, err)
			}
			files := 0
			for _, d := range w.Close() {
				if d.Refused != "" {
					t.Errorf("refused: %+v", d)
				}
				if d.Version != "" {
					files++
				}
			}
			if files != 3 {
				t.Errorf("%d tarballs delivered, want 3", files)
			}
		})
	}
}
