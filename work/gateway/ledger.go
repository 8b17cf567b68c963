package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"remit/proof/reason"
	"remit/proof/record"
)

// Limits end a run. 0 is no limit.
type Limits struct {
	MicroUSD int64 // cost
	Tokens   int64 // all kinds
	Requests int64 // that go to the provider: Remit's own probes and each further try count
}

// ledger counts what was spent and decides whether one more request may go.
//
// A request may go while what was spent is below every limit, whatever it will
// cost itself: that is the one request by which a run may be late. For that to
// hold with requests side by side, a request waits while those under way could
// reach a limit if they used all that they may.
type ledger struct {
	limits Limits
	price  *Price // nil: unknown

	mu      sync.Mutex
	totals  Totals
	models  map[string]bool
	assumed spending // of answers without a usage; counts towards the limits only
	open    spending // the most that requests under way may use
	vague   int      // requests under way for which no most is known
	ended   chan struct{}
}

// spending is what the limits are about.
type spending struct{ tokens, microUSD int64 }

// most is the most that a request may use.
type most struct {
	spending
	known bool
}

func newLedger(limits Limits, price *Price) *ledger {
	if price == nil {
		limits.MicroUSD = 0 // a local model: what has no price cannot be held against a limit
	}
	return &ledger{limits: limits, price: price, totals: Totals{CostKnown: true}, models: map[string]bool{}, ended: make(chan struct{})}
}

// promptOverhead is what a provider may add to a prompt by itself: the system
// text of tool use, separators, an image that is small in bytes.
const promptOverhead = 16 << 10

// most estimates from above. A token of a prompt has at least one byte. out is
// negative if the request does not say how long its answer may be.
func (l *ledger) most(bytes, out int64) most {
	in := bytes + promptOverhead
	if out < 0 || out > maxTokens {
		return most{}
	}
	m := most{spending: spending{tokens: in + out}, known: true}
	if l.price == nil {
		return m
	}
	if l.price.UpToInTokens > 0 && in > l.price.UpToInTokens {
		return most{} // it may have a price that is not known
	}
	dear := Price{InMicroUSDPerMTok: l.price.dearest(), OutMicroUSDPerMTok: l.price.OutMicroUSDPerMTok}
	m.microUSD = dear.rate(Usage{InUncached: in, Out: out})
	return m
}

// admit lets a request go, waits until that can be decided, or refuses.
func (l *ledger) admit(ctx context.Context, m most, probe bool) *refusal {
	for {
		l.mu.Lock()
		if why := l.exhausted(); why != "" {
			l.totals.Exhausted = reason.BudgetExhausted
			l.mu.Unlock()
			return refuse(reason.BudgetExhausted, statusRefused, "%s", why)
		}
		if !l.undecided() {
			l.begin(m, probe)
			l.mu.Unlock()
			return nil
		}
		ended := l.ended
		l.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return refuse(reason.Cancelled, statusCancelled, "the request was given up while it waited for the ones before it")
		}
	}
}

// exhausted says which limit was reached, "" if none.
func (l *ledger) exhausted() string {
	spent := l.spent()
	switch {
	case l.limits.MicroUSD > 0 && spent.microUSD >= l.limits.MicroUSD:
		return "the run has spent its budget in dollars"
	case l.limits.Tokens > 0 && spent.tokens >= l.limits.Tokens:
		return "the run has used its budget of tokens"
	case l.allRequests():
		return "the run has made as many requests as it may"
	}
	return ""
}

// allRequests reports whether the provider was asked as often as it may be.
func (l *ledger) allRequests() bool {
	return l.limits.Requests > 0 && l.totals.Requests+l.totals.Retries >= l.limits.Requests
}

// retry counts a further try of a request that was let go; false if there may
// be none.
func (l *ledger) retry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allRequests() {
		return false
	}
	l.totals.Retries++
	return true
}

func (l *ledger) spent() spending {
	return spending{l.totals.Tokens() + l.assumed.tokens, l.totals.CostMicroUSD + l.assumed.microUSD}
}

// undecided reports whether the requests under way could reach a limit.
func (l *ledger) undecided() bool {
	if l.vague > 0 {
		return l.limits.MicroUSD > 0 || l.limits.Tokens > 0
	}
	spent := l.spent()
	return l.limits.MicroUSD > 0 && spent.microUSD+l.open.microUSD >= l.limits.MicroUSD ||
		l.limits.Tokens > 0 && spent.tokens+l.open.tokens >= l.limits.Tokens
}

func (l *ledger) begin(m most, probe bool) {
	l.totals.Requests++
	if probe {
		l.totals.Probes++
	}
	if !m.known {
		l.vague++
		return
	}
	l.open.tokens += m.tokens
	l.open.microUSD += m.microUSD
}

