package jobs

import (
	"fmt"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/record"
)

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
	engine := engineOf(j)
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

// engineOf is the engine of an engine run, and the zero value for other jobs.
func engineOf(j Job) job.EngineChoice {
	if j.Type != job.EngineRun {
		return job.EngineChoice{}
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
