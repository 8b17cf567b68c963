package gateway

import (
	"strings"
	"time"
	"unicode"

	"remit/proof/reason"
	"remit/proof/record"
)

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
