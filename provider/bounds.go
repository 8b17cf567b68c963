package provider

import (
	"math"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/sandbox"
)

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
