//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/proof/record"
)

// runLog is what the log of a run says about its one job.
type runLog struct {
	reserved   map[string]int64    // by reservation: the amount
	receipts   map[string][]string // by reservation: the receipts of how it ended
	payments   map[string][]string // by reservation: the payment events
	amounts    map[string]int64    // by reservation: what was paid
	reasons    map[string]string   // by reservation: why nothing was
	dispatched int
	fallbacks  int
	verdicts   []record.Receipt
}

// fold reads a log from its first event and says what is wrong with its form.
func fold(events []api.Event) (l runLog, wrong []string) {
	l = runLog{reserved: map[string]int64{}, receipts: map[string][]string{}, payments: map[string][]string{}, amounts: map[string]int64{}, reasons: map[string]string{}}
	keys := map[string]bool{}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			wrong = append(wrong, fmt.Sprintf("%s: event %d stands at place %d", e.StreamID, e.Seq, i+1))
		}
		key := api.Value(e.IdempotencyKey)
		if key != "" && keys[key] {
			wrong = append(wrong, fmt.Sprintf("%s: the key %s is there twice", e.StreamID, key))
		}
		keys[key] = true
		wrong = append(wrong, l.add(e)...)
	}
	return l, wrong
}

// add takes in one event.
func (l *runLog) add(e api.Event) (wrong []string) {
	var money struct {
		Reservation string `json:"reservation_id"`
		Amount      int64  `json:"amount_msats"`
		Reason      string `json:"reason"`
		Status      string `json:"status"`
		Proof       struct {
			Reservation string `json:"reservation_id"`
		} `json:"payment_proof"`
	}
	bad := func(err error) []string {
		return []string{fmt.Sprintf("%s: event %d: %v", e.StreamID, e.Seq, err)}
	}
	if e.EventType == "payment" {
		if err := json.Unmarshal(e.Payload, &money); err != nil {
			return bad(err)
		}
		l.payments[money.Proof.Reservation] = append(l.payments[money.Proof.Reservation], money.Status)
	}
	if e.EventType != authority.EventReceipt {
		return nil
	}
	var r record.Receipt
	if err := json.Unmarshal(e.Payload, &r); err != nil {
		return bad(err)
	}
	if !r.Sealed() {
		wrong = bad(fmt.Errorf("the receipt %s does not have its digest", r.Type))
	}
	if err := json.Unmarshal(r.Payload, &money); err != nil {
		return append(wrong, bad(err)...)
	}
	switch r.Type {
	case record.BudgetReserved:
		if _, twice := l.reserved[money.Reservation]; twice {
			wrong = append(wrong, bad(fmt.Errorf("%s was reserved before", money.Reservation))...)
		}
		l.reserved[money.Reservation] = money.Amount
	case record.PaymentReleased, record.PaymentWithheld:
		l.receipts[money.Reservation] = append(l.receipts[money.Reservation], r.Type)
		l.amounts[money.Reservation], l.reasons[money.Reservation] = money.Amount, money.Reason
	case record.JobDispatched:
		l.dispatched++
	case record.FallbackProviderUsed:
		l.fallbacks++
	case record.VerificationPassed, record.VerificationFailed:
		l.verdicts = append(l.verdicts, r)
	}
	return wrong
}

