package registry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/law/job"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

const now = int64(1_000_000_000)

var needs = job.Needs{Capability: job.SandboxRun, CPUMillis: 1000, MemoryMB: 512, TimeoutSecs: 60, NetworkPolicy: "none"}

// good is an eligible provider.
func good(id string, change ...func(*registry.Provider)) registry.Provider {
	p := registry.Provider{
		ProviderRow: store.ProviderRow{ID: id, Owner: "alice", Class: registry.SingleNode, Capabilities: []string{job.SandboxRun},
			PriceMsats: 1000,
			Status:     string(registry.Running), Enabled: true, HeartbeatAt: now},
		Caps: registry.Caps{CPUMillis: 1000, MemoryMB: 512, TimeoutSecs: 60, Concurrency: 1, Network: "none"},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// Each condition alone makes a provider ineligible, and says so.
func TestEligible(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*registry.Provider)
		want   reason.Code
	}{
		{"as it is", func(*registry.Provider) {}, ""},
		{"quarantined", func(p *registry.Provider) { p.QuarantinedAt = 1 }, reason.ProviderQuarantined},
		{"off", func(p *registry.Provider) { p.Enabled = false }, reason.ProviderDisabled},
		{"heard of just in time", func(p *registry.Provider) { p.HeartbeatAt = now - 120_000 }, ""},
		{"heard of too long ago", func(p *registry.Provider) { p.HeartbeatAt = now - 120_001 }, reason.NoProvider},
		{"never heard of", func(p *registry.Provider) { p.HeartbeatAt = 0 }, reason.NoProvider},
		{"stopping", func(p *registry.Provider) { p.Status = "stopping" }, reason.NoProvider},
		{"other capability", func(p *registry.Provider) { p.Capabilities = []string{job.EngineRun} }, reason.NoProvider},
		{"no caps", func(p *registry.Provider) { p.Caps = registry.Caps{} }, reason.CapsExceeded},
		{"cpu", func(p *registry.Provider) { p.Caps.CPUMillis = 999 }, reason.CapsExceeded},
		{"memory", func(p *registry.Provider) { p.Caps.MemoryMB = 511 }, reason.CapsExceeded},
		{"time", func(p *registry.Provider) { p.Caps.TimeoutSecs = 59 }, reason.CapsExceeded},
		{"network", func(p *registry.Provider) { p.Caps.Network = "" }, reason.CapsExceeded},
		{"wider network", func(p *registry.Provider) { p.Caps.Network = "full" }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			why := registry.Eligible(good("p", test.change), needs, now)
			if why == nil && test.want != "" || why != nil && why.Code != test.want {
				t.Errorf("got %v, want %q", why, test.want)
			}
		})
	}
}

// TestGrant: what a job says nothing about is bounded by the caps all the same,
// and nothing is without a bound but what the caps leave to the sandbox.
func TestGrant(t *testing.T) {
	t.Parallel()
	caps := registry.Caps{CPUMillis: 2000, MemoryMB: 1024, DiskMB: 512, Pids: 64, TimeoutSecs: 120, Concurrency: 1, Network: "full"}
	got := caps.Grant(needs)
	want := job.CapsApplied{CPUMillis: 1000, MemoryMB: 512, DiskMB: 512, Pids: 64, TimeoutSecs: 60, Network: "none"}
	if got != want {
		t.Errorf("got %+v", got)
	}
	if got := (registry.Caps{MemoryMB: 7}).Grant(job.Needs{DiskMB: 1 << 40, MemoryMB: -1}); got.DiskMB != 1 || got.MemoryMB != 7 ||
		got.CPUMillis != 1 {
		t.Errorf("got %+v", got)
	}
	few := caps
	few.Pids = 15
	if err := few.Validate(); reason.CodeOf(err) != reason.RequestInvalid {
		t.Errorf("fewer processes than the sandbox needs: %v", err)
	}
}

func order(s registry.Selection) (ids []string) {
	for _, c := range s.Choices {
		ids = append(ids, c.Provider.ID)
	}
	return ids
}

