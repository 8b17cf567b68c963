package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/proof/record"
)

// Run is a run as its log has made it.
type Run = store.RunRow

// Limits of a run.
const (
	maxRef      = 500
	maxMetadata = 64
	maxValue    = 2000
	// ClaimTTL is how long a claim counts for which no run is made.
	ClaimTTL = 24 * time.Hour
	// ClaimSilence is how long the log of a run may be silent before its claim
	// counts no longer: no client has reported how it ended.
	ClaimSilence = 12 * time.Hour
	// DefaultPolicyBundle stands where a run names none.
	DefaultPolicyBundle = "remit.local.default"
)

// ClaimRequest says who is going to work on an issue.
type ClaimRequest struct {
	RepoRef  string
	IssueRef string
}

// Claim is a claim of an issue.
type Claim struct {
	ID string // clm_ and hex
	store.ClaimRow
}

func claimOf(c store.ClaimRow) Claim {
	sum := sha256.Sum256([]byte(strings.Join([]string{c.Owner, c.RepoRef, c.IssueID, c.Identity, strconv.FormatInt(c.ClaimedAt, 10)}, "\x00")))
	return Claim{ID: "clm_" + hex.EncodeToString(sum[:16]), ClaimRow: c}
}

// ClaimIssue claims an issue of an owner for the principal that asks. Another
// principal's claim is a conflict until it ends; one's own is returned as it is.
func ClaimIssue(tx *store.Tx, p authority.Principal, r ClaimRequest) (Claim, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return Claim{}, err
	}
	if err := checkRef("repo_ref", r.RepoRef, true); err != nil {
		return Claim{}, err
	}
	if err := checkRef("issue_ref", r.IssueRef, true); err != nil {
		return Claim{}, err
	}
	return claim(tx, p, r, "")
}

// claim writes a claim, or binds one's own to a run.
func claim(tx *store.Tx, p authority.Principal, r ClaimRequest, runID string) (Claim, error) {
	was, err := tx.Claim(p.Owner, r.RepoRef, r.IssueRef)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Claim{}, err
	}
	now := tx.Now()
	live := err == nil && (was.RunID != "" || now < was.ExpiresAt)
	if live && was.RunID != "" {
		left, err := abandoned(tx, was.RunID)
		if err != nil {
			return Claim{}, err
		}
		live = !left
	}
	switch {
	case live && was.RunID != "" && runID == "" && was.Identity == p.ID:
		return claimOf(was), nil
	case live && was.RunID != "":
		return Claim{}, reason.Errorf(reason.Conflict, "issue %q of %q is being worked on by run %s", r.IssueRef, r.RepoRef, was.RunID).
			WithHint("wait for its end. If it has ended and could not say so, `remit resume SESSION` does, or POST /v1/runs/%s/finish; after %d hours of silence its claim counts no longer",
				was.RunID, int(ClaimSilence.Hours()))
	case live && was.Identity != p.ID:
		return Claim{}, reason.Errorf(reason.Conflict, "issue %q of %q is claimed by %q", r.IssueRef, r.RepoRef, was.Identity)
	case live && runID == "":
		return claimOf(was), nil
	}
	is := was
	if !live {
		is = store.ClaimRow{Owner: p.Owner, RepoRef: r.RepoRef, IssueID: r.IssueRef, Identity: p.ID, ClaimedAt: now}
	}
	is.RunID, is.ExpiresAt = runID, now+ClaimTTL.Milliseconds()
	written, err := tx.PutClaim(is, was)
	if err != nil {
		return Claim{}, err
	}
	if !written {
		return Claim{}, reason.Errorf(reason.Conflict, "issue %q of %q was claimed at the same moment", r.IssueRef, r.RepoRef)
	}
	c := claimOf(is)
	_, err = authority.Post(tx, authority.AccountStream(p.Owner), p, record.IssueClaimed, keyIssueClaimed+":"+c.ID, c.payload())
	return c, err
}

// abandoned reports whether nothing has been written into the log of a run for
// so long that its claim counts no longer.
func abandoned(tx *store.Tx, runID string) (bool, error) {
	quiet, err := silence(tx, runID)
	return quiet >= ClaimSilence, err
}

func (c Claim) payload() record.Claim {
	return record.Claim{ClaimID: c.ID, IssueID: c.IssueID, RepoRef: c.RepoRef, Identity: c.Identity}
}

