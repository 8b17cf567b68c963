package registry_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
	"remit/proof/record"
)

var alice = authority.Principal{ID: "user:alice", Owner: "alice", Kind: authority.User, Scopes: []string{authority.ScopeEnrol,
	authority.ScopeProviders}}

func daemon(p registry.Provider) authority.Principal {
	return authority.Principal{ID: authority.ProviderPrincipal(p.ID), Owner: p.Owner, Kind: authority.Provider,
		Scopes: []string{authority.ScopeWork}}
}

var caps = registry.Caps{CPUMillis: 1000, MemoryMB: 512, TimeoutSecs: 60, Concurrency: 1, Network: "none"}

type office struct {
	*testing.T
	s     *store.Store
	clock *storetest.Clock
}

func each(t *testing.T, fn func(o office)) {
	t.Helper()
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) { fn(office{t, open(), clock}) })
}

func try[T any](o office, fn func(tx *store.Tx) (T, error)) (v T, err error) {
	err = o.s.Update(o.Context(), func(tx *store.Tx) error {
		v, err = fn(tx)
		return err
	})
	return v, err
}

func get[T any](o office, fn func(tx *store.Tx) (T, error)) T {
	o.Helper()
	v, err := try(o, fn)
	if err != nil {
		o.Fatal(err)
	}
	return v
}

func wants[T any](o office, code reason.Code, fn func(tx *store.Tx) (T, error)) {
	o.Helper()
	if _, err := try(o, fn); reason.CodeOf(err) != code {
		o.Errorf("got %v, want %s", err, code)
	}
}

func request(name string) registry.ProviderRequest {
	return registry.ProviderRequest{Name: name, Version: "1", Capabilities: []string{job.SandboxRun}, PriceMsats: 1000}
}

func enrol(p authority.Principal, r registry.ProviderRequest) func(tx *store.Tx) (registry.Provider, error) {
	return func(tx *store.Tx) (registry.Provider, error) { return registry.EnrolProvider(tx, p, r) }
}

func beat(p registry.Provider, r registry.HeartbeatRequest) func(tx *store.Tx) (registry.Provider, error) {
	return func(tx *store.Tx) (registry.Provider, error) { return registry.Heartbeat(tx, daemon(p), p.ID, r) }
}

func (o office) types(stream string) (list []string) {
	o.Helper()
	for i, e := range get(o, func(tx *store.Tx) ([]store.Event, error) { return tx.Events(stream, 0, store.MaxEvents) }) {
		if e.Seq != int64(i+1) {
			o.Fatalf("%s has a gap before %d", stream, e.Seq)
		}
		name := e.Type
		if r, ok := authority.ReadReceipt(e); ok {
			if name = r.Type; !r.Sealed() {
				o.Errorf("receipt %s is not what its digest says", name)
			}
		}
		list = append(list, name)
	}
	return list
}

// From enrolment to work: off and without caps at first, receipts for what the
// owner does, a snapshot for every change.
func TestLife(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		if p.Enabled || p.Caps.Set() || p.Status != "stopped" || p.Liveness(p.CreatedAt) != registry.Missing {
			o.Errorf("enrolled as %+v", p)
		}
		wants(o, reason.Conflict, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) })
		p = get(o, beat(p, registry.HeartbeatRequest{Version: "2", Observed: json.RawMessage(`{"b":1,"a":2}`)}))
		if p.Enabled || p.Status != "stopped" || p.Version != "2" || string(p.Observed) != `{"a":2,"b":1}` {
			o.Errorf("a heartbeat made %+v", p)
		}
		old := p.Revision
		p = get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, &old) })
		wants(o, reason.PreconditionFailed, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, &old) })
		p = get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, nil) })
		p = get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) })
		again := get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) })
		if p.Status != "running" || !p.Enabled || again.Revision != p.Revision {
			o.Errorf("enabled as %+v, then %+v", p, again)
		}
		p = get(o, beat(p, registry.HeartbeatRequest{Version: "2", Status: registry.Stopping}))
		p = get(o, beat(p, registry.HeartbeatRequest{Version: "2", Status: registry.Stopped}))
		if p.Status != "stopped" || !p.Enabled {
			o.Errorf("stopped as %+v", p)
		}
		if p = get(o, beat(p, registry.HeartbeatRequest{Version: "2"})); p.Status != "running" {
			o.Errorf("back as %+v", p)
		}
		off := get(o, func(tx *store.Tx) (registry.Provider, error) {
			p, _, err := registry.SwitchOff(tx, alice, p.ID, "why")
			return p, err
		})
		if off.Enabled || off.Status != "stopped" {
			o.Errorf("off as %+v", off)
		}
		if p = get(o, beat(p, registry.HeartbeatRequest{Version: "2"})); p.Enabled || p.Status != "stopped" {
			o.Errorf("a heartbeat switched it on: %+v", p)
		}
		if got := o.types(authority.AccountStream("alice")); !slices.Equal(got, []string{"DeviceEnrolled", "CapsSet", "ProviderEnabled",
			"ProviderDisabled"}) {
			o.Errorf("receipts %q", got)
		}
		want := []string{"worker.stopped", "worker.stopped", "worker.stopped", "worker.running", "worker.stopping", "worker.stopped",
			"worker.running", "worker.stopped", "worker.stopped"}
		if got := o.types(authority.FleetStream("alice")); !slices.Equal(got, want) {
			o.Errorf("presence %q", got)
		}
		o.clock.Advance(2*time.Minute + time.Millisecond)
		var head int64
		snapshot := get(o, func(tx *store.Tx) (s registry.Snapshot, err error) {
			s, head, err = registry.Fleet(tx, "alice")
			return s, err
		})
		if len(snapshot.Workers) != 1 || head != int64(len(want)) || snapshot.Workers[0].HeartbeatState != registry.Stale ||
			snapshot.Workers[0].Caps != caps {
			o.Errorf("snapshot %+v at %d", snapshot, head)
		}
	})
}

