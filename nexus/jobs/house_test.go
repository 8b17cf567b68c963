//test:both-package One goroutine acts in most tests; contests have many.

package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/nexus/treasury"
	"remit/proof/canon"
	"remit/proof/reason"
)

// tester is *testing.T or *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// house is an authority with one requester, alice, who has money.
type house struct {
	t      tester
	s      *store.Store
	clock  *storetest.Clock
	ctx    func() context.Context
	budget string
}

var personScopes = []string{authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeEnrol,
	authority.ScopePool, authority.ScopeTreasury, authority.ScopeRead}

func person(owner string) authority.Principal {
	return authority.Principal{ID: "user:" + owner, Owner: owner, Kind: authority.User, Scopes: personScopes}
}

func daemon(p registry.Provider) authority.Principal {
	return authority.Principal{ID: authority.ProviderPrincipal(p.ID), Owner: p.Owner, Kind: authority.Provider,
		Scopes: []string{authority.ScopeWork, authority.ScopeRead}}
}

var alice = person("alice")

const funds = 100_000

// each runs fn in a fresh house on both databases.
func each(t *testing.T, fn func(t *testing.T, h *house)) {
	t.Helper()
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		fn(t, build(t, t.Context, clock, open()))
	})
}

func build(t tester, ctx func() context.Context, clock *storetest.Clock, s *store.Store) *house {
	t.Helper()
	h := &house{t: t, s: s, clock: clock, ctx: ctx}
	h.fund("alice", funds)
	return h
}

func (h *house) fund(owner string, msats int64) {
	h.t.Helper()
	h.do(func(tx *store.Tx) error {
		a, _, err := treasury.OpenAccount(tx, treasury.Account{Owner: owner, Unit: treasury.Msat, Kind: treasury.Budget,
			Limit: treasury.Unlimited})
		if err != nil {
			return err
		}
		if owner == "alice" {
			h.budget = a.ID
		}
		_, _, err = treasury.Fund(tx, treasury.Funding{TransferID: fmt.Sprintf("fund-%s-%d", owner, msats), Account: a.ID, Amount: msats})
		return err
	})
}

func (h *house) try(fn func(tx *store.Tx) error) error {
	return h.s.Update(h.ctx(), fn)
}

func (h *house) do(fn func(tx *store.Tx) error) {
	h.t.Helper()
	if err := h.try(fn); err != nil {
		h.t.Fatal(err)
	}
}

func get[T any](h *house, fn func(tx *store.Tx) (T, error)) T {
	h.t.Helper()
	v, err := attempt(h, fn)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

func attempt[T any](h *house, fn func(tx *store.Tx) (T, error)) (v T, err error) {
	err = h.try(func(tx *store.Tx) error {
		v, err = fn(tx)
		return err
	})
	return v, err
}

// wants fails unless the command is refused with the code.
func wants[T any](h *house, code reason.Code, fn func(tx *store.Tx) (T, error)) {
	h.t.Helper()
	if v, err := attempt(h, fn); reason.CodeOf(err) != code {
		h.t.Fatalf("got %v and error %v, want %s", v, err, code)
	}
}

var wide = registry.Caps{CPUMillis: 4000, MemoryMB: 4096, DiskMB: 1000, Pids: 256, TimeoutSecs: 120, Concurrency: 4, Network: "none"}

// provider enrols a provider and switches it on.
func (h *house) provider(owner, name string, price int64, pool bool, caps registry.Caps) registry.Provider {
	h.t.Helper()
	p := h.enrol(owner, name, price, pool)
	h.do(func(tx *store.Tx) (err error) {
		if _, err = registry.SetCaps(tx, person(owner), p.ID, caps, nil); err != nil {
			return err
		}
		_, err = registry.Enable(tx, person(owner), p.ID, nil)
		return err
	})
	return h.beat(p)
}

func (h *house) enrol(owner, name string, price int64, pool bool) registry.Provider {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (registry.Provider, error) {
		return registry.EnrolProvider(tx, person(owner), registry.ProviderRequest{Name: name, Version: "1",
			Capabilities: []string{job.SandboxRun}, PriceMsats: price, ReservePool: pool})
	})
}

func (h *house) beat(p registry.Provider) registry.Provider {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (registry.Provider, error) {
		return registry.Heartbeat(tx, daemon(p), p.ID, registry.HeartbeatRequest{Version: "1"})
	})
}

func (h *house) find(p registry.Provider) registry.Provider {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (registry.Provider, error) { return registry.Lock(tx, p.ID) })
}

func (h *house) run() jobs.Run {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Run, error) {
		return jobs.CreateRun(tx, alice, jobs.RunRequest{RepoRef: "fixture", Metadata: map[string]string{"k": "v"}})
	})
}

// ask is a request whose commands are named by their text.
func ask(commands ...string) json.RawMessage {
	var list []string
	for _, c := range commands {
		list = append(list, fmt.Sprintf(`{"cmd":%q}`, c))
	}
	return json.RawMessage(`{"sandbox":{"provider":"local","image_digest":"host"},"commands":[` + strings.Join(list, ",") + `]}`)
}

func (h *house) dispatch(run jobs.Run, request json.RawMessage) jobs.Dispatched {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Dispatched, error) {
		return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: request, Key: "k"})
	})
}

// queued dispatches a job that must be accepted.
func (h *house) queued(run jobs.Run, commands ...string) jobs.Job {
	h.t.Helper()
	d := h.dispatch(run, ask(commands...))
	if d.Rejected != nil || !d.Created {
		h.t.Fatalf("dispatch: %+v", d)
	}
	return d.Job
}

