package provider

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// granting has a daemon do a job as a lease with these caps would.
func granting(t *testing.T, d *Daemon, caps *api.GrantedCaps, r job.SandboxRunRequest) job.SandboxRunResponse {
	t.Helper()
	l := *leaseOf(r)
	l.Caps = caps
	resp, _, err := d.perform(t.Context(), l, r, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return resp.(job.SandboxRunResponse)
}

// TestOwnersCapsBindTheJob: a job that asks for nothing in particular takes more
// than the owner of the machine allows, of what it writes, forks and occupies.
func TestOwnersCapsBindTheJob(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	box := new(recording)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{repo} })
	if missing := unenforced(d.driver); len(missing) > 0 {
		t.Skipf("SKIPPED, NOT ENFORCED on this host: %q", missing)
	}
	box.Driver, d.driver = d.driver, box
	caps := &api.GrantedCaps{CPUMillis: 1000, MemoryMb: 64, DiskMb: 8, Pids: 32, TimeoutSecs: 20, Network: api.GrantedCapsNetworkNone}
	hog := func(cmd string) job.SandboxRunRequest {
		return request(t, repo, func(r *job.SandboxRunRequest) {
			r.Sandbox.Resources.TimeoutSecs = 300
			r.Commands[0].Cmd = cmd
		})
	}
	want := job.CapsApplied{CPUMillis: 1000, MemoryMB: 64, DiskMB: 8, Pids: 32, TimeoutSecs: 20, Network: "none"}
	for name, c := range map[string]struct{ cmd, says string }{
		"disk":      {"head -c 64000000 /dev/zero > big", ""},
		"tmp":       {"head -c 64000000 /dev/zero > /tmp/big", ""},
		"processes": {"for i in $(seq 100); do sleep 1 & done; wait", ""},
		"memory":    {"head -c 300000000 /dev/zero | tail -c 299000000 | wc -c | grep -q 299000000", ""},
		"honest":    {"head -c 4000000 /dev/zero > small && sleep 0.01", "success"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := granting(t, d, caps, hog(c.cmd))
			if (resp.Status == job.Success) != (c.says == "success") {
				t.Errorf("%s %+v", resp.Status, resp.Runs)
			}
			if resp.Caps == nil || *resp.Caps != want {
				t.Errorf("caps %+v, not enforced %q", resp.Caps, resp.Platform.NotEnforced)
			}
			if resp.Usage.PeakMemoryBytes > want.MemoryBytes() {
				t.Errorf("occupied %d bytes", resp.Usage.PeakMemoryBytes)
			}
			if held := box.limit("memory"); held != want.MemoryBytes() || job.MemoryMB(held, want.DiskMB) != want.MemoryMB {
				t.Errorf("the sandbox holds %d bytes of memory, the figures mean %d", held, want.MemoryBytes())
			}
		})
	}
}

// recording is a sandbox whose last caps can be looked at.
type recording struct {
	sandbox.Driver
	caps []sandbox.Cap
}

func (r *recording) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	result, err := r.Driver.Run(ctx, s)
	if result != nil {
		r.caps = result.Caps
	}
	return result, err
}

func (r *recording) limit(name string) int64 {
	for _, c := range r.caps {
		if c.Name == name {
			return c.Limit
		}
	}
	return -1
}

