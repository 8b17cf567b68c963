//go:build linux

package image_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"remit/fixtures/rootfs"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

// TestRunInAPulledImage takes an image from a registry to a command: what layers
// hide is hidden in the sandbox too, by whatever kind of user it runs.
func TestRunInAPulledImage(t *testing.T) {
	t.Parallel()
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, the sandbox cannot be tested here: %v", err)
	}
	programs, err := rootfs.Programs("sh", "cat", "ls")
	if err != nil {
		t.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	var entries []entry
	for at, host := range programs {
		text, err := os.ReadFile(host)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{name: at, text: string(text), kind: '0', mode: 0o755})
	}
	shadow := file("etc/shadow", "root:*\n")
	shadow.mode = 0
	low := append(entries, shadow, file("etc/gone", "gone"), dir("d"), file("d/old", "old"), file("e/old", "old"), file("e/stays", "stays"), file("target", "by a link"), link("lnk", "/target"))
	ref := serve(t) + "/app:1"
	push(t, ref, imageOf(t, v1.Config{Env: []string{"PATH=/bin"}}, plainLayer(t, low...),
		plainLayer(t, file("etc/.wh.gone", ""), file("d/.wh..wh..opq", ""), file("d/new", "new")),
		plainLayer(t, file(".wh.e", ""), file("e/again", "again"))))
	s, _ := open(t)
	m := mustPull(t, s, ref)
	in, err := sandbox.Rooted(d, sandbox.Root{Digest: m.Digest, Layers: m.Dirs, Env: m.Env, User: m.User})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err := in.Run(t.Context(), sandbox.Spec{Lower: t.TempDir(), Commands: []sandbox.Command{{Argv: []string{"sh", "-c",
		"cat /lnk; echo; ls /d /e /etc; cat /etc/gone /d/old /e/stays; true"}, Stdout: &out, Stderr: &out}}})
	if err != nil || r.Commands[0].ExitCode != 0 {
		t.Fatal(err, out.String())
	}
	text := out.String()
	if !strings.HasPrefix(text, "by a link\n/d:\nnew\n\n/e:\nagain\n\n/etc:\n") || strings.Count(text, "No such file") != 3 || strings.Contains(text, "gone\n/") {
		t.Errorf("inside it is\n%s", text)
	}
}