func (h *house) lease(p registry.Provider) jobs.Lease {
	h.t.Helper()
	list := h.leases(p, 1)
	if len(list) != 1 {
		h.t.Fatalf("%d leases, want one", len(list))
	}
	return list[0]
}

func (h *house) leases(p registry.Provider, n int) []jobs.Lease {
	h.t.Helper()
	return get(h, func(tx *store.Tx) ([]jobs.Lease, error) {
		return jobs.TakeLeases(tx, daemon(p), jobs.LeaseRequest{Max: n, TTL: 10 * time.Second})
	})
}

// reply is a response of a provider to a job.
func reply(j jobs.Job, status job.Status, exits ...int) json.RawMessage {
	var req struct {
		Commands []struct{ Cmd string }
	}
	if err := json.Unmarshal(j.Request, &req); err != nil {
		panic(err)
	}
	var runs []string
	for i, exit := range exits {
		runs = append(runs, fmt.Sprintf(`{"cmd":%q,"exit_code":%d,"duration_ms":7,"stdout_sha256":%q,"stderr_sha256":%[3]q}`,
			req.Commands[i].Cmd, exit, canon.Digest(nil)))
	}
	return json.RawMessage(fmt.Sprintf(`{"env_info":{"image_digest":"host"},"runs":[%s],"status":%q,
		"provider":{"id":%q,"version":"1","os":"linux","arch":"amd64"},
		"caps":{"cpu_millis":1000,"memory_mb":512,"disk_mb":100,"pids":64,"timeout_secs":60,"network":"none"},
		"usage":{"cpu_time_ms":5,"peak_memory_bytes":1000,"wall_ms":10}}`, strings.Join(runs, ","), status, j.ProviderID))
}

func (h *house) complete(p registry.Provider, l jobs.Lease, response json.RawMessage) jobs.Job {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Job, error) {
		return jobs.Complete(tx, daemon(p), l.Job.ID, jobs.CompleteRequest{Fence: l.Fence, Response: response})
	})
}

func (h *house) settle(id string) jobs.Settlement {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (s jobs.Settlement, err error) {
		s, _, err = jobs.Settle(tx, alice, id)
		return s, err
	})
}

func (h *house) job(id string) jobs.Job {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Job, error) { return tx.Job(id) })
}

func (h *house) sweep() jobs.Swept {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Swept, error) { return jobs.Expire(tx, 0) })
}

// log returns the keys of a stream's events, and checks that it has no gap and
// that every receipt is what its digest says.
func (h *house) log(stream string) []string {
	h.t.Helper()
	var keys []string
	floor := get(h, func(tx *store.Tx) (int64, error) { _, floor, err := tx.Head(stream); return floor, err })
	for i, e := range h.events(stream) {
		if e.Seq != floor+int64(i+1) {
			h.t.Fatalf("%s has a gap before %d", stream, e.Seq)
		}
		if r, ok := authority.ReadReceipt(e); ok && (!r.Sealed() || r.Key != e.IdempotencyKey) {
			h.t.Fatalf("receipt %s is not what its digest says", e.Payload)
		}
		keys = append(keys, e.IdempotencyKey)
	}
	return keys
}

func (h *house) events(stream string) []store.Event {
	h.t.Helper()
	return get(h, func(tx *store.Tx) ([]store.Event, error) { return tx.Events(stream, 0, store.MaxEvents) })
}

// receipts returns the types and payloads of the receipts of a stream.
func (h *house) receipts(stream string) map[string][]map[string]any {
	h.t.Helper()
	out := map[string][]map[string]any{}
	for _, e := range h.events(stream) {
		if r, ok := authority.ReadReceipt(e); ok {
			var payload map[string]any
			if err := json.Unmarshal(r.Payload, &payload); err != nil {
				h.t.Fatal(err)
			}
			out[r.Type] = append(out[r.Type], payload)
		}
	}
	return out
}

// money returns what the requester's budget has reserved and spent, and checks
// the books.
func (h *house) money() (reserved, spent int64) {
	h.t.Helper()
	h.do(func(tx *store.Tx) error {
		breaches, err := treasury.Invariants(tx)
		if err == nil && len(breaches) > 0 {
			err = errors.New(strings.Join(breaches, "; "))
		}
		return err
	})
	a := get(h, func(tx *store.Tx) (treasury.Account, error) { return tx.LedgerAccount(h.budget) })
	return a.DebitsPending, a.DebitsPosted
}

func (h *house) earned(p registry.Provider) int64 {
	h.t.Helper()
	a, err := attempt(h, func(tx *store.Tx) (treasury.Account, error) {
		return tx.LedgerAccount(treasury.AccountID(p.ID, treasury.Msat, treasury.Earnings))
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.t.Fatal(err)
	}
	return a.CreditsPosted
}

// expect compares money and state at the end of a story.
func (h *house) expect(id string, state jobs.State, reserved, spent int64) jobs.Job {
	h.t.Helper()
	j := h.job(id)
	if jobs.State(j.State) != state {
		h.t.Fatalf("job is %s (%s), want %s", j.State, j.Reason, state)
	}
	if r, s := h.money(); r != reserved || s != spent {
		h.t.Fatalf("reserved %d and spent %d, want %d and %d", r, s, reserved, spent)
	}
	return j
}

func (h *house) finish(run jobs.Run, as jobs.RunState) jobs.Run {
	h.t.Helper()
	return get(h, func(tx *store.Tx) (jobs.Run, error) {
		return jobs.FinishRun(tx, alice, run.ID, jobs.FinishRequest{Status: as})
	})
}
