package image_test

import (
	"archive/tar"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/google/go-containerregistry/pkg/name"

	"remit/proof/reason"
	"remit/work/image"
)

// TestPull unpacks an image of three layers, with each kind of entry that tools write.
func TestPull(t *testing.T) {
	t.Parallel()
	script := file("usr/bin/tool", "#!/bin/sh\n")
	script.mode = 0o6755
	secret := file("etc/shadow", "root:*\n")
	secret.mode = 0o000
	open0 := file("open", "")
	open0.mode = 0o666
	marked := file("marked", "")
	marked.pax = map[string]string{"SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.x": "y"}
	one := plainLayer(t, dir("./"), dir("usr"), dir("usr/bin"), script, secret, open0, marked,
		link("bin", "/usr/bin"), file("bin/through", "through an absolute link"), hard("bin/hard", "/usr/bin/tool"),
		dir("d"), dir("d"), file("d/x", "x"), file("d/y", "y"), file("Case", "C"), file("case", "c"), file(".WH.plain", "no whiteout"),
		entry{name: "dev/null", kind: tar.TypeChar, major: 1, minor: 3}, entry{name: "run/fifo", kind: tar.TypeFifo})
	two := layerOf(t, types.OCILayerZStd, zstded(t, tarOf(t, file("d/.wh.x", ""), file("d/.wh.gone", ""), file("e/.wh..wh..opq", ""), file("e/new", ""))))
	three := layerOf(t, types.OCIUncompressedLayer, tarOf(t, file("last", "last"), file(".wh.d", ""), file("d/z", "z")))
	host := serve(t)
	want := push(t, host+"/app:1", imageOf(t, v1.Config{Env: []string{"A=b"}, WorkingDir: "/srv", User: "app"}, one, two, three))
	s, dir := open(t)
	m := mustPull(t, s, host+"/app:1")
	if m.Digest != want || m.Platform != "linux/"+runtime.GOARCH || !slices.Equal(m.Env, []string{"A=b"}) || m.WorkingDir != "/srv" || m.User != "app" {
		t.Errorf("the image is %+v, want the digest %s", m.Image, want)
	}
	if len(m.Dirs) != 3 || m.Layers[0].Dropped != 2 {
		t.Fatalf("the layers are %v %+v", m.Dirs, m.Layers)
	}
	top, middle, low := m.Dirs[0], m.Dirs[1], m.Dirs[2]
	for path, mode := range map[string]fs.FileMode{"usr/bin/tool": 0o755, "etc/shadow": 0o400, "open": 0o644, "usr": fs.ModeDir | 0o755,
		"usr/bin/through": 0o644, "usr/bin/hard": 0o755, "etc": fs.ModeDir | 0o755, "Case": 0o644, "case": 0o644, ".WH.plain": 0o644} {
		if info, err := os.Lstat(filepath.Join(low, path)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want %v", path, info, err, mode)
		}
	}
	for _, path := range []string{"dev/null", "run/fifo"} {
		if _, err := os.Lstat(filepath.Join(low, path)); err == nil {
			t.Errorf("%s was kept", path)
		}
	}
	for _, attr := range []string{"user.overlay.redirect", "user.x"} {
		if _, err := syscall.Getxattr(filepath.Join(low, "marked"), attr, make([]byte, 10)); err == nil {
			t.Errorf("the attribute %s of an entry was kept", attr)
		}
	}
	for _, path := range []string{filepath.Join(middle, "d/x"), filepath.Join(middle, "d/gone")} {
		if !isWhiteout(path) {
			t.Errorf("%s is no whiteout", path)
		}
	}
	for _, path := range []string{filepath.Join(middle, "e"), filepath.Join(top, "d")} { // a layer's own entries stay
		if !isOpaque(path) {
			t.Errorf("%s is not opaque", path)
		}
	}
	if isOpaque(filepath.Join(middle, "d")) || isWhiteout(filepath.Join(top, "d")) {
		t.Error("a mark is where none belongs")
	}
	if staged, err := os.ReadDir(filepath.Join(dir, "staging")); err != nil || len(staged) > 0 {
		t.Errorf("left in the staging directory: %v %v", staged, err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 || !slices.Equal(list[0].References, []string{host + "/app:1"}) {
		t.Errorf("the list is %v %v", list, err)
	}
}

func isWhiteout(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 0
}

func isOpaque(path string) bool {
	value := make([]byte, 4)
	n, err := syscall.Getxattr(path, "user.overlay.opaque", value)
	return err == nil && string(value[:n]) == "y"
}

// TestTagIsResolvedOnce moves a tag after a pull.
func TestTagIsResolvedOnce(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:latest"
	first := push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", "1"))))
	s, _ := open(t)
	mustPull(t, s, ref)
	second := push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", "2"))))
	if m := mustPull(t, s, ref); m.Digest != first {
		t.Errorf("the tag means %s now, and meant %s", m.Digest, first)
	}
	parsed, err := image.Parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := s.Pull(t.Context(), parsed, image.Options{Private: true, Again: true})
	if err != nil || img.Digest != second {
		t.Errorf("asked again it means %v (%v), want %s", img, err, second)
	}
}

// TestIndex takes this machine's image of an index, pinned by the index.
func TestIndex(t *testing.T) {
	t.Parallel()
	img := imageOf(t, v1.Config{}, plainLayer(t, file("a", "ours")))
	other := imageOf(t, v1.Config{}, plainLayer(t, file("a", "theirs")))
	mine, foreign := &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, &v1.Platform{OS: "linux", Architecture: "s390x"}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: foreign}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: mine}})
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	h, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := open(t)
	for _, ref := range []string{"oci:" + dir, "oci:" + dir + "@" + digest(t, img)} {
		if m := mustPull(t, s, ref); m.Digest != digest(t, img) {
			t.Errorf("%s is %s", ref, m.Digest)
		}
	}
	if m, err := s.Find(h.String()); err != nil || m.Digest != digest(t, img) {
		t.Errorf("by the digest of the index: %v %v", m, err)
	}
	_, err = pull(t, s, "oci:"+dir+"@"+digest(t, other))
	if err != nil { // the configuration says this machine: only the index disagrees
		t.Error(err)
	}
	only := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: foreign}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: foreign}})
	bad := t.TempDir()
	if _, err := layout.Write(bad, only); err != nil {
		t.Fatal(err)
	}
	_, err = pull(t, s, "oci:"+bad)
	wantCode(t, err, reason.ImagePlatform)
}

