package depend

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeTree writes files below a directory, by path.
func writeTree(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(text), 0o644))
	}
	return dir
}

// npmRegistry is a registry of npm on this machine's loopback.
type npmRegistry struct {
	*httptest.Server
	files map[string][]byte // by path
	asked chan string
}

func tarball(t testing.TB, top string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(t, w.WriteHeader(&tar.Header{Name: top + "/" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(files[name]))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	return out.Bytes()
}

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func openRegistry(t testing.TB) *npmRegistry {
	r := &npmRegistry{files: map[string][]byte{}, asked: make(chan string, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked <- q.Method + " " + q.URL.Path
		if body, ok := r.files[q.URL.Path]; ok {
			_, _ = w.Write(body)
			return
		}
		http.NotFound(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

// publish adds a package, and returns its entry of a lock file.
func (r *npmRegistry) publish(t testing.TB, name, version string, files map[string]string) map[string]any {
	t.Helper()
	manifest := map[string]any{"name": name, "version": version}
	if text, ok := files["package.json"]; ok {
		must(t, json.Unmarshal([]byte(text), &manifest))
		manifest["name"], manifest["version"] = name, version
	}
	text, err := json.Marshal(manifest)
	must(t, err)
	files = maps.Clone(files)
	files["package.json"] = string(text)
	file := tarball(t, "package", files)
	at := "/" + name + "/-/" + filepath.Base(name) + "-" + version + ".tgz"
	r.files[at] = file
	entry := maps.Clone(manifest)
	delete(entry, "name")
	delete(entry, "scripts")
	entry["resolved"], entry["integrity"] = "https://registry.npmjs.org"+at, integrity(file)
	if _, ok := manifest["scripts"]; ok {
		entry["hasInstallScript"] = true
	}
	return entry
}

// lockText is a lock file.
func lockText(t testing.TB, packages map[string]any) string {
	t.Helper()
	text, err := json.MarshalIndent(map[string]any{"name": "app", "lockfileVersion": 3, "requires": true, "packages": packages}, "", "  ")
	must(t, err)
	return string(text)
}

// openBuilder returns a builder with a store of its own, which asks the registry at
// the address. It skips the test, loudly, where there is no sandbox or client.
func openBuilder(t testing.TB, address string, clients ...string) *Builder {
	t.Helper()
	return openBuilderWith(t, address, nil, clients...)
}

// openBuilderWith is openBuilder with directories of tools.
func openBuilderWith(t testing.TB, address string, toolchains []string, clients ...string) *Builder {
	t.Helper()
	for _, name := range clients {
		if _, err := exec.LookPath("/usr/bin/" + name); err != nil {
			t.Skipf("SKIPPED, %s is not installed below /usr: %v", name, err)
		}
	}
	d, err := sandbox.Open(context.Background(), sandbox.Options{Toolchains: toolchains})
	if err != nil {
		t.Skipf("SKIPPED, no sandbox works here: %v", err)
	}
	store, err := OpenStore(filepath.Join(t.TempDir(), "environments"))
	must(t, err)
	return &Builder{Store: store, Sandbox: d, Clock: time.Now, Scratch: t.TempDir(), Tell: func(line string) { t.Log(line) },
		Upstream: func(context.Context, registry.Ecosystem) (registry.Upstream, error) {
			return registry.Upstream{URL: address}, nil
		}}
}

// contentOf lists the files of a layer with their text.
func contentOf(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	_, err := list(dir, &b)
	must(t, err)
	return b.String()
}

func sprint(v any) string { return fmt.Sprint(v) }

// refusedWithCode reports whether there is an error, which has to have a code.
func refusedWithCode(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && reason.CodeOf(err) == "" {
		t.Errorf("an error without a code: %v", err)
	}
	return err != nil
}