// RunRequest makes a run.
type RunRequest struct {
	RepoRef        string
	IssueRef       string // "" when the run is for no issue
	PolicyBundleID string
	Metadata       map[string]string
	// Key is the Idempotency-Key of the request, by which the run is found again.
	Key string
	// Silence is how long the log of the run may be silent while it has no open
	// job; then the authority ends it. 0: as long as the authority says.
	Silence time.Duration
	// Summary is what is known of the run already, see [evidence.RunSummary].
	Summary json.RawMessage
	// Proof is what the run will ask for in the end, nil when that is not known
	// yet. With it a run that could not be proved is not made.
	Proof *ProofRequest
}

// CreateRun makes a run, claims its issue and starts it. Its log begins with
// RunCreated, IssueClaimed (for an issue) and run.started.
func CreateRun(tx *store.Tx, p authority.Principal, r RunRequest) (Run, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return Run{}, err
	}
	if err := r.validate(); err != nil {
		return Run{}, err
	}
	metadata, err := canon.Marshal(r.Metadata)
	if err != nil {
		return Run{}, invalid("metadata", "is outside the hashed subset of JSON: %w", err)
	}
	if err := provable(tx, p.Owner, r.Proof); err != nil {
		return Run{}, err
	}
	run := Run{
		ID: newID("run_"), Owner: p.Owner, State: string(RunCreated), RepoRef: r.RepoRef, IssueRef: r.IssueRef,
		PolicyBundleID: r.PolicyBundleID, Metadata: metadata, RequestKey: r.Key, Silence: r.Silence.Milliseconds(), CreatedBy: p.ID,
	}
	if r.Metadata[MetadataForm] != "" { // found by what was asked for, until its bundle says more
		run.RunFacts = store.RunFacts{Engine: evidence.CutText(r.Metadata["engine"], maxValue),
			Model: evidence.CutText(r.Metadata["model"], maxValue)}
	}
	if run, err = tx.InsertRun(run); err != nil {
		return Run{}, err
	}
	if _, err := receipt(tx, run.ID, p, record.RunCreated, keyRunCreated, record.Run{
		RunID: run.ID, SessionID: run.ID, RepoRef: run.RepoRef, IssueRef: run.IssueRef,
		PolicyBundleID: run.PolicyBundleID, Owner: run.Owner,
	}); err != nil {
		return Run{}, err
	}
	if r.IssueRef != "" {
		c, err := claim(tx, p, ClaimRequest{RepoRef: r.RepoRef, IssueRef: r.IssueRef}, run.ID)
		if err != nil {
			return Run{}, err
		}
		if _, err := receipt(tx, run.ID, p, record.IssueClaimed, keyIssueClaimed, c.payload()); err != nil {
			return Run{}, err
		}
	}
	if err := tellSummary(tx, &run, r.Summary); err != nil {
		return Run{}, err
	}
	if err := moveRun(tx, &run, runMove{event: EventStarted}); err != nil {
		return Run{}, err
	}
	return run, event(tx, run.ID, p, EventStarted, keyRunStarted, map[string]any{"source": "nexus"})
}

