package image_test

import (
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/image"
)

func TestParse(t *testing.T) {
	t.Parallel()
	pin := "@sha256:" + strings.Repeat("a", 64)
	for text, kind := range map[string]image.Kind{
		"debian:12": image.Registry, "docker.io/library/debian" + pin: image.Registry, "registry.example.org:5000/a/b:1.2" + pin: image.Registry,
		"oci:dir": image.Layout, "oci-archive:a/b.tar" + pin: image.LayoutArchive, "docker-archive:/x.tar": image.DockerArchive,
	} {
		if ref, err := image.Parse(text); err != nil || ref.Kind != kind || ref.Digest != strings.TrimPrefix(pin, "@") && strings.Contains(text, "@") {
			t.Errorf("%q: %+v %v", text, ref, err)
		}
	}
	for _, text := range []string{"", "debian", "Debian:12", "debian:12@sha256:abc", "debian@sha512:" + strings.Repeat("a", 128), "oci:", "a b:1",
		"http://example.org/a:1", "user:secret@example.org/a:1", "debian:12\n", "../a:1", "docker-archive:" + pin} {
		_, err := image.Parse(text)
		if reason.CodeOf(err) != reason.ImageReference {
			t.Errorf("%q: %v", text, err)
		}
	}
	if digest, err := image.Pinned("debian:12" + pin); err != nil || "@"+digest != pin {
		t.Error(digest, err)
	}
	_, err := image.Pinned("debian:12")
	wantCode(t, err, reason.ImageReference)
}
