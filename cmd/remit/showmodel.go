package main

import (
	"fmt"
	"io"
	"time"

	"remit/proof/evidence"
)

// printModel says what the model cost, and how the engine ended if that was not
// its own end.
func printModel(w io.Writer, rep *evidence.Report) {
	if l := rep.Lifecycle; l != nil {
		why := "its time was over"
		if l.Stopped == evidence.StoppedIdle {
			why = "it gave no sign of life"
		}
		allowed := "the contract does not allow that"
		if l.Rule == evidence.LifecycleAllow {
			allowed = "the contract allows that for a change that verifies"
		}
		fmt.Fprintf(w, "  stopped   after %s, because %s; %s\n", time.Duration(l.AfterMS)*time.Millisecond, why, allowed)
	}
	u := rep.Usage
	if u.CostKnown == nil || rep.ModelProvider == nil || rep.Model == nil {
		return
	}
	cost := fmt.Sprintf("$%d.%06d", u.CostMicroUSD/1_000_000, u.CostMicroUSD%1_000_000)
	if !*u.CostKnown {
		cost = unknownCost(u)
	}
	fmt.Fprintf(w, "  model     %s of %s: %d request(s), %d tokens, %s\n", plain(*rep.Model), plain(*rep.ModelProvider), u.Requests, u.Tokens, cost)
}

// unknownCost says as much of a cost as is known, and why it is not all. A report
// does not say whether there was a price: it shows in what was counted.
func unknownCost(u evidence.MeteredUsage) string {
	switch {
	case u.CostMicroUSD > 0:
		return fmt.Sprintf("at least $%d.%06d: what some of it cost is not known", u.CostMicroUSD/1_000_000, u.CostMicroUSD%1_000_000)
	case u.Tokens == 0:
		return "a cost that is not known: nobody said what was used"
	}
	return "a cost that is not known: no price that holds for it is (--prices)"
}
