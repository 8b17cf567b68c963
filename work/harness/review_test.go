package harness

import (
	"context"
	"testing"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/command"
)

// reviewed is a command whose own reviewer turns the change down.
type reviewed struct{ command.Engine }

func (e *reviewed) Invocation(ctx context.Context, t engine.Task) (*engine.Invocation, error) {
	inv, err := e.Engine.Invocation(ctx, t)
	if err == nil {
		inv.Protocol = func(func(engine.Event)) engine.Protocol {
			return ends{engine.End{Complete: true, Rejected: true, Reason: "it is wrong"}}
		}
	}
	return inv, err
}

// TestReviewOutlivesTheRun: what an engine's own reviewer turned down is blocked,
// also if the run is cut off before that and taken up again.
func TestReviewOutlivesTheRun(t *testing.T) {
	t.Parallel()
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "", false, 0, 60)
	req.Engine = &reviewed{command.Engine{Argv: []string{"sh", "-c", "echo good >a.txt"}, Dir: "/"}}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	blocked := func(when string, rep *evidence.Report) {
		t.Helper()
		if rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.ReviewerRejected {
			t.Errorf("%s: %s %+v", when, rep.Status, rep.Blockers)
		}
	}
	blocked("at once", out.Report)
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	cut := cutSession(t, req.Home, out.Session, log.Entries, evidence.StepWrites)
	again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: req.Sandbox})
	if err != nil {
		t.Fatal(err)
	}
	blocked("cut off before the verifier", again.Report)
}
