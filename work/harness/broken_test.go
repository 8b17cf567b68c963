package harness

import (
	"context"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/command"
)

// spoken is the command engine with a protocol that ends as the test says.
type spoken struct {
	command.Engine
	end engine.End
}

func (s *spoken) Invocation(ctx context.Context, t engine.Task) (*engine.Invocation, error) {
	inv, err := s.Engine.Invocation(ctx, t)
	if err == nil {
		inv.Protocol = func(func(engine.Event)) engine.Protocol { return ends{s.end} }
	}
	return inv, err
}

// TestBrokenEnd: a change behind an end that is not acceptable is judged, the
// end stays the root cause, and where the change is good the hint says how to
// have it.
func TestBrokenEnd(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	repo := newRepo(t, map[string]string{"a.txt": "bad\n"})
	const fix = "echo good >a.txt; "
	done := engine.End{Complete: true}
	for _, test := range []struct {
		name, line string
		end        engine.End
		codes      string
		head       bool // the verifier passed it
		judged     bool // it has run it
		forbidden  string
	}{
		{name: "its result is missing", line: fix, end: engine.End{Problem: "there is no AGENT_RESULT"}, codes: "agent_protocol_failed", head: true, judged: true},
		{name: "the provider failed, by its words", line: fix, end: engine.End{Code: reason.ProviderUnavailable, Problem: "429"}, codes: "provider_unavailable", head: true, judged: true},
		{name: "its exit code", line: fix + "exit 3", end: done, codes: "engine_failed", head: true, judged: true},
		{name: "killed by a signal", line: fix + "kill -SEGV $$", end: engine.End{Problem: "broke off"}, codes: "engine_failed", head: true, judged: true},
		{name: "it printed too much", line: fix + "exec head -c 4000000 /dev/zero", end: done, codes: "output_limit", head: true, judged: true},
		{name: "it filled its memory", line: fix + "head -c 900000000 /dev/zero | tail -c 900000000 >/dev/null; exit 9", end: done, codes: "resource_limit", head: true, judged: true},
		{name: "and the change is wrong", line: "echo worse >a.txt; exit 3", end: done, codes: "engine_failed verification_failed", judged: true},
		{name: "and the change is not allowed", line: fix + "exit 3", end: done, codes: "engine_failed disallowed_file_change", forbidden: "a.txt"},
		{name: "and there is no change", line: "exit 3", end: done, codes: "engine_failed"},
		{name: "its reviewer turned it down", line: fix + "exit 3", end: engine.End{Complete: true, Rejected: true, Reason: "no"}, codes: "engine_failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			req := newRun(t, repo, nil, nil)
			hangs(t, &req, "", false, 0, 120)
			req.Engine = &spoken{command.Engine{Argv: []string{"sh", "-c", test.line}, Dir: "/"}, test.end}
			req.Contract.Limits.OutputBytes, req.Contract.Limits.MemoryMB = 1<<20, 128
			if test.forbidden != "" {
				req.Contract.ForbiddenPaths = []string{test.forbidden}
			}
			// No permission for another end is one for this.
			req.Contract.Lifecycle.TimeoutAfterValidPatch = "allow"
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if test.codes == "resource_limit" && !slices.Contains(codesOf(out.Report), reason.ResourceLimit) {
				t.Skip("memory is not limited on this machine") // needs a delegated control group
			}
			endedBroken(t, out, test.codes, test.head, test.judged)
			if test.name == "its exit code" {
				brokenResumed(t, req, out)
			}
		})
	}
}

func codesOf(rep *evidence.Report) (codes []reason.Code) {
	for _, b := range rep.Blockers {
		codes = append(codes, b.Code)
	}
	return codes
}

func endedBroken(t *testing.T, out *Outcome, codes string, passes, judged bool) {
	t.Helper()
	rep := out.Report
	var got []string
	for _, code := range codesOf(rep) {
		got = append(got, string(code))
	}
	if strings.Join(got, " ") != codes || rep.Status != string(reason.StatusOf(reason.Code(got[0]))) {
		t.Fatalf("%s: %+v", rep.Status, rep.Blockers)
	}
	head := slices.IndexFunc(rep.Verification, func(v evidence.CommandRun) bool { return v.Phase == "head" })
	if (head >= 0) != judged || judged && rep.Verification[head].Passed != passes {
		t.Errorf("verification: %+v", rep.Verification)
	}
	first := rep.Blockers[0]
	if said := strings.Contains(first.Message, "the verifier passes the change"); said != passes || strings.Contains(first.Hint, "remit run --patch-of "+out.Session.ID+"`") != passes {
		t.Errorf("got: %+v", first)
	}
	leakFree(t, out.Session)
}

// brokenResumed: a run that is cut off behind a broken end comes to the same end.
func brokenResumed(t *testing.T, req Request, out *Outcome) {
	t.Helper()
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, until := range []string{evidence.StepPatch, evidence.StepWrites, evidence.StepEnding} {
		at := 1 + slices.IndexFunc(log.Entries, func(e journal.Entry) bool { return e.Name == until && e.Status != journal.Started })
		again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cutAfter(t, req.Home, out.Session, at), Sandbox: req.Sandbox})
		if err != nil {
			t.Fatalf("%s: %v", until, err)
		}
		if rep := again.Report; rep.Status != out.Report.Status || rep.Blockers[0] != out.Report.Blockers[0] {
			t.Errorf("cut off after %s: %+v", until, rep.Blockers)
		}
		leakFree(t, again.Session)
	}
}
