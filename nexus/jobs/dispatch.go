package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
)

// DispatchRequest asks for a job to be run.
type DispatchRequest struct {
	JobType       string
	Request       json.RawMessage // payload of the type
	MaxPriceMsats int64           // 0: whatever the best choice costs
	ProviderID    string          // this provider or none, and no fallback; "": any
	Key           string          // idempotency key of the caller, for the receipt

	// ReservationTTL is how long the money is held; 0 is long enough for the
	// job and for somebody to settle it.
	ReservationTTL time.Duration
}

// Dispatched is the answer to a dispatch.
type Dispatched struct {
	Job     Job
	Created bool // false: the run has had this job before, and this is it
	// Rejected says why there is no job. It comes without an error, since the
	// rejection is recorded (JobRejected): the command has to commit.
	Rejected *reason.Error
}

// Dispatch chooses a provider, holds its price and offers it the job, all at
// once. A run has a job with the same hash only once, whatever became of it.
func Dispatch(tx *store.Tx, p authority.Principal, runID string, r DispatchRequest) (Dispatched, error) {
	if err := p.Require(authority.ScopeJobs); err != nil {
		return Dispatched{}, err
	}
	req, err := job.Parse(r.JobType, r.Request)
	if err != nil {
		return Dispatched{}, err
	}
	if r.MaxPriceMsats < 0 {
		return Dispatched{}, invalid("max_price_msats", "is negative")
	}
	run, candidates, err := survey(tx, p, runID)
	if err != nil {
		return Dispatched{}, err
	}
	j := newJob(run, r, req)
	var on basis
	choice, breadth, refused, err := choose(tx, candidates, registry.Query{
		Owner: run.Owner, Needs: req.Needs(), MaxPriceMsats: r.MaxPriceMsats, Only: r.ProviderID, Now: tx.Now(),
	}, func(c registry.Choice) { on = basisOf(tx, j, c, r.ReservationTTL, req.Needs()) })
	if err != nil {
		return Dispatched{}, err
	}
	if choice == nil {
		on = basis{run: tx.AskLockedRun(runID), old: tx.AskJobOfHash(runID, j.Hash)}
	}
	if run, err = on.run(); err != nil {
		return Dispatched{}, err
	}
	if old, found, err := dispatchedBefore(r.JobType, on.old); found || err != nil {
		return old, err
	}
	if err := takesJobs(run); err != nil {
		return Dispatched{}, err
	}
	if choice == nil {
		return reject(tx, p, j, rejection(refused, r.ProviderID), refused)
	}
	return start(tx, p, j, offer{*choice, breadth, r.Key, req.Needs(), on.standing}, on.price)
}

// survey finds the run and what its jobs may be given to, without a lock.
func survey(tx *store.Tx, p authority.Principal, runID string) (Run, []registry.Provider, error) {
	seen, candidates := tx.AskRun(runID), registry.AskCandidates(tx, p.Owner, 0)
	run, err := visibleRun(p, runID)(seen())
	if err != nil {
		return Run{}, nil, err
	}
	if run.Owner != p.Owner { // an administrator dispatches
		candidates = registry.AskCandidates(tx, run.Owner, 0)
	}
	list, err := candidates()
	return run, list, err
}

// basis is what a dispatch stands on. It is asked for together with the lock of
// the provider, behind it: run, then accounts.
type basis struct {
	run      store.Answer[Run]
	old      store.Answer[Job]
	price    price
	standing func(registry.Provider) ([]record.Receipt, error)
}

func basisOf(tx *store.Tx, j Job, c registry.Choice, ttl time.Duration, needs job.Needs) basis {
	return basis{
		run: tx.AskLockedRun(j.RunID), old: tx.AskJobOfHash(j.RunID, j.Hash),
		price: askPrice(tx, j, c.Provider, ttl, needs), standing: registry.AskStanding(tx, c.Provider),
	}
}

// dispatchedBefore finds the job of a run by its hash.
func dispatchedBefore(jobType string, find store.Answer[Job]) (Dispatched, bool, error) {
	old, err := find()
	if errors.Is(err, store.ErrNotFound) {
		return Dispatched{}, false, nil
	}
	if err == nil && old.Type != jobType {
		err = reason.Errorf(reason.Conflict, "the run has a job with this hash and the type %s", old.Type)
	}
	return Dispatched{Job: old}, err == nil, err
}

