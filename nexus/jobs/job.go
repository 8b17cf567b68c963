package jobs

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Job is a job as the authority knows it.
type Job = store.JobRow

// StateOf returns the state of a job.
func StateOf(j Job) State { return State(j.State) }

// setState changes the state of a job, along the table.
func setState(j *Job, to State) error {
	if !CanMove(State(j.State), to) {
		return reason.Errorf(reason.JobClosed, "job %s is %s and cannot become %s", j.ID, j.State, to)
	}
	j.State = string(to)
	return nil
}

// Find reads a job that a principal may see: of its owner, or one that its
// provider has or had.
func Find(tx *store.Tx, p authority.Principal, id string) (Job, error) {
	j, err := tx.Job(id)
	if err == nil {
		err = mayRead(tx, p, j)
	}
	if errors.Is(err, store.ErrNotFound) {
		return Job{}, noJob(id)
	}
	return j, err
}

func noJob(id string) error { return reason.Errorf(reason.NotFound, "no job %.128q", id) }

func mayRead(tx *store.Tx, p authority.Principal, j Job) error {
	if p.Kind != authority.Provider {
		if !p.Owns(j.Owner) {
			return store.ErrNotFound
		}
		return nil
	}
	if p.ProviderID() == j.ProviderID {
		return nil
	}
	attempts, err := tx.Attempts(j.ID)
	for _, a := range attempts {
		if a.ProviderID == p.ProviderID() {
			return nil
		}
	}
	if err == nil {
		err = store.ErrNotFound
	}
	return err
}

// List returns the jobs of a run by id, after the given one.
func List(tx *store.Tx, p authority.Principal, runID, after string, limit int) ([]Job, error) {
	if _, err := FindRun(tx, p, runID); err != nil {
		return nil, err
	}
	return tx.JobsOfRun(runID, after, limit)
}

// Attempts returns every provider that a job was given to, in order.
func Attempts(tx *store.Tx, p authority.Principal, id string) ([]store.AttemptRow, error) {
	if _, err := Find(tx, p, id); err != nil {
		return nil, err
	}
	return tx.Attempts(id)
}

// maxRelock bounds how often the provider of a job may change while its lock is
// waited for: a job falls back once.
const maxRelock = 4

// lockJob takes the locks of a job's provider, of its run and of the job.
func lockJob(tx *store.Tx, id string) (Job, error) {
	seen, err := tx.Job(id)
	if err != nil {
		return Job{}, err
	}
	return lockSeen(tx, seen)
}

// lockSeen is lockJob for a job that was read without a lock.
func lockSeen(tx *store.Tx, seen Job) (Job, error) {
	for range maxRelock {
		j, err := tx.LockJob(seen)
		if err != nil || j.ProviderID == seen.ProviderID {
			return j, err
		}
		seen = j
	}
	return Job{}, reason.Errorf(reason.Conflict, "job %s moves from provider to provider", seen.ID)
}

// lockOwn locks a job that a principal may change.
func lockOwn(tx *store.Tx, p authority.Principal, id string) (Job, error) {
	seen, err := Find(tx, p, id)
	if err != nil {
		return Job{}, err
	}
	j, err := lockSeen(tx, seen)
	if err == nil && !p.Owns(j.Owner) {
		err = noJob(id)
	}
	return j, err
}

// save writes a locked job and returns it as it is now.
func save(tx *store.Tx, j Job) (Job, error) {
	if err := tx.UpdateJob(j); err != nil {
		return Job{}, fmt.Errorf("save job %s: %w", j.ID, err)
	}
	j.Revision++
	return j, nil
}

// endAttempt records how the present attempt ended.
func endAttempt(tx *store.Tx, j Job, as string) error {
	return tx.PutAttempt(store.AttemptRow{
		JobID: j.ID, Attempt: j.Attempt, ProviderID: j.ProviderID, ReservationID: j.ReservationID, AmountMsats: j.AmountMsats,
		DispatchedAt: j.DispatchedAt, LeasedAt: j.LeasedAt, EndedAt: tx.Now(), EndedAs: as,
	})
}

// newID makes an id that grows with time.
func newID(prefix string) string {
	id := uuid.Must(uuid.NewV7())
	return prefix + fmt.Sprintf("%x", id[:])
}

func invalid(field, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.RequestInvalid, format, args...)
	e.Field = field
	return e
}
