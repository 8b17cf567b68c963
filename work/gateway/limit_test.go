package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"remit/proof/reason"
	"remit/proof/record"
)

// used is a handler that reports a usage.
func used(in, out int) http.HandlerFunc {
	return plain(200, "application/json", fmt.Sprintf(`{"model":%q,"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, model, in, out))
}

// A run stops at the first request after the limit was reached: never before,
// and never more than one request late.
func TestLimits(t *testing.T) {
	t.Parallel()
	dollar := map[string]Price{"openai/" + model: {InMicroUSDPerMTok: 1_000_000, OutMicroUSDPerMTok: 10_000_000}}
	for name, test := range map[string]struct {
		limits  Limits
		handler http.HandlerFunc
		pass    int
		spent   int64 // micro-dollars
	}{
		"none":                   {Limits{}, used(1, 1), 5, 55},
		"requests":               {Limits{Requests: 3}, used(1, 1), 3, 33},
		"tokens, to the token":   {Limits{Tokens: 300}, used(90, 10), 3, 570},
		"tokens, one short":      {Limits{Tokens: 301}, used(90, 10), 4, 760},
		"one request is too big": {Limits{Tokens: 10}, used(90, 10), 1, 190},
		"money, to the cent":     {Limits{MicroUSD: 380}, used(90, 10), 2, 380},
		"money, one short":       {Limits{MicroUSD: 381}, used(90, 10), 3, 570},
		"free answers":           {Limits{MicroUSD: 1, Tokens: 1}, used(0, 0), 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, test.handler)
			e := open(t, up.URL, func(o *Options) { o.Limits, o.Prices = test.limits, dollar }, nil)
			for i := range 5 {
				got := e.post(t, "/v1/chat/completions", ask(Chat, false, `,"max_tokens":100`))
				if (got.StatusCode == http.StatusOK) != (i < test.pass) {
					t.Fatalf("request %d: %d %s", i, got.StatusCode, got.body)
				}
				if i >= test.pass {
					refusedForm(t, &got, reason.BudgetExhausted)
				}
			}
			total := e.Totals()
			if up.count() != test.pass || total.Requests != int64(test.pass) || total.CostMicroUSD != test.spent || total.Refused != int64(5-test.pass) {
				t.Errorf("asked %d times, totals %+v", up.count(), total)
			}
			if want := reason.Code(""); test.pass < 5 {
				want = reason.BudgetExhausted
				if total.Exhausted != want {
					t.Errorf("exhausted: %q", total.Exhausted)
				}
			} else if total.Exhausted != want {
				t.Errorf("exhausted: %q", total.Exhausted)
			}
		})
	}
}

// Requests side by side are no way around a limit: near to it they wait for
// each other, far from it they do not.
func TestLimitsSideBySide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit    int64
		more     string
		most     int // answers before the limit, and one more
		together int // requests that the provider has at a time
	}{
		"near, with a known most":   {1000, `,"max_tokens":500`, 2, 1},
		"near, with no known most":  {5000, ``, 6, 1},
		"far":                       {1 << 40, `,"max_tokens":500`, 8, 8},
		"far, but nothing is known": {1 << 40, ``, 8, 1},
		"far, with stored content":  {1 << 40, `,"max_tokens":500,"stop":[{"file_id":"x"}]`, 8, 1},
		"no limit":                  {0, ``, 8, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			here, most := 0, 0
			full := make(chan struct{})
			up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				here++
				most = max(most, here)
				if here == test.together && test.together > 1 {
					close(full)
				}
				mu.Unlock()
				if test.together > 1 {
					<-full // all of them are here at the same time, or this never ends
				}
				mu.Lock()
				here--
				mu.Unlock()
				used(900, 100)(w, r)
			})
			e := open(t, up.URL, func(o *Options) { o.Limits.Tokens, o.StoredState = test.limit, true }, nil)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { e.post(t, "/v1/chat/completions", ask(Chat, false, test.more)) })
			}
			wg.Wait()
			if most != test.together {
				t.Errorf("%d requests at a time, want %d", most, test.together)
			}
			late := e.Totals().Tokens() - test.limit
			if up.count() > test.most || test.limit > 0 && test.limit < 1<<40 && late >= 1000 {
				t.Errorf("%d answers, %d tokens beyond the limit", up.count(), late)
			}
		})
	}
}

// A request that waits its turn can be given up.
func TestGivenUpWhileWaiting(t *testing.T) {
	t.Parallel()
	l := newLedger(Limits{Tokens: 100}, nil)
	if bad := l.admit(t.Context(), most{}, false); bad != nil {
		t.Fatal(bad)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if bad := l.admit(ctx, most{}, false); bad == nil || bad.code != reason.Cancelled {
		t.Errorf("got %+v", bad)
	}
	l.end(most{}, &record.ModelRequest{UsageKnown: true}, Usage{})
	if bad := l.admit(ctx, most{}, false); bad != nil {
		t.Errorf("nothing to wait for, and refused: %+v", bad)
	}
}

// Whatever the order of beginnings and ends: nothing is let go after a limit was
// reached, nothing is refused before, and what was spent is below the limit plus
// the most of one request.
func TestLedgerKeepsItsLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 100_000).Draw(t, "limit")
		l := newLedger(Limits{Tokens: limit}, nil)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel() // a request that would wait comes back at once
		type running struct {
			most most
			use  int64
		}
		var open []running
		var spent, largest int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				r := open[i]
				open = append(open[:i], open[i+1:]...)
				l.end(r.most, &record.ModelRequest{UsageKnown: true, Usage: Usage{Out: r.use}}, Usage{})
				spent += r.use
				continue
			}
			bytes, out := rapid.Int64Range(0, 1000).Draw(t, "bytes"), rapid.Int64Range(-1, 20_000).Draw(t, "out")
			m := l.most(bytes, out)
			use := rapid.Int64Range(0, max(m.tokens, 500)).Draw(t, "use")
			bad := l.admit(cancelled, m, false)
			switch {
			case bad == nil && spent >= limit:
				t.Fatalf("let go at %d of %d", spent, limit)
			case bad != nil && bad.code == reason.BudgetExhausted && spent < limit:
				t.Fatalf("refused at %d of %d", spent, limit)
			case bad != nil && bad.code == reason.Cancelled && len(open) == 0:
				t.Fatal("waits for no request")
			case bad == nil:
				open = append(open, running{m, use})
				largest = max(largest, use)
			}
		}
		for _, r := range open {
			spent += r.use
		}
		if spent >= limit+max(largest, 1) {
			t.Fatalf("spent %d of %d, and the largest request has %d", spent, limit, largest)
		}
	})
}

func TestCost(t *testing.T) {
	t.Parallel()
	price := builtin["anthropic/claude-opus-5-5"]
	tiered := builtin["openai/gpt-5.5"]
	for name, test := range map[string]struct {
		price *Price
		usage Usage
		cost  int64
		known bool
	}{
		"nothing":            {&price, Usage{}, 0, true},
		"nothing, no price":  {nil, Usage{}, 0, true},
		"no price":           {nil, Usage{Out: 1}, 0, false},
		"all kinds":          {&price, Usage{InUncached: 1000, CacheRead: 10_000, CacheWrite: 2000, Out: 500, Reasoning: 400}, 4000 + 2000 + 10_000 + 10_000, true},
		"kept for an hour":   {&price, Usage{CacheWrite: 2000, CacheWriteHour: 1500}, 500*5 + 1500*8, true},
		"rounded up":         {&price, Usage{CacheRead: 1}, 1, true},
		"a million":          {&price, Usage{InUncached: 1_000_000}, 4_000_000, true},
		"up to its length":   {&tiered, Usage{InUncached: 200_000, CacheRead: 72_000}, 1_036_000, true},
		"one more":           {&tiered, Usage{InUncached: 200_000, CacheRead: 72_001}, 0, false},
		"beyond all reason":  {&Price{InMicroUSDPerMTok: maxPrice, OutMicroUSDPerMTok: maxPrice}, Usage{InUncached: maxTokens, Out: maxTokens}, 2_000_000_000_000, true},
		"reasoning is in it": {&price, Usage{Out: 100, Reasoning: 100}, 2000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cost, known := test.price.cost(test.usage); cost != test.cost || known != test.known {
				t.Errorf("got %d, %t; want %d, %t", cost, known, test.cost, test.known)
			}
		})
	}
}

// The user's price wins, a dated release has the price of its name, and a limit
// in dollars without a price is refused before anything is asked.
func TestPriceOf(t *testing.T) {
	t.Parallel()
	mine := map[string]Price{"openai/gpt-5.5": {OutMicroUSDPerMTok: 7}}
	for name, test := range map[string]struct {
		o    Options
		want *Price
		code reason.Code
	}{
		"built in":      {Options{Upstream: Upstream{Provider: "anthropic"}, Model: "claude-haiku-4-5"}, ptr(builtin["anthropic/claude-haiku-4-5"]), ""},
		"dated":         {Options{Upstream: Upstream{Provider: "anthropic"}, Model: "claude-haiku-4-5-20251001"}, ptr(builtin["anthropic/claude-haiku-4-5"]), ""},
		"own":           {Options{Upstream: Upstream{Provider: "openai"}, Model: "gpt-5.5", Prices: mine}, ptr(mine["openai/gpt-5.5"]), ""},
		"own for dated": {Options{Upstream: Upstream{Provider: "openai"}, Model: "gpt-5.5-2026-04-23", Prices: mine}, ptr(mine["openai/gpt-5.5"]), ""},
		"of another":    {Options{Upstream: Upstream{Provider: "azure"}, Model: "gpt-5.5"}, nil, ""},
		"unknown":       {Options{Upstream: Upstream{Provider: "openai"}, Model: "gpt-99", Limits: Limits{MicroUSD: 1}}, nil, reason.PriceUnknown},
		"local":         {Options{Upstream: Upstream{Provider: "local", Class: Local}, Model: "x", Limits: Limits{MicroUSD: 1}}, nil, ""},
		"negative":      {Options{Model: "x", Prices: map[string]Price{"a/b": {InMicroUSDPerMTok: -1}}}, nil, reason.LocalConfigMissing},
		"too much":      {Options{Model: "x", Prices: map[string]Price{"a/b": {OutMicroUSDPerMTok: maxPrice + 1}}}, nil, reason.LocalConfigMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := priceOf(test.o)
			if reason.CodeOf(err) != test.code || (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	for name, p := range builtin {
		if p.CacheReadMicroUSDPerMTok >= p.InMicroUSDPerMTok || p.InMicroUSDPerMTok > p.CacheWriteMicroUSDPerMTok || p.InMicroUSDPerMTok >= p.OutMicroUSDPerMTok ||
			p.CacheReadMicroUSDPerMTok == 0 || strings.Count(name, "/") != 1 {
			t.Errorf("%s: %+v is no known price", name, p)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// A figure that is none is no usage: the run learns that it is not known what it
// used, and what its size suggests counts towards the limits.
func TestStrangeCountsAreUnmetered(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"150000000", "-5", `"7"`, "1e300", "0.5"} {
		up := newProvider(t, plain(200, "application/json", fmt.Sprintf(`{"model":%q,"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":%s,"completion_tokens":5}}`, model, in)))
		e := open(t, up.URL, func(o *Options) { o.Limits.Tokens = 200 }, nil)
		n := 0
		for ; n < 100 && e.post(t, "/v1/chat/completions", ask(Chat, false, "")).StatusCode == http.StatusOK; n++ {
			continue
		}
		total := e.Totals()
		if n > 15 || total.Unmetered != int64(n) || total.CostKnown || e.all()[0].UsageKnown || e.all()[0].CostKnown {
			t.Errorf("%s: %d requests, %+v", in, n, total)
		}
	}
}

// A cost that is not known is said in the record and in the totals, and the
// other requests are still counted.
func TestUnknownCost(t *testing.T) {
	t.Parallel()
	up := newProvider(t, used(1000, 10), used(300_000, 10), plain(200, "application/json", `{"model":"gpt-5.5","choices":[{"message":{"content":"x"}}]}`))
	e := open(t, up.URL, func(o *Options) { o.Limits.MicroUSD = 100_000_000 }, nil)
	for range 3 {
		e.post(t, "/v1/chat/completions", ask(Chat, false, ""))
	}
	all := e.all()
	if !all[0].CostKnown || all[0].CostMicroUSD != 5300 || all[1].CostKnown || !all[1].UsageKnown || all[2].CostKnown || all[2].UsageKnown {
		t.Errorf("records: %+v", all)
	}
	if total := e.Totals(); total.CostKnown || total.CostMicroUSD != 5300 || total.Unmetered != 1 || total.InUncached != 301_000 {
		t.Errorf("totals: %+v", total)
	}
	if spent := e.ledger.spent(); spent.microUSD < 5300+1_500_000 {
		t.Errorf("a long prompt is free of charge: %+v", spent)
	}
}
