package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/bridge"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// Settlement is how a job was judged and paid.
type Settlement struct {
	JobID         string
	JobHash       string
	RunID         string
	ProviderID    string
	ReservationID string
	AmountMsats   int64 // of the reservation, also after it was released
	Outcome       job.Outcome
	Passed        bool
	ExitCode      int
	Violations    []job.Violation
	Status        string // Released or Withheld
	Route         string
	Reason        string // "" when released
	ReceiptSHA256 string // of the verification receipt
	Verifier      string
}

// Settle judges the stored response of a job, moves its money and marks its
// provider. It writes exactly four events into the run's log. Settling again
// returns the first settlement with changed=false and writes nothing.
func Settle(tx *store.Tx, p authority.Principal, id string) (s Settlement, changed bool, err error) {
	if err := p.Require(authority.ScopeJobs); err != nil {
		return Settlement{}, false, err
	}
	j, err := lockOwn(tx, p, id)
	if err != nil {
		return Settlement{}, false, err
	}
	switch state := State(j.State); {
	case j.Outcome != "":
		s, err := settlementOf(j)
		return s, false, err
	case state == Expired:
		return Settlement{}, false, reason.Errorf(reason.ReservationExpired, "the reservation of job %s ran out before it was settled", id)
	case state.Final():
		return Settlement{}, false, reason.Errorf(reason.JobClosed, "job %s is %s: %s", id, state, j.Reason)
	case state != Submitted:
		return Settlement{}, false, reason.Errorf(reason.Conflict, "job %s is %s: there is no response to judge", id, state)
	}
	if s, err = settle(tx, p, j); err != nil {
		return Settlement{}, false, err
	}
	return s, true, nil
}

// settle decides first, then moves the money, which may still be refused, and
// only then writes the rest.
func settle(tx *store.Tx, p authority.Principal, j Job) (Settlement, error) {
	req, resp, err := read(j.Type, j.Request, j.Response)
	if err != nil {
		return Settlement{}, fmt.Errorf("settle job %s: %w", j.ID, err)
	}
	verdict := job.Check(req, resp)
	money, _, err := treasury.Resolve(tx, j.ReservationID, treasury.Resolution{
		Release: verdict.Passed, Reason: string(verdict.Reason), JobID: j.ID, ExitCode: verdict.ExitCode, Passed: verdict.Passed,
	})
	if err != nil {
		return Settlement{}, err
	}
	if err := setState(&j, Verified); err != nil {
		return Settlement{}, err
	}
	violations, err := json.Marshal(verdict.Violations)
	if err != nil {
		return Settlement{}, fmt.Errorf("settle job %s: %w", j.ID, err)
	}
	j.VerifiedAt, j.ClosedAt = tx.Now(), tx.Now()
	j.Outcome, j.ExitCode, j.Reason, j.Violations = string(verdict.Outcome), int64(verdict.ExitCode), string(verdict.Reason), violations
	j.Payment = money.Status
	proof, err := verification(tx, p, j, verdict, req, resp)
	if err != nil {
		return Settlement{}, err
	}
	j.ReceiptSHA256 = proof
	if err := (paid{job: j, status: money.Status, reason: j.Reason, resolution: money.ResolutionID, exitCode: verdict.ExitCode, verification: proof}).record(tx, p); err != nil {
		return Settlement{}, err
	}
	to := Failed
	if verdict.Passed {
		to = Settled
	}
	if err := setState(&j, to); err != nil {
		return Settlement{}, err
	}
	if j, err = save(tx, j); err != nil {
		return Settlement{}, err
	}
	if err := endAttempt(tx, j, string(to)); err != nil {
		return Settlement{}, err
	}
	if err := markProvider(tx, j, verdict); err != nil {
		return Settlement{}, err
	}
	return settlementOf(j)
}

// verification writes the receipt and the event of a verdict, and returns the
// digest of the receipt.
func verification(tx *store.Tx, p authority.Principal, j Job, v job.Verdict, req job.Request, resp job.Response) (string, error) {
	receiptType := authority.VerificationFailed
	if v.Passed {
		receiptType = authority.VerificationPassed
	}
	found := []map[string]any{}
	for _, violation := range v.Violations {
		found = append(found, map[string]any{"code": violation.Code, "detail": clip(violation.Detail), "provider": violation.Provider})
	}
	r, err := receipt(tx, j.RunID, p, receiptType, keyOf("verify", j), map[string]any{
		"job_id": j.ID, "job_hash": j.Hash, "provider_id": j.ProviderID, "verifier": job.VerifierVersion, "outcome": string(v.Outcome),
		"exit_code": v.ExitCode, "reason": string(v.Reason), "violations": found, "response_sha256": j.ResponseSHA256,
	})
	if err != nil {
		return "", err
	}
	commands := outcomesOf(req, resp)
	payload := map[string]any{"command": j.Type, "cwd": "", "duration_ms": int64(0)}
	if n := len(commands); n > 0 {
		payload = map[string]any{"command": commands[n-1]["command"], "cwd": commands[n-1]["cwd"], "duration_ms": commands[n-1]["duration_ms"]}
	}
	payload["exit_code"], payload["job_hash"], payload["job_id"], payload["commands"] = v.ExitCode, j.Hash, j.ID, commands
	err = event(tx, j.RunID, p, "verification", keyOf("verification", j), payload)
	return r.SHA256, err
}

