//go:build !race

package jobs_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

func (h *house) append(run jobs.Run, typ, key, payload string) (store.Event, error) {
	return attempt(h, func(tx *store.Tx) (store.Event, error) {
		e, _, err := jobs.AppendEvent(tx, alice, run.ID, jobs.EventRequest{Type: typ, Key: key, Payload: json.RawMessage(payload)})
		return e, err
	})
}

const forge = `{"receipt_type":"ForgeUpdated","payload":{"branch":"b","commit":"c","pr_ref":"patch"}}`

// Every cell of the table of the run: from each state, each event.
func TestRunStates(t *testing.T) {
	const refused = ""
	table := map[jobs.RunState]map[string]jobs.RunState{
		jobs.RunRunning: {"started": jobs.RunRunning, "cancel": jobs.RunCanceling, "succeeded": jobs.RunSucceeded,
			"failed": jobs.RunFailed, "canceled": jobs.RunCanceled},
		jobs.RunCanceling: {"started": refused, "cancel": jobs.RunCanceling, "succeeded": refused, "failed": jobs.RunFailed,
			"canceled": jobs.RunCanceled},
		jobs.RunSucceeded: {"started": refused, "cancel": refused, "succeeded": jobs.RunSucceeded, "failed": refused, "canceled": refused},
		jobs.RunFailed:    {"started": refused, "cancel": refused, "succeeded": refused, "failed": jobs.RunFailed, "canceled": refused},
		jobs.RunCanceled:  {"started": refused, "cancel": refused, "succeeded": refused, "failed": refused, "canceled": jobs.RunCanceled},
	}
	each(t, func(t *testing.T, h *house) {
		for from, row := range table {
			for move, want := range row {
				run := h.run()
				switch from {
				case jobs.RunCanceling:
					if _, err := h.append(run, jobs.EventCancelRequested, "c", `{}`); err != nil {
						t.Fatal(err)
					}
				case jobs.RunSucceeded, jobs.RunFailed, jobs.RunCanceled:
					h.finish(run, from)
				}
				var err error
				switch move {
				case "started":
					_, err = h.append(run, jobs.EventStarted, "again", `{}`)
				case "cancel":
					_, err = h.append(run, jobs.EventCancelRequested, "again", `{}`)
				default:
					_, err = attempt(h, func(tx *store.Tx) (jobs.Run, error) {
						return jobs.FinishRun(tx, alice, run.ID, jobs.FinishRequest{Status: jobs.RunState(move)})
					})
				}
				after := get(h, func(tx *store.Tx) (jobs.Run, error) { return tx.Run(run.ID) })
				switch {
				case want == refused && reason.CodeOf(err) != reason.RunTransition && reason.CodeOf(err) != reason.RunClosed:
					t.Errorf("%s, %s: error %v", from, move, err)
				case want == refused && after.State != string(from):
					t.Errorf("%s, %s: refused, and now %s", from, move, after.State)
				case want != refused && (err != nil || after.State != string(want)):
					t.Errorf("%s, %s: now %s, error %v, want %s", from, move, after.State, err, want)
				}
			}
		}
	})
}

// A run that ended takes nothing more, but repeats what it took before.
func TestSealedRunReplays(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		run := h.run()
		first, err := h.append(run, "receipt", "forge-updated", forge)
		if err != nil {
			t.Fatal(err)
		}
		h.finish(run, jobs.RunSucceeded)
		h.finish(run, jobs.RunSucceeded)
		again, err := h.append(run, "receipt", "forge-updated", forge)
		if err != nil || again.ID != first.ID {
			t.Errorf("the repeat got %+v, %v", again, err)
		}
		if _, err := h.append(run, "receipt", "forge-updated",
			`{"receipt_type":"ForgeUpdateSkipped","payload":{"reason":"x"}}`); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("other content under the key: %v", err)
		}
		if _, err := h.append(run, "note", "n", `{"text":"late"}`); reason.CodeOf(err) != reason.RunClosed {
			t.Errorf("append after the end: %v", err)
		}
		wants(h, reason.RunClosed, func(tx *store.Tx) (jobs.Dispatched, error) {
			return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("x")})
		})
		keys := h.log(authority.RunStream(run.ID))
		if keys[len(keys)-1] != "run-finished" {
			t.Errorf("log ends with %q", keys)
		}
	})
}

