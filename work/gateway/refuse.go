package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/proof/record"
)

// Statuses of refusals. 400 is the one that no engine tries again.
const (
	statusRefused   = http.StatusBadRequest
	statusCancelled = 499 // the engine is gone; it stands in the record
)

// refusal is an answer of the gateway's own.
type refusal struct {
	code    reason.Code
	status  int
	message string
}

func refuse(code reason.Code, status int, format string, args ...any) *refusal {
	return &refusal{code, status, fmt.Sprintf(format, args...)}
}

// formOf guesses the protocol of a path that is none of the admitted, so that
// the client can read the refusal.
func formOf(path string) Protocol {
	if strings.Contains(path, "/messages") {
		return Messages
	}
	return Chat
}

// body writes a refusal in a protocol's own form.
func (r *refusal) body(p Protocol) []byte {
	message := fmt.Sprintf("%s (remit: %s)", r.message, r.code)
	var v any
	switch p {
	case Messages:
		v = map[string]any{"type": "error", "error": map[string]any{"type": messagesType(r.status), "message": message, "code": r.code}}
	default:
		v = map[string]any{"error": map[string]any{"type": "remit_refused", "message": message, "param": nil, "code": r.code}}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always have an encoding
	}
	return append(b, '\n')
}

// messagesType is the error type that the messages protocol has for a status.
func messagesType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// event writes a refusal as the last event of a stream that broke.
func (r *refusal) event(p Protocol) []byte {
	message := fmt.Sprintf("%s (remit: %s)", r.message, r.code)
	switch p {
	case Responses:
		b, err := json.Marshal(map[string]any{"type": "response.failed", "response": map[string]any{"id": "resp_remit", "object": "response",
			"status": "failed", "error": map[string]any{"code": r.code, "message": message}}})
		if err != nil {
			panic(err) // as above
		}
		return fmt.Appendf(nil, "event: response.failed\ndata: %s\n\n", b)
	case Messages:
		return fmt.Appendf(nil, "event: error\ndata: %s\n", r.body(p))
	default:
		return fmt.Appendf(nil, "data: %s\n", r.body(p))
	}
}

// passError passes on what a provider says is wrong.
func (x *exchange) passError(res *http.Response) {
	status := res.StatusCode
	x.open("error.json")
	body, err := x.slurp(res.Body, MaxErrorBytes)
	readable := err == nil && mediaType(res.Header) == "application/json" && valid(body) && kind(body) == '{'
	var said providerError
	if readable {
		_ = json.Unmarshal(body, &said) // what does not fit says nothing
	}
	own := said.refusal(status)
	x.rec.Failed, x.rec.Detail = own.code, x.g.shown(own.message)
	h := x.w.Header()
	h.Set("X-Should-Retry", "false") // it was tried as often as it will be
	x.g.answerHeader(h, res.Header, "application/json")
	x.begin(status)
	if !readable || status == http.StatusUnauthorized || status == http.StatusForbidden {
		body = own.body(x.rec.Protocol)
	}
	x.send(body, true)
}

// providerError is the body of an error, as all three protocols have it.
type providerError struct {
	Error struct {
		Type    word `json:"type"`
		Code    word `json:"code"`
		Message said `json:"message"`
	} `json:"error"`
}

// word is a name of the provider's for what is wrong, "" if it has another form:
// nothing else of its text is evidence.
type word string

var wordForm = form.Lazy(`^[a-z][a-z0-9_.-]{2,63}$`)

// UnmarshalJSON never fails.
func (w *word) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil && wordForm().MatchString(text) {
		*w = word(text)
	}
	return nil
}

// name is the more exact of the two names of an error.
func (e providerError) name() string {
	if e.Error.Code != "" {
		return string(e.Error.Code)
	}
	return string(e.Error.Type)
}

// quotaWords say that an account has nothing left. A limit on how much may be
// asked in a minute has other names.
var quotaWords = []word{"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
	"insufficient_credits", "insufficient_funds", "payment_required"}

// quota reports whether an account has nothing left: no repeat changes that.
func (e providerError) quota(status int) bool {
	return status == http.StatusPaymentRequired || slices.Contains(quotaWords, e.Error.Code) || slices.Contains(quotaWords, e.Error.Type) ||
		strings.Contains(strings.ToLower(string(e.Error.Message)), "credit balance is too low")
}

// refusal sorts an error.
func (e providerError) refusal(status int) *refusal {
	name := e.name()
	if name != "" {
		name = fmt.Sprintf(" (%s)", name)
	}
	switch {
	case e.quota(status):
		return refuse(reason.QuotaExhausted, status, "the account at the provider has no quota or credit left%s", name)
	// The text of both is left out: such texts repeat parts of the key.
	case status == http.StatusUnauthorized:
		return refuse(reason.AuthUnavailable, status, "the provider did not accept the gateway's credential")
	case status == http.StatusForbidden:
		return refuse(reason.AuthUnavailable, status, "the provider forbade the request with status 403: it may know the credential and still not allow this")
	case status == http.StatusTooManyRequests:
		return refuse(reason.ProviderUnavailable, status, "the provider takes no more requests for now%s", name)
	case status >= 500:
		return refuse(reason.ProviderUnavailable, status, "the provider failed with status %d%s", status, name)
	}
	return refuse(reason.ProviderRefused, status, "the provider refused the request with status %d%s", status, name)
}

// outOfQuota looks into an answer that would be asked for again, and leaves it
// as it was.
func (x *exchange) outOfQuota(res *http.Response) bool {
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxErrorBytes))
	x.heard()
	rest := res.Body
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	var said providerError
	return err == nil && json.Unmarshal(body, &said) == nil && said.quota(res.StatusCode)
}

// Remedy says what can be done about a request without an answer, "" where the
// code alone says it.
func Remedy(r record.ModelRequest) string {
	switch {
	case r.Failed == reason.AuthUnavailable && r.Status == http.StatusForbidden:
		return "look whether the account of this key may use the model, and whether the provider serves this network or region; " +
			"if another key may, give that with --key-env NAME, --key-file FILE or --key-command COMMAND"
	case r.Failed == reason.ProviderRefused && r.Status == http.StatusNotFound:
		return "the provider has no such model, or nothing at this address: look at --model and at --base-url"
	case r.Failed == reason.ProviderUnavailable && r.Status == http.StatusTooManyRequests:
		return "the provider limits how often this key may ask: wait, or let fewer runs ask at a time, and run again"
	case r.Failed == reason.ProviderUnavailable && r.Status >= 500 && r.Status != http.StatusBadGateway:
		return "the provider itself has a fault: look at its status page, and run again later"
	case r.Failed == reason.ProviderUnavailable && r.Detail != "":
		return "look at the provider's address (--base-url), its certificate (--model-ca) and its state, then run again"
	}
	return ""
}
