package panel

import (
	"fmt"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
)

// factOf says in a few words what the end of a step tells.
func factOf(e journal.Entry) string {
	if blockers := evidence.BlockersOf(e); len(blockers) > 0 {
		return clip(200, string(blockers[0].Code)+" "+blockers[0].Message)
	}
	switch e.Name {
	case evidence.StepEligibility:
		var o struct {
			Decision struct {
				Passed   []string `json:"passed_gates"`
				Required []string `json:"required_gates"`
			} `json:"decision"`
		}
		decode(e.Outputs, &o)
		return fmt.Sprintf("%d of %d passed, before anything was copied", len(o.Decision.Passed), len(o.Decision.Required))
	case evidence.StepWorkspace:
		var o evidence.WorkspaceCopied
		decode(e.Outputs, &o)
		return count(int(o.Files), "file") + " copied"
	case evidence.StepEngine:
		var o evidence.EngineFinished
		decode(e.Outputs, &o)
		return engineEnd(o)
	case evidence.StepPatch:
		var o evidence.PatchCaptured
		decode(e.Outputs, &o)
		return count(len(o.Files), "file")
	case evidence.StepWrites:
		return "every path is allowed"
	case evidence.StepVerifyBase, evidence.StepVerifyHead:
		var o evidence.VerifyPhase
		decode(e.Outputs, &o)
		return phaseFact(o)
	case evidence.StepVerification:
		var o evidence.VerificationCompleted
		decode(e.Outputs, &o)
		gone := ""
		if len(o.Missing) > 0 {
			gone = fmt.Sprintf(", %d not run", len(o.Missing))
		}
		return fmt.Sprintf("%d fixed, %d broken%s, %d kept", len(o.FailToPass), len(o.PassToFail), gone, o.PassToPass)
	case evidence.StepSourceChecked:
		var o evidence.SourceChecked
		decode(e.Outputs, &o)
		if o.Meanwhile != nil {
			return "source " + o.Meanwhile.Sentence()
		}
		return "unchanged: HEAD, index, refs, configuration, hooks, files"
	case evidence.StepBudget:
		var o evidence.BudgetSettled
		decode(e.Outputs, &o)
		return fmt.Sprintf("%s msat %s", thousands(o.SettledMsats), o.Status)
	case evidence.StepDelivered:
		var o evidence.Delivered
		decode(e.Outputs, &o)
		return "branch " + o.Branch
	case evidence.StepOutcome:
		var o evidence.Outcome
		decode(e.Outputs, &o)
		return strings.TrimSuffix(o.Outcome+" by "+o.Actor+": "+o.Reason, ": ")
	}
	return ""
}

func engineEnd(o evidence.EngineFinished) string {
	switch {
	case o.Idle:
		return "stopped: it gave no sign of life"
	case o.TimedOut:
		return "stopped: its time was over"
	case o.OOMKilled:
		return "stopped: its memory was full"
	case o.Signal != "":
		return "ended by " + o.Signal
	case o.ExitCode != nil:
		return fmt.Sprintf("exit %d", *o.ExitCode)
	}
	return ""
}

func phaseFact(o evidence.VerifyPhase) string {
	var parts []string
	for _, run := range o.Runs {
		part := fmt.Sprintf("exit %d", run.ExitCode)
		if run.Tests != nil {
			part = fmt.Sprintf("%d pass, %d fail", run.Tests.Passed, run.Tests.Failed)
		}
		if run.Cached {
			part += ", cached"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// cap is one limit of the sandbox, with what was seen of it.
type cap struct{ Name, Limit, Observed, How, W string }

// capsOf are the limits of the engine.
func capsOf(o evidence.EngineFinished) []cap {
	var out []cap
	for _, c := range o.Caps {
		v := cap{Name: c.Name, Limit: capText(c.Name, c.Limit), Observed: capText(c.Name, c.Observed), How: c.How, W: "0%"}
		if !c.Enforced {
			v.Observed, v.How = "–", "not enforced: "+c.How
		} else if c.Observed < 0 {
			v.Observed = "–"
		} else if c.Limit > 0 {
			v.W = fmt.Sprintf("%.1f%%", min(100, 100*float64(c.Observed)/float64(c.Limit)))
		}
		out = append(out, v)
	}
	return out
}

func capText(name string, n int64) string {
	switch {
	case strings.Contains(name, "memory"), strings.Contains(name, "disk"), strings.Contains(name, "output"):
		return size(n)
	case strings.Contains(name, "wall"):
		return took(time.Duration(n) * time.Millisecond)
	case strings.Contains(name, "cpu"):
		return fmt.Sprintf("%.2f", float64(n)/1000)
	}
	return thousands(n)
}
