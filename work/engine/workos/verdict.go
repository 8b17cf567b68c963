package workos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// The phases of the standard profile that the change is made in, and the one
// whose beginning says that they are over.
const (
	phaseImplement = "implement"
	phaseVerify    = "verify"
	phaseReview    = "review"
	phaseClose     = "close"
)

const completed = "completed"

// phaseAgent is who works in a phase.
var phaseAgent = map[string]string{phaseImplement: "implementer", phaseVerify: "verifier", phaseReview: "reviewer"}

// result is an agent's AGENT_RESULT, or what Case puts in its place.
type result struct {
	Status  string
	Summary string
	Error   string
	Rubric  struct{ Categories []category }
	// Critical is a number, if the agent keeps to its form.
	Findings struct {
		Critical json.RawMessage
		Details  []struct{ Severity, Message string }
	}
}

// category is one verdict of a rubric.
type category struct{ Category, Verdict, Detail string }

// readResult takes what fits. Nil is a phase without a result.
func readResult(raw json.RawMessage) *result {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	r := new(result)
	_ = json.Unmarshal(raw, r) // what does not fit stays empty
	return r
}

// words are what the agent has to say.
func (r *result) words() string {
	switch {
	case r == nil:
		return ""
	case r.Error != "":
		return r.Error
	}
	return r.Summary
}

// unreadable begins the error of a result that Case made itself, because the
// agent's answer had none that could be read.
const unreadable = "AGENT_RESULT "

// soft are the categories that are advice. Case asks for a revision for them
// too, and says itself that they do not stand in the way.
var soft = []string{"test-sufficiency", "pattern-fit"}

// rejection is why a reviewer turned the change down, "" if it did not. A
// verdict in an unknown category counts.
func (r *result) rejection() string {
	if r == nil || strings.HasPrefix(r.Error, unreadable) {
		return "" // there was no review
	}
	var why []string
	if failed := slices.DeleteFunc(failing(r.Rubric.Categories), func(c category) bool { return slices.Contains(soft, c.Category) }); len(failed) > 0 {
		why = append(why, verdicts(failed))
	}
	if r.critical() {
		words := "it names something critical"
		for _, d := range r.Findings.Details {
			if strings.EqualFold(d.Severity, "critical") {
				words += ": " + agent.Said(d.Message)
			}
		}
		why = append(why, words)
	}
	if r.Status == "blocked" && len(why) == 0 {
		why = append(why, agent.Said(r.words()))
	}
	return strings.Join(why, "; ")
}

// critical reports whether the reviewer counts critical findings. What is not
// plainly none counts: this can only stop a change.
func (r *result) critical() bool {
	return !slices.Contains([]string{"", "0", "null", "[]", `""`, `"0"`, "false"}, strings.TrimSpace(string(r.Findings.Critical)))
}

func failing(all []category) []category {
	var out []category
	for _, c := range all {
		if strings.EqualFold(strings.TrimSpace(c.Verdict), "fail") {
			out = append(out, c)
		}
	}
	return out
}

func verdicts(all []category) string {
	var out []string
	for _, c := range all {
		out = append(out, c.Category+": "+agent.Said(c.Detail))
	}
	return strings.Join(out, "; ")
}

// End is complete if the three phases that make the change have completed and
// the close has begun, or if the reviewer has turned the change down: then
// there is nothing more to come.
func (p *protocol) End() engine.End {
	end := engine.End{}
	if r := p.ends[phaseImplement].result; r != nil {
		end.Summary = r.Summary
	}
	end.Reason = p.ends[phaseReview].result.rejection()
	end.Rejected = end.Reason != ""
	broken, phase := p.lines.Broken(), p.unfinished(end.Rejected)
	switch {
	case broken != "":
		end.Problem = broken
	case phase != "":
		end.Problem, end.Code = p.why(phase)
		end.Agent = phaseAgent[phase]
	case !p.closing && !end.Rejected:
		end.Problem = "the pipeline did not reach its last phase after the review"
	default:
		end.Complete = true
	}
	return end
}

// unfinished is the first phase that has not completed, "" if all have. A
// rejection ends the review whatever Case calls it.
func (p *protocol) unfinished(rejected bool) string {
	for _, phase := range []string{phaseImplement, phaseVerify, phaseReview} {
		if p.ends[phase].outcome != completed && (phase != phaseReview || !rejected) {
			return phase
		}
	}
	return ""
}

// phaseLimit is how long an agent of Case may take; it then ends without a
// result.
const phaseLimit = 600_000

// why says what is wrong with a phase that has not completed.
func (p *protocol) why(phase string) (string, reason.Code) {
	known, ended := p.ends[phase]
	switch {
	case !p.begun && p.ended:
		return fmt.Sprintf("Case ended with code %d before its pipeline began; its own words are in stderr", p.code), ""
	case !p.begun:
		return "Case did not begin", ""
	case !ended && p.started[phase]:
		return fmt.Sprintf("the phase %s began and did not end", phase), ""
	case !ended:
		return fmt.Sprintf("the phase %s did not begin", phase), ""
	case known.result == nil:
		return fmt.Sprintf("the phase %s ended as %s, without a result", phase, agent.Said(known.outcome)), ""
	case strings.HasPrefix(known.result.Error, unreadable) && known.duration >= phaseLimit:
		return fmt.Sprintf("the %s was stopped by Case's own limit of 10 minutes for an agent", known.agent), reason.Timeout
	case strings.HasPrefix(known.result.Error, unreadable):
		// Of a failed call of the model too, which only the gateway knows.
		return fmt.Sprintf("the %s gave no result that can be read: %s", known.agent, agent.Said(known.result.Error)),
			agent.Fault(0, known.result.Error)
	}
	problem := fmt.Sprintf("the %s did not complete its phase: %s", known.agent, agent.Said(known.result.words()))
	if code := agent.Fault(0, known.result.Error); code != "" {
		return problem, code
	}
	return problem, reason.EngineFailed
}
