package image_test

import (
	"os"
	"path/filepath"
	"testing"

	"remit/proof/reason"
	"remit/work/image"
)

func TestSave(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"bin/tool": "#!/bin/sh\n", "etc/passwd": "root:x:0:0::/:/bin/sh\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin", filepath.Join(dir, "sbin")); err != nil {
		t.Fatal(err)
	}
	c := image.Config{Env: []string{"A=b"}, User: "app"}
	first, err := image.Save(t.Context(), dir, filepath.Join(to, "one.tar"), c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := image.Save(t.Context(), dir, filepath.Join(to, "two.tar"), c)
	if err != nil || first.Digest != second.Digest {
		t.Errorf("the same directory is %v and %v %v", first, second, err)
	}
	s, _ := open(t)
	m := mustPull(t, s, "oci-archive:"+filepath.Join(to, "one.tar"))
	if m.Digest != first.Digest || m.User != "app" || len(m.Dirs) != 1 {
		t.Errorf("%+v, want %+v", m.Image, first)
	}
	if text, err := os.ReadFile(filepath.Join(m.Dirs[0], "bin/tool")); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("%q %v", text, err)
	}
	_, err = image.Save(t.Context(), dir, filepath.Join(to, "one.tar"), c)
	wantCode(t, err, reason.OutputExists)
	_, err = image.Save(t.Context(), dir, filepath.Join(dir, "in.tar"), c)
	wantCode(t, err, reason.FileUnusable)
	if err := os.WriteFile(filepath.Join(dir, ".wh.bin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = image.Save(t.Context(), dir, filepath.Join(to, "three.tar"), c)
	wantCode(t, err, reason.ImageLayerName)
	if _, err := os.Stat(filepath.Join(to, "three.tar")); err == nil {
		t.Error("a file was left")
	}
}
