//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
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
	e := escape(t, "fork bomb")
	d := open1(e)
	enforced(e, d, "pids")
	for name, d := range map[string]*bwrap{"default": d, "without cgroups": without(t, controlled{noGroups: true})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := try(t, d, Spec{Limits: Limits{Pids: 40}}, attackPath, "attack", "forks", "120")
			var begun int
			fmt.Sscanf(o.out[strings.Index(o.out, "begun"):], "begun %d", &begun)
			e.Check(begun >= 5 && begun <= 40, "%d processes begun of 120 under a cap of 40: %s", begun, o.out)
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
	e := escape(t, "memory bomb")
	d := open1(e)
	enforced(e, d, "memory")
	s := Spec{Limits: Limits{MemoryMB: 128, DiskMB: 32}}
	o := try(t, d, s, attackPath, "attack", "alloc", "400")
	e.Check(o.Signal == "SIGKILL" && o.OOMKilled && !strings.Contains(o.out, "allocated"), "%+v oom %v\n%s", o.CommandResult, o.OOMKilled, o.out)
	if c := capOf(t, o.Result, "memory"); c.Limit != 160<<20+shmBytes || c.Observed < 100<<20 || c.Observed > c.Limit+1<<20 {
		t.Errorf("%+v", c)
	}
	// One process of a pipeline is killed and the shell says 0: the counter tells.
	o = try(t, d, Spec{Limits: s.Limits, Binds: []Bind{{self(t), attackPath}}}, "sh", "-c", attackPath+" attack alloc 400 | cat; true")
	e.Check(o.ExitCode == 0 && o.OOMKilled, "hidden: %+v oom %v", o.CommandResult, o.OOMKilled)
	s.Limits.MemoryMB = 800
	if o := try(t, d, s, attackPath, "attack", "alloc", "400"); o.ExitCode != 0 || o.OOMKilled || o.Usage.PeakMemoryBytes < 400<<20 {
		t.Errorf("control: %+v %+v\n%s", o.CommandResult, o.Usage, o.out)
	}
}

// What lies in a tmpfs is memory: it is charged to the same account.
func TestMemoryBombThroughTmpfs(t *testing.T) {
	t.Parallel()
	e := escape(t, "memory bomb through tmpfs")
	d := open1(e)
	enforced(e, d, "memory")
	fill := "for d in /tmp /workspace /dev/shm /cache/go-build; do dd if=/dev/zero of=$d/fill bs=1M count=300 2>/dev/null; done; echo full; " + attackPath + " attack alloc 100"
	s := Spec{Limits: Limits{MemoryMB: 64, DiskMB: 48}, Binds: []Bind{{self(t), attackPath}}}
	o := try(e, d, s, "sh", "-c", fill)
	c := capOf(t, o.Result, "memory")
	e.Check(strings.Contains(o.out, "full") && !strings.Contains(o.out, "allocated") && o.OOMKilled, "%+v oom %v\n%s", o.CommandResult, o.OOMKilled, o.out)
	e.Check(c.Observed > 48<<20 && c.Observed <= c.Limit+1<<20, "%+v", c)
}

func TestDiskFill(t *testing.T) {
	t.Parallel()
	e := escape(t, "disk fill")
	for name, d := range layers(e) {
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
			} else {
				e.All(4) // the four that the script fills
			}
		})
	}
}

func TestInodeFill(t *testing.T) {
	t.Parallel()
	e := escape(t, "inode fill")
	for name, d := range layers(e) {
		o := try(e, d, Spec{Limits: Limits{DiskMB: 16}}, attackPath, "attack", "files", "12000")
		e.Check(strings.HasPrefix(o.out, "stopped 9") && strings.Contains(o.out, "true"), "%s: %s", name, o.out)
	}
	// A tree that is deeper than any path may be long is collected, or refused
	// with a word, and removed.
	deep := try(e, open1(e), Spec{Capture: true, SpoolDir: t.TempDir()}, "sh", "-c", `
		n=$(printf %0200d 0); i=0
		while [ $i -lt 300 ]; do mkdir $n && cd -P $n 2>/dev/null || break; i=$((i+1)); done
		echo made $i; echo x >bottom 2>/dev/null; exit 0`)
	e.Check(strings.Contains(deep.out, "made") && !strings.Contains(deep.out, "made 0"), "%s", deep.out)
}

