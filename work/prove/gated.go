package prove

import (
	"context"
	"fmt"
	"strings"

	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/fake"
	"remit/work/harness"
	"remit/work/matrix"
)

// gatedEngine is stage 1: a refusal without the gate, and one with every gate
// open. Neither executes anything.
func (t *trial) gatedEngine(ctx context.Context) error {
	t.check("engine_registered", t.identity.Name == t.Engine, "%s %s", t.identity.Name, t.identity.Version)
	if eligibility.AdmissionRequired(t.Engine) {
		t.check("source_admission_recorded", t.Admission.SourceStatus == string(eligibility.ModelAdmitted), "%s %s", t.Admission.SourceStatus, t.Admission.Detail)
	} else {
		t.check("source_admission_recorded", true, "the engine is built in")
	}
	missing := matrix.Unscripted()
	t.check("failure_matrix_defined", len(missing) == 0, "%d rows; without a scenario: %v", len(ladder.Rows()), missing)
	t.check("fake_default_lane", ladder.DefaultLane == fake.Name, "%s", ladder.DefaultLane)

	off, err := t.refusal(ctx, "off", task.CopiedFixture, func(req *harness.Request) {
		req.Disabled, req.Admission.Enabled = true, false
	})
	if err != nil {
		return err
	}
	open, err := t.refusal(ctx, "open", task.CopiedFixture, ordinary)
	if err != nil {
		return err
	}
	t.pass(off.kept, "refused-without-gate")
	t.pass(open.kept, "gates-pass")
	t.failure(off.kept, ladder.ClassGateMissing, "switched-off")
	t.proof.ContractSHA256, t.proof.PolicySHA256 = open.opened.ContractSHA256, open.opened.PolicySHA256

	t.check("refused_without_gate", off.Code == string(reason.EngineNotEnabled), "%s %s", off.Status, off.Code)
	t.check("gates_pass_nothing_executed", open.Code == string(reason.ModeExceedsStage) && nothingRan(open.kept), "%s %s", open.Status, open.Code)
	t.check("gate_before_process", nothingRan(off.kept) && nothingRan(open.kept), "no workspace was copied and no engine was started")
	differs := append(off.differs, open.differs...)
	t.check("source_unchanged", len(differs) == 0, "%d paths differ%s", len(differs), listed(differs))
	var lacks []string
	for _, k := range []kept{off.kept, open.kept} {
		lacks = append(lacks, refusalLacks(k)...)
	}
	t.check("refusal_artifacts", len(lacks) == 0, "%d parts are missing%s", len(lacks), listed(lacks))
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names[:min(len(names), 10)], ", ")
}

// refused is a refusal, and what differs in the repository after it.
type refused struct {
	kept
	differs []string
}

// refusal makes a run that must not begin.
func (t *trial) refusal(ctx context.Context, name string, mode task.MutationMode, change func(*harness.Request)) (refused, error) {
	w, err := t.fixture(ctx, fmt.Sprintf("stage%d-%s", t.stage.Number, name), mode)
	if err != nil {
		return refused{}, err
	}
	before, err := matrix.TakeSnapshot(w.repo)
	if err != nil {
		return refused{}, err
	}
	k, err := t.run(ctx, w, &attempt{engine: t.Engine, change: change})
	if err != nil {
		return refused{}, err
	}
	after, err := matrix.TakeSnapshot(w.repo)
	return refused{k, before.Differences(after)}, err
}

// refusalLacks says what the session of a refusal must have and does not.
func refusalLacks(k kept) (lacks []string) {
	need := func(ok bool, what string) {
		if !ok {
			lacks = append(lacks, what)
		}
	}
	need(k.text(evidence.PatchFile) == "" && k.report.ArtifactDigests[evidence.PatchFile] != "", "an empty "+evidence.PatchFile)
	need(k.text(evidence.TestLogFile) != "", evidence.TestLogFile)
	need(k.text(evidence.TraceFile) != "", evidence.TraceFile)
	need(strings.Contains(k.text(evidence.EventsFile), `"backend.gate.blocked"`), "the event backend.gate.blocked")
	need(len(k.report.NotApplicable) > 0, "reasons of not_applicable")
	return lacks
}
