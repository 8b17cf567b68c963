package record

import (
	"time"

	"remit/proof/reason"
)

// Protocol is a wire protocol that engines speak: chat, responses or messages.
type Protocol string

// Stop is why a model ended its answer: end, length, filter or reasoning.
type Stop string

// ModelRequest is one request to a model: the outputs of model.request. It holds
// no content and no credential.
type ModelRequest struct {
	Seq      int64     `json:"seq"` // in the order of arrival, from 1
	At       time.Time `json:"at"`
	Protocol Protocol  `json:"protocol"` // "" if the path belongs to none
	Path     string    `json:"path"`     // as asked, cut and made printable
	Stream   bool      `json:"stream"`
	Probe    bool      `json:"probe"` // Remit's own, before the engine starts

	// Agent is which of its agents an engine asks for, if it has several.
	Agent string `json:"agent,omitempty"`

	ModelAsked    string `json:"model_asked"`    // by the engine
	ModelAnswered string `json:"model_answered"` // as the answer names it, "" if it names none
	// Mismatch says that the answer names another model than the one it was
	// asked from. A dated release of the same name is no other model.
	Mismatch bool `json:"mismatch"`

	Status  int         `json:"status"`  // that the engine got
	Refused reason.Code `json:"refused"` // "" when the request was forwarded
	Failed  reason.Code `json:"failed"`  // why a forwarded request has no usable answer, "" if it has
	// Detail says in words what Refused or Failed mean here, without an address
	// and without the provider's words.
	Detail string `json:"detail"`
	Stop   Stop   `json:"stop"` // why the answer ended, "" if it did not come to its end

	// The digests are of the bodies as they left the gateway, with credentials
	// taken out; that of a refused request, which did not leave, as it came.
	RequestSHA256  string `json:"request_sha256"`
	ResponseSHA256 string `json:"response_sha256"`
	RequestBytes   int64  `json:"request_bytes"`
	ResponseBytes  int64  `json:"response_bytes"`

	Usage        TokenUsage `json:"usage"`
	UsageKnown   bool       `json:"usage_known"` // false: the answer did not report all of it
	CostMicroUSD int64      `json:"cost_micro_usd"`
	CostKnown    bool       `json:"cost_known"`

	LatencyMS   int64 `json:"latency_ms"`
	FirstByteMS int64 `json:"first_byte_ms"` // until the engine got the first byte of an answer
	Retries     int   `json:"retries"`
}

// TokenUsage counts tokens. The four parts do not overlap.
type TokenUsage struct {
	InUncached int64 `json:"in_uncached"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Out        int64 `json:"out"`

	Reasoning      int64 `json:"reasoning"`        // part of Out
	CacheWriteHour int64 `json:"cache_write_hour"` // part of CacheWrite: kept for an hour, at a higher price
}

// Tokens is the sum that a token limit is about.
func (u TokenUsage) Tokens() int64 { return u.InUncached + u.CacheRead + u.CacheWrite + u.Out }

// In is the length of the prompt.
func (u TokenUsage) In() int64 { return u.InUncached + u.CacheRead + u.CacheWrite }

// Plus returns the sum of both.
func (u TokenUsage) Plus(v TokenUsage) TokenUsage {
	return TokenUsage{InUncached: u.InUncached + v.InUncached, CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Out: u.Out + v.Out, Reasoning: u.Reasoning + v.Reasoning, CacheWriteHour: u.CacheWriteHour + v.CacheWriteHour}
}
