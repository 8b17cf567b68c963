package harness

import (
	"errors"
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/reason"
)

// TestEndIsToldLater: an authority that was away when a run ended hears of it
// from the one who resumes the session, once, and about the run that it knows.
func TestEndIsToldLater(t *testing.T) {
	t.Parallel()
	away := reason.Errorf(reason.StoreUnavailable, "not there")
	c := &clerk{answer: approvalThat(job.ApprovalGranted), closeErr: away}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), c, &scripted{})
	req.Nexus, req.MaxPriceMsats = "https://nexus.example", 5
	out, err := Run(t.Context(), req)
	if err != nil || !errors.Is(out.NotConcluded, away) {
		t.Fatalf("%+v %v", out, err)
	}
	status := out.Report.Status
	resume := func() *Outcome {
		t.Helper()
		out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: out.Session, Sandbox: req.Sandbox, Authority: c})
		if err != nil || out.Report.Status != status {
			t.Fatalf("%+v %v", out, err)
		}
		return out
	}
	if again := resume(); !errors.Is(again.NotConcluded, away) || c.closed {
		t.Errorf("%+v", again)
	}
	c.closeErr = nil
	if out := resume(); out.NotConcluded != nil || !c.closed {
		t.Errorf("%+v", out)
	}
	if first, last := c.claims[0], c.claims[len(c.claims)-1]; first.RunID != "" || last.RunID != "run_"+out.Session.ID || first.MaxPriceMsats != 5 ||
		first.Proof.Capability != job.SandboxRun || first.Proof.MemoryMB == 0 || first.Proof.TimeoutSecs == 0 {
		t.Errorf("claimed as %+v, and later as %+v", first, last)
	}
	asked := len(c.claims)
	if c.closed = false; resume().NotConcluded != nil || c.closed || len(c.claims) != asked {
		t.Error("an authority that knows is closed again")
	}
}

// TestUnprovedChangeIsKept: the error of a proof that failed names the way
// to have the same change proved without the agent, behind its own advice.
func TestUnprovedChangeIsKept(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string // what the hint begins with
	}{
		{reason.Errorf(reason.NoProvider, "none").WithHint("switch one on"), "switch one on; the change is verified"},
		{reason.Errorf(reason.Conflict, "none"), "read the state again"},
	} {
		err := unproved(test.err)
		coded, ok := errors.AsType[*reason.Error](err)
		if !ok || coded.Code != reason.CodeOf(test.err) || !strings.HasPrefix(coded.Hint, test.want) || !strings.Contains(coded.Hint, "--fake-patch <session>/patch.diff") ||
			strings.Count(err.Error(), string(coded.Code)) != 1 {
			t.Errorf("%v: %+v", test.err, coded)
		}
	}
	if err := unproved(errors.New("odd")); reason.CodeOf(err) != "" {
		t.Error(err)
	}
}