// What a client may write is a short list, and no key of the authority's.
func TestClientEvents(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		run := h.run()
		tests := []struct {
			name, typ, key, payload string
			want                    reason.Code
		}{
			{"a note", "note", "n1", `{"text":"hello"}`, ""},
			{"a tool call", "tool", "t1", `{"tool":"x","params_hash":"a","output_hash":"b","latency_ms":3,"side_effects":[]}`, ""},
			{"a tool call without a hash", "tool", "t2", `{"tool":"x","output_hash":"b","latency_ms":3}`, reason.RequestInvalid},
			{"the forge", "receipt", "forge-updated", forge, ""},
			{"the forge without a commit", "receipt", "f2", `{"receipt_type":"ForgeUpdated","payload":{"branch":"b","pr_ref":"p"}}`,
				reason.RequestInvalid},
			{"a payment", "payment", "p", `{"amount_msats":1}`, reason.Forbidden},
			{"a verification", "verification", "v", `{"exit_code":0}`, reason.Forbidden},
			{"a receipt of a payment", "receipt", "r", `{"receipt_type":"PaymentReleased","payload":{}}`, reason.Forbidden},
			{"a verdict", "receipt", "r", `{"receipt_type":"VerificationPassed","payload":{}}`, reason.Forbidden},
			{"a dispatch", "receipt", "r", `{"receipt_type":"JobDispatched","payload":{}}`, reason.Forbidden},
			{"an end by the side door", "run.finished", "r", `{"status":"succeeded"}`, reason.Forbidden},
			{"the key of a payment", "note", "payment:x:released", `{"text":"squat"}`, reason.Forbidden},
			{"the key of a verdict", "note", "verify:x", `{"text":"squat"}`, reason.Forbidden},
			{"no key", "note", "", `{"text":"x"}`, reason.RequestInvalid},
			{"a blank key", "note", " ", `{"text":"x"}`, reason.RequestInvalid},
			{"no object", "note", "k", `[]`, reason.RequestInvalid},
			{"a fraction", "note", "k", `{"text":"x","n":1.5}`, reason.RequestInvalid},
			{"a receipt with more in it", "receipt", "k", `{"receipt_type":"ForgeUpdateSkipped","payload":{"reason":"x"},"principal":"root"}`,
				reason.RequestInvalid},
		}
		for _, test := range tests {
			if _, err := h.append(run, test.typ, test.key, test.payload); reason.CodeOf(err) != test.want || test.want == "" && err != nil {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
		}
		wrong := int64(1)
		wants(h, reason.PreconditionFailed, func(tx *store.Tx) (store.Event, error) {
			e, _, err := jobs.AppendEvent(tx, alice, run.ID, jobs.EventRequest{Type: "note", Key: "s",
				Payload: json.RawMessage(`{"text":"x"}`), ExpectedPreviousSeq: &wrong})
			return e, err
		})
		// The key is looked up before the sequence number.
		if _, _, err := func() (e store.Event, c bool, err error) {
			err = h.try(func(tx *store.Tx) error {
				e, c, err = jobs.AppendEvent(tx, alice, run.ID, jobs.EventRequest{Type: "note", Key: "n1",
					Payload: json.RawMessage(`{"text":"hello"}`), ExpectedPreviousSeq: &wrong})
				return err
			})
			return e, c, err
		}(); err != nil {
			t.Errorf("a repeat with an old sequence number: %v", err)
		}
	})
}

// No principal sees or moves what belongs to another, and a provider settles
// nothing.
func TestWrongOwner(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		other := h.provider("bob", "b", 1000, false, wide)
		bob := person("bob")
		run := h.run()
		j := h.queued(run, "x")
		l := h.lease(a)
		h.refusals(bob, other, run, l)
		h.complete(a, l, reply(j, job.Success, 0))
		wants(h, reason.NotFound, func(tx *store.Tx) (jobs.Settlement, error) { s, _, err := jobs.Settle(tx, bob, j.ID); return s, err })
		wants(h, reason.ScopeMissing, func(tx *store.Tx) (jobs.Settlement, error) {
			s, _, err := jobs.Settle(tx, daemon(a), j.ID)
			return s, err
		})
		wants(h, reason.Unauthenticated, func(tx *store.Tx) (jobs.Run, error) {
			return jobs.CreateRun(tx, authority.Principal{}, jobs.RunRequest{RepoRef: "x"})
		})
		h.settle(j.ID)
		h.expect(j.ID, jobs.Settled, 0, 1000)
	})
}