// marks says what each outcome is to the provider.
var marks = map[job.Outcome]registry.Kind{
	job.Passed: registry.Success, job.JobFailed: registry.Unverified, job.ProviderFault: registry.Violation,
}

// markProvider marks the provider. A quarantine takes its open offers away.
func markProvider(tx *store.Tx, j Job, v job.Verdict) error {
	marked, err := registry.Mark(tx, j.ProviderID, j.ID, marks[v.Outcome], v.Reason)
	if err != nil || !marked.Quarantined {
		return err
	}
	return withdraw(tx, j.ProviderID, reason.ProviderQuarantined)
}

// settlementOf tells a settlement from the row of its job.
func settlementOf(j Job) (Settlement, error) {
	s := Settlement{
		JobID: j.ID, JobHash: j.Hash, RunID: j.RunID, ProviderID: j.ProviderID, ReservationID: j.ReservationID, AmountMsats: j.AmountMsats,
		Outcome: job.Outcome(j.Outcome), Passed: j.Outcome == string(job.Passed), ExitCode: int(j.ExitCode),
		Status: j.Payment, Route: Route, Reason: j.Reason, ReceiptSHA256: j.ReceiptSHA256, Verifier: job.VerifierVersion,
	}
	if err := json.Unmarshal(j.Violations, &s.Violations); err != nil {
		return Settlement{}, fmt.Errorf("read the violations of job %s: %w", j.ID, err)
	}
	return s, nil
}

// Verify judges a response without any effect, by the same rules.
func Verify(jobType string, request, response json.RawMessage) (job.Verdict, error) {
	req, resp, err := read(jobType, request, response)
	if err != nil {
		return job.Verdict{}, err
	}
	return job.Check(req, resp), nil
}

// The rail and asset of every payment: figures in the authority's own books,
// and no claim to be anything else.
const (
	Rail    = "remit_ledger"
	AssetID = "REMIT_LEDGER_MSAT"
	Route   = "internal_ledger"
)

// Ends of a payment.
const (
	Released = treasury.Released
	Withheld = treasury.Withheld
)

// price is what a provider asks for the present attempt of a job.
type price struct {
	reservation treasury.Reservation
	invalid     error                   // why there can be no such reservation
	basis       *store.ReservationBasis // nil: the accounts are not locked yet
}

// priceOf makes the reservation of a provider's price. A ttl of 0 is long enough
// for the job and for its settlement.
func priceOf(j Job, p registry.Provider, ttl time.Duration, needs job.Needs) price {
	if ttl == 0 {
		ttl = treasury.DefaultTTL + time.Duration(needs.TimeoutSecs)*time.Second
	}
	r, err := treasury.CompleteReservation(treasury.Reservation{
		TransferID: transferID(j), Owner: j.Owner, Payer: j.Payer, Payee: treasury.AccountID(p.ID, treasury.Msat, treasury.Earnings),
		RunID: j.RunID, JobID: j.ID, AmountMsats: p.PriceMsats, TTL: ttl,
	})
	return price{reservation: r, invalid: err}
}

// reserve holds the price of a locked provider.
func (m price) reserve(tx *store.Tx, j *Job, p registry.Provider) error {
	if m.invalid != nil {
		return m.invalid
	}
	m.reservation.AmountMsats = p.PriceMsats // which may have changed since it was chosen
	basis, err := m.lock(tx)
	if err != nil {
		return err
	}
	payee := basis.Accounts[m.reservation.Payee]
	own := treasury.Account{Owner: p.Owner, Holder: p.ID, Unit: treasury.Msat, Kind: treasury.Earnings}
	if payee.Owner != own.Owner || payee.Holder != own.Holder || payee.Unit != own.Unit || payee.Kind != own.Kind {
		if _, _, err := treasury.OpenAccount(tx, own); err != nil {
			return fmt.Errorf("open the account of provider %s: %w", p.ID, err)
		}
		m.basis = nil // the first job: the account is there now
		if basis, err = m.lock(tx); err != nil {
			return err
		}
	}
	held, _, err := treasury.ReserveLocked(tx, m.reservation, basis)
	if err != nil {
		return err
	}
	j.ReservationID, j.AmountMsats = held.ID, held.AmountMsats
	return nil
}