// TestArchives reads what docker and skopeo write, which is the same image.
func TestArchives(t *testing.T) {
	t.Parallel()
	img := imageOf(t, v1.Config{}, plainLayer(t, file("a", "1")), plainLayer(t, file("b", "2")))
	tagged, err := name.NewTag("example.org/app:1")
	if err != nil {
		t.Fatal(err)
	}
	docker := filepath.Join(t.TempDir(), "docker.tar")
	if err := tarball.WriteToFile(docker, tagged, img); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t)
	m := mustPull(t, s, "docker-archive:"+docker)
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if m.Digest != id.String() || len(m.Dirs) != 2 {
		t.Errorf("the archive is %+v, want the id %s", m, id)
	}
	_, err = pull(t, s, "docker-archive:"+docker+"@sha256:"+strings.Repeat("0", 64))
	wantCode(t, err, reason.ImageMissing)
	for name, entries := range map[string][]entry{
		"link out":       {link("manifest.json", "../../../../etc/hostname")},
		"hard link out":  {hard("manifest.json", "/etc/hostname")},
		"link to itself": {link("manifest.json", "manifest.json")},
		"name out":       {file("../manifest.json", "[]")},
		"twice":          {file("manifest.json", "[]"), file("manifest.json", "[]")},
		"device":         {{name: "manifest.json", kind: tar.TypeChar}},
		"config out":     {file("manifest.json", `[{"Config":"../../../../../../etc/hostname","Layers":["x"]}]`)},
	} {
		bad := filepath.Join(t.TempDir(), "bad.tar")
		if err := os.WriteFile(bad, rawTar(t, entries), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pull(t, s, "docker-archive:"+bad)
		if code := reason.CodeOf(err); code != reason.ImageManifest && code != reason.FileUnusable {
			t.Errorf("%s: %v (%s)", name, err, code)
		}
	}
}