func (h *house) refusals(bob authority.Principal, other registry.Provider, run jobs.Run, l jobs.Lease) {
	h.t.Helper()
	id := l.Job.ID
	for name, fn := range map[string]func(tx *store.Tx) error{
		"find run":     func(tx *store.Tx) error { _, err := jobs.FindRun(tx, bob, run.ID); return err },
		"find job":     func(tx *store.Tx) error { _, err := jobs.Find(tx, bob, id); return err },
		"list jobs":    func(tx *store.Tx) error { _, err := jobs.List(tx, bob, run.ID, "", 9); return err },
		"cancel job":   func(tx *store.Tx) error { _, err := jobs.Cancel(tx, bob, id); return err },
		"cancel run":   func(tx *store.Tx) error { _, err := jobs.CancelRun(tx, bob, run.ID, ""); return err },
		"read the log": func(tx *store.Tx) error { _, err := jobs.Log(tx, bob, id, "stdout", 0, 9); return err },
		"disable":      func(tx *store.Tx) error { _, err := jobs.Disable(tx, bob, l.Job.ProviderID, ""); return err },
		"finish run": func(tx *store.Tx) error {
			_, err := jobs.FinishRun(tx, bob, run.ID, jobs.FinishRequest{Status: jobs.RunFailed})
			return err
		},
		"append": func(tx *store.Tx) error {
			_, _, err := jobs.AppendEvent(tx, bob, run.ID, jobs.EventRequest{Type: "note", Key: "k", Payload: json.RawMessage(`{"text":"x"}`)})
			return err
		},
		"dispatch": func(tx *store.Tx) error {
			_, err := jobs.Dispatch(tx, bob, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("y")})
			return err
		},
		"renew with the fence": func(tx *store.Tx) error {
			_, err := jobs.Renew(tx, daemon(other), id, jobs.RenewRequest{Fence: l.Fence})
			return err
		},
		"complete with the fence": func(tx *store.Tx) error {
			_, err := jobs.Complete(tx, daemon(other), id, jobs.CompleteRequest{Fence: l.Fence, Response: reply(l.Job, job.Success, 0)})
			return err
		},
	} {
		if err := h.try(fn); reason.CodeOf(err) != reason.NotFound {
			h.t.Errorf("%s: %v", name, err)
		}
	}
	if list := h.leases(other, 5); len(list) != 0 {
		h.t.Errorf("a stranger's provider leased %d jobs", len(list))
	}
}

// An issue has one worker at a time.
func TestClaims(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		second := person("alice")
		second.ID = "user:alice:laptop"
		claim := func(p authority.Principal, issue string) (jobs.Claim, error) {
			return attempt(h, func(tx *store.Tx) (jobs.Claim, error) {
				return jobs.ClaimIssue(tx, p, jobs.ClaimRequest{RepoRef: "r", IssueRef: issue})
			})
		}
		create := func(p authority.Principal) (jobs.Run, error) {
			return attempt(h, func(tx *store.Tx) (jobs.Run, error) {
				return jobs.CreateRun(tx, p, jobs.RunRequest{RepoRef: "r", IssueRef: "7"})
			})
		}
		c, err := claim(alice, "7")
		if err != nil || c.Identity != alice.ID {
			t.Fatalf("claim %+v, %v", c, err)
		}
		if again, err := claim(alice, "7"); err != nil || again.ID != c.ID {
			t.Errorf("again %+v, %v", again, err)
		}
		if _, err := claim(second, "7"); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("a second claim: %v", err)
		}
		if _, err := claim(person("bob"), "7"); err != nil {
			t.Errorf("another owner's issue: %v", err)
		}
		run, err := create(alice)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := create(alice); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("a second run: %v", err)
		}
		h.finish(run, jobs.RunFailed)
		h.clock.Advance(time.Second)
		if _, err := create(second); err != nil {
			t.Errorf("after the first run: %v", err)
		}
		if _, err := claim(alice, "8"); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(jobs.ClaimTTL)
		if _, err := claim(second, "8"); err != nil {
			t.Errorf("after the claim's end: %v", err)
		}
		if n := len(h.receipts(authority.AccountStream("alice"))["IssueClaimed"]); n != 4 {
			t.Errorf("%d receipts", n)
		}
	})
}

