package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"remit/proof/reason"
	"remit/work/image"
)

// entry is one entry of a layer.
type entry struct {
	name, text, link string
	kind             byte
	mode             int64
	pax              map[string]string
	major, minor     int64
}

func file(name, text string) entry {
	return entry{name: name, text: text, kind: tar.TypeReg, mode: 0o644}
}
func dir(name string) entry          { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func link(name, target string) entry { return entry{name: name, link: target, kind: tar.TypeSymlink} }
func hard(name, target string) entry { return entry{name: name, link: target, kind: tar.TypeLink} }

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.text)), PAXRecords: e.pax, Devmajor: e.major, Devminor: e.minor}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func layerOf(t testing.TB, kind types.MediaType, packed []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }, tarball.WithMediaType(kind))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func plainLayer(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	return layerOf(t, types.OCILayer, gzipped(t, tarOf(t, entries...)))
}

// imageOf makes an image for this machine.
func imageOf(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Config = "linux", runtime.GOARCH, config
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return img
}

// serve starts a registry in this process.
func serve(t testing.TB) (host string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func push(t testing.TB, ref string, img v1.Image) string {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(r, img); err != nil {
		t.Fatal(err)
	}
	return digest(t, img)
}

func digest(t testing.TB, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func open(t testing.TB) (*image.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "images")
	s, err := image.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func pull(t testing.TB, s *image.Store, text string) (*image.Image, error) {
	t.Helper()
	ref, err := image.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Pull(t.Context(), ref, image.Options{Private: true})
}

func mustPull(t testing.TB, s *image.Store, text string) *image.Mounted {
	t.Helper()
	img, err := pull(t, s, text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Find(img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantCode(t *testing.T, err error, code reason.Code) {
	t.Helper()
	if got := reason.CodeOf(err); got != code || err == nil {
		t.Errorf("got %v (%s), want the code %s", err, got, code)
	}
}

// nothingStaged holds that nothing but what is whole stays in a store.
func nothingStaged(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{"images", "tags", "layers"} {
		if left, err := os.ReadDir(filepath.Join(dir, sub)); err != nil || len(left) > 0 {
			t.Errorf("%s has %d entries after a refusal: %v %v", sub, len(left), left, err)
		}
	}
}