// TestBinding: of the job, the owner and the operator the smallest counts, and
// what is not stated has the usual bounds.
func TestBinding(t *testing.T) {
	t.Parallel()
	granted := &api.GrantedCaps{CPUMillis: 1000, MemoryMb: 512, DiskMb: 100, Pids: 20, TimeoutSecs: 60}
	disk := uint32(5000)
	for name, c := range map[string]struct {
		flags   api.Caps
		granted *api.GrantedCaps
		disk    *uint32
		want    sandbox.Limits
	}{
		"granted": {api.Caps{}, granted, nil, sandbox.Limits{CPUsMilli: 1000, MemoryMB: 512, DiskMB: 100, Pids: 20, Wall: time.Minute}},
		"narrower flags": {api.Caps{DiskMb: 10, Pids: 17, MemoryMb: 99, CPUMillis: 500, TimeoutSecs: 7}, granted, nil,
			sandbox.Limits{CPUsMilli: 500, MemoryMB: 99, DiskMB: 10, Pids: 17, Wall: 7 * time.Second}},
		"wider flags": {api.Caps{DiskMb: 1000, Pids: 1000, MemoryMb: 9999, CPUMillis: 9999, TimeoutSecs: 999}, granted, nil,
			sandbox.Limits{CPUsMilli: 1000, MemoryMB: 512, DiskMB: 100, Pids: 20, Wall: time.Minute}},
		"pids are left to the sandbox": {api.Caps{}, &api.GrantedCaps{CPUMillis: 1, MemoryMb: 1, DiskMb: 1, TimeoutSecs: 1}, nil,
			sandbox.Limits{CPUsMilli: 1, MemoryMB: 1, DiskMB: 1, Pids: sandbox.DefaultPids, Wall: time.Second}},
		"an owner with room": {api.Caps{}, &api.GrantedCaps{CPUMillis: 1000, MemoryMb: 512, DiskMb: 1 << 20, TimeoutSecs: 60}, nil,
			sandbox.Limits{CPUsMilli: 1000, MemoryMB: 512, DiskMB: sandbox.DefaultDiskMB, Pids: sandbox.DefaultPids, Wall: time.Minute}},
		"a job that asks": {api.Caps{}, &api.GrantedCaps{CPUMillis: 1000, MemoryMb: 512, DiskMb: 5000, TimeoutSecs: 60}, &disk,
			sandbox.Limits{CPUsMilli: 1000, MemoryMB: 512, DiskMB: 5000, Pids: sandbox.DefaultPids, Wall: time.Minute}},
		"an authority of before": {api.Caps{}, nil, nil,
			sandbox.Limits{CPUsMilli: 1000, MemoryMB: 512, DiskMB: sandbox.DefaultDiskMB, Pids: sandbox.DefaultPids, Wall: time.Minute}},
	} {
		r := request(t, "/repo", func(r *job.SandboxRunRequest) { r.Sandbox.Resources = job.Resources{TimeoutSecs: 60, DiskMB: c.disk} })
		d := &Daemon{caps: c.flags}
		if got := (&sandboxRun{Daemon: d, req: r, caps: d.binding(c.granted)}).limits(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		budget := job.EngineBudget{CPUMillis: 1000, MemoryMB: 512, WallSecs: 60}
		if c.disk != nil {
			budget.DiskMB = int64(*c.disk)
		}
		got := newCapped(nil, budget, d.binding(c.granted)).most
		if got.OutputBytes = 0; got != c.want {
			t.Errorf("%s, as an engine run: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestCommandsAreNoOptions: what begins with a dash is a command like any other.
func TestCommandsAreNoOptions(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{repo} })
	r := request(t, repo, func(r *job.SandboxRunRequest) { r.Commands = []job.Command{{Cmd: "-e"}} })
	resp, _ := d.runForTest(t.Context(), t, r)
	if resp.Status != job.Failed || resp.Runs[0].ExitCode != 127 || !strings.Contains(api.Value(resp.Runs[0].StderrPreview), "-e") {
		t.Errorf("%+v %s", resp.Runs, api.Value(resp.Runs[0].StderrPreview))
	}
}

// powerless is a sandbox of a machine without control groups.
type powerless struct{ sandbox.Driver }

func (powerless) Describe() sandbox.Description {
	return sandbox.Description{NotEnforced: []string{"seccomp: no filter", "memory: no writable memory cgroup", "pids"}}
}

// TestUnenforcedCaps: where the owner's caps would be words no daemon works, unless
// the operator says so.
func TestUnenforcedCaps(t *testing.T) {
	t.Parallel()
	var config Config
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { config = *c })
	config.Driver, config.Unenforced = powerless{d.driver}, false
	_, err := Open(config)
	if reason.CodeOf(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), "memory: no writable memory cgroup; pids") || strings.Contains(err.Error(), "seccomp") {
		t.Error(err)
	}
	var log strings.Builder
	config.Unenforced, config.Log = true, slog.New(slog.NewTextHandler(&log, nil))
	if _, err := Open(config); err != nil || !strings.Contains(log.String(), "CAPS ARE NOT ENFORCED") {
		t.Errorf("%v, log %q", err, log.String())
	}
}

// TestWhyItWasKilled: an exit code of 137 does not say why, so the output does.
func TestWhyItWasKilled(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{repo} })
	for name, c := range map[string]struct{ cmd, says string }{
		"output":           {"yes", "printed more than 16 MiB"},
		"errors":           {"yes >&2", "printed more than 16 MiB"},
		"memory":           {"head -c 300000000 /dev/zero | tail -c 299000000 | wc -c | grep -q 299000000", "lack of memory: the job has 64 MB, and 8 MB for"},
		"killed by itself": {"kill -9 $$", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if missing := unenforced(d.driver); name == "memory" && len(missing) > 0 {
				t.Skipf("SKIPPED, NOT ENFORCED on this host: %q", missing)
			}
			disk := uint32(8)
			r := request(t, repo, func(r *job.SandboxRunRequest) {
				r.Sandbox.Resources.MemoryMB, r.Sandbox.Resources.DiskMB = 64, &disk
				r.Commands = []job.Command{{Cmd: c.cmd}}
			})
			resp, files := d.runForTest(t.Context(), t, r)
			preview := api.Value(resp.Runs[0].StderrPreview)
			if resp.Status != job.Failed || len(preview) > maxPreview || !strings.Contains(preview, c.says) || strings.Contains(preview, "remit: ") != (c.says != "") {
				t.Errorf("%s %+v %q", resp.Status, resp.Runs, preview)
			}
			if files[1].SHA256 != resp.Runs[0].StderrSHA256 {
				t.Error("the explanation is not in the digest")
			}
		})
	}
}