// end books a request that begin let go. suggested is the usage that an answer
// without one seems to have had. It fills in the record's cost.
func (l *ledger) end(m most, rec *record.ModelRequest, suggested Usage) {
	rec.CostMicroUSD, rec.CostKnown = l.price.cost(rec.Usage)
	rec.CostKnown = rec.CostKnown && rec.UsageKnown
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.known {
		l.open.tokens -= m.tokens
		l.open.microUSD -= m.microUSD
	} else {
		l.vague--
	}
	t := &l.totals
	t.Usage = t.Usage.Plus(rec.Usage)
	t.CostMicroUSD += rec.CostMicroUSD
	t.CostKnown = t.CostKnown && rec.CostKnown
	if rec.Mismatch {
		t.Mismatches++
	}
	if rec.ModelAnswered != "" && len(l.models) < maxModels {
		l.models[rec.ModelAnswered] = true
	}
	l.assume(rec, suggested)
	close(l.ended)
	l.ended = make(chan struct{})
}

// maxModels bounds what a provider that names a new model each time costs.
const maxModels = 100

// assume counts towards the limits what the record cannot tell.
func (l *ledger) assume(rec *record.ModelRequest, suggested Usage) {
	missing := Usage{}
	if !rec.UsageKnown {
		l.totals.Unmetered++
		missing.InUncached = max(0, suggested.InUncached-rec.Usage.In())
		missing.Out = max(0, suggested.Out-rec.Usage.Out)
		l.assumed.tokens += missing.Tokens()
	}
	if l.price == nil {
		return
	}
	if _, known := l.price.cost(rec.Usage); !known { // longer than the price is for
		missing = missing.Plus(rec.Usage)
	}
	l.assumed.microUSD += l.price.rate(missing)
}

// refused counts a request that did not go.
func (l *ledger) refused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Refused++
}

// full reports whether the run has asked so often that a request is not even
// read, and counts that one. What is refused has a bound of its own, whatever a
// limit allows to be asked; what goes out has one where no limit is.
func (l *ledger) full(most int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.totals
	flooded := t.Refused >= most
	if !flooded && (l.limits.Requests > 0 || t.Requests-t.Probes < most) {
		return false
	}
	t.Refused++
	t.Flooded = t.Flooded || flooded
	t.Exhausted = reason.BudgetExhausted
	return true
}

func (l *ledger) sum() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.totals
	t.Models = slices.Sorted(maps.Keys(l.models))
	return t
}

// Stop is why a model ended its answer.
type Stop = record.Stop

// The reasons of the three protocols, as far as they make a difference.
const (
	StopEnd       Stop = "end"       // it was through, or calls a tool
	StopLength    Stop = "length"    // it was cut: the answer or the context was full
	StopFilter    Stop = "filter"    // the provider held it back, or the model declined
	StopReasoning Stop = "reasoning" // it was through, and there is nothing but what it thought
)

// stopOf sorts the words of the three protocols.
func stopOf(word string) Stop {
	switch word {
	case "length", "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		return StopLength
	case "content_filter", "refusal":
		return StopFilter
	}
	return StopEnd
}

// Usage counts tokens.
type Usage = record.TokenUsage

// Totals sum up the requests of a gateway.
type Totals struct {
	Usage
	Requests     int64 `json:"requests"` // forwarded, Remit's own probes among them, further tries not
	Probes       int64 `json:"probes"`
	Retries      int64 `json:"retries"` // attempts beyond the first; the provider saw Requests+Retries at most
	Refused      int64 `json:"refused"`
	Flooded      bool  `json:"flooded"`   // so many were refused that no more are answered
	Unmetered    int64 `json:"unmetered"` // answers that did not report their usage
	CostMicroUSD int64 `json:"cost_micro_usd"`
	CostKnown    bool  `json:"cost_known"` // of every request
	Mismatches   int64 `json:"mismatches"`
	// Models are the names that answers gave, sorted.
	Models []string `json:"models"`
	// Exhausted is budget_exhausted once a request was refused for a limit.
	Exhausted reason.Code `json:"exhausted"`
}

// maxShown bounds what a record repeats of a foreign text.
const maxShown = 200

// shown makes foreign text fit for a record: credentials out, printable, short.
func (g *Gateway) shown(text string) string {
	if len(text) > 8*maxShown {
		text = text[:8*maxShown] // before the search: it need not read a megabyte of path
	}
	text = g.secrets.clean(strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown
	for text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + "…"
}

// sameModel reports whether a provider's name for what answered is the model
// that was asked: the name itself, or a dated release of it
// ("gpt-5.5-2026-04-23", "claude-haiku-4-5-20251001").
func sameModel(asked, answered string) bool {
	if answered == asked {
		return true
	}
	date, ok := strings.CutPrefix(answered, strings.TrimSuffix(asked, "-latest")+"-")
	return ok && isDate(date)
}

// isDate reports whether s is YYYYMMDD or YYYY-MM-DD.
func isDate(s string) bool {
	for _, layout := range []string{"20060102", time.DateOnly} {
		if _, err := time.Parse(layout, s); err == nil && len(s) == len(layout) {
			return true
		}
	}
	return false
}

// undated is a model's name without the date of its release.
func undated(model string) string {
	for _, n := range []int{len("-20060102"), len("-2006-01-02")} {
		if at := len(model) - n; at > 0 && model[at] == '-' && isDate(model[at+1:]) {
			return model[:at]
		}
	}
	return model
}