// takesJobs reports whether a run is open for new jobs.
func takesJobs(r Run) error {
	switch s := RunState(r.State); {
	case s.Final():
		return reason.Errorf(reason.RunClosed, "run %s has ended: %s", r.ID, s)
	case s == RunCanceling:
		return reason.Errorf(reason.RunTransition, "run %s is being canceled and takes no jobs", r.ID)
	}
	return nil
}

// choose takes the best eligible provider and locks it. What made it eligible
// is looked at again under the lock, since it may have been switched off. with,
// if given, asks for what is needed besides, in the same round trip.
func choose(tx *store.Tx, candidates []registry.Provider, q registry.Query, with func(registry.Choice)) (choice *registry.Choice, breadth int, refused []registry.Refusal, err error) {
	s, err := registry.Choose(tx, candidates, q)
	if err != nil {
		return nil, 0, nil, err
	}
	for _, c := range s.Choices {
		lock := registry.AskLock(tx, c.Provider.ID)
		if with != nil {
			with(c)
		}
		locked, err := lock()
		if err != nil {
			return nil, 0, nil, err
		}
		if why := registry.Eligible(locked, q.Needs, q.Now); why != nil {
			s.Refused = append(s.Refused, registry.Refusal{ProviderID: locked.ID, Why: why})
			continue
		}
		c.Provider = locked
		return &c, s.Breadth, s.Refused, nil
	}
	if q.Only != "" && len(s.Refused) == 0 {
		// A provider that is off is no candidate; say so when it was asked for.
		if off, err := registry.Lock(tx, q.Only); err == nil && (off.Owner == q.Owner || off.InPool()) {
			if why := registry.Eligible(off, q.Needs, q.Now); why != nil {
				s.Refused = append(s.Refused, registry.Refusal{ProviderID: off.ID, Why: why})
			}
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, 0, nil, err
		}
	}
	return nil, s.Breadth, s.Refused, nil
}

func newJob(run Run, r DispatchRequest, req job.Request) Job {
	return Job{
		ID: newID("job_"), RunID: run.ID, Owner: run.Owner, Type: r.JobType, Hash: req.Hash(), Request: req.Canonical(),
		Payer: budgetOf(run.Owner), MaxPriceMsats: r.MaxPriceMsats, Pinned: r.ProviderID != "",
		State: string(Queued), Attempt: 1, Violations: json.RawMessage("[]"),
	}
}

// rejection is the reason for which no provider takes a job: the one that all
// share, no_provider otherwise.
func rejection(refused []registry.Refusal, only string) *reason.Error {
	if len(refused) == 0 {
		e := reason.Errorf(reason.NoProvider, "no provider of yours or of the reserve pool is switched on")
		if only != "" {
			e = reason.Errorf(reason.NoProvider, "no provider %.128q", only)
		}
		return e
	}
	code := refused[0].Why.Code
	var each []string
	for i, f := range refused {
		if f.Why.Code != code {
			code = reason.NoProvider
		}
		if i < 8 {
			each = append(each, f.ProviderID+": "+f.Why.Message)
		}
	}
	return reason.Errorf(code, "none of %d providers can take the job: %s", len(refused), strings.Join(each, "; "))
}

// reject records that a job was not accepted.
func reject(tx *store.Tx, p authority.Principal, j Job, why *reason.Error, refused []registry.Refusal) (Dispatched, error) {
	head, _, err := tx.Head(authority.RunStream(j.RunID))
	if err != nil {
		return Dispatched{}, err
	}
	var list []record.Refusal
	for _, f := range refused[:min(len(refused), 20)] {
		list = append(list, record.Refusal{ProviderID: f.ProviderID, Reason: string(f.Why.Code)})
	}
	// Every attempt is recorded, so the key has the place in the log.
	_, err = receipt(tx, j.RunID, p, record.JobRejected, fmt.Sprintf("%s:%d", keyOf("job-rejected", j), head+1), record.Rejection{
		JobType: j.Type, JobHash: j.Hash, Reason: string(why.Code), Refused: list,
	})
	return Dispatched{Rejected: why}, err
}

// start writes a new job and offers it.
func start(tx *store.Tx, p authority.Principal, j Job, o offer, held price) (Dispatched, error) {
	if err := held.reserve(tx, &j, o.Provider); err != nil {
		if why := unaffordable(err); why != nil {
			return reject(tx, p, j, why, nil)
		}
		return Dispatched{}, err
	}
	assign(tx, &j, o.Choice)
	j, err := tx.InsertJob(j, reason.Errorf(reason.Conflict, "the job was dispatched at the same moment"))
	if err != nil {
		return Dispatched{}, err
	}
	return Dispatched{Job: j, Created: true}, o.publish(tx, p, j)
}
