package evidence

import (
	"encoding/json"
	"fmt"

	"remit/proof/canon"
	"remit/proof/journal"
)

// event is a normalized event: CloudEvents 1.0 plus a gap-free seq from 1.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Time            string `json:"time"`
	Subject         string `json:"subject"`
	DataContentType string `json:"datacontenttype"`
	Data            any    `json:"data"`
	Seq             int    `json:"seq"`
}

// eventType maps a journal entry to its normalized event type, "" for none.
func eventType(e *journal.Entry) string {
	switch e.Name {
	case StepRunOpened:
		return "run.started"
	case StepContract, StepEligibility, StepPlan, StepApprovalRequested, StepApprovalGranted, StepApprovalDenied,
		StepMessage, StepUsage, StepVerification, StepBudget, StepRunCompleted, StepOutcome:
		if e.Status == journal.Started {
			return ""
		}
		return e.Name
	case StepGate:
		if e.Status == journal.Denied {
			return "backend.gate.blocked"
		}
	case StepEngine:
		if e.Status == journal.Started {
			return "engine.started"
		}
		return "engine.finished"
	case StepTool:
		if e.Status == journal.Started {
			return "tool.called"
		}
		return "tool.returned"
	case StepPatch:
		if e.Status != journal.Started {
			return "patch.applied"
		}
	case StepWrites:
		if e.Status != journal.Started {
			return "git.diff.checked"
		}
	}
	return ""
}

// eventData is what an event tells: the entry's outputs, or its inputs where
// the fact is what went in.
func eventData(e *journal.Entry, kind string) any {
	switch kind {
	case "run.started", "engine.started", "tool.called":
		return e.Inputs
	case "task.contract.created":
		var c ContractCreated
		if json.Unmarshal(e.Inputs, &c) == nil {
			return map[string]any{"contract_sha256": c.ContractSHA256}
		}
	}
	return e.Outputs
}

// normalized returns the events of the run in order.
func (r *run) normalized() []event {
	var out []event
	for i := range r.entries {
		e := &r.entries[i]
		kind := eventType(e)
		if kind == "" {
			continue
		}
		out = append(out, event{
			SpecVersion: "1.0", ID: fmt.Sprintf("%s/%d", r.session, e.Seq), Source: "urn:remit:session:" + r.session,
			Type: kind, Time: entryTime(e), Subject: r.opened.CaseID, DataContentType: "application/json",
			Data: eventData(e, kind), Seq: len(out) + 1,
		})
	}
	return out
}

// rank is the required order of event types. Types of equal rank may mix.
var rank = map[string]int{
	"run.started": 1, "task.contract.created": 2, "eligibility.decided": 3, "plan.updated": 4,
	"approval.requested": 5, "approval.granted": 6, "approval.denied": 6, "backend.gate.blocked": 7,
	"engine.started": 8, "tool.called": 9, "tool.returned": 9, "message.emitted": 9, "usage.metered": 9,
	"engine.finished": 10, "patch.applied": 11, "git.diff.checked": 12, "verification.completed": 13,
	"budget.settled": 14,
}

// missingEvents says which required event is missing or out of order. It looks
// at everything before the first run.completed, which the caller is about to
// write or has written.
func missingEvents(r *run) []string {
	var problems []string
	seen := map[string]bool{}
	last := ""
	for _, e := range r.normalized() {
		if e.Type == "run.completed" {
			break
		}
		// An engine may refine its plan while it works.
		refined := e.Type == "plan.updated" && seen["engine.started"]
		if at, ranked := rank[e.Type]; ranked && !refined {
			if at < rank[last] {
				problems = append(problems, fmt.Sprintf("event %s came after %s", e.Type, last))
			} else {
				last = e.Type
			}
		}
		seen[e.Type] = true
	}
	for _, need := range requiredEvents(r, seen) {
		if !seen[need] {
			problems = append(problems, fmt.Sprintf("event %s is missing", need))
		}
	}
	return problems
}

// requiredEvents depends on how far the run was allowed to go.
func requiredEvents(r *run, seen map[string]bool) []string {
	need := []string{"run.started", "task.contract.created", "eligibility.decided"}
	if r.gate != nil {
		return append(need, "backend.gate.blocked")
	}
	if r.opened.ApprovalRequired {
		need = append(need, "approval.requested")
	}
	if seen["engine.started"] {
		need = append(need, "engine.finished")
	}
	if len(r.blockers) > 0 {
		return need
	}
	if r.opened.ApprovalRequired {
		need = append(need, "approval.granted")
	}
	need = append(need, "plan.updated", "patch.applied", "git.diff.checked", "verification.completed")
	if !r.checks() {
		need = append(need, "engine.started", "engine.finished")
	}
	if len(r.receipts) > 0 { // an authority agreed to the run: then it has settled it, too
		need = append(need, "budget.settled")
	}
	return need
}

// trajectoryHash is the digest of the canonical array of the run's events, each
// reduced to the five keys of the published trajectory hash. Times are written
// with +00:00, as its vectors have them.
func trajectoryHash(events []event) (string, error) {
	type hashed struct {
		Seq            int     `json:"seq"`
		EventType      string  `json:"event_type"`
		Payload        any     `json:"payload"`
		IdempotencyKey *string `json:"idempotency_key"`
		RecordedAt     string  `json:"recorded_at"`
	}
	list := make([]hashed, len(events))
	for i, e := range events {
		list[i] = hashed{e.Seq, e.Type, e.Data, nil, offsetTime(e.Time)}
	}
	return canon.DigestOf(list)
}

// offsetTime rewrites a UTC time from the Z form to the +00:00 form.
func offsetTime(t string) string {
	if n := len(t); n > 0 && t[n-1] == 'Z' {
		return t[:n-1] + "+00:00"
	}
	return t
}
