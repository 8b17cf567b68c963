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
	"remit/nexus/treasury"
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
	// job and its settlement.
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
	run, candidates, err := runAndCandidates(tx, p, runID)
	if err != nil {
		return Dispatched{}, err
	}
	j := newJob(run, r, req)
	var locked dispatchLock
	choice, breadth, refused, err := choose(tx, candidates, registry.Query{
		Owner: run.Owner, Needs: req.Needs(), MaxPriceMsats: r.MaxPriceMsats, Only: r.ProviderID, Now: tx.Now(),
	}, func(c registry.Choice) (_ registry.Provider, err error) {
		locked, err = lockDispatch(tx, j, c.Provider, r.ReservationTTL, req.Needs())
		return locked.provider, err
	})
	if err != nil {
		return Dispatched{}, err
	}
	if choice == nil {
		if locked, err = lockRejection(tx, j); err != nil {
			return Dispatched{}, err
		}
	}
	if old := locked.earlier; old != nil {
		return dispatchedBefore(r.JobType, *old)
	}
	if err := takesJobs(locked.run); err != nil {
		return Dispatched{}, err
	}
	if choice == nil {
		return reject(tx, p, j, rejection(refused, r.ProviderID), refused)
	}
	standing, err := registry.StandingOf(tx, choice.Provider, locked.seen.CapsRevision, locked.standing)
	if err != nil {
		return Dispatched{}, err
	}
	return start(tx, p, j, offer{*choice, breadth, r.Key, req.Needs(), standing, locked.run.RunFacts}, locked.price)
}

// runAndCandidates reads the run and the providers that its jobs may be given to,
// without a lock.
func runAndCandidates(tx *store.Tx, p authority.Principal, runID string) (Run, []registry.Provider, error) {
	run, candidates, err := registry.RunAndCandidates(tx, runID, p.Owner)
	if run, err = visibleRun(p, runID)(run, err); err != nil {
		return Run{}, nil, err
	}
	if run.Owner != p.Owner { // an administrator dispatches
		candidates, err = registry.Candidates(tx, run.Owner, 0)
	}
	return run, candidates, err
}

// dispatchLock is what a dispatch has locked, and read under these locks.
type dispatchLock struct {
	seen     registry.Provider // before the lock
	provider registry.Provider
	run      Run
	earlier  *Job // the job of the run with the same hash
	price    price
	standing store.StandingRows
}

// lockDispatch locks the provider, the run and the accounts of a dispatch.
func lockDispatch(tx *store.Tx, j Job, p registry.Provider, ttl time.Duration, needs job.Needs) (dispatchLock, error) {
	l := dispatchLock{seen: p, price: priceOf(j, p, ttl, needs)}
	keys := store.DispatchKeys{ProviderID: p.ID, RunID: j.RunID, JobHash: j.Hash, Standing: registry.StandingKeys(p)}
	if l.price.invalid == nil {
		keys.Reservation = new(treasury.ReservationKeys(l.price.reservation))
	}
	rows, err := tx.LockDispatch(keys)
	if err != nil {
		return l, err
	}
	l.run, l.earlier, l.standing = rows.Run, rows.Earlier, rows.Standing
	l.price.basis = &rows.Reservation
	l.provider, err = registry.FromRow(rows.Provider)
	return l, err
}