// jobOf holds the log, the job and the run as they are read now against what
// was acknowledged of them.
func (f *fire) jobOf(ctx context.Context, a *accepted) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("job %s of unit %s, %s: ", a.job.JobID, a.unit, a.fate)+fmt.Sprintf(format, args...))
	}
	var run api.Run
	var now api.Job
	jobs, err1 := pages[api.Job](ctx, f.owner, "/v1/runs/"+a.run.RunID+"/jobs")
	events, err2 := pages[api.Event](ctx, f.owner, "/v1/runs/"+a.run.RunID+"/events")
	err3 := f.owner.get(ctx, "/v1/runs/"+a.run.RunID, &run)
	err4 := f.owner.get(ctx, "/v1/jobs/"+a.job.JobID, &now)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			f.c.Add("missing", 1)
			say("%v", err)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	if len(jobs) != 1 || jobs[0].JobID != a.job.JobID {
		f.c.Add("doubled", 1)
		say("its run has %d jobs", len(jobs))
	}
	was := a.job
	if now.RunID != was.RunID || now.Owner != was.Owner || now.JobHash != was.JobHash || string(now.Request) != string(was.Request) || now.Attempt < was.Attempt {
		say("acknowledged as %+v, is %+v", was, now)
	}
	if run.Owner != a.run.Owner || run.CreatedAt != a.run.CreatedAt || run.RepoRef != a.run.RepoRef || !maps.Equal(run.Metadata, a.run.Metadata) || run.LastSeq != int64(len(events)) {
		say("the run was acknowledged as %+v, is %+v with %d events", a.run, run, len(events))
	}
	if a.finished != nil && (run.Status != a.finished.Status || run.LastSeq != a.finished.LastSeq || api.Value(run.FinishedAt) != api.Value(a.finished.FinishedAt)) {
		say("the run ended as %+v, and is %+v: it is sealed", *a.finished, run)
	}
	l, form := fold(events)
	wrong = append(wrong, form...)
	f.moneyOf(a, now, l, say)
	return wrong
}

// moneyOf demands one reservation for each attempt and one ending of each.
func (f *fire) moneyOf(a *accepted, now api.Job, l runLog, say func(format string, args ...any)) {
	if int64(len(l.reserved)) != now.Attempt || int64(l.dispatched) != now.Attempt || int64(l.fallbacks) != now.Attempt-1 {
		say("%d attempts, %d reservations, %d dispatches, %d fallbacks", now.Attempt, len(l.reserved), l.dispatched, l.fallbacks)
	}
	open := ""
	if now.State == api.JobStateSubmitted { // abandoned, and not given back yet
		open = now.ReservationID
	}
	for id := range l.reserved {
		status, receipt, amount := "withheld", record.PaymentWithheld, int64(0)
		if a.fate == settled && id == now.ReservationID {
			status, receipt, amount = "released", record.PaymentReleased, now.AmountMsats
		}
		if id == open {
			if len(l.receipts[id])+len(l.payments[id]) > 0 {
				say("reservation %s is open, and the log says %v", id, l.receipts[id])
			}
			continue
		}
		if len(l.receipts[id]) > 1 || len(l.payments[id]) > 1 {
			f.c.Add("doubled", 1)
		}
		if !slices.Equal(l.receipts[id], []string{receipt}) || !slices.Equal(l.payments[id], []string{status}) || l.amounts[id] != amount {
			say("reservation %s ended as %v %v with %d msats, want one %s of %d", id, l.receipts[id], l.payments[id], l.amounts[id], receipt, amount)
		}
	}
	for id := range l.receipts {
		if _, ok := l.reserved[id]; !ok {
			say("reservation %s ended, and was never made", id)
		}
	}
	f.verdictOf(a, now, l, say)
}

// verdictOf demands one verdict of what was settled and none of the rest, and
// that it is the one that was acknowledged.
func (f *fire) verdictOf(a *accepted, now api.Job, l runLog, say func(format string, args ...any)) {
	want := map[fate][]api.JobState{settled: {api.JobStateSettled}, withheld: {api.JobStateFailed},
		lostJob: {api.JobStateFailed, api.JobStateCanceled}, abandoned: {api.JobStateSubmitted, api.JobStateExpired}}
	if !slices.Contains(want[a.fate], now.State) {
		say("its state is %s: %s", now.State, api.Value(now.Reason))
	}
	if a.settlement == nil {
		if len(l.verdicts) != 0 {
			say("it was not settled, and it has %d verdicts", len(l.verdicts))
		}
		return
	}
	s := *a.settlement
	if len(l.verdicts) != 1 {
		f.c.Add("doubled", max(0, len(l.verdicts)-1))
		say("%d verdicts", len(l.verdicts))
	} else if l.verdicts[0].SHA256 != s.VerificationReceiptSha256 {
		say("the verdict acknowledged is %s, the log has %s", s.VerificationReceiptSha256, l.verdicts[0].SHA256)
	}
	if s.ReservationID != now.ReservationID || s.AmountMsats != now.AmountMsats || s.ProviderID != now.ProviderID ||
		string(s.SettlementStatus) != api.Value(now.Payment) || s.Outcome != api.Value(now.Outcome) {
		say("settled as %+v, is %+v", s, now)
	}
}
