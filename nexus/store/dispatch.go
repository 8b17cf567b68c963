package store

import "fmt"

// Reads that commands make together, each in one round trip, with their locks in
// the order that all commands keep: provider, run, job, accounts.

// RunAndProviders reads a run and the providers of a selection, without a lock.
func (tx *Tx) RunAndProviders(runID string, q LiveProviders) (RunRow, []ProviderRow, error) {
	var run *RunRow
	var live []ProviderRow
	err := tx.send(optional(&run, scanRun, `SELECT `+runColumns+` FROM run WHERE id = ?`, runID), liveProviders(&live, q))
	found, err := present(&run, err)
	return found, live, err
}

// StandingKeys names the device of a provider and the receipts that it stands by,
// events of its owner's stream.
type StandingKeys struct {
	DeviceID, Stream string
	Enrolments       string // prefix of the keys of the device's enrolments
	Limit            int    // of enrolments
	Caps             string // key
}

// StandingRows is what [Tx.Standing] finds.
type StandingRows struct {
	Device     *DeviceRow
	Enrolments []Event
	Caps       *Event
}

// Standing reads what a provider stands by.
func (tx *Tx) Standing(k StandingKeys) (found StandingRows, err error) {
	err = tx.send(standing(&found, k)...)
	return found, err
}

func standing(dst *StandingRows, k StandingKeys) []*statement {
	return []*statement{
		deviceRow(&dst.Device, k.DeviceID), eventsByKeys(&dst.Enrolments, k.Stream, k.Enrolments, k.Limit), eventByKey(&dst.Caps, k.Stream,
			k.Caps),
	}
}

// DispatchKeys names what a dispatch to a provider depends on.
type DispatchKeys struct {
	ProviderID, RunID, JobHash string
	Reservation                *ReservationKeys // nil: none
	Standing                   StandingKeys
}

// DispatchRows is what a dispatch depends on.
type DispatchRows struct {
	Provider    ProviderRow // locked
	Run         RunRow      // locked
	Earlier     *JobRow     // the job of the run with the same hash
	Reservation ReservationBasis
	Standing    StandingRows
}

// LockDispatch locks the provider, the run and the accounts of a dispatch, and
// reads what else it depends on.
func (tx *Tx) LockDispatch(k DispatchKeys) (found DispatchRows, err error) {
	var provider *ProviderRow
	var run *RunRow
	var basis basisRows
	list := append(tx.lockedProvider(&provider, k.ProviderID), tx.lockedRun(&run, k.RunID), jobOfHash(&found.Earlier, k.RunID, k.JobHash))
	if k.Reservation != nil {
		list = append(list, tx.reservationBasis(&basis, *k.Reservation)...)
	}
	err = tx.send(append(list, standing(&found.Standing, k.Standing)...)...)
	if found.Provider, err = present(&provider, err); err == nil {
		found.Run, err = present(&run, err)
	}
	found.Reservation = basis.basis()
	return found, err
}

// LockJob locks the provider, the run and the row of a job that was read without
// a lock, and returns the row. Its provider may have changed meanwhile.
func (tx *Tx) LockJob(seen JobRow) (JobRow, error) {
	var provider *ProviderRow
	var run *RunRow
	var job *JobRow
	if err := tx.send(append(tx.lockedProvider(&provider, seen.ProviderID), tx.lockedRun(&run, seen.RunID), tx.lockedJob(&job,
		seen.ID))...); err != nil {
		return JobRow{}, err
	}
	switch {
	case provider == nil:
		return JobRow{}, fmt.Errorf("lock the provider of job %s: %w", seen.ID, ErrNotFound)
	case run == nil:
		return JobRow{}, fmt.Errorf("lock the run of job %s: %w", seen.ID, ErrNotFound)
	}
	return present(&job, nil)
}

// LockOffer locks the run and the row of a job whose provider is locked.
func (tx *Tx) LockOffer(offered JobRow) (JobRow, error) {
	var run *RunRow
	var job *JobRow
	err := tx.send(tx.lockedRun(&run, offered.RunID), tx.lockedJob(&job, offered.ID))
	if err == nil && run == nil {
		err = ErrNotFound
	}
	return present(&job, err)
}

// LockProviderAndOffers locks a provider and lists the jobs that it may lease,
// the oldest offer first.
func (tx *Tx) LockProviderAndOffers(id string, limit int) (ProviderRow, []JobRow, error) {
	var provider *ProviderRow
	var offers []JobRow
	found, err := present(&provider, tx.send(append(tx.lockedProvider(&provider, id), jobsOffered(&offers, id, limit))...))
	return found, offers, err
}