// Canceling is a change of state: a late request is refused.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.provider("alice", "a", 1000, false, wide)
		run := h.run()
		queued, running, handed := h.queued(run, "1"), h.queued(run, "2"), h.queued(run, "3")
		byID := map[string]jobs.Lease{}
		for _, l := range h.leases(a, 1) {
			byID[l.Job.ID] = l
		}
		cancel := func(id string) error {
			_, err := attempt(h, func(tx *store.Tx) (jobs.Job, error) { return jobs.Cancel(tx, alice, id) })
			return err
		}
		for _, l := range h.leases(a, 2) {
			byID[l.Job.ID] = l
		}
		h.complete(a, byID[handed.ID], reply(handed, job.Success, 0))
		if err := cancel(handed.ID); reason.CodeOf(err) != reason.Conflict {
			t.Errorf("cancel what was handed in: %v", err)
		}
		for range 2 {
			if err := cancel(running.ID); err != nil {
				t.Fatal(err)
			}
		}
		wants(h, reason.JobClosed, func(tx *store.Tx) (jobs.Lease, error) {
			return jobs.Renew(tx, daemon(a), running.ID, jobs.RenewRequest{Fence: byID[running.ID].Fence})
		})
		wants(h, reason.Conflict, func(tx *store.Tx) (jobs.Run, error) {
			return jobs.FinishRun(tx, alice, run.ID, jobs.FinishRequest{Status: jobs.RunSucceeded})
		})
		canceling := get(h, func(tx *store.Tx) (jobs.Run, error) { return jobs.CancelRun(tx, alice, run.ID, "enough") })
		if canceling.State != string(jobs.RunCanceling) {
			t.Errorf("run is %s", canceling.State)
		}
		wants(h, reason.RunTransition, func(tx *store.Tx) (jobs.Dispatched, error) {
			return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("4")})
		})
		h.expect(queued.ID, jobs.Canceled, 1000, 0)
		h.finish(run, jobs.RunCanceled)
		h.expect(handed.ID, jobs.Settled, 0, 1000) // the work was done
		if n := len(h.receipts(authority.RunStream(run.ID))["PaymentWithheld"]); n != 2 {
			t.Errorf("%d payments withheld", n)
		}
	})
}

// A budget that is too small rejects the dispatch, on the record, and holds nothing.
func TestBudget(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.provider("alice", "a", funds-500, false, wide)
		run := h.run()
		h.queued(run, "1")
		for i := range 2 {
			d := h.dispatch(run, ask("2"))
			if d.Rejected == nil || d.Rejected.Code != reason.InsufficientBudget || d.Job.ID != "" {
				t.Fatalf("dispatch %+v", d)
			}
			if n := len(h.receipts(authority.RunStream(run.ID))["JobRejected"]); n != i+1 {
				t.Errorf("%d rejections", n)
			}
		}
		if r, s := h.money(); r != funds-500 || s != 0 {
			t.Errorf("reserved %d, spent %d", r, s)
		}
		h.do(func(tx *store.Tx) error {
			_, err := jobs.Cancel(tx, alice, h.first(tx, run))
			return err
		})
		// The same job, now that there is money.
		if d := h.dispatch(run, ask("2")); !d.Created {
			t.Errorf("dispatch %+v", d)
		}
		limited := get(h, func(tx *store.Tx) (jobs.Dispatched, error) {
			return jobs.Dispatch(tx, alice, run.ID, jobs.DispatchRequest{JobType: job.SandboxRun, Request: ask("3"), MaxPriceMsats: 5})
		})
		if limited.Rejected == nil || limited.Rejected.Code != reason.NoProvider {
			t.Errorf("above the price limit: %+v", limited)
		}
	})
}

func (h *house) first(tx *store.Tx, run jobs.Run) string {
	list, err := tx.JobsOfRun(run.ID, "", 1)
	if err != nil || len(list) == 0 {
		panic(fmt.Sprint("no job: ", err))
	}
	return list[0].ID
}