// Enrolling again finds the same provider and clears nothing; no owner enrols over
// another's.
func TestEnrolAgain(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		get(o, func(tx *store.Tx) (registry.Marked, error) {
			return registry.Mark(tx, p.ID, "job_1", registry.Failure, reason.OfflineMidRun)
		})
		dearer := request("one")
		dearer.PriceMsats = 5
		dearer.Version = "9"
		again := get(o, enrol(alice, dearer))
		if again.ID != p.ID || again.PriceMsats != 5 || again.Failures != 1 || again.Enabled {
			o.Errorf("again %+v", again)
		}
		named := request("renamed")
		named.ProviderID = p.ID
		if n := get(o, enrol(alice, named)); n.ID != p.ID || n.Failures != 1 || n.DeviceID != p.DeviceID {
			o.Errorf("by id %+v", n)
		}
		bob := alice
		bob.ID, bob.Owner = "user:bob", "bob"
		wants(o, reason.NotFound, enrol(bob, named))
		other := request("x")
		other.DeviceID = p.DeviceID
		wants(o, reason.NotFound, enrol(bob, other))
		if b := get(o, enrol(bob, request("one"))); b.ID == p.ID || b.Owner != "bob" {
			o.Errorf("bob got %+v", b)
		}
		if got := o.types(authority.AccountStream("alice")); !slices.Equal(got, []string{"DeviceEnrolled"}) {
			o.Errorf("receipts %q", got)
		}
	})
}

// A holder of a registration token does not take the place of a provider
// that works: its name is refused while it lives, and who replaces it by its id
// gets it switched off, since the owner enabled another machine and another price.
func TestEnrolOverALivingProvider(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, nil) })
		enable := func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) }
		get(o, enable)
		get(o, beat(p, registry.HeartbeatRequest{Version: "1"}))
		other := request("one")
		other.PriceMsats = 40_000
		wants(o, reason.Conflict, enrol(alice, other))
		onDevice := other
		onDevice.DeviceID, onDevice.Name = p.DeviceID, "another"
		wants(o, reason.Conflict, enrol(alice, onDevice))
		named := other
		named.ProviderID = p.ID
		if got := get(o, enrol(alice, named)); got.Enabled || got.Status != "stopped" || got.PriceMsats != 40_000 {
			o.Errorf("replaced: %+v", got)
		}
		wants(o, reason.Conflict, enrol(alice, other)) // off, and its daemon may still be there
		get(o, enable)
		get(o, beat(p, registry.HeartbeatRequest{Version: "1", Status: registry.Stopping}))
		get(o, beat(p, registry.HeartbeatRequest{Version: "1", Status: registry.Stopped}))
		if got := get(o, enrol(alice, other)); got.ID != p.ID || got.Enabled {
			o.Errorf("after it has said goodbye: %+v", got)
		}
		get(o, enable)
		get(o, beat(p, registry.HeartbeatRequest{Version: "1"}))
		o.clock.Advance(registry.StaleAfter + time.Millisecond)
		if got := get(o, enrol(alice, other)); got.ID != p.ID || got.Enabled {
			o.Errorf("after it fell silent: %+v", got)
		}
	})
}

