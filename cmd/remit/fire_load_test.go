//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	law "remit/law/job"
	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/proof/reason"
)

// fate is what became of an accepted job. Each has exactly one.
type fate string

const (
	settled   fate = "settled"       // verified and paid
	withheld  fate = "withheld"      // it was made to fail its verification: judged, not paid
	lostJob   fate = "provider lost" // its providers were killed: one of the endings for which neither it nor its owner is the cause
	abandoned fate = "abandoned"     // handed in, and never settled
)

// accepted is a job that the nexus took, with all that it acknowledged.
type accepted struct {
	unit       string
	run        api.Run
	job        api.Job // as dispatched
	final      api.Job // as it was seen last
	settlement *api.Settlement
	finished   *api.Run
	fate       fate
}

// leftJob is one that was not settled since then.
type leftJob struct {
	*accepted
	since time.Time
}

// load makes runs, dispatches a job in each and settles it. A unit of work whose
// providers were lost is done again in a new run, until it is settled.
type load struct {
	owner  *caller
	repo   string
	marker string // in the command line of every job

	mu      sync.Mutex
	jobs    []*accepted
	left    []leftJob // oldest first
	noted   []*noted
	refused int // dispatches that no provider could take at that moment
	errs    []error
	units   atomic.Int64 // that are done
}

// kind is what a unit of work is: most pass at once, some take a while, some
// fail their verification and some are left unsettled.
func (l *load) kind(unit int64) (command string, want fate) {
	switch {
	case unit%10 == 3:
		return ": " + l.marker + "; false", withheld
	case unit%12 == 2: // early, so that the smallest fire has one
		return ": " + l.marker + "; true", abandoned
	case unit%4 == 1:
		return ": " + l.marker + "; sleep 0.4; true", settled
	}
	return ": " + l.marker + "; true", settled
}

// work does units until more says that there are enough.
func (l *load) work(ctx context.Context, next func() int64, more func() bool) {
	for more() && ctx.Err() == nil {
		if err := errors.Join(l.late(ctx), l.unit(ctx, next())); err != nil {
			l.note(func() { l.errs = append(l.errs, err) })
			return
		}
		l.units.Add(1)
	}
}

func (l *load) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// maxLosses bounds how often one unit loses its providers.
const maxLosses = 20

func (l *load) unit(ctx context.Context, unit int64) error {
	command, want := l.kind(unit)
	for n := range maxLosses {
		a := &accepted{unit: fmt.Sprintf("%d-%d", unit, n)}
		if err := l.once(ctx, a, command, want); err != nil {
			return fmt.Errorf("unit %s: %w", a.unit, err)
		}
		if a.fate == want {
			return nil
		}
	}
	return fmt.Errorf("unit %d has lost its providers %d times", unit, maxLosses)
}

// once takes one run from its beginning to its end.
func (l *load) once(ctx context.Context, a *accepted, command string, want fate) error {
	if err := l.owner.post(ctx, "/v1/runs", "run-"+a.unit, object{"repo_ref": "fire", "metadata": object{"unit": a.unit}}, &a.run); err != nil {
		return err
	}
	if err := l.dispatch(ctx, a, command); err != nil {
		return err
	}
	l.note(func() { l.jobs = append(l.jobs, a) })
	if err := l.handedIn(ctx, a); err != nil {
		return err
	}
	switch {
	case a.final.State != api.JobStateSubmitted:
		a.fate = lostJob
	case want == abandoned:
		a.fate = abandoned
		l.note(func() { l.left = append(l.left, leftJob{a, time.Now()}) })
		return nil // and the run stays open
	default:
		if err := l.settle(ctx, a, want); err != nil {
			return err
		}
	}
	return l.finish(ctx, a)
}

// finish ends the run of a job that has ended.
func (l *load) finish(ctx context.Context, a *accepted) error {
	status := "failed"
	if a.fate == settled {
		status = "succeeded"
	}
	a.finished = new(api.Run)
	return l.owner.post(ctx, "/v1/runs/"+a.run.RunID+"/finish", "finish-"+a.unit, object{"status": status}, a.finished)
}

// late settles what was left for so long that the authority would do it soon. Only
// a fire that goes on for minutes has such jobs.
func (l *load) late(ctx context.Context) error {
	var old *accepted
	l.note(func() {
		if len(l.left) > 0 && time.Since(l.left[0].since) > jobs.SettleGrace/3 {
			old, l.left = l.left[0].accepted, l.left[1:]
		}
	})
	if old == nil {
		return nil
	}
	if err := l.settle(ctx, old, settled); err != nil {
		return fmt.Errorf("unit %s, which was left: %w", old.unit, err)
	}
	return l.finish(ctx, old)
}

