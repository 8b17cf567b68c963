//go:build !race

package jobs_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/metrics"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

// Messages of a provider may come twice and in any order.
func TestDuplicatedAndReordered(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		j := h.queued(run, "x")
		l := h.lease(a)
		renew := func() jobs.Lease {
			return get(h, func(tx *store.Tx) (jobs.Lease, error) {
				return jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: l.Fence, TTL: 60 * time.Second})
			})
		}
		far := renew()
		short := get(h, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: l.Fence, TTL: 5 * time.Second})
		})
		if short.LeaseUntil != far.LeaseUntil || far.LeaseUntil <= l.LeaseUntil || short.RenewEvery != 5*time.Second/3 {
			t.Errorf("an older renewal shortened the lease: %+v after %+v", short, far)
		}
		response := reply(j, job.Success, 0)
		first := h.complete(a, l, response)
		before := len(h.log(authority.RunStream(run.ID)))
		spaced := json.RawMessage(strings.ReplaceAll(string(response), ",", " , "))
		if again := h.complete(a, l, spaced); again.Revision != first.Revision {
			t.Error("a repeated completion changed the job")
		}
		wants(h, reason.Conflict, func(tx *store.Tx) (jobs.Job, error) {
			return jobs.Complete(tx, daemon(a), j.ID, jobs.CompleteRequest{Fence: l.Fence, Response: reply(j, job.Failed, 1)})
		})
		wants(h, reason.JobClosed, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: l.Fence})
		})
		h.settle(j.ID)
		if again := h.complete(a, l, response); jobs.State(again.State) != jobs.Settled {
			t.Errorf("a repeat after the end got %s", again.State)
		}
		if n := len(h.log(authority.RunStream(run.ID))) - before; n != 4 {
			t.Errorf("%d events beside the settlement", n-4)
		}
		h.clock.Advance(time.Hour)
		if s := h.sweep(); s.Total() != 0 {
			t.Errorf("a settled job was swept: %+v", s)
		}
	})
}

// What a response announces must have been received, as announced.
func TestArtifacts(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		j := h.queued(h.run(), "x")
		l := h.lease(a)
		digest := canon.Digest([]byte("out"))
		with := func(size string) json.RawMessage {
			r := string(reply(j, job.Success, 0))
			return json.RawMessage(strings.Replace(r, `"status"`,
				`"artifacts":[{"path":"logs/out","sha256":"`+digest+`","size_bytes":`+size+`}],"status"`, 1))
		}
		complete := func(r json.RawMessage) func(tx *store.Tx) (jobs.Job, error) {
			return func(tx *store.Tx) (jobs.Job, error) {
				return jobs.Complete(tx, daemon(a), j.ID, jobs.CompleteRequest{Fence: l.Fence, Response: r})
			}
		}
		put := func(name, sha string, size int64) func(tx *store.Tx) (store.ArtifactRow, error) {
			return func(tx *store.Tx) (store.ArtifactRow, error) {
				return jobs.PutArtifact(tx, daemon(a), j.ID, jobs.ArtifactRequest{Fence: l.Fence, Name: name, SHA256: sha, SizeBytes: size})
			}
		}
		wants(h, reason.DigestMismatch, complete(with("3")))
		for range 2 {
			get(h, put("logs/out", digest, 3))
		}
		wants(h, reason.Conflict, put("logs/out", canon.Digest(nil), 3))
		wants(h, reason.RequestInvalid, put("../out", digest, 3))
		wants(h, reason.RequestInvalid, put("/out", digest, 3))
		wants(h, reason.RequestInvalid, put("out", "abc", 3))
		wants(h, reason.RequestTooLarge, put("big", digest, jobs.MaxArtifactBytes))
		wants(h, reason.DigestMismatch, complete(with("4")))
		wants(h, reason.JobInvalid, complete(json.RawMessage(`{"status":"success"}`)))
		wants(h, reason.RequestInvalid, complete(json.RawMessage(`{"status":`)))
		foreign := strings.Replace(string(with("3")), a.ID, "prv_other", 1)
		wants(h, reason.RequestInvalid, complete(json.RawMessage(foreign)))
		get(h, complete(with("3")))
		if s := h.settle(j.ID); !s.Passed {
			t.Errorf("settlement %+v", s)
		}
		wants(h, reason.JobClosed, put("late", digest, 3))
	})
}

