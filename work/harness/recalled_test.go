package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/evidence"
)

// TestResumeKeepsWhatHeld: a run that is taken up again before its decision was
// written gets the one that it would have had, whatever is proved of its engine by
// then; and a proving run stays one.
func TestResumeKeepsWhatHeld(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		proven  task.MutationMode
		purpose string
	}{"ordinary": {task.CopiedRepo, ""}, "proving": {task.CopiedFixture, eligibility.PurposeProof}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{}, talker{[]string{"tool"}})
			req.Admission.ProvenMode, req.Purpose = test.proven, test.purpose
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cutAfter(t, req.Home, out.Session, 1), Sandbox: req.Sandbox})
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(again.Session.Dir, evidence.EligibilityFile))
			if err != nil {
				t.Fatal(err)
			}
			var d eligibility.Decision
			if err := json.Unmarshal(text, &d); err != nil || !slices.Contains(d.PassedGates, "mode:within-stage") {
				t.Errorf("%v, %s", err, text)
			}
		})
	}
}
