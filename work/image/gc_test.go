package image_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"remit/proof/reason"
	"remit/work/image"
)

// TestCollect: what nothing has used goes, with its tags and the layers that no other
// image has. What is in use stays, and what goes can be pulled again.
func TestCollect(t *testing.T) {
	t.Parallel()
	shared, own, others := plainLayer(t, file("shared", "s")), plainLayer(t, file("own", "o")), plainLayer(t, file("other", "x"))
	host := serve(t)
	push(t, host+"/a:1", imageOf(t, v1.Config{}, shared, own))
	push(t, host+"/b:1", imageOf(t, v1.Config{}, shared, others))
	s, dir := open(t)
	a, err := pull(t, s, host+"/a:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.KeepShell(a.Digest); err != nil {
		t.Fatal(err)
	}
	b := mustPull(t, s, host+"/b:1")
	layers := func() int {
		names, err := os.ReadDir(filepath.Join(dir, "layers"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	now := time.Now()
	if !s.LastUsed(a).Equal(a.PulledAt) || s.LastUsed(&b.Image).Before(now.Add(-time.Minute)) {
		t.Errorf("used at %s and %s", s.LastUsed(a), s.LastUsed(&b.Image))
	}
	if done, err := s.Collect(t.Context(), now.Add(-time.Hour)); err != nil || len(done.Images) != 0 || done.Layers != 0 || layers() != 3 {
		t.Errorf("what was used this hour: %+v, %v", done, err)
	}
	done, err := s.Collect(t.Context(), now.Add(time.Hour))
	if err != nil || len(done.Images) != 2 || done.Layers != 1 || done.Bytes != 1 || layers() != 2 {
		t.Fatalf("%+v, %v, %d layers", done, err, layers())
	}
	for _, r := range done.Images {
		if (r.Digest == b.Digest) != (r.Why != "") {
			t.Errorf("%+v", r)
		}
	}
	_, err = s.Find(a.Digest)
	wantCode(t, err, reason.ImageMissing)
	ref, err := image.Parse(host + "/a:1")
	if err == nil {
		_, err = s.Resolve(ref)
	}
	wantCode(t, err, reason.ImageMissing)
	if _, err := s.Find(b.Digest); err != nil {
		t.Errorf("the image that is in use: %v", err)
	}
	if s.HasShell(a.Digest) {
		t.Error("it is remembered what the image that went has")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "staging")); err != nil || len(left) > 0 {
		t.Errorf("staging: %v %v", left, err)
	}
	mustPull(t, s, host+"/a:1")
}
