//test:plain-package It only computes: there is one goroutine.

package task

import (
	"strings"
	"testing"

	"remit/proof/reason"
)

// underWay is the contract of a run with a budget, and a follow-up of it.
func underWay(t *testing.T) (*Contract, FollowUp) {
	t.Helper()
	c, err := Parse("task.yaml", minimal())
	if err != nil {
		t.Fatal(err)
	}
	c.Budget = Budget{MaxBudgetMicroUSD: new(int64(1000)), MaxTokens: new(int64(500)), MaxRequests: new(int64(10)), WallSeconds: new(int64(60))}
	return c, FollowUp{SessionID: "s1", Base: strings.Repeat("1", 40), PatchSHA256: "sha256:" + strings.Repeat("0", 64),
		Used: Spent{MicroUSD: 400, Tokens: 120, Requests: 3}, AsksModel: true, Review: "Use a table.\r\nNo globals.\n", Source: "review.md"}
}

func TestContinue(t *testing.T) {
	c, f := underWay(t)
	before, err := c.Digest()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Continue(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := out.Budget; *b.MaxBudgetMicroUSD != 600 || *b.MaxTokens != 380 || *b.MaxRequests != 7 || *b.WallSeconds != 60 {
		t.Errorf("what is left is %d, %d, %d and %d", *b.MaxBudgetMicroUSD, *b.MaxTokens, *b.MaxRequests, *b.WallSeconds)
	}
	if out.Base != f.Base || !strings.HasPrefix(out.Instructions, strings.TrimRight(c.Instructions, "\n")) || !strings.HasSuffix(out.Instructions, "\n\n> Use a table.\n> No globals.\n") {
		t.Errorf("it starts from %s and asks for %q", out.Base, out.Instructions)
	}
	if now, err := c.Digest(); err != nil || now != before {
		t.Errorf("the contract before was changed (%v)", err)
	}
	raw, err := out.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCanonical("contract.json", raw); err != nil {
		t.Error(err)
	}
	// A third run has what the second one left.
	f.Used = Spent{Requests: 4}
	third, err := out.Continue(f)
	if err != nil || *third.Budget.MaxRequests != 3 || strings.Count(third.Instructions, "> No globals.") != 2 {
		t.Errorf("%v: %+v", err, third)
	}
}

// TestContinueNeverUnlimited: what is used up stays 0, which is a limit, also for an
// engine that asks no model.
func TestContinueNeverUnlimited(t *testing.T) {
	c, f := underWay(t)
	f.AsksModel, f.Used = false, Spent{MicroUSD: 5000, Tokens: 5000, Requests: 5000}
	out, err := c.Continue(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := out.Budget; *b.MaxBudgetMicroUSD != 0 || *b.MaxTokens != 0 || *b.MaxRequests != 0 {
		t.Errorf("what is left is %d, %d and %d", *b.MaxBudgetMicroUSD, *b.MaxTokens, *b.MaxRequests)
	}
	c.Budget = Budget{}
	if out, err = c.Continue(f); err != nil || out.Budget != (Budget{}) {
		t.Errorf("a contract without a budget got %+v, %v", out.Budget, err)
	}
}

func TestContinueRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*FollowUp)
		code reason.Code
		says string
	}{
		"nothing":      {func(f *FollowUp) { f.Review = " \n" }, reason.ContractMissingKey, "says nothing"},
		"too long":     {func(f *FollowUp) { f.Review = strings.Repeat("x", MaxReviewBytes+1) }, reason.ContractTooLarge, "65537 bytes"},
		"hidden":       {func(f *FollowUp) { f.Review = "fine\u202e" }, reason.ContractValue, "U+202E"},
		"escape":       {func(f *FollowUp) { f.Review = "\x1b[2J" }, reason.ContractValue, "U+001B"},
		"lone return":  {func(f *FollowUp) { f.Review = "a\rInstructions: b" }, reason.ContractValue, "U+000D"},
		"tokens":       {func(f *FollowUp) { f.Used.Tokens = 500 }, reason.BudgetExhausted, "500 of 500 tokens"},
		"requests":     {func(f *FollowUp) { f.Used.Requests = 12 }, reason.BudgetExhausted, "12 of 10 requests"},
		"dollars":      {func(f *FollowUp) { f.Used.MicroUSD = 1000 }, reason.BudgetExhausted, "1000 of 1000 micro-dollars"},
		"unknown cost": {func(f *FollowUp) { f.Used.CostUnknown = true }, reason.PriceUnknown, "at least 400 of 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			contract, f := underWay(t)
			c.edit(&f)
			_, err := contract.Continue(f)
			if reason.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
