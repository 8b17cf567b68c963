// Package agent is what the engines of published coding agents share: how an
// agent's npm package is found and identified without starting anything, how
// its process is started in the sandbox, and how its line protocol is read.
//
// # Where an agent is
//
// [Find] looks for a package at the place that the user named, else in
// $REMIT_AGENTS, in .tools/agents below the current directory (where
// `make agents` puts the tested versions), and at last where the program's
// name on PATH leads to. The version is read from package.json beside the
// program. An agent without one has no version that could be found out without
// starting it, and is refused, as is a major version that was not tested.
//
// # How it is started
//
// [Launch] makes the workspace a git repository that is thrown away, writes the
// agent's configuration below $HOME of the sandbox, which no diff and no later
// command sees, and replaces itself by the agent. Nothing else enters the
// workspace. The token of the gateway travels in the environment,
// never on a command line, since command lines are evidence. Stdin is the null
// device (the sandbox sees to that).
//
// # How its output is read
//
// A protocol is one JSON object a line. Unknown types and keys, and lines that
// are no objects, are skipped: they are in the raw output. Only an object that
// breaks off can be the one that says how the agent ended, so a protocol asks
// [Line.Broken] and then is not complete. What an agent says can forge every
// event (its own tools run beside it, as the same user), so none is more than
// a claim: the change is judged by the verifier alone.
package agent

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

// An Agent is what is known beforehand of a published coding agent.
type Agent struct {
	Name    string // the engine's
	Program string // on PATH
	Package string // at the npm registry
	Major   string // the tested major version
	// Platform names the package with the native program for an operating
	// system and an architecture of Go's, the best first; nil for an agent that
	// runs on node.
	Platform func(goos, goarch string) []string
}

// hint is for every way in which an agent can be missing.
const hint = "`remit agent setup NAME` installs the tested version, for codex, claude, pi and acp:PROGRAM; --bin names another place"

func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ProviderUnavailable, format, args...).WithHint(hint)
}

// ExitCode is how a command ended, for agents that have no field for it: 0 if
// the call did not fail, else what its output states. Nil if that does not tell,
// since the command was stopped, or did not run.
func ExitCode(stated *regexp.Regexp, output string, failed bool) *int {
	if !failed {
		return new(0)
	}
	return StatedExit(stated, output)
}

// StatedExit is the exit code that an output states, nil if it states none. The
// expression has one group, a number of at most three digits.
func StatedExit(stated *regexp.Regexp, output string) *int {
	m := stated.FindStringSubmatch(output)
	if m == nil {
		return nil
	}
	code, _ := strconv.Atoi(m[1]) // digits
	return &code
}

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
