package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// An engineRow is a way in which a model, or the network before it, behaves,
// and how a run has to end with it.
type engineRow struct {
	name  string
	every coverage
	want  want

	probe object                  // the answer to the gateway's own question, nil for a right one
	turns func(d *drive) []object // what the agent is answered, in order
	then  func(d *drive) object   // and from then on, nil for a word of success

	policy    object                               // more of the repository's policy
	files     func(t *testing.T) map[string]string // in place of the usual ones
	args      func(d *drive) []string
	changed   string // the file that is repaired, "" for the usual one
	wall      int    // seconds, 0 for no limit of the row's own
	interrupt int    // the turn of the model at which the user stops the run, atProbe for the gateway's own question

	watch func(d *drive) (looked func()) // looks at the machine while it runs
	check func(d *drive)                 // what is special
}

// coverage says with which agents a row runs when not all rows run with all.
type coverage int

const (
	oneAgent  coverage = iota // the one that starts fastest
	eachAgent                 // of those that have an engine of their own
	adapters                  // and those behind the Agent Client Protocol
)

// changes is the file that the row repairs.
func (r engineRow) changes() string { return cmp.Or(r.changed, wrongFile) }

// source is where the contract comes from.
func (r engineRow) source(d *drive) []string {
	if r.args != nil {
		return r.args(d)
	}
	return []string{"--title", "Repair add in /workspace of " + d.marker}
}

// atProbe stands for the turn of the gateway's own question.
const atProbe = -1

// always answers a turn in the same way, whatever the agent.
func always(turn object) func(*drive) object { return func(*drive) object { return turn } }

// sentence is long enough to break off in.
const sentence = "I have repaired the function so that it adds its arguments, as its test asks for."

// hangs is an answer that begins and never ends.
var hangs = object{"text": sentence, "break": object{"at": "text", "how": "hang"}}

// breaks is an answer that breaks off in a text, or in the arguments of a
// command which must not be executed by halves.
func breaks(at, how string) func(d *drive) []object {
	return func(d *drive) []object {
		turn := object{"text": sentence}
		if at == "arguments" {
			turn = does(d.agent.shell("touch half.py; : " + sentence))
		}
		turn["break"] = object{"at": at, "how": how}
		return append(repair(d), turn)
	}
}

// looksWithGit has the agent change a file, look at that with git, and take it back.
func looksWithGit(d *drive) []object {
	return []object{does(d.agent.shell("echo more >>" + wrongFile + "; git status --short; git diff; git checkout -q " + wrongFile))}
}

// sawItsDiff checks that the agent has a repository to look at, and sent its model what
// it saw.
func sawItsDiff(d *drive) {
	if all := strings.Join(d.bodies(), ""); !strings.Contains(all, " M "+wrongFile) || !strings.Contains(all, `\n+more`) {
		d.Errorf("neither git status nor git diff came to the model: %.3000q", all[max(0, len(all)-3000):])
	}
}

// spends is a model that has the agent look at the file again and again.
func spends(d *drive) object { return does(d.agent.shell("cat " + wrongFile)) }

