//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStart is what a no-op costs: plain, in bwrap alone with the options
// of the driver, in the whole driver, and there with a listener on the loopback.
// They take turns, so that a busy moment hits all of them, and the medians of
// one run can be compared.
func BenchmarkStart(b *testing.B) {
	d := open1(b)
	lower := b.TempDir()
	write(b, lower+"/file", "x")
	bare := bareBwrap(b, d)
	variants := []struct {
		name string
		run  func() error
		took []time.Duration
	}{
		{name: "plain", run: func() error { return exec.Command("/bin/true").Run() }},
		{name: "bwrap", run: bare},
		{name: "driver", run: func() error {
			_, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"/bin/true"}}}})
			return err
		}},
		{name: "listener", run: func() error {
			_, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"/bin/true"}}}, Loopback: func(net.Listener) {}})
			return err
		}},
	}
	for b.Loop() {
		// A keeper gets ready while bwrap runs alone, for either of the last two.
		for _, i := range []int{0, 1, 2, 0, 1, 3} {
			v := &variants[i]
			begun := time.Now()
			if err := v.run(); err != nil {
				b.Fatalf("%s: %v", v.name, err)
			}
			v.took = append(v.took, time.Since(begun))
		}
	}
	for _, v := range variants {
		slices.Sort(v.took)
		b.ReportMetric(milliseconds(v.took[len(v.took)/2]), v.name+"-p50-ms")
		b.ReportMetric(milliseconds(v.took[len(v.took)*95/100]), v.name+"-p95-ms")
	}
	median := func(i int) time.Duration { return variants[i].took[len(variants[i].took)/2] }
	b.ReportMetric(milliseconds(median(2)-median(0)), "over-plain-p50-ms")
	b.ReportMetric(milliseconds(median(3)-median(2)), "for-listener-p50-ms")
}

// BenchmarkBackToBack is a Run after another without a pause, so that no
// keeper had the time to get ready.
func BenchmarkBackToBack(b *testing.B) {
	d := open1(b)
	s := Spec{Lower: b.TempDir(), Commands: []Command{{Argv: []string{"/bin/true"}}}}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		if _, err := d.Run(context.Background(), s); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bareBwrap starts bwrap with the options that the driver gives it, over
// directories in the place of the keeper's.
func bareBwrap(b *testing.B, d *bwrap) func() error {
	dir, err := os.MkdirTemp("/tmp", "remit-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	at := map[string]string{}
	for _, name := range []string{"tmp", "ws", "etc", "cache"} {
		at[name] = filepath.Join(dir, name)
		if err := os.Mkdir(at[name], 0o755); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	v := view{Env: environment(Spec{}, insideHome, "/tmp", nil), Tmp: at["tmp"], GoCache: at["cache"], Status: 4, Seccomp: 5}
	links, dirs := systemPlaces("/")
	v.Links = links
	for _, dir := range append(dirs, "/usr") {
		v.System = append(v.System, Bind{dir, dir})
	}
	filter := seccompProgram()
	if filter == nil {
		v.Seccomp = 0
	}
	args := bwrapArgs(v)
	for i, a := range args {
		switch a {
		case stageEtc:
			args[i] = at["etc"]
		case stageWorkspace:
			args[i] = at["ws"]
		case stageTerminals:
			args[i] = "/dev/pts"
		}
	}
	text := nulJoin(args)
	return func() error {
		options, status, program := pipeOf(b, text), pipeOf(b, nil), pipeOf(b, filter)
		defer options.Close()
		defer status.Close()
		defer program.Close()
		cmd := exec.Command(d.path, "--args", "3", "--", "/bin/true")
		cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{options, status, program}
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		if asRoot() {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: runUID, Gid: runGID}
		}
		return cmd.Run()
	}
}

// pipeOf returns the read end of a pipe that holds text, or with none the
// write end of one without a reader.
func pipeOf(b *testing.B, text []byte) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	if text == nil {
		b.Cleanup(func() { r.Close() })
		return w
	}
	if _, err := w.Write(text); err != nil {
		b.Fatal(err)
	}
	w.Close()
	return r
}

// BenchmarkGoCache is what a Go build cache of 50 MB costs: a run with it lent
// over one without, and a run that writes and keeps it over one that writes it.
func BenchmarkGoCache(b *testing.B) {
	const files, size = 1000, 50_000
	d, lower, big := open1(b), b.TempDir(), b.TempDir()
	content := strings.Repeat("0123456789", size/10)
	for i := range files {
		write(b, fmt.Sprintf("%s/%02x/%02x%062d-d", big, i%256, i%256, i), content)
	}
	fill := []Command{{Argv: []string{"cp", "-r", "/big/.", insideGoCache}}}
	idle := []Command{{Argv: []string{"/bin/true"}}}
	binds := []Bind{{big, "/big"}}
	variants := []struct {
		name string
		spec Spec
		keep bool
		took []time.Duration
	}{
		{name: "idle", spec: Spec{Commands: idle}},
		{name: "lent", spec: Spec{Commands: idle, Caches: []string{big}}},
		{name: "written", spec: Spec{Commands: fill, Binds: binds}},
		{name: "kept", spec: Spec{Commands: fill, Binds: binds}, keep: true},
	}
	for b.Loop() {
		for i := range variants {
			v := &variants[i]
			s := v.spec
			s.Lower = lower
			if v.keep {
				s.KeepCache = b.TempDir()
			}
			begun := time.Now()
			r, err := d.Run(context.Background(), s)
			if err != nil || r.Commands[0].ExitCode != 0 || v.keep && r.GoCache.Files != files || len(s.Caches) != r.GoCache.Lent {
				b.Fatalf("%s: %+v, %v", v.name, r, err)
			}
			v.took = append(v.took, time.Since(begun))
		}
	}
	median := func(i int) time.Duration {
		slices.Sort(variants[i].took)
		return variants[i].took[len(variants[i].took)/2]
	}
	b.ReportMetric(milliseconds(median(1)-median(0)), "lend-p50-ms")
	b.ReportMetric(milliseconds(median(3)-median(2)), "keep-p50-ms")
}

// BenchmarkCapture is what reading many new files costs for each, taken from a
// run that reads them over one that does not.
func BenchmarkCapture(b *testing.B) {
	const files = 20_000
	d, lower := open1(b), b.TempDir()
	touch := []Command{{Argv: []string{"sh", "-c", fmt.Sprintf("seq %d | xargs touch", files)}}}
	var without, with []time.Duration
	for b.Loop() {
		for _, capture := range []bool{false, true} {
			begun := time.Now()
			r, err := d.Run(context.Background(), Spec{Lower: lower, Commands: touch, Capture: capture, SpoolDir: b.TempDir()})
			if err != nil || capture && len(r.Changes) != files {
				b.Fatalf("%d changes, %v", len(r.Changes), err)
			}
			if took := time.Since(begun); capture {
				with = append(with, took)
			} else {
				without = append(without, took)
			}
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	b.ReportMetric(float64((with[len(with)/2]-without[len(without)/2]).Nanoseconds())/1e3/files, "µs/file")
}