// dispatch hands a job in until it is accepted. While no provider can take it, it
// is refused, and the refusal is the answer to its key for ever.
func (l *load) dispatch(ctx context.Context, a *accepted, command string) error {
	request := object{"job_type": law.SandboxRun, "request": object{
		"sandbox": object{"image_digest": "host", "provider": "local"}, "repo": object{"source": l.repo}, "commands": []object{{"cmd": command}}}}
	for n := 0; ; n++ {
		err := l.owner.post(ctx, "/v1/runs/"+a.run.RunID+"/jobs", fmt.Sprintf("dispatch-%s-%d", a.unit, n), request, &a.job)
		no, ok := errors.AsType[*errAnswer](err)
		if !ok || !slices.Contains(noProvider, reason.Code(no.code)) {
			return err
		}
		l.note(func() { l.refused++ })
		if !wait(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

// noProvider are the refusals of a job that a provider may take a moment later: no
// provider lives, or all that do are in quarantine, or off after one.
var noProvider = []reason.Code{reason.NoProvider, reason.ProviderQuarantined, reason.ProviderDisabled}

// handedIn waits until a job has a response, or will never have one.
func (l *load) handedIn(ctx context.Context, a *accepted) error {
	for {
		if err := l.owner.get(ctx, "/v1/jobs/"+a.job.JobID, &a.final); err != nil {
			return err
		}
		switch a.final.State {
		case api.JobStateQueued, api.JobStateLeased:
			if !wait(ctx, 40*time.Millisecond) {
				return fmt.Errorf("job %s is %s: %w", a.job.JobID, a.final.State, context.Cause(ctx))
			}
		case api.JobStateSubmitted:
			return nil
		case api.JobStateFailed, api.JobStateCanceled:
			if a.final.Outcome != nil || !lost(a.final) {
				return fmt.Errorf("job %s is %s: %s %s", a.job.JobID, a.final.State, api.Value(a.final.Reason), api.Value(a.final.Outcome))
			}
			return nil
		default:
			return fmt.Errorf("job %s is %s before anybody settled it", a.job.JobID, a.final.State)
		}
	}
}

// lost reports whether a job ended because its providers did. Jobs are not canceled here,
// and no reservation is old enough to expire: another ending is a fault.
func lost(j api.Job) bool {
	return slices.ContainsFunc(jobs.Endings(), func(e jobs.Ending) bool {
		return e.Lost && string(e.State) == string(j.State) && string(e.Why) == api.Value(j.Reason)
	})
}

// settle settles a job, every other one from two sides at once with keys of
// their own: both get the one settlement.
func (l *load) settle(ctx context.Context, a *accepted, want fate) error {
	path := "/v1/jobs/" + a.job.JobID + "/settle"
	var second api.Settlement
	var secondErr error
	var both sync.WaitGroup
	twice := a.job.JobID[len(a.job.JobID)-1]%2 == 0
	if twice {
		both.Go(func() { secondErr = l.owner.post(ctx, path, "settle-too-"+a.unit, nil, &second) })
	}
	a.settlement = new(api.Settlement)
	err := l.owner.post(ctx, path, "settle-"+a.unit, nil, a.settlement)
	both.Wait()
	switch {
	case err != nil || secondErr != nil:
		return errors.Join(err, secondErr)
	case twice && (second.ReservationID != a.settlement.ReservationID || second.VerificationReceiptSha256 != a.settlement.VerificationReceiptSha256):
		return fmt.Errorf("job %s was settled twice: %+v and %+v", a.job.JobID, *a.settlement, second)
	}
	switch a.settlement.SettlementStatus {
	case api.SettlementSettlementStatusReleased:
		a.fate = settled
	case api.SettlementSettlementStatusWithheld:
		a.fate = withheld
	}
	// What a provider that is killed now and then does hand in is the result of the
	// command: it never says that it could not run it.
	if s := a.settlement; a.fate != want || s.Outcome == string(law.ProviderFault) {
		return fmt.Errorf("job %s was judged %s and is %s, want %s: %v", a.job.JobID, s.Outcome, a.fate, want, s.Violations)
	}
	return nil
}

// steward does what an administrator and an owner do: a provider that was killed
// at work five times is quarantined; they look at it, lift the quarantine and
// switch it on again. Without that a long fire would run out of providers.
func (l *load) steward(ctx context.Context, admin *caller) (lifted int) {
	for wait(ctx, 200*time.Millisecond) {
		providers, err := pages[api.Provider](ctx, l.owner, "/v1/providers")
		if err != nil {
			continue // the fire is over
		}
		for _, p := range providers {
			path, key := "/v1/providers/"+p.ProviderID, fmt.Sprintf("%s-%d", p.ProviderID, p.Revision)
			var err error
			switch {
			case p.Quarantined:
				err = admin.post(ctx, path+"/quarantine/lift", "lift-"+key, object{"reason": "it was killed by the test"}, nil)
				lifted++
			case !p.Enabled:
				err = l.owner.post(ctx, path+"/enable", "enable-"+key, nil, nil)
				if no, ok := errors.AsType[*errAnswer](err); ok && no.code == string(reason.ProviderQuarantined) {
					err = nil // since it was read: the last of its leases ran out
				}
			}
			if err != nil && ctx.Err() == nil {
				l.note(func() { l.errs = append(l.errs, err) })
			}
		}
	}
	return lifted
}
