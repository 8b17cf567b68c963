//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func capOf(t testing.TB, r *Result, name string) Cap {
	t.Helper()
	for _, c := range r.Caps {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no cap %q in %+v", name, r.Caps)
	return Cap{}
}

// enforced skips the rest of a test where the host cannot hold a cap and the
// result says so.
func enforced(t testing.TB, d Driver, name string) {
	t.Helper()
	for _, s := range d.Describe().NotEnforced {
		if strings.HasPrefix(s, name+":") {
			t.Skipf("SKIPPED, NOT ENFORCED on this host: %s", s)
		}
	}
}

func TestForkBomb(t *testing.T) {
	t.Parallel()
	d := open1(t)
	enforced(t, d, "pids")
	for name, d := range map[string]*bwrap{"default": d, "without cgroups": without(t, controlled{noGroups: true})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := try(t, d, Spec{Limits: Limits{Pids: 40}}, attackPath, "attack", "forks", "120")
			var begun int
			fmt.Sscanf(o.out[strings.Index(o.out, "begun"):], "begun %d", &begun)
			if begun < 5 || begun > 40 {
				t.Errorf("%d processes begun of 120 under a cap of 40: %s", begun, o.out)
			}
			c := capOf(t, o.Result, "pids")
			if !c.Enforced || c.Limit != 40 || c.Observed > 40 {
				t.Errorf("%+v", c)
			}
		})
	}
	// control
	if o := try(t, d, Spec{}, attackPath, "attack", "forks", "120"); !strings.Contains(o.out, "begun 120") {
		t.Errorf("the control cannot fork 120 times, so the test shows nothing: %s", o.out)
	}
}

func TestMemoryBomb(t *testing.T) {
	t.Parallel()
	d := open1(t)
	enforced(t, d, "memory")
	s := Spec{Limits: Limits{MemoryMB: 128, DiskMB: 32}}
	o := try(t, d, s, attackPath, "attack", "alloc", "400")
	if o.Signal != "SIGKILL" || !o.OOMKilled || strings.Contains(o.out, "allocated") {
		t.Errorf("%+v oom %v\n%s", o.CommandResult, o.OOMKilled, o.out)
	}
	if c := capOf(t, o.Result, "memory"); c.Limit != 160<<20+shmBytes || c.Observed < 100<<20 || c.Observed > c.Limit+1<<20 {
		t.Errorf("%+v", c)
	}
	// One process of a pipeline is killed and the shell says 0: the counter tells.
	o = try(t, d, Spec{Limits: s.Limits, Binds: []Bind{{self(t), attackPath}}}, "sh", "-c", attackPath+" attack alloc 400 | cat; true")
	if o.ExitCode != 0 || !o.OOMKilled {
		t.Errorf("hidden: %+v oom %v", o.CommandResult, o.OOMKilled)
	}
	s.Limits.MemoryMB = 800
	if o := try(t, d, s, attackPath, "attack", "alloc", "400"); o.ExitCode != 0 || o.OOMKilled || o.Usage.PeakMemoryBytes < 400<<20 {
		t.Errorf("control: %+v %+v\n%s", o.CommandResult, o.Usage, o.out)
	}
}

func TestDiskFill(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower := t.TempDir() // larger than the cap: only what is written counts
			write(t, lower+"/large", strings.Repeat("large", 5<<20))
			o := try(t, d, Spec{Lower: lower, Limits: Limits{DiskMB: 16}}, "sh", "-c", `
				dd if=/dev/zero of=/tmp/a bs=1M count=10 2>/dev/null || exit 1
				dd if=/dev/zero of=b bs=1M count=10 2>/dev/null && exit 2
				dd if=/dev/zero of=/cache/go-build/c bs=1M count=10 2>/dev/null && exit 3
				dd if=/dev/zero of=/dev/shm/d bs=1M count=20 2>/dev/null && exit 4
				[ $(stat -c %s b) -lt 7000000 ] && [ $(stat -c %s /dev/shm/d) -le 16777216 ]`)
			c := capOf(t, o.Result, "disk")
			if o.ExitCode != 0 || c.Limit != 16<<20 || c.Observed < 15<<20 || c.Observed > 16<<20 {
				t.Errorf("exit %d, %+v\n%s", o.ExitCode, c, o.out)
			}
		})
	}
	t.Run("inodes", func(t *testing.T) {
		t.Parallel()
		o := try(t, open1(t), Spec{Limits: Limits{DiskMB: 16}}, attackPath, "attack", "files", "12000")
		if !strings.HasPrefix(o.out, "stopped 9") || !strings.Contains(o.out, "true") {
			t.Errorf("%s", o.out)
		}
	})
}

