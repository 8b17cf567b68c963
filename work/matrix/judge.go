package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"remit/law/audit"
	"remit/law/ladder"
	"remit/proof/bundle"
	"remit/proof/evidence"
)

// judge holds one session against what it must be.
type judge struct {
	ended
	ctx    context.Context
	want   Expected
	result *CaseResult
}

// required are the artifacts of every sealed session, whatever befell it.
var required = []string{
	evidence.JournalFile, evidence.ContractFile, evidence.EligibilityFile, evidence.ContextFile, evidence.ReportFile, evidence.ReportMDFile,
	evidence.EventsFile, evidence.TraceFile, evidence.PatchFile, evidence.TestLogFile, evidence.SummaryFile, evidence.ReceiptFile,
	evidence.ReplayFile, evidence.ManifestFile,
}

func (j *judge) check(name string, held bool, format string, args ...any) bool {
	j.result.Checks = append(j.result.Checks, claim(name, held, format, args...))
	return held
}

func claim(name string, held bool, format string, args ...any) Check {
	return Check{Name: name, Held: held, Detail: fmt.Sprintf(format, args...)}
}

// passes is the end of a control.
var passes = Expected{Status: evidence.StatusPass, Event: evidence.StepRunCompleted}

// judge holds the session on disk against the end that it must have, and
// against what the scenario wants to see in it if that is its row's. The
// harness's error only explains why there is no session.
// The session is returned, nil where there is none.
func (e ended) judge(ctx context.Context, sc scenario, want Expected, res *CaseResult) *session {
	j := &judge{e, ctx, want, res}
	j.check("source", len(j.differs) == 0, "%s", orElse(strings.Join(j.differs, ", "), "not one file, mode or time of the source differs"))
	dir, err := e.onlySession()
	var o *session
	if err == nil {
		o, err = readSession(dir)
	}
	if err == nil {
		err = e.err
	}
	if !j.check("session", err == nil, "%s", errorText(err, "one sealed session")) {
		return nil
	}
	got := &Got{SessionID: o.report.SessionID, RunID: o.report.RunID, Status: o.report.Status, ExitCode: evidence.ExitCode(o.report.Status),
		Blockers: o.report.Blockers, RunStartedAt: o.report.RunStartedAt, RunFinishedAt: o.report.RunFinishedAt,
		EngineStarted: o.report.EngineProcessStarted, ChangedFiles: o.report.ChangedFiles, SourceUntouched: len(j.differs) == 0}
	if len(got.Blockers) > 0 {
		got.Code = got.Blockers[0].Code
	}
	j.result.Got = got
	j.end(o, got)
	j.artifacts(o, got)
	j.discreet(o)
	j.audit(dir, got)
	if want != passes {
		j.result.Checks = append(j.result.Checks, sc.shows(o)...)
	}
	return o
}

// end holds status, code, exit code and event against what they must be.
func (j *judge) end(o *session, got *Got) {
	want := j.want
	j.check("status", got.Status == string(want.Status), "%s", got.Status)
	j.check("code", ladder.Says(want.Code, got.Code), "%s", orElse(string(got.Code), "no blocker"))
	j.check("exit", got.ExitCode == want.ExitCode, "%d", got.ExitCode)
	got.Event = o.event(want.Event)
	if !j.check("event", got.Event != nil, "%s", want.Event) {
		return
	}
	// The last word of the events and the report must be one.
	last := o.events[len(o.events)-1]
	j.check("verdict", last.Type == evidence.StepRunCompleted && last.field("status") == got.Status,
		"the last event is %s with status %s", last.Type, last.field("status"))
}

// artifacts holds the files against the report.
func (j *judge) artifacts(o *session, got *Got) {
	var problems []string
	for _, name := range required {
		if !o.has(name) {
			problems = append(problems, name+" is missing")
		}
	}
	j.check("artifacts", len(problems) == 0, "%s", orElse(strings.Join(problems, ", "), fmt.Sprintf("all %d required files", len(required))))
	got.Artifacts, problems = o.artifacts()
	got.DigestsMatch = j.check("digests", len(problems) == 0 && len(got.Artifacts) > 0, "%s",
		orElse(strings.Join(problems, ", "), fmt.Sprintf("%d files have the digests of the report", len(got.Artifacts))))
	problems = nil
	for _, a := range got.Artifacts {
		// The form of the times is fixed, so their order is that of the text.
		if a.WrittenAt < got.RunStartedAt || a.CheckedAt < a.WrittenAt {
			problems = append(problems, fmt.Sprintf("%s was written at %s and checked at %s", a.Path, a.WrittenAt, a.CheckedAt))
		}
	}
	if got.RunStartedAt < j.asked {
		problems = append(problems, fmt.Sprintf("the run began at %s, before it was asked for at %s", got.RunStartedAt, j.asked))
	}
	got.Fresh = j.check("freshness", len(problems) == 0, "%s", orElse(strings.Join(problems, ", "), "nothing is older than "+got.RunStartedAt))
}

// discreet looks for the place of the fixture in its evidence: a bundle travels
// and must not tell how its maker's machine is laid out.
func (j *judge) discreet(o *session) {
	var telling []string
	for _, name := range append([]string{evidence.JournalFile, evidence.ManifestFile}, o.report.ArtifactPaths...) {
		if strings.Contains(o.text(name), j.dir) {
			telling = append(telling, name)
		}
	}
	j.check("no host path", len(telling) == 0, "%s", orElse(strings.Join(telling, ", "), "no file tells where it was made"))
}

// audit makes the audit that anybody can make.
func (j *judge) audit(dir string, got *Got) {
	rep, err := bundle.Audit(j.ctx, dir, audit.Options())
	if err != nil {
		got.Audit = bundle.Blocked
		j.check("audit", false, "%v", err)
		return
	}
	got.Audit = rep.Status
	detail := string(rep.Status)
	for _, g := range rep.Gates {
		for _, f := range g.Findings[:min(1, len(g.Findings))] {
			detail += "; " + f.String()
		}
	}
	j.check("audit", rep.Status == bundle.Pass, "%s", detail)
}

// blockersName reports whether a blocker of the code names the text.
func (s *session) blockersName(code, text string) bool {
	return slices.ContainsFunc(s.report.Blockers, func(b evidence.Blocker) bool {
		return string(b.Code) == code && strings.Contains(b.Message, text)
	})
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func errorText(err error, otherwise string) string {
	if err != nil {
		return err.Error()
	}
	return otherwise
}
