//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// commandIn is one of our programs with a home of its own.
func commandIn(ctx context.Context, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program(), args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+home)
	return cmd
}

// logs reads every run: there is one for each that was acknowledged and no
// other, and each holds what was acknowledged.
func (f *fire) logs(ctx context.Context) {
	f.t.Helper()
	runs, err := pages[api.Run](ctx, f.owner, "/v1/runs")
	if err != nil {
		f.t.Fatal(err)
	}
	known := map[string]bool{}
	acknowledged := func(id string) {
		if known[id] {
			f.t.Errorf("run %s was acknowledged to two requests", id)
		}
		known[id] = true
	}
	for _, a := range f.load.jobs {
		acknowledged(a.run.RunID)
	}
	for _, n := range f.load.noted {
		acknowledged(n.run.RunID)
	}
	for _, r := range runs {
		if !known[r.RunID] {
			f.c.Add("doubled", 1)
			f.t.Errorf("run %s of unit %s was never acknowledged", r.RunID, r.Metadata["unit"])
		}
	}
	if len(runs) != len(known) {
		f.t.Errorf("%d runs, %d were acknowledged", len(runs), len(known))
	}
	f.c.Add("jobs", len(f.load.jobs))
	names := map[fate]string{settled: "settled", withheld: "withheld", lostJob: "lost", abandoned: "left"}
	done := map[fate]int64{}
	for _, a := range f.load.jobs {
		if names[a.fate] == "" {
			f.t.Errorf("job %s of unit %s has no fate: %s %s", a.job.JobID, a.unit, a.final.State, api.Value(a.final.Reason))
			continue
		}
		f.c.Add(names[a.fate], 1)
		done[a.fate]++
	}
	if sum := done[settled] + done[withheld] + done[abandoned]; sum != f.load.units.Load() {
		f.t.Errorf("%d units of work were done, and %d jobs say so", f.load.units.Load(), sum)
	}
	jobs := each(f.load.jobs, func(a *accepted) []string { return f.jobOf(ctx, a) })
	notes := each(f.load.noted, func(n *noted) []string { return f.notesOf(ctx, n) })
	for _, complaint := range append(jobs, notes...) {
		f.t.Error(complaint)
	}
}

// books holds the treasury's figures against the settlements that were
// acknowledged, and has half of what was not settled given back by hand.
func (f *fire) books(ctx context.Context) {
	f.t.Helper()
	var before, after api.TreasurySummary
	f.command(ctx, f.owner.token, &before, "treasury", "summary", "--json")
	f.compare(before, 0)

	var early, half api.ReconcileSummary
	f.command(ctx, f.admin.token, &early, "treasury", "reconcile", "--json")
	left := f.count(abandoned)
	free := (left + 1) / 2
	if left == 0 {
		f.t.Error("no job was left unsettled, so that there is nothing to give back")
		free = 1
	}
	wait(ctx, time.Second) // so that all of them are a second old
	f.command(ctx, f.admin.token, &half, "treasury", "reconcile", "--json", "--max-age", "1", "--max-jobs", fmt.Sprint(free))
	if early.ExpiredReservations != 0 || half.ExpiredReservations != free {
		f.t.Errorf("reconciled %d reservations before their time, and then %d of %d", early.ExpiredReservations, half.ExpiredReservations, free)
	}
	f.command(ctx, f.owner.token, &after, "treasury", "summary", "--json")
	f.compare(after, half.ExpiredReservations)
	// What was given back cannot be paid any more.
	for _, r := range half.UpdatedJobs {
		err := f.owner.post(ctx, "/v1/jobs/"+r.JobID+"/settle", "late-"+r.JobID, nil, nil)
		if no, ok := asAnswer(err); !ok || no.code != string(reason.ReservationExpired) {
			f.t.Errorf("job %s was given back, and settling it says: %v", r.JobID, err)
		}
	}
}

func (f *fire) count(of fate) (n int64) {
	for _, a := range f.load.jobs {
		if a.fate == of {
			n++
		}
	}
	return n
}

// compare adds up what was acknowledged.
func (f *fire) compare(s api.TreasurySummary, givenBack int64) {
	f.t.Helper()
	var want api.TreasuryTotals
	earned := map[string]int64{}
	price := int64(0)
	for _, a := range f.load.jobs {
		price = a.job.AmountMsats // all ask the same
		want.WithheldCount += a.final.Attempt
		switch a.fate {
		case settled:
			want.ReleasedCount++
			want.ReleasedMsats += a.settlement.AmountMsats
			earned[a.settlement.ProviderID] += a.settlement.AmountMsats
		case abandoned:
			want.ReservedCount++
		}
	}
	want.ReservedCount -= givenBack
	want.WithheldCount -= want.ReleasedCount + want.ReservedCount
	want.ReservedMsats, want.WithheldMsats = want.ReservedCount*price, want.WithheldCount*price
	if s.Totals != want {
		f.t.Errorf("the books say %+v, what was acknowledged %+v", s.Totals, want)
	}
	for _, e := range s.ProviderEarnings {
		if earned[e.ProviderID] != e.EarnedMsats {
			f.t.Errorf("provider %s has earned %d, what was acknowledged says %d", e.ProviderID, e.EarnedMsats, earned[e.ProviderID])
		}
		delete(earned, e.ProviderID)
	}
	if len(earned) > 0 {
		f.t.Errorf("earned, and not in the books: %v", earned)
	}
	for _, a := range s.Accounts {
		if a.AccountID == f.account.AccountID &&
			(a.Funded != fireBudget || a.Spent != want.ReleasedMsats || a.Reserved != want.ReservedMsats || a.Remaining != fireBudget-a.Spent-a.Reserved) {
			f.t.Errorf("the budget is %+v, want %d spent and %d reserved", a, want.ReleasedMsats, want.ReservedMsats)
		}
	}
	if s.ReadOnly != nil {
		f.t.Errorf("the authority is read-only: %s", *s.ReadOnly)
	}
}

