package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/engine"
	"remit/work/gateway"
)

// traffic is what the gateway saw of a run; the zero value is a run without one.
type traffic struct {
	totals gateway.Totals
	model  string // the admitted one
	// ceiling is the cost that not even the last request may exceed, 0 for none.
	ceiling int64
	limits  gateway.Limits
	others  []string // the first names of other models that answered
	// trails are what became of the requests, of all together ("") and of each
	// agent of an engine that has several.
	trails map[string]*trail
}

// trail is what became of the requests of an agent since its last answer that
// was one.
type trail struct {
	first failure // the one that the others follow from
	last  failure
}

// failure is why a request has no usable answer; the zero value is one that has.
type failure struct {
	code reason.Code
	text string
	hint string
	// cut says that the answer came to an end at which nothing is to be had from
	// it.
	cut bool
}

// follow takes what became of the next request. What the gateway has no route for
// is asked beside an agent's work: it is a cause only where there is no other. An
// answer that was cut came after whatever stood in its way.
func (t *trail) follow(f failure) {
	t.last = f
	if f.code == "" || t.first.code == "" || t.first.code == reason.RouteRefused || f.cut && !t.first.cut {
		t.first = f
	}
}

// cause is the failure that decides why an agent did not do its part: the first
// after its last good answer. What follows from it, and what other agents of the
// engine met, does not hide it.
func (t *traffic) cause(agent string) failure {
	trail := t.trails[agent]
	if trail == nil {
		if trail = t.trails[""]; trail == nil {
			return failure{}
		}
	}
	return trail.first
}

// maxOthers bounds how many other models a message names.
const maxOthers = 10

// heard takes the end of one request. What was given up because the engine was
// gone says nothing of anybody, and neither does the gateway's own probe.
func (t *traffic) heard(rec record.ModelRequest) {
	if name := cmp.Or(rec.ModelAnswered, "without a name"); rec.Mismatch && len(t.others) < maxOthers && !slices.Contains(t.others, name) {
		t.others = append(t.others, name)
	}
	code := cmp.Or(rec.Refused, rec.Failed)
	if rec.Probe || code == reason.Cancelled {
		return
	}
	f := failure{code: code, hint: gateway.Remedy(rec)}
	why := ""
	if rec.Detail != "" {
		why = ": " + rec.Detail
	}
	switch {
	case rec.Refused != "":
		f.text = fmt.Sprintf("the gateway refused request %d%s", rec.Seq, why)
	case rec.Failed != "":
		f.text = fmt.Sprintf("request %d to the model has no usable answer%s (status %d, %d tries)", rec.Seq, why, rec.Status, rec.Retries+1)
	default:
		f = stopped(rec)
	}
	if t.trails == nil {
		t.trails = map[string]*trail{}
	}
	for _, of := range slices.Compact([]string{"", rec.Agent}) {
		if t.trails[of] == nil {
			t.trails[of] = new(trail)
		}
		t.trails[of].follow(f)
	}
}

// stopped looks at why the model ended an answer. Agents make different things
// of one that was cut, or held back, or has nothing in it; the code of a run
// does not depend on which agent it was.
func stopped(rec record.ModelRequest) failure {
	f := failure{cut: true}
	switch rec.Stop {
	case gateway.StopLength:
		f.code, f.text = reason.ResponseShape, "it was cut, since it or the context is as long as it may be"
		f.hint = "give the model a longer answer or context (its own settings, or another --model), or make the task smaller"
	case gateway.StopFilter:
		f.code, f.text = reason.ProviderRefused, "the provider's filter held it back, or the model declined"
		f.hint = "say the task in other words, or take another --model"
	case gateway.StopReasoning:
		f.code, f.text = reason.ResponseShape, "it is reasoning only"
		f.hint = "take a model, or a setting of it, that leaves room for an answer after what it thinks"
	default:
		return failure{}
	}
	f.text = fmt.Sprintf("the answer to request %d cannot be used: %s", rec.Seq, f.text)
	return f
}

// idleBlockers is for an engine that came to its end and changed nothing: where
// the last answer was none, that is why.
func (t traffic) idleBlockers() []evidence.Blocker {
	all := t.trails[""]
	if all == nil || !all.last.cut {
		return nil
	}
	f := all.last
	return []evidence.Blocker{{Code: f.code, Message: f.text + "; the engine took it for its end and changed nothing",
		Evidence: evidence.JournalFile, Hint: f.hint}}
}

