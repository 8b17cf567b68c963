package agent

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

var (
	// ownCode is how a refusal of the gateway names its reason.
	ownCode = form.Lazy(`\(remit: ([a-z_]{1,64})\)`)
	// status is an HTTP status as agents put it into their messages.
	status = form.Lazy(`(?i)(?:^|\b(?:status|error|code|api error)[: (]+)([45][0-9]{2})\b`)
)

// refusals are the codes that an agent can pass on. It can also make one up: all
// of them end a run without a pass.
var refusals = []reason.Code{reason.AuthUnavailable, reason.BudgetExhausted, reason.LocalConfigMissing, reason.ModelMismatch,
	reason.ModelNotAdmitted, reason.ProviderUnavailable, reason.QuotaExhausted, reason.ResponseShape}

// Fault sorts what an agent says of a model call that failed. status is the
// HTTP status if the stream has one. "" means that the message tells nothing
// beyond itself. It is the agent's word: what really passed between it and the
// model is in the gateway's record.
func Fault(code int, message string) reason.Code {
	if m := ownCode().FindStringSubmatch(message); m != nil && slices.Contains(refusals, reason.Code(m[1])) {
		return reason.Code(m[1])
	}
	if m := status().FindStringSubmatch(message); code == 0 && m != nil {
		code, _ = strconv.Atoi(m[1]) // three digits
	}
	text := strings.ToLower(message)
	says := func(some ...string) bool {
		return slices.ContainsFunc(some, func(one string) bool { return strings.Contains(text, one) })
	}
	switch {
	case code == http.StatusPaymentRequired, says("insufficient_quota", "quota exceeded", "credit balance is too low", "billing_hard_limit"):
		return reason.QuotaExhausted
	case code == http.StatusUnauthorized, code == http.StatusForbidden, says("api key", "/login"):
		return reason.AuthUnavailable
	case says("malformed response", "without receiving any events", "stream closed before"):
		return reason.ResponseShape
	case code == http.StatusNotFound, code == http.StatusTooManyRequests, code >= 500,
		says("connection", "disconnected", "terminated", "network error", "fetch failed", "high demand"):
		return reason.ProviderUnavailable
	}
	return ""
}

// maxProblem bounds an agent's message in a problem.
const maxProblem = 1000

// Said quotes an agent's own message on one line.
func Said(message string) string {
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "")), " ")
	if message == "" {
		return "it gave no reason"
	}
	if short := cut(message, maxProblem); len(short) < len(message) {
		return short + "…"
	}
	return message
}