// repeatAll sends every acknowledged request again: the answer is the same,
// byte for byte, whatever was killed since.
func (f *fire) repeatAll(ctx context.Context) {
	f.t.Helper()
	list := f.answers.list
	f.c.Add("answers", len(list))
	for _, complaint := range each(list, func(a acknowledged) []string { return []string{a.repeat(ctx)} }) {
		f.c.Add("missing", 1)
		f.t.Error(complaint)
	}
}

// sweepAfterTTL looks at the store without its servers: it is sound, and the
// sweeps of a replica that comes back when all reservations have outlived their
// time give back what is held, once.
func (f *fire) sweepAfterTTL(ctx context.Context) {
	f.t.Helper()
	dsn := f.size.store
	if dsn == "" {
		dsn = filepath.Join(f.root, "data", "nexus.db")
	}
	late := func() time.Time { return time.Now().Add(2 * treasury.DefaultTTL) }
	st, err := store.Open(ctx, dsn, store.Options{Clock: late})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			f.t.Error(err)
		}
	}()
	f.sound(ctx, st, time.Now().UnixMilli())
	held, due := map[string]bool{}, 0
	for _, r := range f.reservations(ctx, st) {
		if r.Status == store.ReservationReserved {
			due++
		}
		if r.SettledAt > r.ExpiresAt {
			f.t.Errorf("reservation %s was held %d ms beyond its time", r.ID, r.SettledAt-r.ExpiresAt)
		}
		held[r.ID] = true
	}
	attempts := int64(0)
	for _, a := range f.load.jobs {
		attempts += a.final.Attempt
	}
	if int64(len(held)) != attempts {
		f.t.Errorf("%d reservations in the store, %d attempts", len(held), attempts)
	}
	for _, want := range []int{due, 0} {
		if got := sweepOnce(ctx, f, st); got != want {
			f.t.Errorf("a sweep gave back %d reservations, want %d", got, want)
		}
	}
	for _, r := range f.reservations(ctx, st) {
		if r.Status == store.ReservationReserved {
			f.t.Errorf("reservation %s outlived its time", r.ID)
		}
	}
	f.sound(ctx, st, late().UnixMilli())
}

// sweepOnce does what a replica does at its start, in its order.
func sweepOnce(ctx context.Context, f *fire, st *store.Store) (freed int) {
	f.t.Helper()
	if err := st.Update(ctx, func(tx *store.Tx) error {
		settled, err := jobs.SettleOverdue(tx, 0, math.MaxInt32)
		if len(settled) > 0 {
			f.t.Errorf("settled after their time: %v", settled)
		}
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := st.Update(ctx, func(tx *store.Tx) error {
		list, err := jobs.Reconcile(tx, authority.Sweeper(), 0, treasury.MaxSweep)
		freed = len(list)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return freed
}

// sound audits the books and the store. A reservation that expired before the
// given time must not be held any more.
func (f *fire) sound(ctx context.Context, st *store.Store, overdueBefore int64) {
	f.t.Helper()
	problems, err := st.Integrity(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := st.View(ctx, func(tx *store.Tx) error {
		breaches, err := tx.LedgerBreaches(overdueBefore)
		for _, b := range breaches {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", b.Rule, b.Row, b.Detail))
		}
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	for _, p := range problems {
		f.t.Error(p)
	}
}

func (f *fire) reservations(ctx context.Context, st *store.Store) (list []store.LedgerReservation) {
	f.t.Helper()
	if err := st.View(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.ReservationsOf(fireOwner, math.MaxInt32)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return list
}

// leftFiles looks for work of killed daemons that no daemon will take up again.
func (f *fire) leftFiles() {
	f.t.Helper()
	for _, v := range f.daemons {
		for _, dir := range []string{"work", "spool"} {
			left, err := filepath.Glob(filepath.Join(v.home, "provider", dir, "*"))
			if err != nil {
				f.t.Fatal(err)
			}
			f.c.Add("orphans", len(left))
			if len(left) > 0 {
				f.t.Errorf("%s left %q", v.name, left)
			}
		}
	}
}
