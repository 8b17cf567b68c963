package evidence

import (
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// replay makes the lines of REPLAY.jsonl (format v1).
func (r *run) replay(trajectory string) []any {
	start := r.entries[0].StartedAt
	out := []any{
		fields{"event": "ReplayHeader", "replay_version": 1, "producer": "remit/" + r.opened.Remit.Version, "created_at": start},
		fields{"event": "SessionStart", "t": start, "session_id": r.session, "issue_number": r.opened.IssueNumber,
			"policy_bundle_id": r.opened.PolicyBundleID, "trajectory_hash": trajectory},
	}
	// An agent may use an id again after its call has returned: each result
	// then belongs to the oldest call that has none.
	tools := map[string][]toolCall{}
	for _, t := range r.tools {
		tools[t.ID] = append(tools[t.ID], t)
	}
	planned := map[string]bool{}
	for i := range r.entries {
		e := &r.entries[i]
		switch e.Name {
		case StepPlan:
			var p Plan
			if decode(e.Outputs, &p) != nil {
				continue
			}
			hash, err := planHash(&p)
			if err != nil {
				continue
			}
			out = append(out, fields{"event": "PlanStart", "t": entryTime(e), "plan_hash": hash, "step_count": len(p.Steps)})
			for _, s := range p.Steps {
				planned[s.ID] = true
			}
		case StepTool:
			out = append(out, r.replayTool(e, tools)...)
		case StepVerification:
			if e.Status != journal.Started {
				commands, codes := r.headRuns()
				out = append(out, fields{"event": "Verification", "t": entryTime(e), "commands": commands, "exit_codes": codes,
					"verification_delta": r.verification.Delta})
			}
		case StepReceipt:
			var a record.AuthorityReceipt
			if decode(e.Outputs, &a) == nil {
				out = append(out, fields{"event": "RuntimeEvent", "t": a.RecordedAt, "session_id": r.session, "seq": e.Seq,
					"runtime_event_type": a.Type, "payload": a.Payload, "payload_hash": a.ReceiptSHA256, "idempotency_key": a.IdempotencyKey})
				if p, ok := a.Payment(); ok {
					out = append(out, fields{"event": "Payment", "t": a.RecordedAt, "rail": p.Rail, "asset_id": p.AssetID, "amount_msats": p.AmountMsats,
						"job_hash": p.JobHash, "status": p.Status, "payment_proof": p.Proof})
				}
			}
		}
		if planned[e.StepID] && e.Status != journal.Started {
			out = append(out, fields{"event": "StepComplete", "t": entryTime(e), "step_id": e.StepID, "status": replayStatus(e.Status), "iterations": 1})
			delete(planned, e.StepID)
		}
	}
	return append(out, r.sessionEnd())
}

// fields is one JSON object whose keys are written out where it is made.
type fields map[string]any

func (r *run) replayTool(e *journal.Entry, tools map[string][]toolCall) []any {
	if e.Status == journal.Started {
		var c ToolCalled
		if decode(e.Inputs, &c) != nil {
			return nil
		}
		return []any{fields{"event": "ToolCall", "t": e.StartedAt, "id": c.ID, "tool": c.Tool, "params": c.Params,
			"params_hash": c.ParamsHash, "step_id": PlanEngine}}
	}
	var back ToolReturned
	if decode(e.Outputs, &back) != nil {
		return nil
	}
	if len(tools[back.ID]) == 0 {
		return nil // fold has refused such a journal
	}
	t := tools[back.ID][0]
	tools[back.ID] = tools[back.ID][1:]
	return []any{fields{"event": "ToolResult", "t": entryTime(e), "id": back.ID, "output_hash": t.outputHash(), "exit_code": back.ExitCode,
		"step_utility": r.utility(t), "latency_ms": back.LatencyMS, "ok": back.OK, "side_effects": t.sideEffects()}}
}

func replayStatus(s journal.Status) string {
	switch s {
	case journal.Completed:
		return "Success"
	case journal.Skipped:
		return "Skipped"
	}
	return "Failed"
}

func (r *run) sessionEnd() any {
	status := "Failed"
	at := entryTime(&r.entries[len(r.entries)-1])
	if r.completed != nil {
		at = r.completedAt
		switch {
		case r.completed.Status == StatusPass:
			status = "Success"
		case len(r.completed.Blockers) == 0:
		case r.completed.Blockers[0].Code == reason.Timeout, r.completed.Blockers[0].Code == reason.LifecycleTimeout:
			status = "Timeout"
		case r.completed.Blockers[0].Code == reason.Interrupted, r.completed.Blockers[0].Code == reason.Cancelled:
			status = "Cancelled"
		}
	}
	var latency int64
	for _, t := range r.tools {
		latency += t.Returned.LatencyMS
	}
	end := fields{"event": "SessionEnd", "t": at, "status": status, "confidence": 0, "total_tool_calls": len(r.tools), "total_latency_ms": latency}
	if r.verification != nil {
		end["confidence"] = r.verification.Confidence
	}
	return end
}
