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
	ID     string `json:"reservation_id"`
	Run    string `json:"run_id"`
	Job    string `json:"job_id"`
	Amount int64  `json:"amount_msats"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

func (v *vignette) books(ctx context.Context, as caller, owner string) (books, error) {
	var b books
	path := "/v1/treasury/summary"
	if owner != "" {
		path += "?owner=" + owner
	}
	_, err := v.nexus.get(ctx, as, path, &b)
	return b, err
}

// spent is what the user's budget has paid.
func (v *vignette) spent(ctx context.Context) (int64, error) {
	b, err := v.books(ctx, v.alice, "")
	for _, a := range b.Accounts {
		if a.ID == v.account {
			return a.Spent, err
		}
	}
	return 0, err
}

// earned is what providers have earned, by id.
func (v *vignette) earned(ctx context.Context, providers ...*provider) (map[string]int64, error) {
	out := map[string]int64{}
	for _, p := range providers {
		b, err := v.books(ctx, p.owner, "")
		if err != nil {
			return nil, err
		}
		for _, a := range b.Accounts {
			if a.Holder == p.id {
				out[p.id] = a.Earned
			}
		}
	}
	return out, nil
}

// stuck shows that a reservation which is not resolved does not lock the budget:
// reconciliation gives the money back, once.
func (v *vignette) stuck(ctx context.Context, s *step) error {
	w, err := v.begin(ctx, "stuck", forLong, order{})
	if err != nil {
		return err
	}
	held, err := v.books(ctx, v.alice, "")
	if err != nil {
		return err
	}
	s.equal("while the job runs, its price is held", held.Totals.ReservedMsats, v.a.price)
	type outcome struct {
		Expired int64         `json:"expired_reservations"`
		Freed   int64         `json:"freed_msats_total"`
		Updated []reservation `json:"updated_jobs"`
	}
	reconcile := func(o *outcome) error {
		ask := request{as: v.admin, method: http.MethodPost, path: "/v1/treasury/reconcile", key: newKey(), body: object{"max_age_seconds": 1}}
		_, err := v.nexus.do(ctx, ask, http.StatusOK, o)
		return err
	}
	var first, second outcome
	waiting, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	if err := until(waiting, "the reservation is a second old", func() bool {
		return reconcile(&first) != nil ||
			first.Expired > 0
	}); err != nil {
		return err
	}
	s.ok(first.Expired == 1 && first.Freed == v.a.price && len(first.Updated) == 1 && first.Updated[0].ID == w.job.ReservationID,
		"older than its time, the reservation is withheld", first)
	if err := reconcile(&second); err != nil {
		return err
	}
	s.ok(second.Expired == 0 && second.Freed == 0, "a second reconciliation finds nothing", second)
	v.tally.withheld += v.a.price
	freed, err := v.books(ctx, v.alice, "")
	if err != nil {
		return err
	}
	s.equal("the budget is free again", freed.Totals.ReservedMsats, int64(0))
	if err := v.nexus.refused(ctx, s, "settling it later is refused", v.settle(w.job.ID, "settle-stuck"), http.StatusConflict,
		"reservation_expired"); err != nil {
		return err
	}
	s.succeeds("what the job ran is killed", w.dies(ctx))
	hash := w.job.Hash
	events, err := v.closeRun(ctx, s, w.run, "failed", union(createdKeys(), dispatchedKeys(v.a, hash, 1),
		[]string{leasedKey(hash, w.fence), "job-expired:" + hash},
		paidKeys(hash, "withheld")))
	if err != nil {
		return err
	}
	s.receipts(events, []shape{
		{"PaymentWithheld", []field{{"job_hash", is(hash)}, {"amount_msats", is(0)}, {"reserved_msats", is(v.a.price)},
			{"reason", is("reservation_expired")},
			{"reservation_id", is(w.job.ReservationID)}}},
		{"JobFailed", []field{{"job_hash", is(hash)}, {"state", is("expired")}, {"reason", is("reservation_expired")}}},
	})
	return nil
}

// balance holds the books against the logs of all runs and against what the
// settlements have said.
func (v *vignette) balance(ctx context.Context, s *step, logs map[string][]event) error {
	users, err := v.books(ctx, v.alice, "")
	if err != nil {
		return err
	}
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
	earned, err := v.earned(ctx, v.a, v.b)
	if err != nil {
		return err
	}
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
	return nil
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
