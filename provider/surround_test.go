package provider

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"remit/fixtures/rootfs"
	"remit/fixtures/tally"
	"remit/law/job"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/image"
	"remit/work/registry"
	"remit/work/session"
)

// commits makes a repository whose commits have these files, the later ones beside
// those of before, and returns their ids.
func commits(t *testing.T, contents ...map[string]string) (dir string, ids []string) {
	t.Helper()
	dir = t.TempDir()
	gitIn(t, dir, "init", "-q")
	for _, files := range contents {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		gitIn(t, dir, "add", ".")
		gitIn(t, dir, "commit", "-qm", "one")
		ids = append(ids, gitIn(t, dir, "rev-parse", "HEAD"))
	}
	return dir, ids
}

// lockOf is a lock file with one package, and what a registry of npm gives for it.
func lockOf(t *testing.T, text string) (lock string, file []byte) {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"package.json": `{"name":"add","version":"1.0.0"}`, "index.js": text} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("packing failed")
	}
	sum := sha512.Sum512(out.Bytes())
	return fmt.Sprintf(`{"name":"app","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","dependencies":{"add":"^1.0.0"}},`+
		`"node_modules/add":{"version":"1.0.0","resolved":"https://registry.npmjs.org/add/-/add-1.0.0.tgz","integrity":"sha512-%s"}}}`,
		base64.StdEncoding.EncodeToString(sum[:])), out.Bytes()
}

// npmOf is a registry of npm with that file, and how often it was asked.
func npmOf(t *testing.T, file []byte) (harness.Registries, *atomic.Int32) {
	asked := new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path == "/add/-/add-1.0.0.tgz" {
			_, _ = w.Write(file)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return func(context.Context, registry.Ecosystem) (registry.Upstream, error) {
		return registry.Upstream{URL: server.URL}, nil
	}, asked
}

// TestLayersOfAnEngineRun: an engine, and the verification behind it, have the layers
// of the contract's base where the operator allows it.
func TestLayersOfAnEngineRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		t.Skipf("SKIPPED, npm is not installed below /usr: %v", err)
	}
	lock, file := lockOf(t, "module.exports = 'fixed'")
	own, _ := npmOf(t, file)
	repo, ids := commits(t, map[string]string{"a.txt": "hello\n", "script.sh": `node -e 'console.log(require("add"))' >a.txt`,
		"package.json": `{"name":"app","dependencies":{"add":"^1.0.0"}}`, "package-lock.json": lock, "remit.yaml": "environment: {prepare: [{ecosystem: npm}]}\n"})
	request := engineRequest(contractText(t, ids[0], `"grep \"$(node -e 'console.log(require(\"add\"))')\" a.txt"`, ""), repo, ids[0], gitIn(t, repo, "rev-parse", "HEAD^{tree}"), nil)
	d := daemon(t, "http://127.0.0.1:0", offering(t, filepath.Dir(repo)), func(c *Config) {
		c.Environments = Environments{Registries: own, Dir: filepath.Join(t.TempDir(), "layers")}
	})
	resp, zip := d.runEngine(t.Context(), t, request)
	if resp.Status != job.Success {
		t.Fatalf("%+v", resp)
	}
	if e := audited(t, zip).Environment; e == nil || len(e.Layers) != 1 || e.Layers[0].Packages != 1 {
		t.Errorf("the bundle says %+v", e)
	}
	d = daemon(t, "http://127.0.0.1:0", offering(t, filepath.Dir(repo)))
	if resp, _ := d.runEngine(t.Context(), t, request); resp.Refusal == nil || resp.Refusal.Code != reason.EnvironmentUnavailable {
		t.Errorf("a provider that prepares nothing: %+v", resp)
	}
}

