package prove

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/law/admission"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// TestBeside: the branch of a run, its reflog and objects are its own; beside returns every
// other path that differs in a target.
func TestBeside(t *testing.T) {
	t.Parallel()
	ours := []string{".git", ".git/objects", ".git/objects/ab/cdef", ".git/refs", ".git/refs/heads", ".git/refs/heads/remit", ".git/refs/heads/remit/s",
		".git/logs", ".git/logs/refs/heads/remit/s"}
	theirs := []string{".git/HEAD", ".git/index", ".git/config", ".git/hooks/pre-push", ".git/packed-refs", ".git/refs/heads/main", ".git/refs/heads/remit/s2",
		".git/refs/heads/remit/s/x", ".git/refs/tags/remit/s", ".git/logs/HEAD", ".git/objectsx", "README.md"}
	if got := beside(slices.Concat(ours, theirs), "remit/s"); !slices.Equal(got, theirs) {
		t.Errorf("%q", got)
	}
}

// TestRefsOf: loose and packed refs of a repository that a run made, and no more.
func TestRefsOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := refsOf(dir); err == nil {
		t.Error("a directory without refs has refs")
	}
	for name, text := range map[string]string{"refs/heads/remit/s": "aa\n", "packed-refs": "# pack-refs with: peeled\nbb refs/tags/v1\n^cc\n", "HEAD": "ref: x\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := refsOf(dir); err != nil || !slices.Equal(got, []string{"aa refs/heads/remit/s", "bb refs/tags/v1"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSpoiledTargets: each failure class of stage 5 that is about the target's record
// takes one thing away, and that very gate blocks.
func TestSpoiledTargets(t *testing.T) {
	t.Parallel()
	whole := admission.TargetDecision{Status: admission.StatusAdmitted, Path: "/r", Owner: "me", OwnershipEvidence: "e", Risk: admission.LowRiskNoncritical, Rationale: "r",
		AllowedPaths: []string{"a"}, ForbiddenActions: task.DefaultForbiddenActions(), ApprovalTimestamp: "2026-02-03", OutcomeRequired: true}
	whole.Decision, whole.By, whole.ReviewTrigger = admission.Admitted, "me", "another owner"
	if gates := whole.Gates(); len(gates) > 0 {
		t.Fatalf("%+v", gates)
	}
	var classes []string
	for _, s := range spoiledTargets {
		d := whole
		s.spoil(&d)
		if gates := d.Gates(); len(gates) != 1 || gates[0].Code != s.code {
			t.Errorf("%s: %+v", s.class, gates)
		}
		classes = append(classes, s.class)
	}
	for _, class := range ladder.Stages()[4].FailureClasses {
		if strings.HasPrefix(class, "target-") && class != ladder.ClassTargetMissing && !slices.Contains(classes, class) {
			t.Errorf("no record brings %s about", class)
		}
	}
}

// TestSessionShows: events that are out of order, end early or say another verdict than
// the report are a fault, and so is a required one that is missing.
func TestSessionShows(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(vectors, "accepted", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	report, events := read(evidence.ReportFile), read(evidence.EventsFile)
	first, rest, _ := strings.Cut(events, "\n")
	for _, test := range []struct{ name, report, events, fault string }{
		{"as it is", report, events, ""},
		{"out of order", report, rest + first + "\n", "not in its order"},
		{"no events", report, "", "do not end with the verdict"},
		{"cut off", report, first + "\n", "do not end with the verdict"},
		{"another verdict", report, strings.ReplaceAll(events, `"status":"pass"`, `"status":"fail"`), "do not end with the verdict"},
		{"no event", report, "x\n", "cannot be read"},
		{"no report", "", events, "report.json cannot be read"},
	} {
		if _, fault := SessionShows([]byte(test.report), []byte(test.events)); (fault == "") != (test.fault == "") || !strings.Contains(fault, test.fault) {
			t.Errorf("%s: %q", test.name, fault)
		}
	}
	fields, _ := SessionShows([]byte(report), []byte(events))
	if !slices.Contains(fields, "blockers") || slices.Contains(fields, "new_tests") {
		t.Errorf("%v", fields)
	}
}

// TestCodeOf: a pass has a code only where it stands for a missing outcome.
func TestCodeOf(t *testing.T) {
	t.Parallel()
	rep := &evidence.Report{Status: "pass", MutationMode: "owned-noncritical-repo", OperatorOutcome: "pending"}
	if got := codeOf(rep, ladder.ClassMissingOutcome); got != string(reason.OperatorOutcomeMissing) {
		t.Errorf("%q", got)
	}
	if got := codeOf(rep, ladder.FailedTests); got != "" {
		t.Errorf("%q", got)
	}
	rep.OperatorOutcome = "accepted"
	if got := codeOf(rep, ladder.ClassMissingOutcome); got != "" {
		t.Errorf("%q", got)
	}
}

// TestNote: the task, its patch and its command make the same change, in modes that
// touch a repository too.
func TestNote(t *testing.T) {
	t.Parallel()
	c, wants, err := note("ladder-x", "remit-proof/x.md", task.ScopedRealRepo)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NeedsApproval() || !c.RequireClean || !strings.Contains(wants.patch, "+++ b/remit-proof/x.md") || !strings.Contains(wants.command, "> remit-proof/x.md") ||
		!task.Covered(c.AllowedPaths, "remit-proof/x.md") || !slices.Equal(c.ForbiddenActions, task.DefaultForbiddenActions()) {
		t.Errorf("%+v, %+v", c, wants)
	}
}
