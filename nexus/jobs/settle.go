package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/bridge"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
	"remit/proof/record"
)

// Settlement is how a job was judged and paid, with the reasons of the verdict.
type Settlement struct {
	record.Settlement
	Outcome    job.Outcome
	ExitCode   int
	Violations []record.Violation
}

// Settle judges the stored response of a job, moves its money and marks its
// provider. It writes exactly four events into the run's log, and ends a run that was
// made for its jobs. Settling again returns the first settlement with changed=false and
// writes nothing.
func Settle(tx *store.Tx, p authority.Principal, id string) (s Settlement, changed bool, err error) {
	j, s, changed, err := settleJob(tx, p, id)
	if changed {
		err = endWithJob(tx, j)
	}
	return s, changed, err
}

// settleJob is Settle for one who ends the run.
func settleJob(tx *store.Tx, p authority.Principal, id string) (j Job, s Settlement, changed bool, err error) {
	if err := p.Require(authority.ScopeJobs); err != nil {
		return j, Settlement{}, false, err
	}
	j, err = lockOwn(tx, p, id)
	if err != nil {
		return j, Settlement{}, false, err
	}
	switch state := State(j.State); {
	case j.Outcome != "":
		s, err := settlementOf(j)
		return j, s, false, err
	case state == Expired:
		return j, Settlement{}, false, reason.Errorf(reason.ReservationExpired, "the reservation of job %s ran out before it was settled", id)
	case state.Final():
		return j, Settlement{}, false, reason.Errorf(reason.JobClosed, "job %s is %s: %s", id, state, j.Reason)
	case state != Submitted:
		return j, Settlement{}, false, reason.Errorf(reason.Conflict, "job %s is %s: there is no response to judge", id, state)
	}
	if s, err = settle(tx, p, j); err != nil {
		return j, Settlement{}, false, err
	}
	return j, s, true, nil
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
	if err := (paid{job: j, status: money.Status, reason: j.Reason, resolution: money.ResolutionID, exitCode: verdict.ExitCode,
		verification: proof}).record(tx, p); err != nil {
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
	receiptType := record.VerificationFailed
	if v.Passed {
		receiptType = record.VerificationPassed
	}
	found := slices.Clone(v.Violations)
	for i := range found {
		found[i].Detail = clip(found[i].Detail)
	}
	r, err := receipt(tx, j.RunID, p, receiptType, keyOf("verify", j), record.Verdict{
		JobID: j.ID, JobHash: j.Hash, ProviderID: j.ProviderID, Verifier: job.VerifierVersion, Outcome: string(v.Outcome),
		ExitCode: v.ExitCode, Reason: v.Reason, Violations: found, ResponseSHA256: j.ResponseSHA256,
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
	s := Settlement{Outcome: job.Outcome(j.Outcome), ExitCode: int(j.ExitCode), Settlement: record.Settlement{
		JobID: j.ID, JobHash: j.Hash, RunID: j.RunID, ProviderID: j.ProviderID, ReservationID: j.ReservationID, ReservedMsats: j.AmountMsats,
		Passed: j.Outcome == string(job.Passed), Status: j.Payment, Reason: j.Reason, VerificationReceiptSHA256: j.ReceiptSHA256,
	}}
	if s.Status == record.Released {
		s.SettledMsats = s.ReservedMsats
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
		return reason.Errorf(reason.InsufficientBudget, "%s", e.Message).
			WithHint("`remit treasury account --limit MSATS` opens an account, and an administrator funds it with `remit treasury fund ACCOUNT --amount MSATS`")
	}
	return nil
}

// budgetReserved writes the receipt of a reservation.
func budgetReserved(tx *store.Tx, p authority.Principal, j Job) error {
	_, err := receipt(tx, j.RunID, p, record.BudgetReserved, attemptKey("budget-reserved", j), record.Reservation{
		Scope: "compute_job", AmountMsats: j.AmountMsats, ReservationID: j.ReservationID, JobID: j.ID,
		JobHash: j.Hash, ProviderID: j.ProviderID, Payer: j.Payer, IdempotencyKey: attemptKey("budget-reserved", j),
	})
	return err
}

// paid is how the money of an attempt ended.
type paid struct {
	job          Job
	status       string // record.Released or record.Withheld
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
	proof := record.PaymentProof{Type: m.status, Value: m.resolution, ReservationID: j.ReservationID, ProviderID: j.ProviderID}
	receiptType := record.PaymentWithheld
	if m.status == record.Released {
		amount, receiptType = j.AmountMsats, record.PaymentReleased
		proof.Type = record.Route
	} else {
		proof.Reason, proof.ExitCode = &m.reason, &m.exitCode
	}
	key := func(word string) string {
		k := keyOf(word, j) + ":" + m.status
		if m.lost {
			k = lostKey(k, j)
		}
		return k
	}
	if err := event(tx, j.RunID, p, "payment", key("payment"), record.PaymentLine{
		Rail: record.Rail, AssetID: record.AssetID, AmountMsats: amount, JobHash: j.Hash, JobID: j.ID, Status: m.status, Proof: proof,
	}); err != nil {
		return err
	}
	r, err := receipt(tx, j.RunID, p, receiptType, key("receipt-payment"), record.Payment{
		Rail: record.Rail, AssetID: record.AssetID, JobHash: j.Hash, JobID: j.ID, AmountMsats: amount, ReservedMsats: j.AmountMsats,
		Reason: m.reason, ReservationID: j.ReservationID, ProviderID: j.ProviderID, Route: record.Route, ResolutionID: m.resolution,
		VerificationReceiptSHA256: m.verification,
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
