package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestVersionsOfTheScript: scripts/agents.sh installs the same versions.
func TestVersionsOfTheScript(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../scripts/agents.sh")
	if err != nil {
		t.Fatal(err)
	}
	pins := map[string]string{}
	for _, a := range agents {
		for _, p := range a.Packages {
			at := strings.LastIndexByte(p, '@')
			pins[p[strings.LastIndexByte(p, '/')+1:at]] = p[at+1:]
		}
	}
	for name, version := range pins {
		if strings.HasPrefix(name, "pi-") {
			name = "pi-%s"
		}
		if !regexp.MustCompile(regexp.QuoteMeta(name) + "@" + regexp.QuoteMeta(version) + `\b`).Match(script) {
			t.Errorf("the script does not install %s@%s", name, version)
		}
	}
}

// tarball is a package as the registry serves it.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// registry serves one package in one version.
func registry(t *testing.T, name, version string, files map[string]string) string {
	t.Helper()
	manifest := map[string]any{"name": name, "version": version, "license": "Apache-2.0", "scripts": map[string]string{"postinstall": "touch ran; touch $HOME/ran"}}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	files["package.json"] = string(text)
	packed := tarball(t, files)
	sum := sha512.Sum512(packed)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".tgz"):
			_, _ = w.Write(packed)
		case strings.Contains(strings.ReplaceAll(r.URL.EscapedPath(), "%2f", "/"), name):
			one := map[string]any{"name": name, "version": version, "dist": map[string]string{"tarball": "http://" + r.Host + "/p.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
				"hasInstallScript": true, "scripts": manifest["scripts"]}
			_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: one}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestInstall: what the registry has is installed whole, no script of it runs, and
// what is something else than was asked for leaves nothing.
func TestInstall(t *testing.T) { // not parallel: npm takes its registry from the environment
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("SKIPPED: no npm on this machine, nothing was installed")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("npm_config_cache", filepath.Join(home, "cache"))
	const name = "codex-acp"
	pkg, version := "@agentclientprotocol/codex-acp", "2.6.0"
	for _, test := range []struct {
		what, version string
		files         map[string]string
		fails         string
	}{
		{"another version", "2.6.1", map[string]string{"dist/index.js": "1"}, "npm could not install"},
		{"no program", version, map[string]string{"README": "x"}, "has no program for this machine"},
		{"all of it", version, map[string]string{"dist/index.js": "1"}, ""},
		{"again", version, map[string]string{"dist/index.js": "2"}, ""},
	} {
		prefix := filepath.Join(home, "agents")
		t.Setenv("npm_config_registry", registry(t, pkg, test.version, test.files))
		if test.what == "again" {
			t.Setenv("npm_config_cache", filepath.Join(home, "another"))
		}
		var log bytes.Buffer
		dir, err := Install(t.Context(), prefix, name, "amd64", &log)
		if (err == nil) != (test.fails == "") || err != nil && (!strings.Contains(err.Error(), test.fails) || reason.CodeOf(err) != reason.ProviderUnavailable) {
			t.Fatalf("%s: %v\n%s", test.what, err, log.String())
		}
		entries, readErr := os.ReadDir(prefix)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err != nil {
			if len(entries) > 0 {
				t.Errorf("%s: %v is left", test.what, entries)
			}
			continue
		}
		text, readErr := os.ReadFile(filepath.Join(dir, "node_modules", filepath.FromSlash(pkg), "dist", "index.js"))
		if readErr != nil || string(text) != test.files["dist/index.js"] || len(entries) != 1 {
			t.Errorf("%s: %q, %v, %v", test.what, text, readErr, entries)
		}
		if a, _ := Known(name); a.Licence(dir, name) != "Apache-2.0" || a.Licence(t.TempDir(), name) != "" {
			t.Errorf("licence %q", a.Licence(dir, name))
		}
	}
	for _, ran := range []string{filepath.Join(home, "ran"), "ran"} {
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("a script of the package ran: %s", ran)
		}
	}
	if _, err := Install(t.Context(), home, "nobody", "amd64", io.Discard); reason.CodeOf(err) != reason.ProviderUnavailable {
		t.Error(err)
	}
	t.Setenv("PATH", home)
	if _, err := Install(t.Context(), home, name, "amd64", io.Discard); err == nil || !strings.Contains(err.Error(), "npm, which is not there") {
		t.Error(err)
	}
}
