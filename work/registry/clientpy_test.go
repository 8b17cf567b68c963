package registry

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// wheel makes the smallest wheel that pip installs.
func wheel(t *testing.T, name, version string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	for _, f := range [][2]string{
		{name + "/__init__.py", "value = 1\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// pip downloads by hash what an index names, from an index in HTML and in JSON, and
// with files on the index's own server.
func TestClientPip(t *testing.T) {
	t.Parallel()
	file := wheel(t, "my_pkg", "1.2.0")
	const name = "my_pkg-1.2.0-py3-none-any.whl"
	doc, err := json.Marshal(map[string]any{"meta": map[string]string{"api-version": "1.1"}, "name": "My.Pkg", "versions": []string{"1.2.0"},
		"files": []any{map[string]any{"filename": name, "url": "../../packages/ab/" + name, "hashes": map[string]string{"sha256": digest(file)},
			"requires-python": nil, "size": len(file), "yanked": false, "core-metadata": false}}})
	if err != nil {
		t.Fatal(err)
	}
	for kind, body := range map[string]string{
		simpleJSON:                 string(doc),
		"text/html; charset=utf-8": `<a href="/packages/ab/` + name + `#sha256=` + digest(file) + `" data-requires-python="&gt;=3">` + name + `</a>`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			up := registryOf(t, map[string]http.HandlerFunc{"/simple/my-pkg/": page(kind, body), "/packages/ab/" + name: page("", file)})
			w, dir := open(t, Options{Upstreams: upstreams(PyPI, up.URL+"/simple")}), t.TempDir()
			write(t, dir+"/work/requirements.txt", "my_pkg==1.2.0 --hash=sha256:"+digest(file)+"\n")
			out, err := client(t, dir, Configure(PyPI, w.base), "python3", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
				"--require-hashes", "-r", "requirements.txt", "-d", "wheels")
			if err != nil && strings.Contains(out, "No module named pip") {
				t.Skipf("SKIPPED, NOT TESTED: python3 here has no pip")
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got, err := os.ReadFile(dir + "/work/wheels/" + name); err != nil || string(got) != file {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			list := w.Close()
			if d := one(t, list, "/pypi/file/my-pkg/"+name); d.Name != "my-pkg" || d.Version != "1.2.0" || d.SHA256 != digest(file) {
				t.Errorf("the delivery is %+v", d)
			}
			if d := one(t, list, "/pypi/simple/my-pkg/"); d.Refused != "" || len(list) != 2 {
				t.Errorf("deliveries: %+v", list)
			}
		})
	}
}

// cargo fetches what a lock file of the default registry names, whose crates are on
// another server than the index.
func TestClientCargo(t *testing.T) {
	t.Parallel()
	crate := string(tarball(t, map[string]string{
		"My-Crate-1.0.0/Cargo.toml": "[package]\nname = \"My-Crate\"\nversion = \"1.0.0\"\nedition = \"2018\"\n",
		"My-Crate-1.0.0/src/lib.rs": "pub fn one() -> i32 { 1 }\n",
	}))
	up := registryOf(t, map[string]http.HandlerFunc{
		"/my/-c/my-crate": page("text/plain", fmt.Sprintf(`{"name":"My-Crate","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", digest(crate))),
		"/config.json":    page("application/json", `{"dl":"http://files.example/c/{lowerprefix}/{crate}/{version}.crate","api":"https://api.example","auth-required":true}`),
	})
	files := registryOf(t, map[string]http.HandlerFunc{"/c/my/-c/My-Crate/1.0.0.crate": page("", crate)})
	n := &network{names: map[string][]string{"files.example": {"8.8.4.4"}}, servers: map[string]string{
		"8.8.4.4:80": strings.TrimPrefix(files.URL, "http://"), strings.TrimPrefix(up.URL, "http://"): strings.TrimPrefix(up.URL, "http://")}}
	w, dir := open(t, Options{Upstreams: upstreams(Crates, "sparse+"+up.URL+"/"), Resolve: n.resolve, Dial: n.dial}), t.TempDir()
	write(t, dir+"/work/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2018\"\n\n[dependencies]\nMy-Crate = \"1\"\n")
	write(t, dir+"/work/src/lib.rs", "")
	write(t, dir+"/work/Cargo.lock", "version = 3\n\n[[package]]\nname = \"My-Crate\"\nversion = \"1.0.0\"\n"+
		"source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \""+digest(crate)+"\"\n\n"+
		"[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"My-Crate\",\n]\n")
	if out, err := client(t, dir, Configure(Crates, w.base), "cargo", "fetch", "--locked"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadDir(dir + "/home/.cargo/registry/src")
	if err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
	list := w.Close()
	if d := one(t, list, "/crates/dl/My-Crate/1.0.0/download"); d.Name != "My-Crate" || d.Version != "1.0.0" || d.SHA256 != digest(crate) {
		t.Errorf("the delivery is %+v", d)
	}
	for _, d := range list {
		if d.Refused != "" {
			t.Errorf("refused: %+v", d)
		}
	}
}