// A stream of output has no gaps and no two versions.
func TestLog(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		j := h.queued(h.run(), "x")
		l := h.lease(a)
		log := func(stream string, offset int64, text string) func(tx *store.Tx) (int64, error) {
			return func(tx *store.Tx) (int64, error) {
				return jobs.AppendLog(tx, daemon(a), j.ID, jobs.LogRequest{Fence: l.Fence, Stream: stream, Offset: offset, Text: text})
			}
		}
		get(h, log("stdout", 0, "hällo"))
		get(h, log("stdout", 6, "world"))
		get(h, log("stderr", 0, "oh"))
		if n := get(h, log("stdout", 0, "hällo")); n != 11 {
			t.Errorf("length %d after a repeat", n)
		}
		wants(h, reason.Conflict, log("stdout", 12, "gap"))
		wants(h, reason.Conflict, log("stdout", 0, "other"))
		wants(h, reason.Conflict, log("stdout", 3, "lo"))
		wants(h, reason.RequestInvalid, log("tty", 0, "x"))
		wants(h, reason.RequestInvalid, log("stdout", 11, ""))
		wants(h, reason.StaleFence, func(tx *store.Tx) (int64, error) {
			return jobs.AppendLog(tx, daemon(a), j.ID, jobs.LogRequest{Fence: l.Fence - 1, Stream: "stdout", Text: "x"})
		})
		chunks := get(h, func(tx *store.Tx) ([]store.LogChunk, error) { return jobs.Log(tx, alice, j.ID, "stdout", 0, 10) })
		if len(chunks) != 2 || string(chunks[0].Body)+string(chunks[1].Body) != "hälloworld" {
			t.Errorf("chunks %+v", chunks)
		}
	})
}

// The proof that caps held tells the truth, whichever way.
func TestCapsNotHeld(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		stories := []struct{ name, from, to, exceeded, missing string }{
			{"honest", "", "", "[]", "[]"},
			{"what was written is memory too", `"peak_memory_bytes":1000`, `"peak_memory_bytes":600000000`, "[]", "[]"},
			{"more than both", `"peak_memory_bytes":1000`, `"peak_memory_bytes":700000000`, "[memory]", "[]"},
			{"a closed network", `"wall_ms":10`, `"wall_ms":10,"network_bytes":1`, "[network]", "[]"},
			{"an open one", `"network":"none"`, `"network":"full"`, "[caps.network]", "[]"},
			{"memory", `"memory_mb":512`, `"memory_mb":9999`, "[caps.memory_mb]", "[]"},
			{"disk", `"disk_mb":100`, `"disk_mb":1001`, "[caps.disk_mb]", "[]"},
			{"processes", `"pids":64`, `"pids":512`, "[caps.pids]", "[]"},
			{"disk and processes were not held", `"disk_mb":100,"pids":64`, `"disk_mb":0,"pids":0`, "[]", "[disk_mb pids]"},
			{"no word about the network", `,"network":"none"`, ``, "[]", "[network]"},
		}
		for i, r := range stories {
			j := h.queued(run, string(rune('a'+i)))
			text := strings.Replace(string(reply(j, job.Success, 0)), r.from, r.to, 1)
			if r.to != "" && !strings.Contains(text, r.to) {
				t.Fatalf("%s: nothing was changed", r.name)
			}
			h.complete(a, h.lease(a), json.RawMessage(text))
			h.settle(j.ID)
		}
		got := h.receipts(authority.RunStream(run.ID))["CapsEnforced"]
		if len(got) != len(stories) {
			t.Fatalf("%d receipts", len(got))
		}
		for i, r := range stories {
			if fmt.Sprint(got[i]["exceeded"]) != r.exceeded || fmt.Sprint(got[i]["not_enforced"]) != r.missing ||
				got[i]["within"] != (r.exceeded == "[]" && r.missing == "[]") {
				t.Errorf("%s: %v", r.name, got[i])
			}
		}
		if m := metrics.Compute(h.events(authority.RunStream(run.ID))); m.CapsEnforced.Holds == nil || *m.CapsEnforced.Holds ||
			m.CapsEnforced.Proven != 2 {
			t.Errorf("the metrics say %+v", m.CapsEnforced)
		}
	})
}

// TestGrantedCaps: a job gets what it asks for and the owner's cap of all else,
// and is judged by what it got, whatever the owner says while it runs.
func TestGrantedCaps(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		j := h.queued(run, "x")
		l := h.lease(a)
		want := job.CapsApplied{CPUMillis: 1000, MemoryMB: 512, DiskMB: 1000, Pids: 256, TimeoutSecs: 60, Network: job.NetworkNone}
		if l.Caps == nil || *l.Caps != want {
			t.Fatalf("granted %+v", l.Caps)
		}
		narrow := wide
		narrow.DiskMB, narrow.Pids = 10, 16
		get(h, func(tx *store.Tx) (registry.Provider, error) { return registry.SetCaps(tx, alice, a.ID, narrow, nil) })
		held := get(h, func(tx *store.Tx) ([]jobs.Lease, error) { return jobs.Held(tx, daemon(a)) })
		renewed := get(h, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), j.ID, jobs.RenewRequest{Fence: l.Fence})
		})
		if len(held) != 1 || *held[0].Caps != want || *renewed.Caps != want {
			t.Errorf("later it is %+v and %+v", held, renewed)
		}
		h.complete(a, l, reply(j, job.Success, 0))
		if c := h.receipts(authority.RunStream(run.ID))["CapsEnforced"][0]; c["within"] != true || c["caps_revision"] != 1.0 {
			t.Errorf("judged by caps that came later: %v", c)
		}
		h.queued(run, "y")
		if l := h.lease(a); l.Caps.DiskMB != 10 || l.Caps.Pids != 16 {
			t.Errorf("the next one gets %+v", l.Caps)
		}
	})
}
