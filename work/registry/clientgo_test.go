package registry

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/zip"
)

// goProxy serves modules of version v1.2.3 by the protocol, and their checksum
// database.
func goProxy(t *testing.T, name string, modules ...string) (up *table, key string) {
	pages, sums := map[string]http.HandlerFunc{}, map[string][]byte{}
	for _, path := range modules {
		v := module.Version{Path: path, Version: "v1.2.3"}
		escaped, err := module.EscapePath(path)
		if err != nil {
			t.Fatal(err)
		}
		src, gomod := t.TempDir(), "module "+path+"\n\ngo 1.21\n"
		write(t, src+"/go.mod", gomod)
		write(t, src+"/a.go", "package a\n\nconst Name = \""+path+"\"\n")
		var b bytes.Buffer
		if err := zip.CreateFromDir(&b, v, src); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(t.TempDir(), "m.zip")
		if err := os.WriteFile(archive, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := dirhash.HashZip(archive, dirhash.Hash1)
		if err != nil {
			t.Fatal(err)
		}
		hm, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(gomod)), nil })
		if err != nil {
			t.Fatal(err)
		}
		sums[path] = fmt.Appendf(nil, "%s v1.2.3 %s\n%s v1.2.3/go.mod %s\n", path, h, path, hm)
		at := "/" + escaped + "/@v/"
		pages[at+"list"] = page("text/plain", "v1.2.3\n")
		pages[at+"v1.2.3.info"] = page("application/json", `{"Version":"v1.2.3","Time":"2026-01-02T03:04:05Z"}`)
		pages[at+"v1.2.3.mod"] = page("text/plain", gomod)
		pages[at+"v1.2.3.zip"] = page("application/zip", b.String())
	}
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	db := sumdb.NewServer(sumdb.NewTestServer(private, func(path, version string) ([]byte, error) {
		if s, ok := sums[path]; ok && version == "v1.2.3" {
			return s, nil
		}
		return nil, fmt.Errorf("unknown module %s@%s", path, version)
	}))
	up = registryOf(t, pages)
	plain := up.Config.Handler
	up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, "/sumdb/"+name)
		switch {
		case ok && rest == "/supported":
		case ok:
			http.StripPrefix("/sumdb/"+name, db).ServeHTTP(w, r)
		default:
			plain.ServeHTTP(w, r)
		}
	})
	return up, public
}

// go mod download fetches modules and their checksums through the front.
func TestClientGo(t *testing.T) {
	t.Parallel()
	const db = "sum.example.org"
	up, key := goProxy(t, db, "example.org/plain", "example.org/Capital/Module")
	w, dir := open(t, Options{Upstreams: map[Ecosystem]Upstream{Go: {URL: up.URL, SumDB: db}}}), t.TempDir()
	write(t, dir+"/work/go.mod", "module app\n\ngo 1.21\n\nrequire (\n\texample.org/plain v1.2.3\n\texample.org/Capital/Module v1.2.3\n)\n")
	c := Configure(Go, w.base)
	c.Env["GOSUMDB"] = key
	if out, err := client(t, dir, c, "go", "mod", "download", "-x", "all"); err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	got, err := os.ReadFile(dir + "/home/go/pkg/mod/example.org/!capital/!module@v1.2.3/a.go")
	if err != nil || !strings.Contains(string(got), "example.org/Capital/Module") {
		t.Errorf("got %q, %v", got, err)
	}
	list := w.Close()
	for _, d := range list {
		if d.Refused != "" {
			t.Errorf("refused: %+v", d)
		}
	}
	if d := one(t, list, "/go/example.org/!capital/!module/@v/v1.2.3.zip"); d.Name != "example.org/Capital/Module" || d.Version != "v1.2.3" || d.SHA256 == "" {
		t.Errorf("the delivery is %+v", d)
	}
	if d := one(t, list, "/go/sumdb/sum.example.org/lookup/example.org/plain@v1.2.3"); d.Name != "example.org/plain" {
		t.Errorf("the delivery is %+v", d)
	}
}