// TestLayersOfAJob: a job has the layers of its base, made here and by the key that
// its requester names, or it is refused.
func TestLayersOfAJob(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		t.Skipf("SKIPPED, npm is not installed below /usr: %v", err)
	}
	lock, file := lockOf(t, "module.exports = 'base'")
	headLock, _ := lockOf(t, "module.exports = 'head'")
	own, asked := npmOf(t, file)
	repo, ids := commits(t, map[string]string{
		"package.json": `{"name":"app","dependencies":{"add":"^1.0.0"}}`, "package-lock.json": lock,
		"remit.yaml": "environment:\n  prepare: [{ecosystem: npm}]\n  env: {MOOD: calm}\n",
	}, map[string]string{ // what a change does to them has no effect
		"package-lock.json": headLock, "remit.yaml": "environment: {env: {MOOD: wild}}\n",
	}, map[string]string{
		"remit.yaml": "environment:\n  services: [{name: db, run: 'sleep 9', ready: 'true'}]\n",
	})
	away := func(context.Context, registry.Ecosystem) (registry.Upstream, error) {
		return registry.Upstream{URL: "http://127.0.0.1:1/secret-mirror"}, nil
	}
	open := func(from harness.Registries) *Daemon {
		return daemon(t, "http://127.0.0.1:0", func(c *Config) {
			c.Sources, c.Environments = []string{filepath.Dir(repo)}, Environments{Registries: from, Dir: filepath.Join(t.TempDir(), "layers")}
		})
	}
	ask := func(d *Daemon, base string, layers ...job.Layer) (job.SandboxRunResponse, string) {
		r := request(t, repo, func(r *job.SandboxRunRequest) {
			r.Repo.GitRef = &ids[1]
			r.Commands = []job.Command{{Cmd: `test "$MOOD" = calm && node -e 'console.log(require("add"))'`}}
			r.Environment = &job.Environment{Base: job.Base{Source: repo, GitRef: base}, Layers: layers}
		})
		resp, _ := d.runForTest(t.Context(), t, r)
		if v := job.Check(r, resp); v.Outcome == job.ProviderFault {
			t.Errorf("the provider is to blame: %+v", v)
		}
		text, err := json.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	d := open(own)
	wrong := job.Layer{Key: "sha256:" + strings.Repeat("0", 64), ContentSHA256: "sha256:" + strings.Repeat("0", 64)}
	refused := func(name, code string, resp job.SandboxRunResponse, said string) {
		t.Helper()
		if resp.Status != job.Failed || len(resp.Runs) != 1 || resp.Runs[0].ExitCode != refusedExit || !strings.Contains(said, code) ||
			strings.Contains(said, "secret-mirror") || len(resp.EnvInfo.Layers) > 0 {
			t.Errorf("%s: %s", name, said)
		}
	}
	resp, said := ask(d, ids[0], wrong)
	refused("another key", "environment_differs", resp, said)
	resp, said = ask(d, ids[0])
	refused("no key", "environment_differs", resp, said)
	// The key is no secret of the provider's: the requester has it from its own run.
	made, err := harness.BuildEnvironment(t.Context(), harness.EnvironmentBuild{Home: session.Home{Dir: t.TempDir()}, Repo: repo, Base: ids[0], Sandbox: d.driver, Registries: own, Clock: d.clock})
	if err != nil {
		t.Fatal(err)
	}
	layer := job.Layer{Key: made.Environment.Layers[0].Key, ContentSHA256: made.Environment.Layers[0].ContentSHA256}
	resp, said = ask(d, ids[0], layer)
	if resp.Status != job.Success || len(resp.EnvInfo.Layers) != 1 || resp.EnvInfo.Layers[0] != layer || !strings.Contains(said, "base") {
		t.Errorf("with the layer: %s", said)
	}
	before := asked.Load()
	if resp, said = ask(d, ids[0], layer); resp.Status != job.Success || asked.Load() != before {
		t.Errorf("a layer that is there was fetched again: %s", said)
	}
	resp, said = ask(open(nil), ids[0], layer)
	refused("a provider that prepares nothing", "environment_unavailable", resp, said)
	resp, said = ask(open(away), ids[0], layer)
	refused("a registry that is away", "registry_unreachable", resp, said)
	resp, said = ask(d, ids[2])
	refused("services that the job does not name", "environment_differs", resp, said)
	if resp, said = ask(d, ids[1]); resp.Status != job.Failed || resp.Runs[0].ExitCode != 1 {
		t.Errorf("variables alone: %s", said)
	}
	resp, said = ask(d, "0123456789012345678901234567890123456789")
	refused("a base that is not there", "base_not_found", resp, said)
}

