package provider

import (
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/rootfs"
	"remit/law/job"
	"remit/work/image"
	"remit/work/session"
)

// TestJobInAnImage runs a job in an image that the operator pulled, and refuses one
// that is not there as a fault of the job.
func TestJobInAnImage(t *testing.T) {
	t.Parallel()
	files, err := rootfs.Programs("sh", "cat")
	if err != nil {
		t.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	root, home := t.TempDir(), t.TempDir()
	if err := rootfs.Lay(root, files); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "ci.tar")
	saved, err := image.Save(t.Context(), root, archive, image.Config{Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := image.Open(session.Home{Dir: home}.ImagesDir())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := image.Parse("oci-archive:" + archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Pull(t.Context(), ref, image.Options{}); err != nil {
		t.Fatal(err)
	}
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:0", func(c *Config) { c.Home, c.Sources = home, []string{filepath.Dir(repo)} })
	ask := func(digest string) job.SandboxRunResponse {
		resp, _ := d.runForTest(t.Context(), t, request(t, repo, func(r *job.SandboxRunRequest) {
			r.Sandbox.ImageDigest = digest
			r.Commands = []job.Command{{Cmd: "cat a.txt && test ! -e /usr/bin/env"}}
		}))
		return resp
	}
	if resp := ask(saved.Digest); resp.Status != job.Success || resp.EnvInfo.ImageDigest != saved.Digest {
		t.Errorf("in the image: %+v", resp)
	}
	for _, digest := range []string{"sha256:" + strings.Repeat("0", 64), "debian:12"} {
		resp := ask(digest)
		if resp.Status != job.Failed || resp.Runs[0].ExitCode != refusedExit || !strings.Contains(*resp.Runs[0].StderrPreview, "has no image") {
			t.Errorf("%s: %+v", digest, resp)
		}
	}
}
