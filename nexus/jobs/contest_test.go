package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

// contest runs fn on both databases, on PostgreSQL with two replicas.
func contest(t *testing.T, fn func(t *testing.T, h *house, replicas []*store.Store)) {
	t.Helper()
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		replicas := []*store.Store{open()}
		if replicas[0].Dialect() == "postgres" {
			replicas = append(replicas, open())
		}
		fn(t, build(t, t.Context, clock, replicas[0]), replicas)
	})
}

// together runs n functions at the same moment and waits for all.
func together(n int, fn func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			fn(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// Many daemons with one credential: each job has one winner.
func TestOneWinner(t *testing.T) {
	contest(t, func(t *testing.T, h *house, replicas []*store.Store) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		const workers, offered = 8, 3
		for i := range offered {
			h.queued(run, fmt.Sprint(i))
		}
		var mu sync.Mutex
		winners := map[string]int{}
		together(workers, func(i int) {
			err := replicas[i%len(replicas)].Update(t.Context(), func(tx *store.Tx) error {
				list, err := jobs.TakeLeases(tx, daemon(a), jobs.LeaseRequest{Max: 1})
				mu.Lock()
				defer mu.Unlock()
				for _, l := range list {
					winners[l.Job.ID+fmt.Sprint(l.Fence)] = i // a repeated command overwrites itself
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		if len(winners) != offered {
			t.Errorf("%d leases of %d jobs: %v", len(winners), offered, winners)
		}
		if p := h.find(a); p.Leased != offered || p.Queued != 0 {
			t.Errorf("holds %d, offered %d", p.Leased, p.Queued)
		}
		h.log(authority.RunStream(run.ID))
	})
}

// Dispatch from everywhere: one job, one reservation.
func TestDispatchRace(t *testing.T) {
	contest(t, func(t *testing.T, h *house, replicas []*store.Store) {
		h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		ids := make([]string, 8)
		together(len(ids), func(i int) {
			if err := replicas[i%len(replicas)].Update(t.Context(), func(tx *store.Tx) error {
				d, err := jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("x")})
				ids[i] = d.Job.ID
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		for _, id := range ids {
			if id != ids[0] || id == "" {
				t.Fatalf("jobs %q", ids)
			}
		}
		h.expect(ids[0], jobs.Queued, 1000, 0)
	})
}

// Disable against leases: whatever the order, nothing runs afterwards.
func TestDisableRace(t *testing.T) {
	contest(t, func(t *testing.T, h *house, replicas []*store.Store) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		for i := range 3 {
			h.queued(run, fmt.Sprint(i))
		}
		together(5, func(i int) {
			err := replicas[i%len(replicas)].Update(t.Context(), func(tx *store.Tx) error {
				if i == 2 {
					_, err := jobs.Disable(tx, alice, a.ID, "stop")
					return err
				}
				_, err := jobs.TakeLeases(tx, daemon(a), jobs.LeaseRequest{Max: 1})
				return err
			})
			if err != nil && reason.CodeOf(err) != reason.ProviderDisabled {
				t.Error(err)
			}
		})
		if p := h.find(a); p.Enabled || p.Leased+p.Queued != 0 {
			t.Errorf("after the switch it holds %d and was offered %d", p.Leased, p.Queued)
		}
		if r, s := h.money(); r != 0 || s != 0 {
			t.Errorf("reserved %d, spent %d", r, s)
		}
	})
}

// Strikes of many replicas at once: one for each job and kind.
func TestStrikeRace(t *testing.T) {
	contest(t, func(t *testing.T, h *house, replicas []*store.Store) {
		a := h.provider("alice", "a", 1000, false, wide)
		together(8, func(i int) {
			if err := replicas[i%len(replicas)].Update(t.Context(), func(tx *store.Tx) error {
				_, err := registry.Mark(tx, a.ID, fmt.Sprintf("job_%d", i%2), registry.Violation, reason.ProviderViolations)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		if p := h.find(a); p.Violations != 2 || p.Quarantined() {
			t.Errorf("%d violations", p.Violations)
		}
	})
}

// step is one call on a job, and what came of it.
type step struct{ call string }
type ending struct{ code reason.Code }

// lifeModel is the life of one leased job as the caller sees it: after one of
// complete and cancel has succeeded, the other cannot; a settlement needs a
// completion.
var lifeModel = porcupine.Model{
	Init: func() any { return jobs.Leased },
	Step: func(state, input, output any) (bool, any) {
		at, code := state.(jobs.State), output.(ending).code
		switch input.(step).call {
		case "complete":
			switch at {
			case jobs.Leased:
				return code == "", jobs.Submitted
			case jobs.Canceled:
				return code == reason.JobClosed, at
			}
			return code == "", at
		case "cancel":
			switch at {
			case jobs.Leased, jobs.Canceled:
				return code == "", jobs.Canceled
			case jobs.Submitted:
				return code == reason.Conflict, at
			}
			return code == reason.JobClosed, at
		case "renew":
			return (code == "") == (at == jobs.Leased), at
		default: // settle
			switch at {
			case jobs.Leased:
				return code == reason.Conflict, at
			case jobs.Canceled:
				return code == reason.JobClosed, at
			}
			return code == "", jobs.Settled
		}
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%s: %q", in.(step).call, out.(ending).code) },
}

// Concurrent calls on one job look as if they had come one after the other.
func TestLinearizable(t *testing.T) {
	contest(t, func(t *testing.T, h *house, replicas []*store.Store) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		for round := range 4 {
			j := h.queued(run, fmt.Sprint(round))
			l := h.lease(a)
			calls := map[string]func(tx *store.Tx) error{
				"complete": func(tx *store.Tx) error {
					_, err := jobs.Complete(tx, daemon(a), j.ID, jobs.CompleteRequest{Fence: l.Fence, Response: reply(j, job.Success, 0)})
					return err
				},
				"cancel": func(tx *store.Tx) error { _, err := jobs.Cancel(tx, alice, j.ID); return err },
				"renew": func(tx *store.Tx) error {
					_, err := jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: l.Fence})
					return err
				},
				"settle": func(tx *store.Tx) error { _, _, err := jobs.Settle(tx, alice, j.ID); return err },
			}
			names := []string{"complete", "cancel", "settle", "renew", "complete", "settle", "cancel", "settle"}
			if round%2 == 0 {
				names = []string{"settle", "complete", "settle", "renew", "complete", "settle"}
			}
			history := race(t.Context(), replicas, names, calls)
			if !porcupine.CheckOperations(lifeModel, history) {
				t.Fatalf("no order explains %v", history)
			}
			if _, spent := h.money(); spent%1000 != 0 {
				t.Errorf("spent %d", spent)
			}
			if s := jobs.State(h.job(j.ID).State); s == jobs.Submitted || s == jobs.Settled {
				h.settle(j.ID)
			}
		}
		h.log(authority.RunStream(run.ID))
	})
}

func race(ctx context.Context, replicas []*store.Store, names []string, calls map[string]func(*store.Tx) error) []porcupine.Operation {
	start := time.Now()
	history := make([]porcupine.Operation, len(names))
	together(len(names), func(i int) {
		called := time.Since(start)
		err := replicas[i%len(replicas)].Update(ctx, calls[names[i]])
		code := reason.CodeOf(err)
		if err != nil && code == "" {
			code = reason.Code(err.Error())
		}
		history[i] = porcupine.Operation{ClientId: i, Input: step{names[i]}, Call: called.Nanoseconds(), Output: ending{code},
			Return: time.Since(start).Nanoseconds()}
	})
	return history
}

// The check can fail: a settlement before the completion has no explanation.
func TestLinearizabilityCanFail(t *testing.T) {
	t.Parallel()
	history := []porcupine.Operation{
		{ClientId: 0, Input: step{"settle"}, Output: ending{}, Call: 1, Return: 2},
		{ClientId: 1, Input: step{"complete"}, Output: ending{}, Call: 3, Return: 4},
	}
	if porcupine.CheckOperations(lifeModel, history) {
		t.Fatal("a settlement of nothing was accepted")
	}
}
