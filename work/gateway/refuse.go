package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"remit/proof/reason"
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
