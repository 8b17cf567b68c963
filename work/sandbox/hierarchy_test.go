//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestParseHierarchies(t *testing.T) {
	t.Parallel()
	const v1Mounts = `30 20 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 20 0:28 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 20 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
34 20 0:30 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
`
	none := func(dir string) (string, []string) { return dir, nil }
	all := func(dir string) (string, []string) { return dir, []string{"cpu", "memory", "pids"} }
	above := func(dir string) (string, []string) { return "/above", []string{"pids"} }
	for _, tt := range []struct {
		name, membership, mounts string
		v2                       func(string) (string, []string)
		want                     string
	}{
		{"hybrid", "12:devices:/x\n4:memory:/a/b\n3:cpu,cpuacct:/\n2:pids:/docker/abc/sub\n0::/u\n", v1Mounts, none,
			"[{/sys/fs/cgroup/memory/a/b [memory] false} {/sys/fs/cgroup/cpu,cpuacct [cpu cpuacct] false} {/sys/fs/cgroup/pids/sub [pids] false}]"},
		{"a mount that does not show our group", "2:pids:/elsewhere\n", v1Mounts, none, "[]"},
		{"version 2", "0::/user.slice/s.scope\n", "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", all, "[{/sys/fs/cgroup/user.slice/s.scope [cpu memory pids] true}]"},
		{"the group above", "0::/user.slice/s.scope\n", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", above, "[{/above [pids] true}]"},
		{"nothing mounted", "0::/\n4:memory:/\n", "", all, "[]"},
		{"garbage", "x\n::\n4:memory\n", "a b c\n - \n", all, "[]"},
	} {
		if got := fmt.Sprint(parseHierarchies(tt.membership, tt.mounts, tt.v2)); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// On a host with version 2 the group above ours is used only if it has
// controllers to hand on.
func TestEnableV2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/own"
	if own, got := enableV2(dir); own != dir || got != nil {
		t.Errorf("no hierarchy: %s %v", own, got)
	}
	write(t, dir+"/cgroup.controllers", "cpuset cpu memory hugetlb\n")
	write(t, dir+"/../cgroup.subtree_control", "memory pids hugetlb\n")
	write(t, dir+"/cgroup.subtree_control/unwritable", "")
	if above, got := enableV2(dir); above != dir[:len(dir)-4] || fmt.Sprint(got) != "[memory pids]" {
		t.Errorf("above: %s %v", above, got)
	}
}

func TestGroupLifeCycle(t *testing.T) {
	t.Parallel()
	needRoot(t)
	g, held := newGroup(DefaultLimits())
	if len(held) == 0 {
		t.Skip("SKIPPED, no writable cgroup")
	}
	o := g.observe()
	if held["memory"] != "" && o.peakMemory < 0 || held["cpu"] != "" && o.cpuMicros < 0 || o.oomKills > 0 {
		t.Errorf("%+v", o)
	}
	if err := g.remove(); err != nil {
		t.Error(err)
	}
}

// A command is born in a version 2 group too, where the host has one; here
// without controllers, so nothing but the membership can be tested.
func TestVersion2(t *testing.T) {
	t.Parallel()
	needRoot(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	at := mountedAt(string(mounts), "", "/")
	dir := at + "/" + ownName() + "v2"
	if at == "" || os.Mkdir(dir, 0o755) != nil {
		t.Skip("SKIPPED, no writable cgroup of version 2")
	}
	g := &group{made: []groupDir{{path: dir, v2: true}}}
	d := without(t, controlled{})
	s, err := Spec{Lower: t.TempDir(), Commands: []Command{{Argv: []string{"sh", "-c", "echo begun; sleep 60"}}}}.check()
	must(t, err)
	as := takeUID()
	defer giveUID(as)
	conf, userns, err := d.setup(s, as, nil)
	must(t, err)
	conf.Cgroups = g.joins()
	var procs string
	s.Commands[0].Stdout = writer(func(p []byte) (int, error) {
		text, _ := os.ReadFile(dir + "/cgroup.procs")
		procs = string(text)
		g.made[0].kill()
		return len(p), nil
	})
	r := &run{spec: s, conf: conf, userns: userns, group: g}
	err = r.do(context.Background())
	if n := strings.Count(procs, "\n"); n < 3 {
		t.Errorf("%d processes in the group: %q, %v", n, procs, err)
	}
	if r.result == nil || len(r.result.Commands) > 0 && r.result.Commands[0].ExitCode == 0 {
		t.Errorf("the kill of the group had no effect: %+v", r.result)
	}
	must(t, g.remove())
}