func (r *RunRequest) validate() error {
	if r.PolicyBundleID == "" {
		r.PolicyBundleID = DefaultPolicyBundle
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	for _, f := range []struct {
		field, text string
		required    bool
	}{{"repo_ref", r.RepoRef, true}, {"issue_ref", r.IssueRef, false}, {"policy_bundle_id", r.PolicyBundleID, true}} {
		if err := checkRef(f.field, f.text, f.required); err != nil {
			return err
		}
	}
	if len(r.Metadata) > maxMetadata {
		return invalid("metadata", "has %d entries, may have %d", len(r.Metadata), maxMetadata)
	}
	for name, value := range r.Metadata {
		if len(name) > maxRef || len(value) > maxValue || strings.ContainsRune(value, 0) {
			return invalid("metadata", "an entry is too long or has a NUL")
		}
	}
	if r.Silence != 0 && (r.Silence < MinSilence || r.Silence > MaxSilence) {
		return invalid("silence_secs", "is %d, must be %d to %d", int64(r.Silence.Seconds()), int64(MinSilence.Seconds()),
			int64(MaxSilence.Seconds()))
	}
	return nil
}

// checkRef checks a name that people give to a thing outside.
func checkRef(field, s string, required bool) error {
	if required && s == "" || len(s) > maxRef || strings.ContainsFunc(s, unicode.IsControl) {
		return invalid(field, "must be 1 to %d bytes without control characters", maxRef)
	}
	return nil
}

// FindRun reads a run that a principal may see.
func FindRun(tx *store.Tx, p authority.Principal, id string) (Run, error) {
	return visibleRun(p, id)(tx.Run(id))
}

func lockRun(tx *store.Tx, p authority.Principal, id string) (Run, error) {
	return visibleRun(p, id)(tx.LockRun(id))
}

func visibleRun(p authority.Principal, id string) func(Run, error) (Run, error) {
	return func(r Run, err error) (Run, error) {
		if errors.Is(err, store.ErrNotFound) || err == nil && !p.Owns(r.Owner) {
			return Run{}, noRun(id)
		}
		return r, err
	}
}

func noRun(id string) error { return reason.Errorf(reason.NotFound, "no run %.128q", id) }

// Runs returns the runs of the principal's owner, the newest first, before the
// given one.
func Runs(tx *store.Tx, p authority.Principal, before string, limit int) ([]Run, error) {
	return tx.RunsOf(p.Owner, before, limit)
}

// moveRun changes the state of a locked run along the table.
func moveRun(tx *store.Tx, r *Run, m runMove) error {
	to, err := RunState(r.State).next(m)
	if err != nil || string(to) == r.State {
		return err
	}
	r.State = string(to)
	if to == RunRunning {
		r.StartedAt = tx.Now()
	}
	if to.Final() {
		r.FinishedAt = tx.Now()
	}
	r.Revision++
	return tx.SetRunState(r.ID, r.State, r.StartedAt, r.FinishedAt)
}

// receipt writes a receipt into a run's log.
func receipt(tx *store.Tx, runID string, p authority.Principal, receiptType, key string, payload any) (record.Receipt, error) {
	return authority.Post(tx, authority.RunStream(runID), p, receiptType, key, payload)
}

// event writes an event into a run's log.
func event(tx *store.Tx, runID string, p authority.Principal, eventType, key string, payload any) error {
	return authority.PostEvent(tx, authority.RunStream(runID), p, eventType, key, payload, 0)
}

// ProofRequest says what a run will ask for when its change is to be proved.
type ProofRequest struct {
	Needs         job.Needs
	MaxPriceMsats int64 // 0: whatever the best choice costs
}

// provable refuses a run whose proof no provider could make, or its owner not pay,
// as things are, before an agent has cost something. It promises nothing: no money
// is held, and [Dispatch] checks again.
func provable(tx *store.Tx, owner string, r *ProofRequest) error {
	if r == nil {
		return nil
	}
	if r.MaxPriceMsats < 0 {
		return invalid("proof.max_price_msats", "is negative")
	}
	candidates, err := registry.Candidates(tx, owner, 0)
	if err != nil {
		return err
	}
	s, err := registry.Choose(tx, candidates, registry.Query{Owner: owner, Needs: r.Needs, MaxPriceMsats: r.MaxPriceMsats, Now: tx.Now()})
	if err != nil {
		return err
	}
	if len(s.Choices) == 0 {
		return rejection(s.Refused, "")
	}
	return payable(tx, owner, s.Choices[0].Provider.PriceMsats)
}

// payable refuses a price that the budget of an owner does not have left.
func payable(tx *store.Tx, owner string, price int64) error {
	budget, err := tx.LedgerAccount(budgetOf(owner))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return reason.Errorf(reason.InsufficientBudget, "%q has no budget account", owner).
			WithHint("`remit treasury account --limit MSATS` opens an account, and an administrator funds it with `remit treasury fund ACCOUNT --amount MSATS`")
	case err != nil:
		return err
	case budget.Closed():
		return reason.Errorf(reason.AccountClosed, "account %q is closed", budget.ID)
	case budget.Remaining() < price:
		return reason.Errorf(reason.InsufficientBudget, "account %q has %d %s left, and the proof costs %d", budget.ID, budget.Remaining(),
			treasury.Msat, price)
	}
	return nil
}

// forgetBatch bounds the runs that one transaction forgets: each may have a
// thousand jobs.
const forgetBatch = 5

// Forget removes the logs, jobs and artifacts of runs that ended longer ago than
// kept, a few at a time. What stays: the runs themselves, their sealed bundles, all
// of the ledger, and the journals of accounts and providers. It returns how many
// runs it were, and the digests of content that they have no more.
func Forget(tx *store.Tx, kept time.Duration) (runs int, digests []string, err error) {
	ids, err := tx.RunsToForget(tx.Now()-kept.Milliseconds(), forgetBatch)
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		run, err := tx.LockRun(id)
		if err != nil {
			return 0, nil, err
		}
		if !RunState(run.State).Final() || run.ForgottenAt > 0 {
			continue // another replica was faster
		}
		gone, err := tx.ForgetRun(id, func(name string) bool { _, ok := job.BundleEntries(name); return ok })
		if err != nil {
			return 0, nil, fmt.Errorf("forget run %s: %w", id, err)
		}
		runs, digests = runs+1, append(digests, gone...)
	}
	return runs, digests, nil
}