// TestImageOfAJobIsPulled: an image comes from a registry that the operator named, by
// the digest in the policy of the base, without a credential of the operator's.
func TestImageOfAJobIsPulled(t *testing.T) {
	files, err := rootfs.Programs("sh", "cat")
	if err != nil {
		t.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	root := t.TempDir()
	if err := rootfs.Lay(root, files); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "ci.tar")
	saved, err := image.Save(t.Context(), root, archive, image.Config{Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	images, err := rootfs.Registry(archive)
	if err != nil {
		t.Fatal(err)
	}
	var credential atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			credential.Store(true)
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	operator := t.TempDir()
	t.Setenv("DOCKER_CONFIG", operator) // so it is not parallel to other tests
	if err := os.WriteFile(filepath.Join(operator, "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"b3A6cHc="}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other := "sha256:" + strings.Repeat("1", 64)
	repo, ids := commits(t,
		map[string]string{"a.txt": "hello\n", "remit.yaml": "environment: {image: \"" + host + "/tools/ci@" + saved.Digest + "\"}\n"},
		map[string]string{"remit.yaml": "environment: {image: \"" + host + "/tools/ci@" + other + "\"}\n"},
		map[string]string{"remit.yaml": "environment: {image: \"oci-archive:" + archive + "@" + saved.Digest + "\"}\n"})
	for name, c := range map[string]struct {
		hosts   []string
		private bool
		base    int
		digest  string
		code    string // of the refusal, "" for none
	}{
		"named by the operator":      {[]string{"docker.io", host}, true, 0, saved.Digest, ""},
		"not named":                  {[]string{"docker.io"}, true, 0, saved.Digest, "job_invalid"},
		"none named":                 {nil, false, 0, saved.Digest, "job_invalid"},
		"a private address":          {[]string{host}, false, 0, saved.Digest, "image_address_refused"},
		"another digest is asked":    {[]string{host}, true, 0, other, "environment_differs"},
		"the host is asked":          {[]string{host}, true, 0, hostImage, "environment_differs"},
		"the registry lacks it":      {[]string{host}, true, 1, other, "image_missing"},
		"a file of the provider's":   {[]string{host}, true, 2, saved.Digest, "job_invalid"},
		"a prefix of a named host":   {[]string{host + "0"}, true, 0, saved.Digest, "job_invalid"},
		"a host with another's path": {[]string{"tools"}, true, 0, saved.Digest, "job_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := daemon(t, "http://127.0.0.1:0", func(cfg *Config) {
				cfg.Home, cfg.Sources, cfg.Environments = t.TempDir(), []string{filepath.Dir(repo)}, Environments{ImageHosts: c.hosts, PrivateImages: c.private}
			})
			r := request(t, repo, func(r *job.SandboxRunRequest) {
				r.Sandbox.ImageDigest = c.digest
				r.Commands = []job.Command{{Cmd: "cat a.txt && test ! -e /usr/bin/env"}}
				r.Environment = &job.Environment{Base: job.Base{Source: repo, GitRef: ids[c.base]}}
			})
			resp, _ := d.runForTest(t.Context(), t, r)
			text, err := json.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			want := job.Passed
			if c.code != "" {
				want = job.JobFailed
			}
			if v := job.Check(r, resp); v.Outcome != want || !strings.Contains(string(text), c.code) || strings.Contains(string(text), archive) && c.base != 2 {
				t.Errorf("%+v: %s", v, text)
			}
		})
	}
	if credential.Load() {
		t.Error("a credential was sent for a job")
	}
}