// runRows are what happens between an agent and its model.
var runRows = []engineRow{
	{name: "claims success, changes nothing", every: eachAgent, want: want{status: evidence.StatusFail, code: reason.NoDiff}, turns: looksWithGit, check: sawItsDiff},
	{name: "the test stays red", want: want{status: evidence.StatusFail, code: reason.VerificationFailed, changed: true},
		turns: func(d *drive) []object { return changes(d, "    return a * b\n") }},
	{name: "delayed answers", want: want{status: evidence.StatusPass, changed: true}, turns: repair,
		probe: object{"text": "ready", "delay": "700ms", "pace": "50ms"}, then: always(object{"text": sentence, "delay": "700ms", "pace": "100ms", "chunks": []int{30}})},
	{name: "odd chunks and line ends", want: want{status: evidence.StatusPass, changed: true},
		turns: func(d *drive) []object {
			all := repair(d)
			for i, shape := range []string{"crlf", "comments", "tight", "crlf"}[:len(all)] {
				all[i]["shape"], all[i]["chunks"], all[i]["writes"] = shape, []int{1, 5, 2}, []int{7, 64, 1000}
			}
			return all
		}},
	{name: "401", every: eachAgent, want: want{code: reason.AuthUnavailable, changed: true},
		turns: repairThen(object{"status": 401, "error": object{"type": "invalid_request_error", "message": "no such key"}})},
	{name: "429 with Retry-After, then an answer", want: want{status: evidence.StatusPass, changed: true},
		turns: repairThen(object{"any": []object{{"times": 1, "status": 429, "retry_after": 1}, {"text": sentence}}})},
	{name: "404", want: want{code: reason.ProviderRefused, changed: true},
		turns: repairThen(object{"status": 404, "error": object{"type": "invalid_request_error", "code": "model_not_found", "message": "no such model"}})},
	{name: "quota used up", want: want{code: reason.QuotaExhausted, changed: true}, check: func(d *drive) {
		if n := len(d.asked); n == 0 || d.asked[n-1].Retries > 0 {
			d.Errorf("it was not asked, or again for an account that is empty: %+v", d.asked)
		}
	}, turns: repairThen(object{"status": 429, "retry_after": 0, "error": object{"type": "insufficient_quota", "code": "insufficient_quota", "message": "no credit"}})},
	{name: "429 for ever", want: want{code: reason.ProviderUnavailable, changed: true}, turns: repairThen(object{"status": 429, "retry_after": 0})},
	{name: "500 for ever", every: adapters, want: want{code: reason.ProviderUnavailable, changed: true}, turns: repairThen(object{"status": 500})},
	{name: "abort in text", every: adapters, want: want{code: reason.ProviderUnavailable, changed: true}, turns: breaks("text", "abort")},
	{name: "abort in arguments", want: want{code: reason.ProviderUnavailable, changed: true}, turns: breaks("arguments", "abort")},
	{name: "clean close in text", want: want{code: reason.ProviderUnavailable, changed: true}, turns: breaks("text", "close")},
	{name: "clean close in arguments", every: eachAgent, want: want{code: reason.ProviderUnavailable, changed: true}, turns: breaks("arguments", "close")},
	{name: "empty answer", want: want{code: reason.ResponseShape, changed: true}, turns: repairThen(object{"shape": "empty"})},
	{name: "html answer", want: want{code: reason.ResponseShape, changed: true}, turns: repairThen(object{"shape": "html"})},
	{name: "malformed events", want: want{code: reason.ResponseShape, changed: true}, turns: repairThen(object{"text": sentence, "shape": "half_json"})},
	{name: "another model answers", want: want{code: reason.ModelMismatch, changed: true}, turns: repairThen(object{"text": sentence, "model": "another-model"})},
	{name: "huge output", want: want{code: reason.OutputLimit, status: evidence.StatusFail, changed: true}, policy: object{"limits": object{"output_bytes": 1 << 20}},
		turns: repairThen(object{"text": sentence, "repeat": 40_000, "chunks": []int{1 << 19}})},
	{name: "hang", every: eachAgent, wall: 45, want: want{code: reason.Timeout}, then: always(hangs), check: func(d *drive) {
		if d.counts.Requests < 2 {
			d.Error("the engine was stopped before it asked")
		}
	}},
	{name: "hang after a valid patch", wall: 30, want: want{code: reason.LifecycleTimeout, changed: true}, turns: repairThen(hangs)},
	{name: "interrupted during a model call", interrupt: 1, want: want{code: reason.Cancelled}, then: always(hangs)},
	{name: "token budget", every: eachAgent, want: want{code: reason.BudgetExhausted, changed: true}, policy: object{"budget": object{"max_tokens": 6*tokensPerAnswer + 1}},
		turns: repair, then: spends, check: func(d *drive) { d.spent(6*tokensPerAnswer+1, d.rep.Usage.Tokens, tokensPerAnswer) }},
	{name: "money budget", want: want{code: reason.BudgetExhausted, changed: true}, policy: object{"budget": object{"max_budget_usd": 0.05}},
		turns: repair, then: spends, check: func(d *drive) {
			d.spent(50_000, d.rep.Usage.CostMicroUSD, d.rep.Usage.CostMicroUSD/d.rep.Usage.Requests)
		}},
	{name: "request budget", want: want{code: reason.BudgetExhausted, changed: true}, policy: object{"budget": object{"max_requests": 6}},
		turns: repair, then: spends, check: func(d *drive) { d.spent(6, d.rep.Usage.Requests, 1) }}, // the gateway's own is one of them
}

// spent: a budget is never left early, and passed by what one request takes at
// most; the request that would have been one more was refused.
func (d *drive) spent(limit, spent, one int64) {
	d.Helper()
	if spent < limit || spent-one >= limit {
		d.Errorf("spent %d of %d, and %d at a time", spent, limit, one)
	}
	refused := 0
	for _, rec := range d.asked {
		if rec.Refused == reason.BudgetExhausted {
			refused++
		}
	}
	if refused == 0 {
		d.Error("no request was refused for the budget")
	}
}

// probeRows are faults that no engine is started on: the gateway asks first.
func probeRows() (rows []engineRow) {
	rows = []engineRow{
		{name: "before the start: hang", wall: 5, probe: hangs, want: want{code: reason.Timeout, idle: true}},
		{name: "before the start: interrupted", interrupt: atProbe, probe: hangs, want: want{code: reason.Cancelled, idle: true}},
	}
	for _, f := range []struct {
		name   string
		answer object
		code   reason.Code
	}{
		{"401", object{"status": 401}, reason.AuthUnavailable},
		{"429 for ever", object{"status": 429, "retry_after": 0}, reason.ProviderUnavailable},
		{"500 for ever", object{"status": 500, "headers": object{"Retry-After": "0"}}, reason.ProviderUnavailable},
		{"connection cut", object{"text": sentence, "break": object{"at": "text", "how": "abort"}}, reason.ProviderUnavailable},
		{"reasoning only", object{"reasoning": sentence}, reason.ResponseShape},
		{"empty", object{"shape": "empty"}, reason.ResponseShape},
		{"html", object{"shape": "html"}, reason.ResponseShape},
		{"malformed events", object{"text": sentence, "shape": "half_json"}, reason.ResponseShape},
		{"arguments that are no JSON", object{"calls": []object{{"name": "ready", "raw": `{"ok":`}}}, reason.ResponseShape},
		{"no usage", object{"text": "ready", "usage": "none"}, reason.ResponseShape},
		{"another model answers", object{"text": "ready", "model": "another-model"}, reason.ModelMismatch},
	} {
		rows = append(rows, engineRow{name: fmt.Sprintf("before the start: %s", f.name), probe: f.answer, want: want{code: f.code, idle: true}})
	}
	return rows
}