func TestOutputFlood(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	begun := time.Now()
	r, err := open1(t).Run(context.Background(), Spec{
		Lower: t.TempDir(), Limits: Limits{OutputBytes: 1 << 20},
		Commands: []Command{
			{Argv: []string{"sh", "-c", "trap '' PIPE; echo x >&2; while :; do yes; done"}, Stdout: &out, Stderr: &errs},
			{Argv: []string{"sh", "-c", "head -c 1048576 /dev/zero"}, Stdout: &out},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	first, second := r.Commands[0], r.Commands[1]
	if !first.OutputExceeded || first.Signal != "SIGKILL" || first.StdoutBytes+first.StderrBytes <= 1<<20 {
		t.Errorf("%+v", first)
	}
	// Exactly the cap is no excess, and each command has its own.
	if second.OutputExceeded || second.ExitCode != 0 || second.StdoutBytes != 1<<20 {
		t.Errorf("%+v", second)
	}
	if n := out.Len() + errs.Len(); n != 2<<20 {
		t.Errorf("%d bytes were handed on", n)
	}
}

func TestProcessorCap(t *testing.T) {
	t.Parallel()
	d := open1(t)
	enforced(t, d, "cpu")
	o := try(t, d, Spec{Limits: Limits{CPUsMilli: 200}}, "timeout", "1.5", "sh", "-c", "while :; do :; done")
	if c := capOf(t, o.Result, "cpu"); c.Observed > 350 || c.Observed < 20 {
		t.Errorf("%+v", c)
	}
	if o.Usage.CPUMillis > 600 || o.Usage.WallMillis < 1400 {
		t.Errorf("%+v", o.Usage)
	}
}

func TestProcessLimits(t *testing.T) {
	t.Parallel()
	o := try(t, open1(t), Spec{Limits: Limits{OpenFiles: 100, DiskMB: 32}}, attackPath, "attack", "limits")
	if want := fmt.Sprintf("core 0\nnofile 100\nfsize %d\n", 32<<20); o.out != want {
		t.Errorf("got %q", o.out)
	}
	shell(t, open1(t), Spec{Limits: Limits{OpenFiles: 100}}, `ulimit -n 101 2>/dev/null && exit 1; ulimit -c unlimited 2>/dev/null && exit 2; exit 0`)
}

// Every limit appears in the result once, in order, and says how it is held.
func TestCapsAreReported(t *testing.T) {
	t.Parallel()
	d := open1(t)
	o := shell(t, d, Spec{}, "true")
	var names []string
	for _, c := range o.Caps {
		names = append(names, c.Name)
		if c.How == "" || c.Limit <= 0 {
			t.Errorf("%+v", c)
		}
		if !c.Enforced {
			t.Logf("NOT ENFORCED: %s: %s", c.Name, c.How)
		}
	}
	if got := strings.Join(names, " "); got != "cpu memory pids disk open_files output_bytes wall" {
		t.Error(got)
	}
	// Without cgroups the same Run must not claim them.
	o = shell(t, without(t, controlled{noGroups: true}), Spec{}, "true")
	if capOf(t, o.Result, "cpu").Enforced || capOf(t, o.Result, "memory").Enforced || o.Usage.CPUMillis < 0 || o.Usage.PeakMemoryBytes <= 0 {
		t.Errorf("without cgroups: %+v %+v", o.Caps, o.Usage)
	}
}

func TestFilled(t *testing.T) {
	t.Parallel()
	l, err := Limits{Pids: 7}.filled()
	want := DefaultLimits()
	want.Pids = 7
	if err != nil || l != want {
		t.Errorf("%+v, %v", l, err)
	}
	s := Spec{Limits: Limits{Wall: 10 * time.Second}}
	for _, tt := range []struct{ own, spent, want time.Duration }{
		{0, 0, 10 * time.Second}, {time.Second, 0, time.Second}, {time.Minute, 4 * time.Second, 6 * time.Second}, {0, 11 * time.Second, -time.Second},
	} {
		if got := s.wallFor(Command{Wall: tt.own}, tt.spent); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
