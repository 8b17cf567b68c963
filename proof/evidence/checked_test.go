//go:build !race

package evidence_test

import (
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

const checkedHead = "2222222222222222222222222222222222222222"

// checkedRun is a run that checked a change which was there before.
func checkedRun(t *testing.T) *session {
	t.Helper()
	s := newSession(t)
	s.checked = &evidence.Checked{HeadCommit: checkedHead}
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.step(evidence.StepTaken, evidence.PlanTake, journal.Completed, s.checked,
		evidence.ChangeTaken{Checked: evidence.Checked{HeadCommit: checkedHead, MergeBase: string(s.run.BaselineCommit), Authors: []evidence.Author{{Name: "A", Email: "a@example.com"}}, Commits: 1}})
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.complete()
	writeProjections(t, s.dir, s.w.Entries())
	return s
}

// TestForgedCheck: a run cannot claim to have no engine and have one, pass without its
// change, or have checked another change than it says.
func TestForgedCheck(t *testing.T) {
	t.Parallel()
	s := checkedRun(t)
	if found := gates(t, s.dir); len(found) > 0 {
		t.Fatalf("the session itself:%s", texts(found))
	}
	for name, forged := range map[string]struct {
		edit func(i int, step *journal.Step) bool
		says string
	}{
		"an engine":      {s.reopened(func(o *evidence.RunOpened) { o.Engine.Name = "command" }), "has no engine exactly if"},
		"no purpose":     {s.reopened(func(o *evidence.RunOpened) { o.Purpose = "" }), "has no engine exactly if"},
		"not checked":    {s.reopened(func(o *evidence.RunOpened) { o.Checked = nil }), "has no engine exactly if"},
		"another commit": {s.reopened(func(o *evidence.RunOpened) { o.Checked = &evidence.Checked{HeadCommit: strings.Repeat("3", 40)} }), "another change was taken"},
		"both": {s.reopened(func(o *evidence.RunOpened) {
			o.Checked = &evidence.Checked{HeadCommit: checkedHead, PatchSHA256: canon.Digest(nil)}
		}), "a commit or a patch"},
		"not taken": {func(_ int, step *journal.Step) bool { return step.Name != evidence.StepTaken }, "its steps give"},
		"a tool": {func(_ int, step *journal.Step) bool {
			if step.Name == evidence.StepTaken && step.Status == journal.Started {
				step.Name, step.Inputs = evidence.StepTool, evidence.ToolCalled{ID: "x", Tool: "x", Params: []byte("{}"), ParamsHash: canon.Digest([]byte("{}"))}
			}
			return true
		}, "of a run that has no engine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := s.forged(t, forged.edit); !strings.Contains(found, forged.says) {
				t.Errorf("want %q, found:%s", forged.says, found)
			}
		})
	}
}
