package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/rootfs"
	"remit/fixtures/tally"
)

// npmPackage serves one package of npm, and returns its digest.
func npmPackage(t *testing.T, name string, files map[string]string) (url, integrity string) {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for file, text := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("packing failed")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != fmt.Sprintf("/%s/-/%s-1.0.0.tgz", name, name) {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(out.Bytes())
	}))
	t.Cleanup(server.Close)
	sum := sha512.Sum512(out.Bytes())
	return server.URL, "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// provers is a nexus with money, and a provider of alice's with a home.
func provers(t *testing.T, prepare func(home string) []string) (n *nexus, alice string) {
	t.Helper()
	n = startNexus(t)
	alice = n.do(n.admin, "POST", "/v1/tokens", "alice", object{"kind": "user", "owner": "alice",
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	provider, home := n.enrol("alice", "one")
	background(t, home, append([]string{"provider", "start", "--unenforced-caps"}, prepare(home)...)...)
	n.fresh(alice, provider)
	n.do(alice, "PUT", "/v1/providers/"+provider+"/caps", "more", object{"cpu_millis": 8000, "memory_mb": 8192, "disk_mb": 8192, "pids": 1024,
		"timeout_secs": 300, "concurrency": 1, "network": "none"}, http.StatusOK)
	account := n.do(alice, "POST", "/v1/treasury/accounts", "account", object{"limit": 10_000}, http.StatusCreated)
	n.do(n.admin, "POST", "/v1/treasury/fund", "fund", object{"account_id": account.text("account_id"), "amount": 5_000}, http.StatusOK)
	return n, alice
}

// ranIn is the environment of a run: as the run itself had it, and as the receipts of
// the nexus have it for its proof.
type ranIn struct {
	Image  string
	Layers []struct {
		Key     string `json:"key"`
		Content string `json:"content_sha256"`
	}
	Services []struct{ Name, SHA256 string }
}

func (c *change) environments(n *nexus, token string, r ran) (own, proof ranIn) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "RECEIPT.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var doc struct {
		Environment struct {
			ranIn
			Image struct{ Digest string }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		c.t.Fatal(err)
	}
	own = doc.Environment.ranIn
	own.Image = doc.Environment.Image.Digest
	var list struct {
		Items []struct {
			Type    string `json:"receipt_type"`
			Payload struct {
				Environment struct {
					ranIn
					Image string `json:"image_digest"`
				}
			}
		}
	}
	logged := n.do(token, "GET", "/v1/runs/"+r.Run+"/receipts", "", nil, http.StatusOK)
	if err := json.Unmarshal([]byte(logged.raw), &list); err != nil {
		c.t.Fatal(err)
	}
	for _, item := range list.Items {
		if item.Type == "JobCompleted" {
			proof = item.Payload.Environment.ranIn
			proof.Image = item.Payload.Environment.Image
		}
	}
	return own, proof
}

// TestLayersUnderNexus: a provider makes the same layer as the run had, from the lock
// file of the base or of the change, starts the same service, and proves the change
// beside them.
func TestLayersUnderNexus(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 7, 8)
	requireSandbox(t)
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		t.Skipf("SKIPPED, npm is not installed below /usr: %v", err)
	}
	registry, integrity := npmPackage(t, "add", map[string]string{"package.json": `{"name":"add","version":"1.0.0"}`, "index.js": "module.exports = (a, b) => a + b\n"})
	c := &change{t: t, home: t.TempDir(), repo: gitRepo(t, map[string]string{
		"hello.txt": "hello\n", "package.json": `{"name":"app","version":"1.0.0","dependencies":{"add":"^1.0.0"}}`,
		"package-lock.json": `{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","version":"1.0.0","dependencies":{"add":"^1.0.0"}},` +
			`"node_modules/add":{"version":"1.0.0","resolved":"https://registry.npmjs.org/add/-/add-1.0.0.tgz","integrity":"` + integrity + `"}}}`,
		"remit.yaml": "environment:\n  prepare: [{ecosystem: npm}]\n  dependencies: prepare\n  env: {MOOD: calm}\n  services:\n    - name: web\n" +
			"      run: exec python3 -m http.server 7001 --bind 127.0.0.1\n" +
			`      ready: python3 -c "import socket; socket.create_connection(('127.0.0.1', 7001))" 2>/dev/null` + "\n",
	})}
	configure := func(home string) {
		if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte("registry="+registry+"/\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, alice := provers(t, func(home string) []string { configure(home); return []string{"--prepare", "own"} })
	configure(c.home)
	c.env = append(os.Environ(), "REMIT_HOME="+c.home, "HOME="+c.home, "REMIT_TOKEN="+alice)
	const check = `test "$MOOD" = calm && node -e 'if (require("add")(1, 1) !== 2) process.exit(1)' && ` +
		`python3 -c "import urllib.request as r; assert r.urlopen('http://127.0.0.1:7001/hello.txt').read() == b'hello\n'"` // the base's, whatever the change is
	r := c.run(0, "--nexus", n.url, "--verify", check)
	if got := c.receipts(r); !slices.Equal(got, proved) {
		t.Errorf("run %q has the receipts %v", r.Run, got)
	}
	own, proof := c.environments(n, alice, r)
	if len(own.Layers) != 1 || !slices.Equal(own.Layers, proof.Layers) || proof.Image != "host" || len(own.Services) != 1 || !slices.Equal(own.Services, proof.Services) {
		t.Errorf("the run had %+v, and its proof %+v", own, proof)
	}
	// A change that needs another dependency is proved with it.
	const alias = `sed -i 's/"add":"^1.0.0"/"plus":"npm:add@^1.0.0"/; s,node_modules/add":{,node_modules/plus":{"name":"add"\,,' package.json package-lock.json; echo better >hello.txt`
	var second ran
	if err := json.Unmarshal([]byte(c.remit(0, "run", "--json", "--repo", c.repo, "--nexus", n.url, "--allow", "*", "--verify",
		`grep -q better hello.txt && node -e 'require("plus")'`, "--", "sh", "-c", alias)), &second); err != nil {
		t.Fatal(err)
	}
	before, after := c.environments(n, alice, second)
	if got := c.receipts(second); !slices.Equal(got, proved) || len(after.Layers) != 1 || after.Layers[0].Key == before.Layers[0].Key {
		t.Errorf("a change of dependencies: receipts %v, the base had %+v, and the proof %+v", got, before, after)
	}
	c.remit(0, "audit", second.Dir)
	c.remit(0, "audit", r.Dir)
	if said := c.remit(0, "verify", r.Session); !strings.Contains(said, "PASS") {
		t.Errorf("verified again: %s", said)
	}
}

// TestImageUnderNexus: a provider pulls the image of the base's policy by its digest
// from the registry that its operator named, and proves the change in it.
func TestImageUnderNexus(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	requireSandbox(t)
	files, err := rootfs.Programs("sh", "grep", "cat")
	if err != nil {
		t.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	c := &change{t: t, home: t.TempDir()}
	c.env = append(os.Environ(), "REMIT_HOME="+c.home, "HOME="+c.home)
	root := filepath.Join(c.home, "root")
	if err := rootfs.Lay(root, files); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(c.home, "ci.tar")
	c.repo = root
	var saved struct{ Digest string }
	if err := json.Unmarshal([]byte(c.remit(0, "env", "image", "save", "--json", "--env", "PATH=/bin", root, archive)), &saved); err != nil {
		t.Fatal(err)
	}
	images, err := rootfs.Registry(archive)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(images)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	name := host + "/tools/ci@" + saved.Digest
	c.repo = gitRepo(t, map[string]string{"hello.txt": "hello\n", "remit.yaml": "environment: {image: \"" + name + "\"}\n"})
	c.remit(0, "env", "image", "pull", "--private-registry", name)
	n, alice := provers(t, func(string) []string { return []string{"--image-registry", host, "--private-registry"} })
	c.env = append(c.env, "REMIT_TOKEN="+alice)
	r := c.run(0, "--nexus", n.url, "--verify", "! test -e /usr/bin/env")
	if got := c.receipts(r); !slices.Equal(got, proved) {
		t.Errorf("run %q has the receipts %v", r.Run, got)
	}
	if own, proof := c.environments(n, alice, r); own.Image != saved.Digest || proof.Image != saved.Digest {
		t.Errorf("the run had the image %s, and its proof %s", own.Image, proof.Image)
	}
	c.remit(0, "audit", r.Dir)
}