func (m price) lock(tx *store.Tx) (store.ReservationBasis, error) {
	if m.basis != nil {
		return *m.basis, nil
	}
	return tx.LockReservationBasis(treasury.ReservationKeys(m.reservation))
}

// transferID names the money of one attempt.
func transferID(j Job) string {
	sum := sha256.Sum256([]byte(j.ID + "\x00" + strconv.FormatInt(j.Attempt, 10)))
	return "trf_" + hex.EncodeToString(sum[:16])
}

// unaffordable returns the refusal when a reservation failed for want of money,
// which says something about the requester and nothing about the store.
func unaffordable(err error) *reason.Error {
	var e *reason.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code {
	case reason.InsufficientBudget, reason.AccountClosed:
		return e
	case reason.NotFound:
		return reason.Errorf(reason.InsufficientBudget, "%s", e.Message).WithHint("open a budget account and fund it")
	}
	return nil
}

// budgetReserved writes the receipt of a reservation.
func budgetReserved(tx *store.Tx, p authority.Principal, j Job) error {
	_, err := receipt(tx, j.RunID, p, authority.BudgetReserved, attemptKey("budget-reserved", j), map[string]any{
		"scope": "compute_job", "amount_msats": j.AmountMsats, "reservation_id": j.ReservationID, "job_id": j.ID,
		"job_hash": j.Hash, "provider_id": j.ProviderID, "payer": j.Payer, "idempotency_key": attemptKey("budget-reserved", j),
	})
	return err
}

// paid is how the money of an attempt ended.
type paid struct {
	job          Job
	status       string // Released or Withheld
	reason       string // of withholding
	resolution   string // transfer that resolved the reservation
	exitCode     int
	verification string // digest of the verification receipt, "" without a verdict
	lost         bool   // the attempt was lost and the job goes on elsewhere
}

// record writes the payment event and its receipt.
func (m paid) record(tx *store.Tx, p authority.Principal) error {
	j := m.job
	amount := int64(0)
	proof := map[string]any{"type": m.status, "value": m.resolution, "reservation_id": j.ReservationID, "provider_id": j.ProviderID}
	receiptType := authority.PaymentWithheld
	if m.status == Released {
		amount, receiptType = j.AmountMsats, authority.PaymentReleased
		proof["type"] = Route
	} else {
		proof["reason"], proof["exit_code"] = m.reason, m.exitCode
	}
	key := func(word string) string {
		k := keyOf(word, j) + ":" + m.status
		if m.lost {
			k = lostKey(k, j)
		}
		return k
	}
	if err := event(tx, j.RunID, p, "payment", key("payment"), map[string]any{
		"rail": Rail, "asset_id": AssetID, "amount_msats": amount, "job_hash": j.Hash, "job_id": j.ID, "status": m.status, "payment_proof": proof,
	}); err != nil {
		return err
	}
	r, err := receipt(tx, j.RunID, p, receiptType, key("receipt-payment"), map[string]any{
		"rail": Rail, "asset_id": AssetID,
		"job_hash": j.Hash, "job_id": j.ID, "amount_msats": amount, "reserved_msats": j.AmountMsats, "reason": m.reason,
		"reservation_id": j.ReservationID, "provider_id": j.ProviderID, "settlement_route": Route, "resolution_id": m.resolution,
		"verification_receipt_sha256": m.verification,
	})
	if err != nil || m.verification == "" {
		return err
	}
	return mirror(tx, j, m.verification, r.SHA256, m.status)
}

// budgetOf is the account that pays for an owner's jobs.
func budgetOf(owner string) string { return treasury.AccountID(owner, treasury.Msat, treasury.Budget) }

// affordable reports whether the payer could hold another price once the
// present reservation of the job is given back. It locks the account, so that
// the answer stays true.
func affordable(tx *store.Tx, j Job, price int64) (bool, error) {
	held, err := tx.LockReservation(j.ReservationID)
	if err != nil {
		return false, fmt.Errorf("read the reservation of job %s: %w", j.ID, err)
	}
	accounts, err := tx.LockLedgerAccounts(j.Payer)
	if err != nil {
		return false, err
	}
	payer, ok := accounts[j.Payer]
	if held.Status == treasury.Reserved {
		payer.DebitsPending -= held.AmountMsats
	}
	return ok && !payer.Closed() && payer.Remaining() >= price, nil
}

// mirror points to the two receipts of a settlement, of the verdict and of the
// payment. A job that ended without a verdict has nothing that the world could
// rely on.
func mirror(tx *store.Tx, j Job, verification, payment, status string) error {
	for _, digest := range []string{verification, payment} {
		if err := bridge.Point(tx, j.Owner, bridge.Pointer{
			ProviderID: j.ProviderID, RunID: j.RunID, JobHash: j.Hash, ReceiptSHA256: digest, Settlement: status,
		}); err != nil {
			return err
		}
	}
	return nil
}
