package image_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"remit/proof/reason"
	"remit/work/image"
)

// TestDishonestImages changes what manifests and configurations say.
func TestDishonestImages(t *testing.T) {
	t.Parallel()
	honest := tarOf(t, file("a", "1"))
	evil := tarOf(t, file("a", "2"))
	wrong := imageOf(t, v1.Config{}, plainLayer(t, file("a", "1")))
	cf, err := wrong.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.Architecture = "s390x"
	platform, err := mutate.ConfigFile(wrong, cf)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := mutate.Append(wrong, mutate.Addendum{Layer: plainLayer(t, file("b", "")), URLs: []string{"http://169.254.169.254/latest"}})
	if err != nil {
		t.Fatal(err)
	}
	host := serve(t)
	for _, test := range []struct {
		name string
		img  v1.Image
		code reason.Code
	}{
		{"wrong-diff-id", imageOf(t, v1.Config{}, &rawLayer{packed: gzipped(t, evil), plain: honest}), reason.ImageDigest},
		{"platform", platform, reason.ImagePlatform},
		{"foreign", foreign, reason.ImageForeignLayer},
		{"undistributable", imageOf(t, v1.Config{}, &rawLayer{packed: gzipped(t, honest), plain: honest, kind: types.OCIRestrictedLayer}), reason.ImageForeignLayer},
		{"no-layer", imageOf(t, v1.Config{}, &rawLayer{packed: gzipped(t, honest), plain: honest, kind: "text/html"}), reason.ImageManifest},
		{"variable", imageOf(t, v1.Config{Env: []string{"=x"}}, plainLayer(t, file("a", "1"))), reason.ImageManifest},
		{"no-layers", imageOf(t, v1.Config{}), reason.ImageManifest},
	} {
		ref := host + "/" + test.name + ":1"
		push(t, ref, test.img)
		s, dir := open(t)
		_, err := pull(t, s, ref)
		if got := reason.CodeOf(err); got != test.code {
			t.Errorf("%s: got %v (%s), want %s", test.name, err, got, test.code)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "images")); len(left) > 0 {
			t.Errorf("%s: recorded", test.name)
		}
	}
}

// TestLyingRegistry serves other bytes than the digests say, and leads elsewhere.
func TestLyingRegistry(t *testing.T) {
	t.Parallel()
	img := imageOf(t, v1.Config{}, plainLayer(t, file("a", "1")))
	host := serve(t)
	pinned := push(t, host+"/app:1", img)
	var change func(w http.ResponseWriter, r *http.Request) bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if change(w, r) {
			return
		}
		resp, err := http.Get("http://" + host + r.URL.Path)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, resp.Body)
		}
	}))
	t.Cleanup(front.Close)
	name := strings.TrimPrefix(front.URL, "http://") + "/app@" + pinned
	blob := func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet
	}
	for _, test := range []struct {
		name   string
		change func(w http.ResponseWriter, r *http.Request) bool
		codes  []reason.Code
	}{
		{"other blob", func(w http.ResponseWriter, r *http.Request) bool {
			if blob(r) {
				_, _ = w.Write([]byte("other"))
			}
			return blob(r)
		}, []reason.Code{reason.ImageDigest, reason.ImageUnreachable}},
		{"redirect to the cloud's credentials", func(w http.ResponseWriter, r *http.Request) bool {
			if blob(r) {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data?token=SECRET", http.StatusFound)
			}
			return blob(r)
		}, []reason.Code{reason.ImageAddress, reason.ImageUnreachable}},
		{"no such image", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v2/" {
				http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"Bearer SECRET"}]}`, http.StatusNotFound)
			}
			return r.URL.Path != "/v2/"
		}, []reason.Code{reason.ImageMissing}},
	} {
		change = test.change
		s, dir := open(t)
		_, err := pull(t, s, name)
		if code := reason.CodeOf(err); !slices.Contains(test.codes, code) || err == nil {
			t.Errorf("%s: %v (%s)", test.name, err, code)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error repeats a secret: %v", test.name, err)
		}
		nothingStaged(t, dir)
	}
}

// TestPrivateRegistry refuses a registry on a private address that the user did
// not name as one.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", "1"))))
	s, dir := open(t)
	parsed, err := image.Parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Pull(t.Context(), parsed, image.Options{})
	wantCode(t, err, reason.ImageAddress)
	nothingStaged(t, dir)
}

// TestBounds holds each bound with an image that is one above it.
func TestBounds(t *testing.T) {
	t.Parallel()
	host := serve(t)
	many := plainLayer(t, file("a", ""), file("b", ""), file("c", ""))
	large := plainLayer(t, file("zeros", strings.Repeat("\x00", 100_000)))
	for name, test := range map[string]struct {
		img   v1.Image
		lower func(*image.Limits)
	}{
		"entries":        {imageOf(t, v1.Config{}, many), func(l *image.Limits) { l.Entries = 2 }},
		"implied":        {imageOf(t, v1.Config{}, plainLayer(t, file("a/b/c/d", ""))), func(l *image.Limits) { l.Entries = 3 }},
		"entries-of-all": {imageOf(t, v1.Config{}, many, plainLayer(t, file("d", ""))), func(l *image.Limits) { l.Entries = 3 }},
		"bytes":          {imageOf(t, v1.Config{}, large), func(l *image.Limits) { l.Bytes = 100_000 }},
		"bomb":           {imageOf(t, v1.Config{}, large), func(l *image.Limits) { l.Ratio, l.RatioFrom = 20, 50_000 }},
		"blob":           {imageOf(t, v1.Config{}, large), func(l *image.Limits) { l.Blob = 50 }},
		"layers":         {imageOf(t, v1.Config{}, many, large), func(l *image.Limits) { l.Layers = 1 }},
		"manifest":       {imageOf(t, v1.Config{}, large), func(l *image.Limits) { l.Manifest = 100 }},
	} {
		push(t, host+"/"+name+":1", test.img)
		s, dir := open(t)
		l := image.DefaultLimits()
		test.lower(&l)
		s.SetLimits(l)
		_, err := pull(t, s, host+"/"+name+":1")
		if code := reason.CodeOf(err); code != reason.ImageTooLarge {
			t.Errorf("%s: %v (%s)", name, err, code)
		}
		if name != "entries-of-all" {
			nothingStaged(t, dir)
		}
	}
}