// TestLinkOfALowerLayer refuses an entry whose way is a link in a layer below.
func TestLinkOfALowerLayer(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	low := plainLayer(t, dir("usr"), dir("usr/lib"), file("usr/lib/old", ""), link("lib", "usr/lib"))
	push(t, ref, imageOf(t, v1.Config{}, low, plainLayer(t, file("lib/new", ""))))
	s, _ := open(t)
	_, err := pull(t, s, ref)
	wantCode(t, err, reason.ImageLayerLink)
	push(t, ref, imageOf(t, v1.Config{}, low, plainLayer(t, dir("lib"), file("lib/new", "")))) // says itself that it replaces the link
	if m := mustPull(t, s, ref); len(m.Dirs) != 2 {
		t.Errorf("the layers are %v", m.Dirs)
	}
}

// TestOpaqueRoot leaves out what a layer hides as a whole, and a layer that is there twice.
func TestOpaqueRoot(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	again := plainLayer(t, file("again", ""))
	push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("old", "")), again, plainLayer(t, file(".wh..wh..opq", ""), file("new", "")), again, plainLayer(t, file("x", "")), again))
	s, _ := open(t)
	if m := mustPull(t, s, ref); len(m.Dirs) != 3 {
		t.Errorf("the layers are %v", m.Dirs)
	}
}

// TestTwoBuilders pulls one image at the same time, into one store.
func TestTwoBuilders(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", strings.Repeat("1", 100_000)))))
	dir := filepath.Join(t.TempDir(), "images")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := image.Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			img, err := pull(t, s, ref)
			if err == nil {
				_, err = s.Find(img.Digest)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestLeftOfACrash finds what a pull left that was killed half-way.
func TestLeftOfACrash(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", "1"))))
	s, dir := open(t)
	half := filepath.Join(dir, "staging", "layer-1", "tree", "a")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	img, err := pull(t, s, ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what the crash left is still there")
	}
	// A layer that lost its record after a crash of the machine is made again.
	meta, err := filepath.Glob(filepath.Join(dir, "layers", "*", "layer.json"))
	if err != nil || len(meta) != 1 {
		t.Fatal(meta, err)
	}
	if err := os.Remove(meta[0]); err != nil {
		t.Fatal(err)
	}
	_, err = s.Find(img.Digest)
	wantCode(t, err, reason.ImageChanged)
	mustPull(t, s, ref)
}

// TestChangedOnDisk changes an unpacked layer, and sets the times back.
func TestChangedOnDisk(t *testing.T) {
	t.Parallel()
	ref := serve(t) + "/app:1"
	push(t, ref, imageOf(t, v1.Config{}, plainLayer(t, file("a", "good"))))
	s, _ := open(t)
	m := mustPull(t, s, ref)
	path := filepath.Join(m.Dirs[0], "a")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	_, err = s.Find(m.Digest)
	wantCode(t, err, reason.ImageChanged)
	if m = mustPull(t, s, ref); m == nil { // notices, and makes the layer again
		t.Fatal("no image")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "good" {
		t.Errorf("the layer has %q %v", text, err)
	}
}

// TestCancelled gives up waiting for another pull.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	ref, err := image.Parse("example.org/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(ctx, ref, image.Options{}); !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("got %v", err)
	}
}
