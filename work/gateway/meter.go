package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"remit/proof/reason"
)

// meter follows one answer: which model gives it, what it uses, and whether it
// has come to its protocol's own end.
type meter struct {
	protocol  Protocol
	hideUsage bool // the usage chunk was asked for by the gateway and not by the engine

	model     string // that answers, by the first name that is not the admitted one's
	admitted  string // the one that should
	usage     Usage
	metered   bool        // the usage is final
	strange   bool        // it has a figure that is none, so that it is not known
	began     bool        // the first event of the protocol was seen
	concluded bool        // the model has said why it stopped
	stop      Stop        // and this is why
	said      bool        // a text or a call was seen
	words     *content    // until then
	failed    reason.Code // the provider says that the answer failed, and this is how
	pieces    int64       // of the answer, each about a token
}

// step is what becomes of an event.
type step int

const (
	pass  step = iota // it goes on to the engine
	hide              // it stays here
	last              // it goes on, and the stream has ended as it should
	fatal             // it goes on, and is an error: no clean end follows
)

// errMalformed is an answer that is not of its protocol.
var errMalformed = errors.New("the answer does not follow its protocol")

// event takes the next event of a stream. An error means that the stream must
// not go on.
func (m *meter) event(e event) (step, error) {
	if !e.some {
		return pass, nil // a comment
	}
	m.pieces++
	switch m.protocol {
	case Chat:
		return m.chatEvent(e)
	case Responses:
		return m.responsesEvent(e)
	default:
		return m.messagesEvent(e)
	}
}

// decode reads JSON that must be an object.
func decode(data []byte, v any) error {
	if i := space(data, 0); i == len(data) || data[i] != '{' {
		return fmt.Errorf("%w: it is no JSON object", errMalformed)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s", errMalformed, jsonProblem(err))
	}
	return nil
}

// jsonProblem says what is wrong with JSON without repeating any of it.
func jsonProblem(err error) string {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "a value is of the wrong type"
	}
	return "it is no JSON"
}

// given reports whether a member is there and not null.
func given(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// named keeps the model's name: the first that an answer tells, or the first
// that is another model's. Each piece of a stream may tell one.
func (m *meter) named(model string) {
	if m.model == "" || model != "" && sameModel(m.admitted, m.model) && !sameModel(m.admitted, model) {
		m.model = model
	}
}

// saw notes what an event says, until it says something.
func (m *meter) saw(data []byte) {
	if m.said {
		return
	}
	if m.words == nil {
		m.words = &content{calls: map[string]*strings.Builder{}}
	}
	m.words.take(m.protocol, data)
	if m.words.something() {
		m.said, m.words = true, nil
	}
}

// known reports whether the usage is: the answer has reported all of it, in figures.
func (m *meter) known() bool { return m.metered && !m.strange }

// ended is why the answer ended, "" if it did not.
func (m *meter) ended() Stop {
	switch {
	case !m.concluded || m.failed != "":
		return ""
	case m.stop == StopEnd && !m.said && (m.words != nil && m.words.thought || m.usage.Reasoning > 0):
		return StopReasoning
	}
	return m.stop
}

// whole takes an answer that is not a stream.
func (m *meter) whole(body []byte) error {
	if !valid(body) {
		return fmt.Errorf("%w: it is no JSON", errMalformed)
	}
	m.pieces = int64(len(body)) / 4
	m.concluded = true
	switch m.protocol {
	case Chat:
		return m.chatWhole(body)
	case Responses:
		return m.responsesWhole(body)
	default:
		return m.messagesWhole(body)
	}
}

// count is a number of tokens as a provider states it. What is no number,
// negative, broken or beyond reason is strange: it counts as 0, and makes the
// usage one that is not known.
type count struct {
	n       int64
	strange bool
}

// UnmarshalJSON never fails: a strange count must not end an answer.
func (c *count) UnmarshalJSON(b []byte) error {
	var n float64
	switch err := json.Unmarshal(b, &n); {
	case string(b) == "null":
	case err != nil || n < 0 || n > maxTokens || n != math.Trunc(n):
		c.strange = true
	default:
		c.n = int64(n)
	}
	return nil
}

// odd reports whether one of the counts is strange.
func odd(counts ...count) bool {
	return slices.ContainsFunc(counts, func(c count) bool { return c.strange })
}

// split divides a prompt whose length includes what was cached.
func split(in, read, write count) Usage {
	hit := min(read.n, in.n)
	kept := min(write.n, in.n-hit)
	return Usage{InUncached: in.n - hit - kept, CacheRead: hit, CacheWrite: kept}
}

// passing are parts of the error types and codes that stand for a state of the
// provider, and not for something wrong with the request.
var passing = []string{"overloaded", "rate_limit", "server_error", "api_error", "internal", "unavailable", "timeout"}

// failure is the reason for an error that a provider reports inside an answer.
func failure(raw json.RawMessage) reason.Code {
	var e struct {
		Type json.RawMessage `json:"type"`
		Code json.RawMessage `json:"code"`
	}
	if json.Unmarshal(raw, &e) == nil {
		said := strings.ToLower(string(e.Type) + " " + string(e.Code))
		for _, p := range passing {
			if strings.Contains(said, p) {
				return reason.ProviderUnavailable
			}
		}
		var own providerError
		if json.Unmarshal([]byte(`{"error":`+string(raw)+`}`), &own) == nil && own.quota(0) {
			return reason.QuotaExhausted
		}
	}
	return reason.ProviderRefused
}