// TestSilence: a provider whose credential ended is no candidate from then on, and
// one that is heard of again is.
func TestSilence(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		silence := func(id string) registry.Provider {
			return get(o, func(tx *store.Tx) (registry.Provider, error) {
				if err := registry.Silence(tx, id); err != nil {
					return registry.Provider{}, err
				}
				return registry.Lock(tx, p.ID)
			})
		}
		silence("prv_none")
		if got := silence(p.ID); got.HeartbeatAt != 0 || got.Revision != p.Revision {
			o.Errorf("never heard of: %+v", got)
		}
		get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, nil) })
		get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) })
		live := func() bool {
			fresh := get(o, beat(p, registry.HeartbeatRequest{Version: "1"}))
			return fresh.Liveness(o.clock.Now().UnixMilli()) == registry.Fresh
		}
		if !live() {
			o.Fatal("not fresh")
		}
		got := silence(p.ID)
		now := o.clock.Now().UnixMilli()
		if got.Liveness(now) != registry.Stale || registry.Eligible(got, job.Needs{}, now) == nil || !got.Enabled {
			o.Errorf("silenced: %+v", got)
		}
		if again := silence(p.ID); again.Revision != got.Revision {
			o.Error("silenced twice")
		}
		if !live() {
			o.Error("not fresh after a heartbeat")
		}
	})
}

// A machine may withdraw itself, and no other one, and does not come back by itself.
func TestProviderSwitchesItselfOff(t *testing.T) {
	each(t, func(o office) {
		p, q := get(o, enrol(alice, request("one"))), get(o, enrol(alice, request("two")))
		get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, caps, nil) })
		get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, alice, p.ID, nil) })
		off := func(by registry.Provider) func(tx *store.Tx) (registry.Provider, error) {
			return func(tx *store.Tx) (registry.Provider, error) {
				got, _, err := registry.SwitchOff(tx, daemon(by), p.ID, "")
				return got, err
			}
		}
		wants(o, reason.ScopeMissing, off(q))
		if got := get(o, off(p)); got.Enabled {
			o.Errorf("still on: %+v", got)
		}
		wants(o, reason.ScopeMissing, func(tx *store.Tx) (registry.Provider, error) { return registry.Enable(tx, daemon(p), p.ID, nil) })
	})
}

// A strike counts once for a job and kind, and makes no provider look alive.
func TestMarks(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		mark := func(jobID string, kind registry.Kind) registry.Marked {
			return get(o, func(tx *store.Tx) (registry.Marked, error) {
				return registry.Mark(tx, p.ID, jobID, kind, reason.OfflineMidRun)
			})
		}
		for i, want := range []struct {
			jobID string
			kind  registry.Kind
			isNew bool
		}{
			{"1", registry.Failure, true}, {"2", registry.Failure, true}, {"1", registry.Failure, false}, {"1", registry.Violation, true},
			{"3", registry.Unverified, true}, {"3", registry.Unverified, false}, {"4", registry.Success, true}, {"4", registry.Success, false},
		} {
			if m := mark(want.jobID, want.kind); m.New != want.isNew || m.Quarantined {
				o.Errorf("mark %d: %+v", i, m)
			}
		}
		now := get(o, func(tx *store.Tx) (registry.Provider, error) { return registry.Lock(tx, p.ID) })
		if now.Failures != 2 || now.Violations != 1 || now.Unverified != 1 || now.Successes != 1 || now.HeartbeatAt != 0 {
			o.Errorf("counters %+v", now.ProviderRow)
		}
		mark("5", registry.Violation)
		if m := mark("6", registry.Violation); !m.Quarantined || m.Provider.Status != "failed" || m.Provider.Enabled {
			o.Errorf("third violation: %+v", m)
		}
		if m := mark("7", registry.Violation); m.Quarantined {
			o.Error("quarantined twice")
		}
		for range 9 {
			mark("many", registry.Unverified)
		}
		wants(o, reason.NotFound, func(tx *store.Tx) (registry.Provider, error) {
			bob := alice
			bob.Owner = "bob"
			return registry.Find(tx, bob, p.ID)
		})
	})
}

