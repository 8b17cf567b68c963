//go:build !race

package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

func keep(p authority.Principal, runID, name, digest string, size int64) func(tx *store.Tx) (store.RunArtifactRow, error) {
	return func(tx *store.Tx) (store.RunArtifactRow, error) {
		return jobs.PutRunArtifact(tx, p, runID, jobs.RunArtifactRequest{Name: name, SHA256: digest, SizeBytes: size})
	}
}

func look(p authority.Principal, runID, digest string) func(tx *store.Tx) (store.RunArtifactRow, error) {
	return func(tx *store.Tx) (store.RunArtifactRow, error) { return jobs.FindRunArtifact(tx, p, runID, digest) }
}

// A run keeps what its owner gives it, under a name that has one content for
// ever, within bounds; also after its end.
func TestRunArtifacts(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		run, other := h.run(), h.run()
		pack := canon.Digest([]byte("pack"))
		row := get(h, keep(alice, run.ID, jobs.SourcePack, pack, 4))
		if again := get(h, keep(alice, run.ID, jobs.SourcePack, pack, 4)); again != row || row.RunID != run.ID || row.SizeBytes != 4 ||
			row.SHA256 != pack {
			t.Errorf("first %+v, again %+v", row, again)
		}
		if found := get(h, look(alice, run.ID, pack)); found != row {
			t.Errorf("found %+v", found)
		}
		wants(h, reason.Conflict, keep(alice, run.ID, jobs.SourcePack, canon.Digest(nil), 0))
		wants(h, reason.Conflict, keep(alice, run.ID, jobs.SourcePack, pack, 5))
		for _, name := range []string{"", "../x", "/x", "a/../b", "a\x00", "a\\b", "."} {
			wants(h, reason.RequestInvalid, keep(alice, run.ID, name, pack, 4))
		}
		wants(h, reason.RequestInvalid, keep(alice, run.ID, "a", "abc", 4))
		wants(h, reason.RequestInvalid, keep(alice, run.ID, "a", pack, -1))
		wants(h, reason.NotFound, look(alice, other.ID, pack))
		wants(h, reason.NotFound, look(alice, run.ID, canon.Digest(nil)))
		wants(h, reason.NotFound, look(alice, "run_nowhere", pack))
		wants(h, reason.NotFound, look(alice, run.ID, ""))

		wants(h, reason.RequestTooLarge, keep(alice, run.ID, "big", pack, jobs.MaxRunArtifactBytes-3))
		get(h, keep(alice, run.ID, "big", pack, jobs.MaxRunArtifactBytes-4))
		get(h, keep(alice, run.ID, "big", pack, jobs.MaxRunArtifactBytes-4)) // what is there needs no room
		for i := range jobs.MaxRunArtifacts {
			get(h, keep(alice, other.ID, fmt.Sprint("a", i), pack, 0))
		}
		wants(h, reason.RequestTooLarge, keep(alice, other.ID, "one more", pack, 0))

		last := h.run()
		h.do(func(tx *store.Tx) error {
			_, err := jobs.FinishRun(tx, alice, last.ID, jobs.FinishRequest{Status: jobs.RunSucceeded})
			return err
		})
		before := len(h.log(authority.RunStream(last.ID)))
		get(h, keep(alice, last.ID, jobs.BundleZip, pack, 4))
		if after := len(h.log(authority.RunStream(last.ID))); after != before {
			t.Errorf("the sealed log grew from %d to %d", before, after)
		}
	})
}

// No other principal writes; providers that work, or worked, for the run read.
func TestRunArtifactsAreForThoseConcerned(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		pool := h.provider("carol", "p", 2000, true, wide)
		idle := h.enrol("alice", "idle", 1, false) // never switched on
		run, other := h.run(), h.run()
		digest := canon.Digest([]byte("pack"))
		for _, r := range []jobs.Run{run, other} {
			get(h, keep(alice, r.ID, jobs.SourcePack, digest, 4))
		}
		// Not its owner, not its providers, not even with the job on offer.
		h.queued(run, "x")
		for name, p := range map[string]authority.Principal{"another owner": person("bob"), "a provider with the job on offer": daemon(a),
			"a provider of the owner": daemon(idle),
			"a provider of others":    daemon(pool), "a provider without a name": {ID: "provider:", Owner: "alice", Kind: authority.Provider,
				Scopes: []string{authority.ScopeRead}}} {
			if v, err := attempt(h, look(p, run.ID, digest)); reason.CodeOf(err) != reason.NotFound {
				t.Errorf("%s sees %+v, %v", name, v, err)
			}
		}
		wants(h, reason.NotFound, keep(person("bob"), run.ID, "x", digest, 4))
		for name, p := range map[string]authority.Principal{"a provider": daemon(a), "a reader": {ID: "user:alice", Owner: "alice",
			Kind: authority.User, Scopes: []string{authority.ScopeRead, authority.ScopeJobs}}} {
			if _, err := attempt(h, keep(p, run.ID, "x", digest, 4)); reason.CodeOf(err) != reason.ScopeMissing {
				t.Errorf("%s writes: %v", name, err)
			}
			err := h.try(func(tx *store.Tx) error {
				return jobs.MayStore(tx, p, run.ID, jobs.RunArtifactRequest{Name: "x", SHA256: digest})
			})
			if reason.CodeOf(err) != reason.ScopeMissing {
				t.Errorf("%s may write: %v", name, err)
			}
		}
		// The holder of the lease does, and after it is lost, but only of this run.
		h.lease(a)
		get(h, look(daemon(a), run.ID, digest))
		wants(h, reason.NotFound, look(daemon(a), other.ID, digest))
		h.clock.Advance(20 * time.Second)
		if s := h.sweep(); s.Total() == 0 {
			t.Fatalf("the lease was not lost: %+v", s)
		}
		get(h, look(daemon(a), run.ID, digest))
		wants(h, reason.NotFound, look(daemon(idle), run.ID, digest))
		h.beat(pool)
		h.lease(pool)
		get(h, look(daemon(pool), run.ID, digest))
		wants(h, reason.NotFound, look(daemon(idle), run.ID, digest))
	})
}

// What is asked before the body is read says what would be said after it.
func TestMayStore(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		run := h.run()
		pack := canon.Digest([]byte("pack"))
		get(h, keep(alice, run.ID, jobs.SourcePack, pack, 4))
		for _, c := range []struct {
			by   authority.Principal
			ask  jobs.RunArtifactRequest
			code reason.Code
		}{
			{alice, jobs.RunArtifactRequest{Name: "x", SHA256: pack}, ""},
			{alice, jobs.RunArtifactRequest{Name: jobs.SourcePack, SHA256: pack}, ""}, // of unknown size
			{alice, jobs.RunArtifactRequest{Name: jobs.SourcePack, SHA256: canon.Digest(nil)}, reason.Conflict},
			{alice, jobs.RunArtifactRequest{Name: "x", SHA256: pack, SizeBytes: jobs.MaxRunArtifactBytes}, reason.RequestTooLarge},
			{alice, jobs.RunArtifactRequest{Name: "../x", SHA256: pack}, reason.RequestInvalid},
			{person("bob"), jobs.RunArtifactRequest{Name: "x", SHA256: pack}, reason.NotFound},
		} {
			err := h.try(func(tx *store.Tx) error { return jobs.MayStore(tx, c.by, run.ID, c.ask) })
			if reason.CodeOf(err) != c.code {
				t.Errorf("%+v: %v", c.ask, err)
			}
		}
	})
}
