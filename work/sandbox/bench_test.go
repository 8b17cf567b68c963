//go:build linux

package sandbox

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkStart is what a no-op costs: plain, in bwrap alone with the same
// namespaces, and in the whole driver. Compare the medians with each other on
// one machine; the absolute figures say little.
func BenchmarkStart(b *testing.B) {
	d := open1(b)
	lower := b.TempDir()
	write(b, lower+"/file", "x")
	bare := append([]string{"--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"}, systemMounts("/")...)
	bare = append(bare, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")
	for _, v := range []struct {
		name string
		run  func() error
	}{
		{"plain", func() error { return exec.Command("/bin/true").Run() }},
		{"bwrap", func() error { return exec.Command(d.path, bare...).Run() }},
		{"driver", func() error {
			_, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"/bin/true"}}}})
			return err
		}},
	} {
		b.Run(v.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if err := v.run(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}
