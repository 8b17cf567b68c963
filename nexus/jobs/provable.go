package jobs

import (
	"errors"

	"remit/law/job"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

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
		return reason.Errorf(reason.InsufficientBudget, "%q has no budget account", owner).WithHint("open a budget account and fund it")
	case err != nil:
		return err
	case budget.Closed():
		return reason.Errorf(reason.AccountClosed, "account %q is closed", budget.ID)
	case budget.Remaining() < price:
		return reason.Errorf(reason.InsufficientBudget, "account %q has %d %s left, and the proof costs %d", budget.ID, budget.Remaining(), treasury.Msat, price)
	}
	return nil
}
