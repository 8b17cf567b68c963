//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// fate is what became of an accepted job. Each has exactly one.
type fate string

const (
	settled   fate = "settled"       // verified and paid
	withheld  fate = "withheld"      // it was made to fail its verification: judged, not paid
	lostJob   fate = "provider lost" // its providers were killed, the second one after the fallback as well
	abandoned fate = "abandoned"     // handed in, and nobody settles it
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

// load makes runs, dispatches a job in each and settles it. A unit of work whose
// providers were lost is done again in a new run, until it is settled.
type load struct {
	owner  *caller
	repo   string
	marker string // in the command line of every job

	mu      sync.Mutex
	jobs    []*accepted
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
		if err := l.unit(ctx, next()); err != nil {
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
		return nil // and the run stays open
	default:
		if err := l.settle(ctx, a); err != nil {
			return err
		}
	}
	status := "failed"
	if a.fate == settled {
		status = "succeeded"
	}
	a.finished = new(api.Run)
	return l.owner.post(ctx, "/v1/runs/"+a.run.RunID+"/finish", "finish-"+a.unit, object{"status": status}, a.finished)
}

// dispatch hands a job in until it is accepted. While all providers are in
// quarantine it is refused, and the refusal is the answer to its key for ever.
func (l *load) dispatch(ctx context.Context, a *accepted, command string) error {
	request := object{"job_type": job.SandboxRun, "request": object{
		"sandbox": object{"image_digest": "host", "provider": "local"}, "repo": object{"source": l.repo}, "commands": []object{{"cmd": command}}}}
	for n := 0; ; n++ {
		err := l.owner.post(ctx, "/v1/runs/"+a.run.RunID+"/jobs", fmt.Sprintf("dispatch-%s-%d", a.unit, n), request, &a.job)
		no, ok := errors.AsType[*errAnswer](err)
		unavailable := ok && (no.status == http.StatusConflict && no.code != string(reason.Conflict) || no.code == string(reason.ProviderQuarantined))
		if !unavailable {
			return err
		}
		l.note(func() { l.refused++ })
		if !wait(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

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
			if a.final.Outcome != nil || !lossOfProvider[reason.Code(api.Value(a.final.Reason))] {
				return fmt.Errorf("job %s is %s: %s %s", a.job.JobID, a.final.State, api.Value(a.final.Reason), api.Value(a.final.Outcome))
			}
			return nil
		default:
			return fmt.Errorf("job %s is %s before anybody settled it", a.job.JobID, a.final.State)
		}
	}
}

// lossOfProvider are the reasons for which a job may end without a verdict here.
var lossOfProvider = map[reason.Code]bool{reason.OfflineMidRun: true, reason.ProviderUnavailable: true, reason.ProviderQuarantined: true}

// settle settles a job, every other one from two sides at once with keys of
// their own: both get the one settlement.
func (l *load) settle(ctx context.Context, a *accepted) error {
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
			}
			if err != nil && ctx.Err() == nil {
				l.note(func() { l.errs = append(l.errs, err) })
			}
		}
	}
	return lifted
}
