package image_test

import (
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"remit/proof/reason"
)

// TestCredentials pulls with the user's docker configuration, which stays where it
// is: no file of the store and no error has it, and a host that the registry leads
// to never gets it. (t.Setenv: not parallel.)
func TestCredentials(t *testing.T) {
	const user, password = "operator", "s3cr3t-of-the-registry"
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var refuse atomic.Bool
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		for _, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), base64.StdEncoding.EncodeToString([]byte(user+":"+password))) {
				t.Error("another host got the credential")
			}
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(other.Close)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if refuse.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/x?signature=SIGNED", http.StatusFound)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	host := strings.TrimPrefix(front.URL, "http://")
	ref, err := name.ParseReference(host + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	img := imageOf(t, v1.Config{}, plainLayer(t, file("a", "1")))
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	s, dir := open(t)
	_, err = pull(t, s, host+"/app:1")
	wantCode(t, err, reason.ImageUnreachable)
	text := `{"auths":{"` + host + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + `"}}}`
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	_, err = pull(t, s, host+"/app:1")
	wantCode(t, err, reason.ImageUnreachable)
	if said := err.Error(); strings.Contains(said, password) || strings.Contains(said, "SIGNED") || elsewhere.Load() == 0 {
		t.Errorf("the error is %q after %d requests to another host", said, elsewhere.Load())
	}
	refuse.Store(false)
	mustPull(t, s, host+"/app:1")
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), password) {
			t.Errorf("%s has the credential", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