// endBlockers says why the end of an engine is not acceptable; nil if it is.
// Of several witnesses the better one is heard:
//
//  1. The gateway's count: the budget is used up, or another model answered.
//     Whatever the engine made of that, nothing after it was bought.
//  2. What stopped the process: it never started, its time or its silence, its
//     output, the memory limit.
//  3. The first request that failed after the last good answer, of the agent
//     that the engine says did not do its part, else of all, if the engine says
//     or shows that it failed. Where the request failed at the provider or at
//     its key, the agent's own words only repeat it.
//  4. The agent's words.
//  5. The exit code.
//
// An engine that says that it came to its end, and exits with 0, is not judged
// by the requests before: it may have gone on without them. Success is none of
// this; that is the verifier's word.
func endBlockers(f evidence.EngineFinished, t traffic, end engine.End) []evidence.Blocker {
	if out := t.bought(); len(out) > 0 {
		return out
	}
	block := func(code reason.Code, shown, format string, args ...any) []evidence.Blocker {
		return []evidence.Blocker{{Code: code, Message: fmt.Sprintf(format, args...), Evidence: shown}}
	}
	cause := t.cause(end.Agent)
	took := time.Duration(f.DurationMS) * time.Millisecond
	exit := -1
	if f.ExitCode != nil {
		exit = *f.ExitCode
	}
	switch {
	case f.Idle:
		return block(reason.Timeout, stderrFile, "the engine gave no sign of life any more and was stopped after %s", took)
	case f.TimedOut:
		return block(reason.Timeout, stderrFile, "the engine did not end in time and was stopped after %s", took)
	case !f.ProcessStarted:
		return block(reason.ProviderUnavailable, stderrFile,
			"the engine's program could not be started in the sandbox (its message is in %s)", stderrFile)
	case f.OutputExceeded:
		return block(reason.OutputLimit, stderrFile, "the engine printed more than the output limit and was stopped")
	case f.OOMKilled && exit != 0:
		return block(reason.ResourceLimit, stderrFile, "the engine ran into the memory limit")
	case end.Complete && exit == 0:
		return nil
	case cause.code != "":
		out := block(cause.code, evidence.JournalFile, "%s", strings.Join(notEmpty(cause.text, end.Problem), "; the engine says: "))
		out[0].Hint = cause.hint
		return out
	case !end.Complete && end.Code != "": // the agent says more than its exit code
		return block(end.Code, stderrFile, "%s", end.Problem)
	case exit != 0:
		return block(reason.EngineFailed, stderrFile, "the engine exited with code %d", exit)
	}
	return block(reason.AgentProtocolFailed, stderrFile, "the engine's output is not complete: %s", end.Problem)
}

// bought says what the gateway's count alone makes of a run.
func (t traffic) bought() []evidence.Blocker {
	var out []evidence.Blocker
	block := func(code reason.Code, format string, args ...any) {
		out = append(out, evidence.Blocker{Code: code, Message: fmt.Sprintf(format, args...), Evidence: evidence.JournalFile})
	}
	switch {
	case t.totals.Flooded:
		block(t.totals.Exhausted, "the engine made %d requests that the gateway refused, and gets no answers any more; %d request(s) went to the model, with %d tokens and %d micro-USD",
			t.totals.Refused, t.totals.Requests, t.totals.Tokens(), t.totals.CostMicroUSD)
	case t.totals.Exhausted != "":
		spent, raise := t.spent()
		block(t.totals.Exhausted, "the model's budget was used up: %s", spent)
		out[len(out)-1].Hint = raise
	case t.ceiling > 0 && t.totals.CostMicroUSD > t.ceiling:
		block(reason.BudgetExhausted, "the model's last request cost more than was left: %d of %d micro-USD", t.totals.CostMicroUSD, t.ceiling)
	}
	if t.totals.Mismatches > 0 {
		block(reason.ModelMismatch, "another model than %s answered %d request(s): %v", t.model, t.totals.Mismatches, t.others)
	}
	return out
}

// spent says how much of which limit was used, and which of the contract's to raise, ""
// where none of them was reached.
func (t traffic) spent() (says, raise string) {
	var used, fields []string
	for _, l := range []struct {
		field, unit string
		spent, most int64
	}{{"max_requests", "requests", t.totals.Requests, t.limits.Requests}, {"max_tokens", "tokens", t.totals.Tokens(), t.limits.Tokens},
		{"max_budget_usd", "micro-USD", t.totals.CostMicroUSD, t.limits.MicroUSD}} {
		switch {
		case l.most > 0:
			used = append(used, fmt.Sprintf("%d of %d %s", l.spent, l.most, l.unit))
		case l.unit != "micro-USD" || t.totals.CostKnown:
			used = append(used, fmt.Sprintf("%d %s", l.spent, l.unit))
		}
		if l.most > 0 && l.spent >= l.most && (l.unit != "micro-USD" || l.most != t.ceiling) {
			fields = append(fields, "budget."+l.field)
		}
	}
	if len(fields) > 0 {
		raise = "raise " + strings.Join(fields, " and ") + " in the task file or remit.yaml, or the flag that lowered it"
	}
	return strings.Join(used, ", "), raise
}

func notEmpty(texts ...string) []string {
	var out []string
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}
