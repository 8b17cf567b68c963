package gateway

import (
	"math/bits"

	"remit/proof/reason"
)

// Price is what a model costs, in millionths of a dollar per million tokens:
// $3 per million tokens is 3_000_000.
type Price struct {
	InMicroUSDPerMTok         int64
	CacheReadMicroUSDPerMTok  int64
	CacheWriteMicroUSDPerMTok int64
	OutMicroUSDPerMTok        int64

	// CacheWriteHourMicroUSDPerMTok is for what is cached for an hour; 0: as
	// the other cache writes.
	CacheWriteHourMicroUSDPerMTok int64
	// UpToInTokens is the longest prompt that has this price; 0: any. A longer
	// one costs more than this table knows, so its cost is unknown.
	UpToInTokens int64
}

// maxPrice and maxTokens keep every product inside 64 bits.
const (
	maxPrice  = 10_000_000_000 // $10,000 a million tokens
	maxTokens = 100_000_000    // of one kind in one answer
)

// builtin are the list prices in US dollars of the standard service tier, for
// prompts of the length that the entry names. A model that is not here has no
// known price until the user states one.
//
// Anthropic: the pages of Opus 5 and 5.5 at platform.claude.com/docs; the other
// models and the cache prices after release notes of 2026-10-16 and 2026-10-24
// that copy its pricing page. OpenAI: developers.openai.com/api/docs/pricing, not
// read itself but after published copies of 2026-09-18 (gpt-5.x, gpt-6-astra) and
// 2026-09-23 (gpt-6-sol, gpt-6-luna), which one of 2026-10-16 found unchanged.
// Its older models have no price for a cache write; it is taken to cost what the
// input costs.
var builtin = map[string]Price{
	"anthropic/claude-opus-5-5":   perMTok(4, 0.20, 5, 20).hour(8),
	"anthropic/claude-opus-5":     perMTok(5, 0.50, 6.25, 25).hour(10),
	"anthropic/claude-sonnet-5-5": perMTok(2, 0.10, 2.50, 10).hour(4),
	"anthropic/claude-haiku-5-5":  perMTok(0.10, 0.01, 0.125, 0.50).hour(0.20).upTo(100_000),
	"anthropic/claude-haiku-4-5":  perMTok(1, 0.10, 1.25, 5).hour(2),

	"openai/gpt-6-astra":  perMTok(10, 1, 12.50, 50).upTo(272_000),
	"openai/gpt-6-sol":    perMTok(2, 0.20, 2.50, 10).upTo(272_000),
	"openai/gpt-6-luna":   perMTok(0.10, 0.01, 0.125, 0.50).upTo(272_000),
	"openai/gpt-5.5":      perMTok(5, 0.50, 5, 30).upTo(272_000),
	"openai/gpt-5.4":      perMTok(2.50, 0.25, 2.50, 15).upTo(272_000),
	"openai/gpt-5.4-mini": perMTok(0.75, 0.075, 0.75, 4.50),
}

// perMTok makes a price from dollars per million tokens, as providers print it.
func perMTok(in, cacheRead, cacheWrite, out float64) Price {
	return Price{InMicroUSDPerMTok: micro(in), CacheReadMicroUSDPerMTok: micro(cacheRead), CacheWriteMicroUSDPerMTok: micro(cacheWrite),
		OutMicroUSDPerMTok: micro(out)}
}

func (p Price) hour(usd float64) Price {
	p.CacheWriteHourMicroUSDPerMTok = micro(usd)
	return p
}

func (p Price) upTo(tokens int64) Price {
	p.UpToInTokens = tokens
	return p
}

func micro(usd float64) int64 { return int64(usd*1_000_000 + 0.5) }

// PriceKnown reports whether there is a price for a model, in the user's table
// or the built-in one.
func PriceKnown(provider, model string, prices map[string]Price) bool {
	return listed(provider, model, prices) != nil
}

// Costs reports whether a model costs anything, as far as its price is known.
func Costs(provider, model string, prices map[string]Price) (costs, known bool) {
	p := listed(provider, model, prices)
	return p != nil && p.dearest()+p.OutMicroUSDPerMTok > 0, p != nil
}

// listed finds a price, the user's first.
func listed(provider, model string, prices map[string]Price) *Price {
	for _, table := range []map[string]Price{prices, builtin} {
		for _, name := range []string{model, undated(model)} {
			if p, ok := table[provider+"/"+name]; ok {
				return &p
			}
		}
	}
	return nil
}

// priceOf finds the price of the admitted model, nil if it is not known. A
// dated release has the price of its name.
func priceOf(o Options) (*Price, error) {
	for name, p := range o.Prices {
		for _, part := range []int64{p.InMicroUSDPerMTok, p.CacheReadMicroUSDPerMTok, p.CacheWriteMicroUSDPerMTok, p.OutMicroUSDPerMTok,
			p.CacheWriteHourMicroUSDPerMTok} {
			if part < 0 || part > maxPrice {
				return nil, misconfigured("the price of %q has a part that is not between 0 and %d micro-dollars a million tokens", name,
					int64(maxPrice))
			}
		}
	}
	if p := listed(o.Upstream.Provider, o.Model, o.Prices); p != nil {
		return p, nil
	}
	if o.Limits.MicroUSD > 0 && o.Upstream.Class != Local {
		return nil, reason.Errorf(reason.PriceUnknown, "the run may cost %d micro-dollars, and no price is known for %q of %q",
			o.Limits.MicroUSD, o.Model, o.Upstream.Provider).WithHint("state the price of %q in a file and give it with --prices, or limit tokens instead", o.Upstream.Provider+"/"+o.Model)
	}
	return nil, nil
}

// cost is what a usage costs, rounded up to a whole micro-dollar; not known
// for a prompt that is longer than the price is for.
func (p *Price) cost(u Usage) (microUSD int64, known bool) {
	if u.Tokens() == 0 {
		return 0, true
	}
	if p == nil || p.UpToInTokens > 0 && u.In() > p.UpToInTokens {
		return 0, false
	}
	return p.rate(u), true
}

// rate is what a usage costs by this price, whatever its length.
func (p *Price) rate(u Usage) int64 {
	hour := p.CacheWriteHourMicroUSDPerMTok
	if hour == 0 {
		hour = p.CacheWriteMicroUSDPerMTok
	}
	var high, low uint64
	add := func(tokens, price int64) {
		h, l := bits.Mul64(uint64(max(tokens, 0)), uint64(price))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high += h + carry
	}
	add(u.InUncached, p.InMicroUSDPerMTok)
	add(u.CacheRead, p.CacheReadMicroUSDPerMTok)
	add(u.CacheWrite-u.CacheWriteHour, p.CacheWriteMicroUSDPerMTok)
	add(u.CacheWriteHour, hour)
	add(u.Out, p.OutMicroUSDPerMTok)
	sum, rest := bits.Div64(high, low, 1_000_000) // tokens and prices are bounded: high is far below the divisor
	if rest > 0 {
		sum++
	}
	return int64(sum)
}

// dearest is a price per input token that no kind of input exceeds.
func (p *Price) dearest() int64 {
	return max(p.InMicroUSDPerMTok, p.CacheReadMicroUSDPerMTok, p.CacheWriteMicroUSDPerMTok, p.CacheWriteHourMicroUSDPerMTok)
}