// lockRejection locks the run of a job that no provider takes.
func lockRejection(tx *store.Tx, j Job) (l dispatchLock, err error) {
	if l.run, err = tx.LockRun(j.RunID); err != nil {
		return l, err
	}
	earlier, err := tx.JobOfHash(j.RunID, j.Hash)
	switch {
	case err == nil:
		l.earlier = &earlier
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	return l, err
}

// dispatchedBefore answers a dispatch of a job that the run has already.
func dispatchedBefore(jobType string, old Job) (Dispatched, error) {
	if old.Type != jobType {
		return Dispatched{}, reason.Errorf(reason.Conflict, "the run has a job with this hash and the type %s", old.Type)
	}
	return Dispatched{Job: old}, nil
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
// is checked again under the lock, since it may have been switched off.
func choose(tx *store.Tx, candidates []registry.Provider, q registry.Query, lock func(registry.Choice) (registry.Provider, error)) (
	choice *registry.Choice, breadth int, refused []registry.Refusal, err error,
) {
	s, err := registry.Choose(tx, candidates, q)
	if err != nil {
		return nil, 0, nil, err
	}
	for _, c := range s.Choices {
		locked, err := lock(c)
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

// OfferTTL is how long a provider has to take a job that was offered to it.
const OfferTTL = 30 * time.Second

// assign makes a provider the one that the job is offered to.
func assign(tx *store.Tx, j *Job, c registry.Choice) {
	now := tx.Now()
	j.ProviderID, j.Tier = c.Provider.ID, c.Tier
	j.DispatchedAt, j.OfferUntil = now, now+OfferTTL.Milliseconds()
	j.LeasedAt, j.LeaseUntil, j.DeadlineAt, j.SubmittedAt, j.Caps = 0, 0, 0, 0, nil
	j.Fence++
}

// offer is what is written of a job that a provider may take.
type offer struct {
	registry.Choice
	breadth   int // of the choice
	callerKey string
	needs     job.Needs
	standing  []record.Receipt // of the provider
	facts     store.RunFacts   // of the run
}

// publish writes the receipts of an offer and tells the provider.
func (o offer) publish(tx *store.Tx, p authority.Principal, j Job) error {
	if err := tx.PutAttempt(store.AttemptRow{
		JobID: j.ID, Attempt: j.Attempt, ProviderID: j.ProviderID, ReservationID: j.ReservationID, AmountMsats: j.AmountMsats,
		DispatchedAt: j.DispatchedAt,
	}); err != nil {
		return err
	}
	// The run's log holds what it relied on: who the provider was and its caps.
	for _, r := range o.standing {
		if err := authority.Copy(tx, authority.RunStream(j.RunID), r); err != nil {
			return err
		}
	}
	if err := budgetReserved(tx, p, j); err != nil {
		return err
	}
	key := attemptKey("job-dispatched", j)
	callerKey := o.callerKey
	if callerKey == "" {
		callerKey = key
	}
	engine := engineOf(j, o.facts)
	if _, err := receipt(tx, j.RunID, p, record.JobDispatched, key, record.Dispatch{
		JobID: j.ID, JobType: j.Type, JobHash: j.Hash, ProviderID: j.ProviderID, Tier: j.Tier, Attempt: j.Attempt,
		AmountMsats: j.AmountMsats, AllInMsats: o.AllIn, ReservationID: j.ReservationID, Eligible: new(int64(o.breadth)),
		CapsRevision: o.Provider.CapsRevision, Engine: engine.Name, Model: engine.Model, IdempotencyKey: callerKey,
	}); err != nil {
		return err
	}
	return notifyProvider(tx, j.ProviderID, "job.offer", fmt.Sprintf("offer:%s:%d", j.ID, j.Attempt), map[string]any{
		"job_id": j.ID, "job_type": j.Type, "job_hash": j.Hash, "amount_msats": j.AmountMsats, "offer_until": j.OfferUntil, "needs": o.needs,
	})
}

// engineOf is the engine of an engine run; for other jobs that of their run, which
// made what they prove, as far as its client has said.
func engineOf(j Job, run store.RunFacts) job.EngineChoice {
	if j.Type != job.EngineRun {
		return job.EngineChoice{Name: run.Engine, Model: run.Model}
	}
	r, err := job.ParseEngineRun(j.Request)
	if err != nil {
		return job.EngineChoice{}
	}
	return r.Engine
}

// offersKept is how much of a provider's lane is kept.
const offersKept = 2048

// notifyProvider appends to a provider's lane.
func notifyProvider(tx *store.Tx, providerID, eventType, key string, payload any) error {
	return authority.PostEvent(tx, authority.OfferStream(providerID), authority.Sweeper(), eventType, key, payload, offersKept)
}

// notifyCancel appends to a provider's lane that its lease does not count any more.
func notifyCancel(tx *store.Tx, providerID string, j Job, fence int64, why string) error {
	return notifyProvider(tx, providerID, "job.cancel", fmt.Sprintf("cancel:%s:%d", j.ID, fence), map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "fence": fence, "reason": why,
	})
}
