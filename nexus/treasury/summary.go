package treasury

import "remit/nexus/store"

// SummarySchema names the form of [Summary].
const SummarySchema = "remit.treasury_summary.v1"

// Bounds of a summary.
const (
	maxAccounts = 200
	maxEarnings = 200
	maxRecent   = 50
)

// Overview is what an owner sees of the books.
type Overview struct {
	Schema   string              `json:"schema"`
	Owner    string              `json:"owner"`
	Accounts []AccountState      `json:"accounts"`
	Totals   Totals              `json:"totals"`
	Earnings []store.Earning     `json:"provider_earnings"` // who the owner's jobs paid
	Recent   []Reservation       `json:"recent_jobs"`       // newest first, at most 50
	ReadOnly *store.LedgerFreeze `json:"read_only,omitempty"`
	AsOf     int64               `json:"as_of"` // unix milliseconds
}

// AccountState is an account with what can be read from its balances.
type AccountState struct {
	Account
	Reserved  int64 `json:"reserved"`  // of a budget: held for jobs
	Spent     int64 `json:"spent"`     // of a budget
	Earned    int64 `json:"earned"`    // of an earnings account
	Remaining int64 `json:"remaining"` // of a budget: what can still be reserved
	IsClosed  bool  `json:"closed"`
}

// Totals adds up the owner's reservations.
type Totals struct {
	Jobs          int64 `json:"jobs"`
	ReservedJobs  int64 `json:"reserved_jobs"`
	ReleasedJobs  int64 `json:"released_jobs"`
	WithheldJobs  int64 `json:"withheld_jobs"`
	ReservedMsats int64 `json:"reserved_msats"`
	ReleasedMsats int64 `json:"released_msats"`
	WithheldMsats int64 `json:"withheld_msats"`
}

// Summary reads what one owner may see: its accounts, its jobs, and whom they
// paid. The owner comes from the credential of the request.
func Summary(tx *store.Tx, owner string) (Overview, error) {
	o := Overview{Schema: SummarySchema, Owner: owner, Accounts: []AccountState{}, AsOf: tx.Now()}
	if err := checkWord("owner", owner, true); err != nil {
		return o, err
	}
	accounts, err := tx.LedgerAccountsOf(owner, maxAccounts)
	if err != nil {
		return o, err
	}
	for _, a := range accounts {
		o.Accounts = append(o.Accounts, stateOf(a))
	}
	totals, err := tx.ReservationTotals(owner)
	if err != nil {
		return o, err
	}
	for _, t := range totals {
		o.Totals.add(t)
	}
	if o.Earnings, err = tx.EarningsFrom(owner, maxEarnings); err != nil {
		return o, err
	}
	if o.Recent, err = tx.ReservationsOf(owner, maxRecent); err != nil {
		return o, err
	}
	// Lists are empty rather than null: readers take their length.
	o.Earnings, o.Recent = append([]store.Earning{}, o.Earnings...), append([]Reservation{}, o.Recent...)
	o.ReadOnly, err = tx.LedgerFreeze()
	return o, err
}

func stateOf(a Account) AccountState {
	s := AccountState{Account: a, Remaining: a.Remaining(), IsClosed: a.Closed()}
	if a.Kind == Earnings {
		s.Earned = a.CreditsPosted
	} else {
		s.Reserved, s.Spent = a.DebitsPending, a.DebitsPosted
	}
	if a.Closed() {
		s.Remaining = 0
	}
	return s
}

func (t *Totals) add(of store.ReservationTotal) {
	t.Jobs += of.Count
	switch of.Status {
	case Reserved:
		t.ReservedJobs, t.ReservedMsats = of.Count, of.AmountMsats
	case Released:
		t.ReleasedJobs, t.ReleasedMsats = of.Count, of.AmountMsats
	case Withheld:
		t.WithheldJobs, t.WithheldMsats = of.Count, of.AmountMsats
	}
}