// The parts of the sort key, each against the ones behind it.
func TestSelectionOrder(t *testing.T) {
	t.Parallel()
	pool := func(p *registry.Provider) { p.Class, p.Owner = registry.ReservePool, "bob" }
	price := func(n int64) func(*registry.Provider) { return func(p *registry.Provider) { p.PriceMsats = n } }
	tests := []struct {
		name string
		in   []registry.Provider
		want []string
	}{
		{"own before a cheaper pool", []registry.Provider{good("a", pool, price(1)), good("b", price(9000))}, []string{"b"}},
		{"pool when nothing else", []registry.Provider{good("a", pool, price(2)), good("b",
			func(p *registry.Provider) { p.Enabled = false })}, []string{"a"}},
		{"never a stranger's", []registry.Provider{good("a", func(p *registry.Provider) { p.Owner = "bob" })}, nil},
		{"price", []registry.Provider{good("a", price(1001)), good("b", price(1000))}, []string{"b", "a"}},
		{"a strike costs 500", []registry.Provider{good("a", func(p *registry.Provider) { p.Failures = 1 }), good("b", price(1490)),
			good("c", price(1500))}, []string{"b", "a", "c"}},
		{"two strikes cost 2000", []registry.Provider{good("a", func(p *registry.Provider) { p.Failures, p.Violations = 1, 1 }), good("b",
			price(2980)), good("c", price(2999))}, []string{"b", "a", "c"}},
		{"unverified work costs as well", []registry.Provider{good("a", func(p *registry.Provider) { p.Unverified = 2; p.Successes = 1 }),
			good("b", price(1490))}, []string{"b", "a"}},
		{"and is made up for", []registry.Provider{good("a", func(p *registry.Provider) { p.Unverified = 2; p.Successes = 2 }), good("b",
			price(1490))}, []string{"a", "b"}},
		{"and has an end", []registry.Provider{good("a", func(p *registry.Provider) { p.Unverified = 900 }), good("b", price(3600))},
			[]string{"a", "b"}},
		{"conduct at the same price", []registry.Provider{good("a"), good("b", func(p *registry.Provider) { p.Successes = 5 })},
			[]string{"b", "a"}},
		{"class at the same price", []registry.Provider{good("a"), good("b",
			func(p *registry.Provider) { p.Class = registry.LocalCluster })}, []string{"b", "a"}},
		{"the market's adder", []registry.Provider{good("a", func(p *registry.Provider) { p.Class = registry.InstanceMarket }), good("b",
			price(1240))}, []string{"b", "a"}},
		{"a free place before a full one", []registry.Provider{good("a", price(1), func(p *registry.Provider) { p.Leased = 1 }), good("b")},
			[]string{"b", "a"}},
		{"id", []registry.Provider{good("c"), good("a"), good("b")}, []string{"a", "b", "c"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := order(registry.Select(test.in, registry.Query{Owner: "alice", Needs: needs, Now: now}))
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSelectionLimits(t *testing.T) {
	t.Parallel()
	in := []registry.Provider{good("a"), good("b"), good("c", func(p *registry.Provider) { p.PriceMsats = 5000 })}
	q := registry.Query{Owner: "alice", Needs: needs, Now: now, MaxPriceMsats: 1000, Exclude: []string{"a"}}
	s := registry.Select(in, q)
	if !slices.Equal(order(s), []string{"b"}) || s.Breadth != 1 || len(s.Refused) != 1 || s.Refused[0].ProviderID != "c" {
		t.Errorf("got %+v", s)
	}
	q.Only = "c"
	if s := registry.Select(in, q); len(s.Choices) != 0 || len(s.Refused) != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestAllInPrice(t *testing.T) {
	t.Parallel()
	for price, want := range map[int64]int64{1: 2, 200: 201, 1000: 1005, 1001: 1007, 1<<53 - 1: 1<<53 - 1 + 45035996273705} {
		if got := good("a", func(p *registry.Provider) { p.PriceMsats = price }).AllInPrice(); got != want {
			t.Errorf("all-in price of %d is %d, want %d", price, got, want)
		}
	}
	if got := good("a", func(p *registry.Provider) { p.Class = registry.ReservePool }).AllInPrice(); got != 1505 {
		t.Errorf("pool price %d", got)
	}
}

// Selection depends on what the candidates are, not on their order, and chooses
// no provider that is not eligible.
func TestSelectionIsAFunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var in []registry.Provider
		for i := range rapid.IntRange(0, 8).Draw(t, "n") {
			in = append(in, good(fmt.Sprintf("p%d", i), func(p *registry.Provider) {
				p.Owner = rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "owner")
				p.Class = rapid.SampledFrom([]string{registry.SingleNode, registry.ReservePool, registry.LocalCluster}).Draw(t, "class")
				p.PriceMsats = rapid.Int64Range(1, 3).Draw(t, "price") * 500
				p.Failures = rapid.Int64Range(0, 3).Draw(t, "failures")
				p.Enabled = rapid.Bool().Draw(t, "enabled")
				p.HeartbeatAt = now - rapid.Int64Range(0, 2*registry.StaleAfter.Milliseconds()).Draw(t, "age")
				p.Leased = rapid.Int64Range(0, 1).Draw(t, "leased")
			}))
		}
		q := registry.Query{Owner: "alice", Needs: needs, Now: now}
		first := registry.Select(in, q)
		second := registry.Select(rapid.Permutation(in).Draw(t, "shuffled"), q)
		if !slices.Equal(order(first), order(second)) || first.Breadth != second.Breadth {
			t.Fatalf("%q and %q", order(first), order(second))
		}
		for _, c := range first.Choices {
			if registry.Eligible(c.Provider, needs, now) != nil || c.Provider.Owner != "alice" && !c.Provider.InPool() ||
				c.Tier != first.Choices[0].Tier {
				t.Fatalf("chose %+v", c)
			}
		}
	})
}

// The table of the status, cell by cell.
func TestStatusTable(t *testing.T) {
	t.Parallel()
	all := []registry.Status{registry.Starting, registry.Running, registry.Stopping, registry.Stopped, registry.Failed}
	want := map[registry.Status]string{
		registry.Starting: "starting running stopping stopped failed ", registry.Running: "starting running stopping stopped failed ",
		registry.Stopping: "running stopping stopped failed ", registry.Stopped: "starting running stopped failed ",
		registry.Failed: "stopped failed ",
	}
	for _, from := range all {
		got := ""
		for _, to := range all {
			if registry.CanMove(from, to) {
				got += string(to) + " "
			}
		}
		if got != want[from] {
			t.Errorf("%s may become %q, want %q", from, got, want[from])
		}
	}
}

func TestConduct(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*registry.Provider){
		registry.Qualified:   func(p *registry.Provider) { p.Successes, p.Failures = 9, 1 },
		registry.Preferred:   func(p *registry.Provider) { p.Successes = 5 },
		registry.Provisional: func(p *registry.Provider) { p.Successes, p.Violations = 50, 2 },
	} {
		if got := good("a", change).Conduct(); got != want {
			t.Errorf("conduct %s, want %s", got, want)
		}
	}
	if age := good("a").Liveness(now + time.Hour.Milliseconds()); age != registry.Stale {
		t.Errorf("liveness %s", age)
	}
}
