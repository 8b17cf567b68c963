package jobs

import "remit/proof/reason"

// Ending is one way in which a job ends without a verdict, and unpaid.
type Ending struct {
	State State
	Why   reason.Code
	// Lost is true when neither the job nor its requester is the cause: the same
	// request may be dispatched again, in another run.
	Lost bool
}

// Endings returns every ending without a verdict. All others come from [Settle],
// and have an outcome. The table of docs/nexus.md says when each happens.
func Endings() []Ending {
	return []Ending{
		{Failed, reason.OfflineMidRun, true},
		{Failed, reason.HandedBack, true},
		{Failed, reason.Timeout, true},
		{Failed, reason.ProviderUnavailable, true},
		{Canceled, reason.ProviderQuarantined, true},
		{Canceled, reason.ProviderDisabled, true},
		{Canceled, reason.Cancelled, false},
		{Expired, reason.ReservationExpired, false},
	}
}
