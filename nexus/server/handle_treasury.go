package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

func treasuryRoutes() []route {
	return []route{
		ensure(api.OpenAccount, openAccount),
		mutation(api.SetAccountLimit, setAccountLimit),
		mutation(api.CloseAccount, closeAccount),
		mutation(api.FundAccount, fundAccount),
		query(api.GetTreasurySummary, getTreasurySummary),
		mutation(api.Reconcile, reconcile),
	}
}

func openAccount(tx *store.Tx, r *request, body api.AccountRequest) (answer, error) {
	if err := agree(r, body.Owner); err != nil {
		return answer{}, err
	}
	unit := treasury.Msat
	if body.Unit != nil {
		unit = string(*body.Unit)
	}
	a, created, err := treasury.OpenAccount(tx, treasury.Account{Owner: r.caller.Owner, Unit: unit, Kind: treasury.Budget, Limit: body.Limit})
	if err != nil {
		return answer{}, err
	}
	return answer{existed: !created, value: accountOf(a)}, nil
}

// setAccountLimit changes what a budget may spend, up or down.
func setAccountLimit(tx *store.Tx, r *request, body api.LimitRequest) (answer, error) {
	id, err := ownAccount(tx, r)
	if err != nil {
		return answer{}, err
	}
	return accountAnswer(treasury.SetLimit(tx, id, body.Limit))
}

func closeAccount(tx *store.Tx, r *request, _ api.None) (answer, error) {
	id, err := ownAccount(tx, r)
	if err != nil {
		return answer{}, err
	}
	return accountAnswer(treasury.CloseAccount(tx, id))
}

// ownAccount is the account in the path, if it is the caller's to change.
func ownAccount(tx *store.Tx, r *request) (string, error) {
	id := r.PathValue("account_id")
	a, err := tx.LedgerAccount(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !r.caller.Owns(a.Owner) {
		return "", reason.Errorf(reason.NotFound, "no account %.128q", id)
	}
	return id, err
}

func accountAnswer(a treasury.Account, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{value: accountOf(a)}, nil
}

func fundAccount(tx *store.Tx, r *request, body api.FundRequest) (answer, error) {
	if err := within("amount", &body.Amount, 1, treasury.MaxFunding); err != nil {
		return answer{}, err
	}
	_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: transferID(r), Account: body.AccountID, Amount: body.Amount,
		Reason: "funded by " + r.caller.ID})
	if err != nil {
		return answer{}, err
	}
	a, err := tx.LedgerAccount(body.AccountID)
	if err != nil {
		return answer{}, err
	}
	return answer{value: accountOf(a)}, nil
}

// transferID makes the id of a transfer out of the scope of its request, so that
// the ledger refuses a second one even after the stored answer is forgotten.
func transferID(r *request) string {
	scope := strings.Join([]string{r.caller.ID, r.Method, r.route.Path, r.Header.Get(api.HeaderKey)}, "\n")
	sum := sha256.Sum256([]byte(scope))
	return "trf_" + hex.EncodeToString(sum[:16])
}

func accountOf(a treasury.Account) api.Account {
	out := api.Account{
		AccountID: a.ID, Owner: a.Owner, Holder: api.Optional(a.Holder), Unit: a.Unit, Kind: a.Kind, Limit: a.Limit,
		Closed: a.Closed(), CreatedAt: api.TimeOf(a.CreatedAt),
	}
	if a.Kind == treasury.Earnings {
		out.Earned = a.CreditsPosted
		return out
	}
	out.Funded, out.Reserved, out.Spent = a.CreditsPosted, a.DebitsPending, a.DebitsPosted
	if !a.Closed() {
		out.Remaining = a.Remaining()
	}
	return out
}

func reservationOf(r treasury.Reservation) api.Reservation {
	return api.Reservation{
		ReservationID: r.ID, Owner: r.Owner, Payer: r.Payer, Payee: r.Payee, RunID: r.RunID, JobID: r.JobID, AmountMsats: r.AmountMsats,
		Status: api.ReservationStatus(r.Status), Reason: api.Optional(r.Reason), ReservedAt: api.TimeOf(r.ReservedAt),
		ExpiresAt: api.TimeOf(r.ExpiresAt), SettledAt: api.OptionalTime(r.SettledAt),
	}
}

// ownerOf reads the owner that an administrator may ask about.
func ownerOf(r *request) (string, error) {
	owner := r.URL.Query().Get("owner")
	if owner == "" || owner == r.caller.Owner {
		return r.caller.Owner, nil
	}
	if !r.caller.Admin() {
		return "", &reason.Error{Code: reason.Forbidden, Field: "owner", Message: "only an administrator looks at what others have"}
	}
	return owner, nil
}

func getTreasurySummary(tx *store.Tx, r *request) (answer, error) {
	owner, err := ownerOf(r)
	if err != nil {
		return answer{}, err
	}
	o, err := treasury.Summary(tx, owner)
	if err != nil {
		return answer{}, err
	}
	out := api.TreasurySummary{
		Schema: api.TreasurySummarySchema(o.Schema), Owner: o.Owner, Accounts: []api.Account{}, ProviderEarnings: []api.ProviderEarning{},
		Totals: api.TreasuryTotals{
			ReservedMsats: o.Totals.ReservedMsats, ReleasedMsats: o.Totals.ReleasedMsats, WithheldMsats: o.Totals.WithheldMsats,
			ReservedCount: o.Totals.ReservedJobs, ReleasedCount: o.Totals.ReleasedJobs, WithheldCount: o.Totals.WithheldJobs,
		},
		RecentJobs: itemsOf(o.Recent, reservationOf), AsOf: api.TimeOf(o.AsOf),
	}
	for _, a := range o.Accounts {
		out.Accounts = append(out.Accounts, accountOf(a.Account))
	}
	for _, e := range o.Earnings {
		out.ProviderEarnings = append(out.ProviderEarnings, api.ProviderEarning{
			ProviderID: e.Holder, AccountID: e.Payee, Jobs: e.Jobs, EarnedMsats: e.AmountMsats})
	}
	if o.ReadOnly != nil {
		out.ReadOnly = &o.ReadOnly.Reason
	}
	return answer{value: out}, nil
}

// Bounds of a reconciliation by hand.
const maxReconcileAge = 366 * 24 * 3600

func reconcile(tx *store.Tx, r *request, body api.ReconcileRequest) (answer, error) {
	age, most := api.Value(body.MaxAgeSeconds), api.Value(body.MaxJobs)
	if err := errors.Join(within("max_age_seconds", body.MaxAgeSeconds, 0, maxReconcileAge),
		within("max_jobs", body.MaxJobs, 1, treasury.MaxSweep)); err != nil {
		return answer{}, err
	}
	freed, err := jobs.Reconcile(tx, r.caller.Principal, time.Duration(age)*time.Second, int(most))
	if err != nil {
		return answer{}, err
	}
	out := api.ReconcileSummary{Schema: api.ReconcileSummarySchemaRemitTreasuryReconcileV1, ReconciledAt: api.TimeOf(tx.Now()),
		ExpiredReservations: int64(len(freed)), UpdatedJobs: itemsOf(freed, reservationOf)}
	for _, f := range freed {
		out.FreedMsatsTotal += f.AmountMsats
	}
	return answer{value: out}, nil
}
