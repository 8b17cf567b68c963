//go:build linux

package image_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"remit/fixtures/rootfs"
	"remit/work/image"
	"remit/work/sandbox"
)

// BenchmarkImage measures an image of 50 MB in 1,500 files: to get it from a registry
// on this machine, to check and to unpack it; what it adds to a use of the sandbox as
// its root; and tar by hand over the same layer.
func BenchmarkImage(b *testing.B) {
	programs, err := rootfs.Programs("sh")
	if err != nil {
		b.Skipf("SKIPPED, no image can be made here: %v", err)
	}
	d, err := sandbox.Open(b.Context(), sandbox.Options{StateDir: b.TempDir()})
	if err != nil {
		b.Skipf("SKIPPED, no sandbox works here: %v", err)
	}
	var entries []entry
	for at, host := range programs {
		text, err := os.ReadFile(host)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, entry{name: at, text: string(text), kind: '0', mode: 0o755})
	}
	const files, total = 1500, 50 << 20
	random := rand.New(rand.NewPCG(1, 2))
	for i := range files { // half of it can be compressed
		text := bytes.Repeat([]byte("remit "), total/files/12)
		for range total / files / 16 {
			text = append(text, byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), 0, 0, 0, 0)
		}
		entries = append(entries, file(fmt.Sprintf("usr/lib/d%d/f%d", i/100, i), string(text)))
	}
	packed := gzipped(b, tarOf(b, entries...))
	ref := serve(b) + "/app:1"
	push(b, ref, imageOf(b, v1.Config{Env: []string{"PATH=/bin"}}, layerOf(b, types.OCILayer, packed)))
	archive := filepath.Join(b.TempDir(), "layer.tar.gz")
	if err := os.WriteFile(archive, packed, 0o600); err != nil {
		b.Fatal(err)
	}
	run := func(d sandbox.Driver, lower string) time.Duration {
		began := time.Now()
		res, err := d.Run(b.Context(), sandbox.Spec{Lower: lower, Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "exit 0"}}}})
		if err != nil || res.Commands[0].ExitCode != 0 {
			b.Fatal(err, res)
		}
		return time.Since(began)
	}
	lower := b.TempDir()
	run(d, lower)
	var pulled, byHand, found, more []time.Duration
	for b.Loop() {
		s, err := image.Open(filepath.Join(b.TempDir(), fmt.Sprint("images", len(pulled))))
		if err != nil {
			b.Fatal(err)
		}
		parsed, err := image.Parse(ref)
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		img, err := s.Pull(b.Context(), parsed, image.Options{Private: true})
		if err != nil {
			b.Fatal(err)
		}
		pulled = append(pulled, time.Since(began))
		hand := b.TempDir()
		began = time.Now()
		if out, err := exec.CommandContext(b.Context(), "tar", "-xzf", archive, "-C", hand).CombinedOutput(); err != nil {
			b.Fatalf("tar: %v: %s", err, out)
		}
		byHand = append(byHand, time.Since(began))
		began = time.Now()
		m, err := s.Find(img.Digest)
		if err != nil {
			b.Fatal(err)
		}
		found = append(found, time.Since(began))
		in, err := sandbox.Rooted(d, sandbox.Root{Digest: m.Digest, Layers: m.Dirs, Env: m.Env})
		if err != nil {
			b.Fatal(err)
		}
		without := run(d, lower)
		more = append(more, run(in, lower)-without)
	}
	middle := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(total>>20, "MB")
	b.ReportMetric(middle(pulled), "unpack-ms")
	b.ReportMetric(middle(byHand), "tar-ms")
	b.ReportMetric(middle(found), "find-ms")
	b.ReportMetric(middle(more), "mount-ms")
}
