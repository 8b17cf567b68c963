package provider

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// maxOutput bounds what the commands of one use of the sandbox print together:
// it goes to this machine's disk, where no cap of the sandbox holds it.
const maxOutput = 32 << 20

// capped is the sandbox of one engine run. A contract says what it wants; here
// stands what it gets: never more than the budget of the job and the caps of
// this machine. The contract itself is left as it is, since its digest is what
// the requester asked for, and the evidence shows the limits that were applied.
//
// The run uses the sandbox several times, sometimes at once. Here it is one
// after the other, so that together they keep the caps too.
type capped struct {
	sandbox.Driver
	*shared
}

// shared is what all uses of one capped sandbox have in common, also those with the
// root of an image.
type shared struct {
	most sandbox.Limits
	turn chan struct{} // held by who runs

	mu      sync.Mutex
	used    bool
	caps    job.CapsApplied // the widest of all uses
	missing map[string]bool // caps that were not enforced in some use
	usage   job.Usage
}

func newCapped(d sandbox.Driver, budget job.EngineBudget, caps api.Caps) *capped {
	return cappedAt(d, sandbox.Limits{
		CPUsMilli: bounded(budget.CPUMillis, caps.CPUMillis), MemoryMB: bounded(budget.MemoryMB, caps.MemoryMb),
		// No demand was held against no cap, so it gets no more than the usual.
		DiskMB: bounded(cmp.Or(budget.DiskMB, sandbox.DefaultDiskMB), caps.DiskMb), Pids: bounded(cmp.Or(caps.Pids, sandbox.DefaultPids), 0),
		OutputBytes: sandbox.DefaultOutputBytes, Wall: wallOf(budget, caps),
	})
}

func cappedAt(d sandbox.Driver, most sandbox.Limits) *capped {
	return &capped{d, &shared{turn: make(chan struct{}, 1), missing: map[string]bool{}, most: most}}
}

// Inner and With implement sandbox.Around.
func (c *capped) Inner() sandbox.Driver { return c.Driver }

func (c *capped) With(d sandbox.Driver) sandbox.Driver { return &capped{d, c.shared} }

// Program says which file of this machine a command starts: it is a part of how a
// layer of dependencies is made.
func (c *capped) Program(name string) string {
	if at, ok := c.Driver.(interface{ Program(string) string }); ok {
		return at.Program(name)
	}
	return ""
}

// wallOf is the time of a whole job.
func wallOf(budget job.EngineBudget, caps api.Caps) time.Duration {
	return time.Duration(bounded(budget.WallSecs, caps.TimeoutSecs)) * time.Second
}

// Run implements sandbox.Driver.
func (c *capped) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.Limits = c.lower(s.Limits, len(s.Commands))
	result, err := c.Driver.Run(ctx, s)
	if result != nil {
		c.note(s.Limits, result)
	}
	return result, err
}

// lower takes the smaller of each limit and its cap. What is not stated is the
// sandbox's default.
func (c *capped) lower(l sandbox.Limits, commands int) sandbox.Limits {
	d := sandbox.DefaultLimits()
	l.CPUsMilli = min(cmp.Or(l.CPUsMilli, d.CPUsMilli), c.most.CPUsMilli)
	l.MemoryMB = min(cmp.Or(l.MemoryMB, d.MemoryMB), c.most.MemoryMB)
	l.DiskMB = min(cmp.Or(l.DiskMB, d.DiskMB), c.most.DiskMB)
	l.Pids = min(cmp.Or(l.Pids, d.Pids), c.most.Pids)
	l.OpenFiles = min(cmp.Or(l.OpenFiles, d.OpenFiles), d.OpenFiles)
	l.OutputBytes = min(cmp.Or(l.OutputBytes, d.OutputBytes), c.most.OutputBytes, int64(maxOutput/max(1, commands)))
	l.Wall = min(cmp.Or(l.Wall, d.Wall), c.most.Wall)
	return l
}

// note adds up what was used.
func (c *capped) note(l sandbox.Limits, result *sandbox.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = true
	c.usage.CPUMillis += result.Usage.CPUMillis
	c.usage.PeakMemoryBytes = max(c.usage.PeakMemoryBytes, result.Usage.PeakMemoryBytes)
	c.caps.CPUMillis = max(c.caps.CPUMillis, int64(l.CPUsMilli))
	c.caps.MemoryMB = max(c.caps.MemoryMB, int64(l.MemoryMB))
	c.caps.DiskMB = max(c.caps.DiskMB, int64(l.DiskMB))
	c.caps.Pids = max(c.caps.Pids, int64(l.Pids))
	for _, held := range result.Caps {
		if !held.Enforced {
			c.missing[held.Name] = true
		}
		if held.Name == "disk" && held.Observed > 0 {
			c.usage.DiskWriteBytes += held.Observed
		}
	}
}

// report gives the caps and the usage of all uses; nothing when there was none.
// The time is that of the whole run, which is what the job's limit is for.
func (c *capped) report(took time.Duration) (*job.CapsApplied, *job.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	usage := c.usage
	usage.WallMillis = took.Milliseconds()
	if !c.used {
		return nil, &usage
	}
	caps := c.caps
	caps.TimeoutSecs, caps.Network = int64(c.most.Wall/time.Second), job.NetworkNone
	// A limit that is not enforced is none.
	for name, limit := range map[string]*int64{"cpu": &caps.CPUMillis, "memory": &caps.MemoryMB, "disk": &caps.DiskMB, "pids": &caps.Pids} {
		if c.missing[name] {
			*limit = 0
		}
	}
	return &caps, &usage
}

// binding are the caps of one job: what its lease grants, which is never more
// than the owner of the provider allows, within what the operator of this machine
// allows. A field that is zero is no statement; an authority of before there were
// grants makes none.
func (d *Daemon) binding(granted *api.GrantedCaps) api.Caps {
	c := d.caps
	if granted == nil {
		return c
	}
	for _, f := range []struct {
		cap   *int64
		grant int64
	}{
		{&c.CPUMillis, granted.CPUMillis}, {&c.MemoryMb, granted.MemoryMb}, {&c.DiskMb, granted.DiskMb},
		{&c.Pids, granted.Pids}, {&c.TimeoutSecs, granted.TimeoutSecs},
	} {
		*f.cap = int64(bounded(f.grant, *f.cap))
	}
	return c
}

// bounded is the smaller of a wish and a cap, where 0 is no statement.
func bounded(wish, limit int64) int {
	if wish <= 0 || limit > 0 && limit < wish {
		wish = limit
	}
	return int(min(max(wish, 0), math.MaxInt32))
}

// ownersCaps are those that an owner sets and that depend on the machine.
var ownersCaps = []string{"cpu", "memory", "pids", "disk"}

// unenforced lists the caps that the sandbox cannot hold on this machine, and why
// not.
func unenforced(d sandbox.Driver) []string {
	return slices.DeleteFunc(d.Describe().NotEnforced, func(what string) bool {
		name, _, _ := strings.Cut(what, ":")
		return !slices.Contains(ownersCaps, name)
	})
}

// checkEnforced refuses to work on a machine where the caps of its owner would be
// words, unless its operator says that this is known.
func checkEnforced(c Config) error {
	missing := unenforced(c.Driver)
	if len(missing) == 0 || c.Unenforced {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "this machine cannot hold the caps that the owner sets: %s", strings.Join(missing, "; ")).
		WithHint("a user needs a control group that is delegated with cpu, memory and pids (systemd: Delegate=yes), or start it as root; " +
			"--unenforced-caps works without, where a container or virtual machine around it holds what counts")
}