// What is refused, and why.
func TestRefusals(t *testing.T) {
	each(t, func(o office) {
		p := get(o, enrol(alice, request("one")))
		with := func(change func(*registry.ProviderRequest)) registry.ProviderRequest {
			r := request("two")
			change(&r)
			return r
		}
		reader := authority.Principal{ID: "user:alice", Owner: "alice", Kind: authority.User, Scopes: []string{authority.ScopeRead}}
		wants(o, reason.ScopeMissing, enrol(reader, request("two")))
		wants(o, reason.ScopeMissing, enrol(alice, with(func(r *registry.ProviderRequest) { r.ReservePool = true })))
		wants(o, reason.ScopeMissing, enrol(alice, with(func(r *registry.ProviderRequest) { r.Class = registry.ReservePool })))
		wants(o, reason.RequestInvalid, enrol(alice, with(func(r *registry.ProviderRequest) { r.Class = "huge" })))
		wants(o, reason.RequestInvalid, enrol(alice, with(func(r *registry.ProviderRequest) { r.PriceMsats = 0 })))
		wants(o, reason.RequestInvalid, enrol(alice, with(func(r *registry.ProviderRequest) { r.Name = "a\nb" })))
		wants(o, reason.RequestInvalid, enrol(alice, with(func(r *registry.ProviderRequest) { r.Capabilities = nil })))
		wants(o, reason.JobUnknownType, enrol(alice, with(func(r *registry.ProviderRequest) { r.Capabilities = []string{"oa.embeddings.v1"} })))
		wants(o, reason.ScopeMissing, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, daemon(p), p.ID, caps, nil) })
		for _, change := range []func(*registry.Caps){
			func(c *registry.Caps) { c.CPUMillis = 0 }, func(c *registry.Caps) { c.MemoryMB = -1 }, func(c *registry.Caps) { c.Concurrency = 0 },
			func(c *registry.Caps) { c.TimeoutSecs = 1 << 40 }, func(c *registry.Caps) { c.Network = "lan" }, func(c *registry.Caps) { c.GPUs = -1 },
		} {
			bad := caps
			change(&bad)
			wants(o, reason.RequestInvalid, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, p.ID, bad, nil) })
		}
		wants(o, reason.Forbidden, func(tx *store.Tx) (registry.Provider, error) {
			return registry.Heartbeat(tx, alice, p.ID, registry.HeartbeatRequest{Version: "1"})
		})
		second := get(o, enrol(alice, request("two")))
		wants(o, reason.Forbidden, func(tx *store.Tx) (registry.Provider, error) {
			return registry.Heartbeat(tx, daemon(second), p.ID, registry.HeartbeatRequest{Version: "1"})
		})
		wants(o, reason.RequestInvalid, beat(p, registry.HeartbeatRequest{Version: "1", Status: registry.Failed}))
		wants(o, reason.RequestInvalid, beat(p, registry.HeartbeatRequest{Version: "1", Observed: json.RawMessage(`[1]`)}))
	})
}

// A device is known by its name or its key.
func TestDevices(t *testing.T) {
	each(t, func(o office) {
		device := func(r registry.DeviceRequest) func(tx *store.Tx) (registry.Device, error) {
			return func(tx *store.Tx) (registry.Device, error) { return registry.EnrolDevice(tx, alice, r) }
		}
		d := get(o, device(registry.DeviceRequest{Name: "laptop", Fingerprint: "SHA256:abc", Roles: []string{"client", "client"}}))
		renamed := get(o, device(registry.DeviceRequest{Name: "desk", Fingerprint: "SHA256:abc", Roles: []string{"client"}}))
		if renamed.ID != d.ID || renamed.Name != "desk" || !slices.Equal(renamed.Roles, []string{"client"}) {
			o.Errorf("renamed %+v", renamed)
		}
		r := request("provider on it")
		r.DeviceID = d.ID
		p := get(o, enrol(alice, r))
		list := get(o, func(tx *store.Tx) ([]registry.Device, error) { return registry.Devices(tx, alice, "", 10) })
		if p.DeviceID != d.ID || len(list) != 1 || !slices.Equal(list[0].Roles, []string{"client", "provider"}) ||
			list[0].Fingerprint != "SHA256:abc" {
			o.Errorf("devices %+v", list)
		}
		standing := get(o, func(tx *store.Tx) ([]record.Receipt, error) { return registry.Standing(tx, p) })
		if len(standing) != 1 || standing[0].Type != record.DeviceEnrolled {
			o.Errorf("standing %+v", standing)
		}
		wants(o, reason.NotFound, device(registry.DeviceRequest{DeviceID: "dev_none", Name: "x"}))
		wants(o, reason.RequestInvalid, device(registry.DeviceRequest{Name: ""}))
		wants(o, reason.RequestInvalid, device(registry.DeviceRequest{Name: "x", Roles: []string{"a b"}}))
	})
}
