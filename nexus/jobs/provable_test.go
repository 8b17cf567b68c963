//go:build !race

package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/reason"
)

// TestRunThatNobodyCanProve is refused before it is made, with the code that
// the dispatch would give.
func TestRunThatNobodyCanProve(t *testing.T) {
	needs := job.Needs{Capability: job.SandboxRun, CPUMillis: 1000, MemoryMB: 2048, DiskMB: 500, TimeoutSecs: 60,
		NetworkPolicy: job.NetworkNone}
	each(t, func(t *testing.T, h *house) {
		create := func(p authority.Principal, ask *jobs.ProofRequest) (jobs.Run, error) {
			return attempt(h, func(tx *store.Tx) (jobs.Run, error) {
				return jobs.CreateRun(tx, p, jobs.RunRequest{RepoRef: "r", IssueRef: "7", Proof: ask})
			})
		}
		refused := func(name string, want reason.Code, p authority.Principal, ask jobs.ProofRequest) {
			t.Helper()
			if _, err := create(p, &ask); reason.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		refused("no provider", reason.NoProvider, alice, jobs.ProofRequest{Needs: needs})
		h.provider("alice", "a", 1000, false, wide)
		more := needs
		more.MemoryMB = wide.MemoryMB + 1
		refused("more memory than any provider gives", reason.CapsExceeded, alice, jobs.ProofRequest{Needs: more})
		refused("too dear", reason.NoProvider, alice, jobs.ProofRequest{Needs: needs, MaxPriceMsats: 999})
		refused("a price that is none", reason.RequestInvalid, alice, jobs.ProofRequest{Needs: needs, MaxPriceMsats: -1})
		refused("another owner's provider", reason.NoProvider, person("bob"), jobs.ProofRequest{Needs: needs})
		h.provider("bob", "b", 1000, false, wide)
		refused("no account", reason.InsufficientBudget, person("bob"), jobs.ProofRequest{Needs: needs})
		h.fund("bob", 999)
		refused("too little money", reason.InsufficientBudget, person("bob"), jobs.ProofRequest{Needs: needs})

		run, err := create(alice, &jobs.ProofRequest{Needs: needs, MaxPriceMsats: 1000}) // nothing of all that claimed the issue
		if err != nil {
			t.Fatal(err)
		}
		if reserved, _ := h.money(); reserved != 0 {
			t.Errorf("the question holds %d msats", reserved)
		}
		h.finish(run, jobs.RunFailed)
		h.clock.Advance(time.Hour) // no heartbeat any more
		refused("a provider that is silent", reason.NoProvider, alice, jobs.ProofRequest{Needs: needs})
		if _, err := create(alice, nil); err != nil {
			t.Errorf("a run that says nothing of its proof: %v", err)
		}
	})
}

// TestSilentClaim: a run that is never heard of again keeps its issue for so
// long, one that speaks for longer.
func TestSilentClaim(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		create := func() (jobs.Run, error) {
			return attempt(h, func(tx *store.Tx) (jobs.Run, error) {
				return jobs.CreateRun(tx, alice, jobs.RunRequest{RepoRef: "r", IssueRef: "7"})
			})
		}
		first, err := create()
		if err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(jobs.ClaimSilence - time.Minute)
		if _, err := h.append(first, "note", "n", `{"text":"alive"}`); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(jobs.ClaimSilence - time.Minute)
		_, err = create()
		if coded, ok := errors.AsType[*reason.Error](err); !ok || coded.Code != reason.Conflict || !strings.Contains(coded.Hint,
			"/v1/runs/"+first.ID+"/finish") {
			t.Fatalf("while it speaks: %v", err)
		}
		h.clock.Advance(time.Minute)
		second, err := create()
		if err != nil {
			t.Fatalf("after its silence: %v", err)
		}
		h.finish(first, jobs.RunFailed) // it comes back: the claim is not its own any more
		if _, err := create(); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("the late end of the first run ended the claim of the second: %v", err)
		}
		h.finish(second, jobs.RunFailed)
		if _, err := create(); err != nil {
			t.Error(err)
		}
	})
}