func TestOutputFlood(t *testing.T) {
	t.Parallel()
	e := escape(t, "huge output")
	var out, errs bytes.Buffer
	begun := time.Now()
	r, err := open1(e).Run(context.Background(), Spec{
		Lower: t.TempDir(), Limits: Limits{OutputBytes: 1 << 20},
		Commands: []Command{
			{Argv: []string{"sh", "-c", "trap '' PIPE; echo x >&2; while :; do yes; done"}, Stdout: &out, Stderr: &errs},
			{Argv: []string{"sh", "-c", "head -c 1048576 /dev/zero"}, Stdout: &out},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	e.Check(took < 30*time.Second, "took %s", took)
	first, second := r.Commands[0], r.Commands[1]
	e.Check(first.OutputExceeded && first.Signal == "SIGKILL" && first.StdoutBytes+first.StderrBytes > 1<<20, "%+v", first)
	// Exactly the cap is no excess, and each command has its own.
	if second.OutputExceeded || second.ExitCode != 0 || second.StdoutBytes != 1<<20 {
		t.Errorf("%+v", second)
	}
	if n := out.Len() + errs.Len(); n != 2<<20 {
		t.Errorf("%d bytes were handed on", n)
	}
}

// TestKilledWithBwrap: on a machine that is busy with other things bwrap may be killed
// before it has said how its program ended. A program that has printed had begun.
func TestKilledWithBwrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		printed int64
		said    string
		want    CommandResult
	}{{0, "", CommandResult{ExitCode: 137}}, {9, "hello", CommandResult{ExitCode: 137, Started: true, Signal: "SIGKILL"}}, {9, "bwrap: no", CommandResult{ExitCode: 137}}} {
		out := &outputs{pipes: []*stream{{}, {}}}
		out.used.Store(c.printed)
		out.pipes[1].head.text = []byte(c.said)
		if got, err := new(run).ended(Command{Argv: []string{"x"}}, answer{Exit: 137}, out, true); err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestProcessorCap(t *testing.T) {
	t.Parallel()
	e := escape(t, "processor hog")
	d := open1(e)
	enforced(e, d, "cpu")
	// A machine that is busy with other things gives less than the cap, and
	// then the cap shows nothing: another time.
	for range 5 {
		o := try(e, d, Spec{Limits: Limits{CPUsMilli: 200}}, "timeout", "1.5", "sh", "-c", "while :; do :; done")
		c := capOf(t, o.Result, "cpu")
		e.Check(c.Observed <= 350, "%+v", c)
		if o.Usage.CPUMillis > 600 && o.Usage.WallMillis < 2000 || o.Usage.WallMillis < 1400 {
			t.Errorf("%+v", o.Usage)
		}
		if c.Observed >= 100 {
			return
		}
	}
	e.Skipf("SKIPPED, the machine is too busy to spend what the cap allows")
}

func TestProcessLimits(t *testing.T) {
	t.Parallel()
	e := escape(t, "limits raised from inside")
	o := try(t, open1(e), Spec{Limits: Limits{OpenFiles: 100, DiskMB: 32}}, attackPath, "attack", "limits")
	if want := fmt.Sprintf("core 0\nnofile 100\nfsize %d\n", 32<<20); o.out != want {
		t.Errorf("got %q", o.out)
	}
	tryAll(e, open1(e), Spec{}, "raise")
	shell(e, open1(e), Spec{Limits: Limits{OpenFiles: 100}}, `ulimit -n 101 2>/dev/null && exit 1; ulimit -c unlimited 2>/dev/null && exit 2; exit 0`)
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

// A command that leaves more files than can be removed in a moment does not
// outlast its time: neither the next command, which finds an empty /tmp, nor the
// end of the run waits for the last of them.
func TestInodeFloodEndsInTime(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 2)
	e := escape(t, "inode fill")
	// For the time of the files alone: so many that the end of the run, and the
	// emptying of /tmp, take longer than what is allowed.
	const wall, most = 2500 * time.Millisecond, time.Second
	for name, commands := range map[string][]string{
		"in the time of the first command": {"flood"},
		"left for the next command":        {"timeout -s KILL 2 " + attackPath + " attack flood /tmp/more", "sleep 60"},
	} {
		var last []Command
		for _, c := range commands {
			if c == "flood" {
				c = "for d in /tmp/a /tmp/b /workspace/a /cache/go-build/a; do " + attackPath + " attack flood $d & done; wait"
			}
			last = append(last, Command{Argv: []string{"sh", "-c", c}})
		}
		begun := time.Now()
		r, err := open1(t).Run(context.Background(), Spec{
			Lower: t.TempDir(), Limits: Limits{Wall: wall}, Commands: last,
			Binds: []Bind{{self(t), attackPath}}, Env: map[string]string{"GORACE": endAtOnce},
		})
		took := time.Since(begun)
		if err != nil {
			t.Fatal(err)
		}
		late := time.Duration(r.Usage.WallMillis)*time.Millisecond - wall
		e.Check(r.Commands[len(r.Commands)-1].TimedOut && late < most, "%s: the commands ended %s after the limit", name, late)
		e.Check(took-time.Duration(r.Usage.WallMillis)*time.Millisecond < 10*time.Second, "%s: the end took %s", name, took)
	}
}

// Reading what the commands left has a time of its own, so that a flood of files
// does not keep the host busy long after the commands were ended. What was read
// by then is no change of anything.
func TestCaptureOfAFloodEndsInTime(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 2)
	e := escape(t, "inode fill")
	const files = 20_000
	s := Spec{
		Lower: t.TempDir(), Capture: true, SpoolDir: t.TempDir(),
		Commands: []Command{{Argv: []string{"sh", "-c", fmt.Sprintf("seq %d | xargs touch", files)}}},
	}
	r, err := without(t, controlled{collect: time.Millisecond}).Run(t.Context(), s)
	e.Check(reason.CodeOf(err) == reason.ResourceLimit && strings.Contains(err.Error(), "longer than 1ms"), "%v", err)
	e.Check(r != nil && len(r.Changes) == 0 && r.Commands[0].ExitCode == 0, "%+v", r)
	if r, err = open1(t).Run(t.Context(), s); err != nil || len(r.Changes) != files { // control
		t.Errorf("%d changes, %v", len(r.Changes), err)
	}
	for wall, want := range map[time.Duration]time.Duration{time.Second: collectLeast, time.Minute: time.Minute, time.Hour: collectMost} {
		if got := collectTime(wall); got != want {
			t.Errorf("%s: %s", wall, got)
		}
		for _, c := range []struct {
			ran  []CommandResult
			want time.Duration
		}{
			{nil, want}, {[]CommandResult{{TimedOut: true}, {ExitCode: 1}}, want},
			{[]CommandResult{{}, {TimedOut: true}}, collectLeast}, {[]CommandResult{{OutputExceeded: true}}, collectLeast},
		} {
			if got := collectStopped(collectTime(wall), c.ran); got != c.want {
				t.Errorf("%s, %+v: %s", wall, c.ran, got)
			}
		}
	}
}
