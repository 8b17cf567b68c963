package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/gateway"
)

// traffic is what the gateway saw of a run; the zero value is a run without one.
type traffic struct {
	totals gateway.Totals
	model  string // the admitted one
	// ceiling is the cost that not even the last request may exceed, 0 for none.
	ceiling int64
	others  []string // the first names of other models that answered
	// last is why the last request that came to an end has no usable answer, ""
	// if it has one.
	last     reason.Code
	lastText string
	// cut says that the last answer came to an end at which nothing is to be had
	// from it.
	cut bool
}

// maxOthers bounds how many other models a message names.
const maxOthers = 10

// heard takes the end of one request. What was given up because the engine was
// gone says nothing of anybody, and neither does the gateway's own probe.
func (t *traffic) heard(rec gateway.Record) {
	if name := cmp.Or(rec.ModelAnswered, "without a name"); rec.Mismatch && len(t.others) < maxOthers && !slices.Contains(t.others, name) {
		t.others = append(t.others, name)
	}
	code := cmp.Or(rec.Refused, rec.Failed)
	if rec.Probe || code == reason.Cancelled {
		return
	}
	t.last, t.lastText, t.cut = code, "", false
	why := ""
	if rec.Detail != "" {
		why = ": " + rec.Detail
	}
	switch {
	case rec.Refused != "":
		t.lastText = fmt.Sprintf("the gateway refused request %d%s", rec.Seq, why)
	case rec.Failed != "":
		t.lastText = fmt.Sprintf("request %d to the model has no usable answer%s (status %d, %d tries)", rec.Seq, why, rec.Status, rec.Retries+1)
	default:
		t.stopped(rec)
	}
}

// stopped looks at why the model ended an answer. Agents make different things
// of one that was cut, or held back, or has nothing in it; the code of a run
// does not depend on which agent it was.
func (t *traffic) stopped(rec gateway.Record) {
	switch rec.Stop {
	case gateway.StopLength:
		t.last, t.lastText = reason.ResponseShape, "it was cut, since it or the context is as long as it may be"
	case gateway.StopFilter:
		t.last, t.lastText = reason.ProviderRefused, "the provider's filter held it back, or the model declined"
	case gateway.StopReasoning:
		t.last, t.lastText = reason.ResponseShape, "it is reasoning only"
	default:
		return
	}
	t.cut, t.lastText = true, fmt.Sprintf("the answer to request %d cannot be used: %s", rec.Seq, t.lastText)
}

// idleBlockers is for an engine that came to its end and changed nothing: where
// the last answer was none, that is why.
func (t traffic) idleBlockers() []evidence.Blocker {
	if !t.cut {
		return nil
	}
	return []evidence.Blocker{{Code: t.last, Message: t.lastText + "; the engine took it for its end and changed nothing", Evidence: evidence.JournalFile}}
}

// endBlockers says why the end of an engine is not acceptable; nil if it is.
// Of several witnesses the better one is heard:
//
//  1. The gateway's count: the budget is used up, or another model answered.
//     Whatever the engine made of that, nothing after it was bought.
//  2. What stopped the process: it never started, its time or its silence, its
//     output, the memory limit.
//  3. The gateway's last request, if the engine says or shows that it failed.
//     Where the request failed at the provider or at its key, the agent's own
//     words only repeat it.
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
		return block(reason.ProviderUnavailable, stderrFile, "the engine's program could not be started in the sandbox (its message is in %s)", stderrFile)
	case f.OutputExceeded:
		return block(reason.OutputLimit, stderrFile, "the engine printed more than the output limit and was stopped")
	case f.OOMKilled && exit != 0:
		return block(reason.ResourceLimit, stderrFile, "the engine ran into the memory limit")
	case end.Complete && exit == 0:
		return nil
	case t.last != "":
		return block(t.last, evidence.JournalFile, "%s", strings.Join(notEmpty(t.lastText, end.Problem), "; the engine says: "))
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
		block(t.totals.Exhausted, "the model's budget was used up after %d request(s), %d tokens and %d micro-USD", t.totals.Requests, t.totals.Tokens(), t.totals.CostMicroUSD)
	case t.ceiling > 0 && t.totals.CostMicroUSD > t.ceiling:
		block(reason.BudgetExhausted, "the model's last request cost more than was left: %d of %d micro-USD", t.totals.CostMicroUSD, t.ceiling)
	}
	if t.totals.Mismatches > 0 {
		block(reason.ModelMismatch, "another model than %s answered %d request(s): %v", t.model, t.totals.Mismatches, t.others)
	}
	return out
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
