package evidence

import (
	"encoding/json"
	"fmt"

	"remit/proof/journal"
	"remit/proof/record"
)

// A run that asks a model has one usage.metered, written when its gateway was
// closed, and one model.request for each request, written as it ended. The
// second kind outlives a process that is killed; the first has to be made of it
// then, and never says less than it.

// Asked adds up the requests to a model that a journal has. CostKnown is nil
// where there is none, also none that was refused.
func Asked(entries []journal.Entry) (MeteredUsage, error) {
	var sum MeteredUsage
	known := true
	for i := range entries {
		e := &entries[i]
		if e.Name != StepModel || e.Status == journal.Started || string(e.Outputs) == "{}" {
			continue
		}
		var q record.ModelRequest
		if err := json.Unmarshal(e.Outputs, &q); err != nil {
			return MeteredUsage{}, fmt.Errorf("reading journal entry %d: %w", e.Seq, err)
		}
		sum.CostKnown = &known
		if q.Refused != "" {
			continue
		}
		sum.Requests++
		known = known && q.CostKnown
		for _, n := range []int64{q.Usage.InUncached, q.Usage.CacheRead, q.Usage.CacheWrite, q.Usage.Out} {
			sum.Tokens = counted(sum.Tokens, n)
		}
		sum.CostMicroUSD = counted(sum.CostMicroUSD, q.CostMicroUSD)
	}
	return sum, nil
}

// counted adds a number of a journal, which may be forged: it takes
// nothing away and does not wrap around.
func counted(sum, n int64) int64 {
	const most = 1 << 60
	return min(most, sum+min(most, max(0, n)))
}

// contradictUsage holds what the run is said to have used against the requests
// one by one.
func (r *run) contradictUsage(agree agreeFunc) {
	asked, err := Asked(r.entries)
	agree(err == nil, "a request to a model does not have its form: %v", err)
	if err != nil || asked.CostKnown == nil || r.completed == nil {
		return
	}
	u := r.usage
	agree(u.Requests >= asked.Requests && u.Tokens >= asked.Tokens && u.CostMicroUSD >= asked.CostMicroUSD,
		"%d request(s), %d tokens and %d micro-USD are counted, the requests add up to %d, %d and %d",
		u.Requests, u.Tokens, u.CostMicroUSD, asked.Requests, asked.Tokens, asked.CostMicroUSD)
	agree(u.CostKnown != nil && (!*u.CostKnown || *asked.CostKnown), "the cost of the model is stated as known, and that of a request is not")
}
