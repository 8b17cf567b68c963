package ladder

import (
	"slices"
	"strings"
	"testing"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

func text(s string) *string { return &s }

// aPass is a recorded pass that holds, with a task and an approval of its own.
func aPass(name string) PassFacts {
	return PassFacts{Path: "ladder/pi/0/stage5.json", Task: "sha256:" + name, Matrix: "sha256:m", Forbidden: task.DefaultForbiddenActions(),
		Source: "src", Target: "tgt", SourceNeeded: true, Approval: "apr_" + name, Named: "apr_" + name,
		Proof:  &Proof{Stage: 5, OK: true, MatrixSHA256: text("sha256:m"), ApprovalID: text("apr_" + name), SourceAdmissionID: text("src"), TargetAdmissionID: text("tgt")},
		Report: &evidence.Report{SessionID: "s-" + name, Status: "pass", MutationMode: "owned-noncritical-repo", OperatorOutcome: "accepted", AllowedWritesPassed: true}}
}

// TestRefreshCounts: repeatability is passed by two passes that hold, with two
// tasks and two approvals.
func TestRefreshCounts(t *testing.T) {
	t.Parallel()
	sameTask, sameApproval := aPass("b"), aPass("b")
	sameTask.Task = "sha256:a"
	sameApproval.Approval, sameApproval.Named = "apr_a", "apr_a"
	broken := aPass("c")
	broken.Report.AllowedWritesPassed = false
	for _, test := range []struct {
		name   string
		facts  []PassFacts
		count  int
		status string
	}{
		{"none", nil, 0, "blocked"},
		{"one", []PassFacts{aPass("a")}, 1, "blocked"},
		{"two", []PassFacts{aPass("a"), aPass("b")}, 2, "pass"},
		{"the same twice", []PassFacts{aPass("a"), aPass("a")}, 1, "blocked"},
		{"one task", []PassFacts{aPass("a"), sameTask}, 1, "blocked"},
		{"one approval", []PassFacts{aPass("a"), sameApproval}, 1, "blocked"},
		{"one that does not hold", []PassFacts{aPass("a"), aPass("b"), broken}, 2, "fail"},
	} {
		r := JudgeRefresh("pi", "", test.facts)
		if r.RepeatabilityCount != test.count || r.RepeatabilityStatus != test.status || r.RepeatabilityPassed != (test.status == "pass") || r.OK != r.Eligible ||
			r.RepeatabilityRequired != 2 || r.RuntimeDefault || r.CorePromotionStatus != NotPromoted || len(r.Passes) != len(test.facts) || !r.ReadOnly {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// TestRefreshChecks spoils one thing at a time: the check of that thing does not
// hold, and no other.
func TestRefreshChecks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check  string
		code   reason.Code
		status string
		spoil  func(f *PassFacts)
	}{
		{RefreshReportShape, reason.RefreshFailed, "fail", func(f *PassFacts) { f.ShapeFault = "x" }},
		{RefreshEvents, reason.RefreshFailed, "fail", func(f *PassFacts) { f.EventFault = "x" }},
		{RefreshAllowedPaths, reason.RefreshFailed, "fail", func(f *PassFacts) { f.PathFault = "x" }},
		{RefreshFailureClosure, reason.RefreshFailed, "fail", func(f *PassFacts) { f.Proof.OK = false }},
		{RefreshMatrix, reason.RefreshFailed, "blocked", func(f *PassFacts) { f.Matrix = "" }},
		{RefreshArtifacts, reason.RefreshFailed, "fail", func(f *PassFacts) { f.ArtifactFault = "x" }},
		{RefreshForbidden, reason.RefreshFailed, "fail", func(f *PassFacts) { f.Forbidden = f.Forbidden[1:] }},
		{RefreshAcceptance, reason.OperatorOutcomeMissing, "blocked", func(f *PassFacts) { f.Report.OperatorOutcome = "pending" }},
		{RefreshAcceptance, reason.RefreshFailed, "fail", func(f *PassFacts) { f.Report.OperatorOutcome = "rejected" }},
		{RefreshApproval, reason.RefreshFailed, "fail", func(f *PassFacts) { f.Approval = "apr_other" }},
		{RefreshSourceAdmission, reason.SourceNotAdmitted, "blocked", func(f *PassFacts) { f.Source = "newer" }},
		{RefreshTarget, reason.TargetNotAdmitted, "blocked", func(f *PassFacts) { f.Target = "" }},
		{RefreshTargetReadOnly, reason.RefreshFailed, "fail", func(f *PassFacts) { f.TargetTouched = "a ref" }},
	} {
		f := aPass("a")
		test.spoil(&f)
		p := JudgeRefresh("pi", "", []PassFacts{f}).Passes[0]
		if len(p.Checks) != 12 || p.Status != test.status {
			t.Errorf("%s: %d checks, %s", test.check, len(p.Checks), p.Status)
		}
		for i, c := range p.Checks {
			if c.Name != RefreshChecks()[i] || (c.Status == "pass") != (c.Name != test.check) || c.Name == test.check && (c.Code != test.code || c.Detail == "") {
				t.Errorf("%s: %+v", test.check, c)
			}
		}
	}
	f := aPass("a")
	f.Approval = "apr_other"
	if p := JudgeRefresh("pi", "", []PassFacts{f}).Passes[0]; *p.ApprovalID != "apr_a" || !strings.Contains(p.ApprovalNote, "apr_other") {
		t.Errorf("%+v", p) // as the proof has it, with the difference
	}
	f.Fault = "edited"
	r := JudgeRefresh("pi", "", []PassFacts{f})
	if r.Status != "fail" || slices.ContainsFunc(r.Passes[0].Checks, func(c RefreshCheck) bool { return c.Status == "pass" }) {
		t.Errorf("%+v", r)
	}
}
