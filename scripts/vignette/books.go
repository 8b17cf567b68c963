package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// books are what an owner sees of the treasury.
type books struct {
	Accounts []struct {
		ID        string `json:"account_id"`
		Holder    string `json:"holder"`
		Kind      string `json:"kind"`
		Funded    int64  `json:"funded"`
		Reserved  int64  `json:"reserved"`
		Spent     int64  `json:"spent"`
		Earned    int64  `json:"earned"`
		Remaining int64  `json:"remaining"`
	} `json:"accounts"`
	Totals struct {
		ReservedMsats int64 `json:"reserved_msats"`
		ReleasedMsats int64 `json:"released_msats"`
		WithheldMsats int64 `json:"withheld_msats"`
	} `json:"totals"`
	Jobs     []reservation `json:"recent_jobs"`
	ReadOnly string        `json:"read_only"`
}

// reservation is money that is or was held for a job.
type reservation struct {
	ID string `json:"reservation_id"`
}

func (v *vignette) books(ctx context.Context, as caller) (b books) {
	v.nexus.get(ctx, as, "/v1/treasury/summary", &b)
	return b
}

// spent is what the user's budget has paid.
func (v *vignette) spent(ctx context.Context) int64 {
	for _, a := range v.books(ctx, v.alice).Accounts {
		if a.ID == v.account {
			return a.Spent
		}
	}
	return 0
}

// earned is what providers have earned, by id.
func (v *vignette) earned(ctx context.Context, providers ...*provider) map[string]int64 {
	out := map[string]int64{}
	for _, p := range providers {
		for _, a := range v.books(ctx, p.owner).Accounts {
			if a.Holder == p.id {
				out[p.id] = a.Earned
			}
		}
	}
	return out
}

// stuck shows that a reservation which is not resolved does not lock the budget:
// reconciliation gives the money back, once.
func (v *vignette) stuck(ctx context.Context, s *step) {
	w := v.begin(ctx, "stuck", forLong, order{})
	s.equal("while the job runs, its price is held", v.books(ctx, v.alice).Totals.ReservedMsats, v.a.price)
	type outcome struct {
		Expired int64         `json:"expired_reservations"`
		Freed   int64         `json:"freed_msats_total"`
		Updated []reservation `json:"updated_jobs"`
	}
	reconcile := func() (o outcome) {
		v.nexus.do(ctx, v.admin.post("/v1/treasury/reconcile", newKey(), object{"max_age_seconds": 1}), http.StatusOK, &o)
		return o
	}
	var first outcome
	must(until(ctx, "the reservation is a second old", func() bool {
		first = reconcile()
		return first.Expired > 0
	}))
	s.ok(first.Expired == 1 && first.Freed == v.a.price && len(first.Updated) == 1 && first.Updated[0].ID == w.job.ReservationID,
		"older than its time, the reservation is withheld", first)
	second := reconcile()
	s.ok(second.Expired == 0 && second.Freed == 0, "a second reconciliation finds nothing", second)
	v.tally.withheld += v.a.price
	s.equal("the budget is free again", v.books(ctx, v.alice).Totals.ReservedMsats, int64(0))
	v.nexus.refused(ctx, s, "settling it later is refused", v.settle(w.job.ID, "settle-stuck"), http.StatusConflict,
		"reservation_expired")
	s.succeeds("what the job ran is killed", w.dies(ctx))
	hash := w.job.Hash
	events := v.closeRun(ctx, s, w.run, "failed", leasedKeys(v.a, hash, 1, w.fence),
		[]string{"job-expired:" + hash}, paidKeys(hash, "withheld"))
	s.receipts(events, []shape{
		one("PaymentWithheld", "job_hash", hash, "amount_msats", 0, "reserved_msats", v.a.price, "reason", "reservation_expired",
			"reservation_id", w.job.ReservationID),
		one("JobFailed", "job_hash", hash, "state", "expired", "reason", "reservation_expired"),
	})
}

// balance holds the books against the logs of all runs and against what the
// settlements have said.
func (v *vignette) balance(ctx context.Context, s *step, logs map[string][]event) {
	users := v.books(ctx, v.alice)
	reserved, released, withheld := v.moneyOf(logs)
	s.none("each reservation in the logs is resolved, once", unresolved(reserved, released, withheld))
	s.ok(users.Totals.ReleasedMsats == total(released) && total(v.tally.released) == total(released),
		"the books, the logs and the settlements agree on what was released", users.Totals.ReleasedMsats, total(released), v.tally.released)
	s.ok(users.Totals.WithheldMsats == total(withheld) && v.tally.withheld == total(withheld),
		"and on what was withheld", users.Totals.WithheldMsats, total(withheld), v.tally.withheld)
	s.equal("nothing is reserved any more", users.Totals.ReservedMsats, int64(0))
	s.equal("the books are open", users.ReadOnly, "")
	for _, a := range users.Accounts {
		if a.ID == v.account {
			s.ok(a.Funded == budget && a.Spent == total(released) && a.Reserved == 0 && a.Remaining == a.Funded-a.Spent,
				"the budget is what was funded, less what was released", fmt.Sprintf("%+v", a))
		}
	}
	earned := v.earned(ctx, v.a, v.b)
	for _, p := range []*provider{v.a, v.b} {
		s.ok(earned[p.id] == v.tally.released[p.id] && earned[p.id] > 0, p.name+" has earned what was released to it", earned[p.id],
			v.tally.released[p.id])
	}
	s.equal("debits equal credits: what the budget spent is what the providers earned", total(earned), total(released))
	var listed []string
	for _, r := range users.Jobs {
		listed = append(listed, r.ID)
	}
	s.exactly("the treasury lists exactly these reservations", listed, slices.Collect(maps.Keys(reserved)))
}

// moneyOf reads the reservations out of logs: what was reserved, and how each
// ended, in msats by reservation.
func (v *vignette) moneyOf(logs map[string][]event) (reserved, released, withheld map[string]int64) {
	reserved, released, withheld = map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, events := range logs {
		for _, e := range events {
			r, ok := e.receipt()
			id := text(r.Payload, "reservation_id")
			switch {
			case !ok:
			case r.Type == "BudgetReserved":
				reserved[id] += number(r.Payload, "amount_msats")
			case r.Type == "PaymentReleased":
				released[id] += number(r.Payload, "amount_msats")
			case r.Type == "PaymentWithheld":
				withheld[id] += number(r.Payload, "reserved_msats")
			}
		}
	}
	return reserved, released, withheld
}

// unresolved lists reservations that ended never, twice, or with another sum.
func unresolved(reserved, released, withheld map[string]int64) (odd []string) {
	for id, amount := range reserved {
		in, out := released[id], withheld[id]
		if in+out != amount || in != 0 && out != 0 {
			odd = append(odd, fmt.Sprintf("%s: reserved %d, released %d, withheld %d", id, amount, in, out))
		}
	}
	for id := range released {
		if _, known := reserved[id]; !known {
			odd = append(odd, id+": released without a reservation")
		}
	}
	return odd
}
