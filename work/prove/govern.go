package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/fake"
	"remit/work/harness"
	"remit/work/matrix"
	"remit/work/session"
)

// Govern is what runs stand on that deliver their change: those of stages 4 to 6.
type Govern struct {
	// Put puts a run over a repository with a policy, nil for none, before its
	// authority, which knows of the approval and of the outcome.
	Put func(repo string, policy *task.Policy) (func(*harness.Request), error)
	// Approver is the person who proves, if they approve these runs; "" leaves the
	// approvals to those whom the authority lets decide.
	Approver string
	// Operator is the person who proves, Accepted why they accept the changes of the
	// runs that pass; "" leaves the outcome open.
	Operator, Accepted string
	// Tell tells the authority of the outcome of a run of a home.
	Tell func(context.Context, session.Home, session.Session)
	// Policy is that of Repo, nil for none; License what the source admission of the
	// engine says of its licence.
	Policy  *task.Policy
	License string
	// Others are the other agents of this program, for the comparison of stage 6.
	Others func(context.Context) []Other
}

// scratchHome is the home of runs whose sessions are kept beside the proof alone.
func (p *prover) scratchHome() session.Home {
	return session.Home{Dir: filepath.Join(p.scratch, "home")}
}

// errNotTried ends a stage whose runs cannot be made: the failed check is noted.
var errNotTried = errors.New("the stage could not be tried")

// notTried notes what keeps the stage from being tried.
func (t *trial) notTried(check, format string, args ...any) error {
	t.check(check, false, format, args...)
	t.blocked = true
	return errNotTried
}

// each notes a check that has to hold for every session.
func (t *trial) each(name string, sessions []kept, holds func(kept) (bool, string)) {
	ok := len(sessions) > 0
	var details []string
	for _, k := range sessions {
		held, detail := holds(k)
		ok = ok && held
		details = append(details, detail)
	}
	t.check(name, ok, "%s", strings.Join(slices.Compact(details), "; "))
}

// read reads a proof of a session.
func (k kept) read(name string, into any) bool {
	return json.Unmarshal([]byte(k.text(evidence.ProofsDir+"/"+name+".json")), into) == nil
}

// steps are the steps of a session's journal that are not only begun, and the start
// of the engine.
func (k kept) steps() (names []string) {
	log, err := journal.ReadFile(filepath.Join(k.dir, evidence.JournalFile))
	if err != nil {
		return nil
	}
	for _, e := range log.Entries {
		if e.Status != journal.Started || e.Name == evidence.StepEngine {
			names = append(names, e.Name)
		}
	}
	return names
}

// approval is the id of the approval that a session used, "" for none.
func (k kept) approval() string {
	log, err := journal.ReadFile(filepath.Join(k.dir, evidence.JournalFile))
	if err != nil {
		return ""
	}
	id, open := session.ApprovalOf(log.Entries)
	if open {
		return ""
	}
	return id
}

// approvalShown holds proofs/approval.json against what it is an approval of.
func approvalShown(k kept) (bool, string) {
	var p struct {
		Granted *struct {
			Actor    string `json:"actor"`
			Contract string `json:"contract_sha256"`
			Mode     string `json:"mutation_mode"`
			ID       string `json:"approval_id"`
		} `json:"granted"`
	}
	if !k.read("approval", &p) || p.Granted == nil {
		return false, "proofs/approval.json has no grant"
	}
	g := p.Granted
	ok := g.Actor != "" && g.ID != "" && g.ID == k.approval() && g.Contract == k.opened.ContractSHA256 && g.Mode == k.report.MutationMode
	return ok, fmt.Sprintf("%s, granted by %s for %s", g.ID, g.Actor, g.Mode)
}

// approvedFirst looks for the request, the grant and the branch policy before the
// engine's start.
func approvedFirst(k kept) (bool, string) {
	order := []string{evidence.StepApprovalRequested, evidence.StepApprovalGranted, evidence.StepBranchPolicy, evidence.StepEngine, evidence.StepDelivered}
	var found []string
	for _, name := range k.steps() {
		if slices.Contains(order, name) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return slices.Equal(found, order), strings.Join(found, ", ")
}

// nothingForbidden looks at what the session says of each action.
func nothingForbidden(k kept) (bool, string) {
	could := couldNotHappen(k.dir)
	for _, action := range task.DefaultForbiddenActions() {
		if !slices.Contains(could, action) {
			return false, "it is not shown that " + action + " could not happen"
		}
	}
	return k.report.BranchPolicy != nil && !k.report.BranchPolicy.Pushed, fmt.Sprintf("%d actions could not happen", len(could))
}

// approvedBy names the approval of a pass in the proof.
func (t *trial) approvedBy(k *kept) {
	if id := k.approval(); id != "" {
		k.ApprovalID = &id
		if t.proof.ApprovalID == nil {
			t.proof.ApprovalID = &id
		}
	}
}

// decided gives a run its outcome, and tells its authority.
func (t *trial) decided(ctx context.Context, home session.Home, s session.Session, outcome, why string) error {
	if _, err := s.Decide(ctx, outcome, why, t.Operator, t.Clock); err != nil {
		return fmt.Errorf("recording the outcome of session %s: %w", s.ID, err)
	}
	if t.Tell != nil {
		t.Tell(ctx, home, s)
	}
	return nil
}

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
