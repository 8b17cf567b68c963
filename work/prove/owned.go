package prove

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/route"
	"remit/work/session"
	"remit/work/workspace"
)

// target is the repository that its owner has admitted, with its record.
type target struct {
	path   string // as the record has it
	commit string // its HEAD
	record *admission.Target
	result admission.Result
	policy string // digest of what its policy says
	put    func(*harness.Request)
	before *ladder.Proof // of this stage, that waits for something; nil for none
}

// passesOwned is how many tasks an engine does in the target: repeatability asks for
// that many.
const passesOwned = ladder.RepeatabilityRequired

// ownedRepo is stage 5: verified changes are delivered to a repository that its
// owner has admitted, and accepted by the operator.
func (t *trial) ownedRepo(ctx context.Context) error {
	if err := t.gateMissing(ctx); err != nil {
		return err
	}
	tg, err := t.target(ctx)
	if err != nil {
		return err
	}
	t.check("target_owned", tg.record.Owner != "" && tg.record.OwnershipEvidence != "", "the record has an owner and evidence of it")
	t.check("target_noncritical", tg.record.Risk == admission.LowRiskNoncritical && tg.record.Rationale != "", "%s", tg.record.Risk)
	if !t.licensed() {
		return errNotTried
	}
	if err := t.targetRefusals(ctx, tg); err != nil {
		return err
	}
	var passes []kept
	for n := range passesOwned {
		k, err := t.governed(ctx, tg, n+1)
		if err != nil {
			return err
		}
		passes = append(passes, k)
	}
	t.ranAs(passes[0])
	if err := t.accepted(passes); err != nil {
		return err
	}
	t.each("approval_proof", passes, approvalShown)
	t.each("ownership_proof", passes, func(k kept) (bool, string) { return recordShown(k, tg) })
	t.each("paths_and_actions", passes, func(k kept) (bool, string) { return scopeShown(k, tg) })
	t.each("inside_target_paths", passes, func(k kept) (bool, string) { return insideRecord(k, tg) })
	t.each("no_forbidden_action", passes, nothingForbidden)
	t.each("outcome_replayable", passes, func(k kept) (bool, string) {
		ok, order := approvedFirst(k)
		return ok && k.approval() != "" && slices.Contains(k.steps(), evidence.StepOutcome), order + ", " + evidence.StepOutcome
	})
	if err := t.withoutOutcome(ctx, tg); err != nil {
		return err
	}
	return t.fullMatrix(ctx)
}

// target looks at the repository and at the record that admits it.
func (t *trial) target(ctx context.Context) (*target, error) {
	gate := "target_admitted"
	if t.stage.Number > 5 {
		gate = "operator_outcome"
	}
	if t.Repo == "" || t.Put == nil {
		return nil, t.notTried(gate, "stage %d works on a repository of yours: --repo DIR names it, and `remit admit target --template` begins its record", t.stage.Number)
	}
	path, err := filepath.EvalSymlinks(t.Repo)
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	source, err := workspace.OpenSource(ctx, path)
	if err != nil {
		return nil, err
	}
	base, err := source.Resolve(ctx, "")
	if err != nil {
		return nil, err
	}
	tg := &target{path: path, commit: base.Commit}
	// Before a session is kept anew: the proof is of the sessions as they were.
	if before, err := load(t.dir, t.Engine, filepath.Base(t.dir), t.stage.Number); err != nil {
		return nil, err
	} else if before != nil && before.Fault == "" && before.Proof.Status == evidence.StatusBlocked {
		tg.before = before.Proof
	}
	if tg.policy, err = t.Policy.Digest(); err != nil {
		return nil, err
	}
	_, tg.record = route.Records(t.Home, t.Signed, nil).TargetResult(path, nil) // the task keeps to it
	w, err := t.task(tg, 1)
	if err != nil {
		return nil, err
	}
	if err := t.admit(tg, w.contract); err != nil {
		return nil, err
	}
	if !tg.result.Admitted() {
		return nil, t.notTried(gate, "%s (%s)", tg.result.Detail, tg.result.Code)
	}
	if gate == "target_admitted" {
		t.check(gate, true, "%s", tg.result.RecordID)
	}
	t.proof.TargetAdmissionID = &tg.result.RecordID
	tg.put, err = t.Put(path, t.Policy)
	return tg, err
}

// admit asks the record of the target about a contract.
func (t *trial) admit(tg *target, c *task.Contract) error {
	facts, err := admission.FactsOf(c, tg.policy)
	if err != nil {
		return err
	}
	facts[admission.OnTargetPath] = admission.TargetDigest(tg.path)
	if t.Agent != nil {
		facts[admission.OnEngineDigest] = t.identity.SHA256
	}
	tg.result, tg.record = route.Records(t.Home, t.Signed, facts).TargetResult(tg.path, c)
	return nil
}

// task is the nth task of the stage in the target, under its policy and inside its
// record. It is named by the baseline: another one is another task.
func (t *trial) task(tg *target, n int) (world, error) {
	name := fmt.Sprintf("%.12s-%d-%d", tg.commit, t.stage.Number, n)
	c, wants, err := note("ladder-"+name, "remit-proof/"+name+".md", t.stage.Mode)
	if err != nil {
		return world{}, err
	}
	t.allowModel(c)
	if c, err = t.Policy.Apply(c); err != nil {
		return world{}, err
	}
	if tg.record != nil {
		for _, path := range tg.record.ForbiddenPaths {
			if !slices.Contains(c.ForbiddenPaths, path) {
				c.ForbiddenPaths = append(c.ForbiddenPaths, path)
			}
		}
		for _, action := range tg.record.ForbiddenActions {
			if !slices.Contains(c.ForbiddenActions, action) {
				c.ForbiddenActions = append(c.ForbiddenActions, action)
			}
		}
	}
	return world{repo: tg.path, contract: c, wants: wants}, nil
}

// under puts a run in the target under its records.
func (t *trial) under(tg *target, admitted harness.TargetAdmission) func(*harness.Request) {
	return func(req *harness.Request) {
		tg.put(req)
		req.Target, req.PolicySHA256 = admitted, tg.policy
		enabled, stated := t.Policy.Engine(t.Engine)
		req.Disabled = stated && !enabled
	}
}

// governed is the run of the nth task in the target. The session is one of the
// user's, for them to look at before they accept it; one that waits for that, or was
// accepted since, is not run again.
func (t *trial) governed(ctx context.Context, tg *target, n int) (kept, error) {
	w, err := t.task(tg, n)
	if err != nil {
		return kept{}, err
	}
	home := session.Home{Dir: t.Home}
	class := fmt.Sprintf("governed-%d", n)
	s, model, found := tg.waiting(home, w.contract.TaskID)
	if !found {
		if err := t.admit(tg, w.contract); err != nil {
			return kept{}, err
		}
		digest, err := canon.DigestOf(tg.record)
		if err != nil {
			return kept{}, err
		}
		admitted := harness.TargetAdmission{Admitted: tg.result.Admitted(), Code: tg.result.Code, Detail: tg.result.Detail, Status: string(tg.record.Status), SHA256: digest}
		put := t.under(tg, admitted)
		before, err := lookAt(tg.path)
		if err != nil {
			return kept{}, err
		}
		out, asked, err := t.launch(ctx, w, &attempt{engine: t.Engine, change: func(req *harness.Request) {
			put(req)
			req.Home = home
		}})
		if err != nil {
			return kept{}, err
		}
		after, err := lookAt(tg.path)
		if err != nil {
			return kept{}, err
		}
		others := beside(before.Differences(after.Snapshot), "remit/"+out.Session.ID)
		t.check(fmt.Sprintf("only_branch_of_task_%d", n), len(others) == 0, "%d paths beside the branch differ%s", len(others), listed(others))
		s, model = out.Session, asked
	}
	if err := t.accept(ctx, home, s); err != nil {
		return kept{}, err
	}
	k, err := t.keep(s.Dir, t.Engine, model)
	if err != nil {
		return kept{}, err
	}
	t.approvedBy(&k)
	t.pass(k, class)
	t.tell("task "+fmt.Sprint(n)+" in the target", k.Status, k.Code)
	return k, nil
}

// accept records that the operator accepts a run that passed, where they say so.
func (t *trial) accept(ctx context.Context, home session.Home, s session.Session) error {
	st, err := s.Inspect()
	if err != nil || t.Accepted == "" || st.Report == nil || st.Report.Status != evidence.StatusPass || st.Report.OperatorOutcome != "pending" {
		return err
	}
	return t.decided(ctx, home, s, session.Accepted, t.Accepted)
}

// waiting finds the session of a task that an earlier proving has made, and that was
// not rejected.
func (tg *target) waiting(home session.Home, taskID string) (s session.Session, model string, found bool) {
	if tg.before == nil {
		return s, "", false
	}
	for _, pass := range tg.before.Passes {
		s, err := home.Find(pass.SessionID)
		if err != nil || s.ID != pass.SessionID {
			continue
		}
		st, err := s.Inspect()
		if err == nil && st.Report != nil && st.Report.CaseID == taskID && st.Report.Status == evidence.StatusPass && st.Report.OperatorOutcome != session.Rejected {
			return s, pass.Model, true
		}
	}
	return s, "", false
}

// accepted looks for the outcome of each run. One that has none keeps the stage
// from being shown: it counts for nothing.
func (t *trial) accepted(passes []kept) error {
	var open, blocked []string
	for _, k := range passes {
		switch {
		case k.Status == evidence.StatusBlocked:
			blocked = append(blocked, fmt.Sprintf("session %s: %s", k.SessionID, said(k.report.FailureReason)))
		case ladder.OutcomeMissing(k.report) != nil: // a failure fails the checks
			open = append(open, k.SessionID)
		}
	}
	if len(blocked) > 0 {
		return t.notTried("operator_outcome", "%s", strings.Join(blocked, "; "))
	}
	if len(open) > 0 {
		return t.notTried("operator_outcome", "%s: look at the changes and accept them, `remit accept %s`, and prove the stage again; or say --accept WHY", reason.OperatorOutcomeMissing, strings.Join(open, "`, `remit accept "))
	}
	outcome := func(k kept) (bool, string) {
		return k.report.OperatorOutcome == session.Accepted, k.report.OperatorOutcome
	}
	t.each("operator_outcome", passes, outcome)
	if t.stage.Number == 5 {
		t.each("operator_accepted", passes, outcome)
	}
	return nil
}

// licensed looks for the licence note of the engine's source.
func (t *trial) licensed() bool {
	if !eligibility.AdmissionRequired(t.Engine) {
		return t.check("license_note_resolved", true, "the engine is a part of Remit")
	}
	if t.License == "" {
		_ = t.notTried("license_note_resolved", "the source admission of %s has no licence note: `remit admit source --engine %s --decision admitted --license NOTE --reason WHY`", t.Engine, t.Engine)
		return false
	}
	return t.check("license_note_resolved", true, "%s", t.License)
}

// beside are the paths that differ in a repository beside a branch that was added: its
// ref, its reflog, the directories above them, and objects.
func beside(differs []string, branch string) []string {
	ours := []string{".git/refs/heads/" + branch, ".git/logs/refs/heads/" + branch}
	return slices.DeleteFunc(differs, func(path string) bool {
		path = filepath.ToSlash(path)
		return path == ".git/objects" || strings.HasPrefix(path, ".git/objects/") ||
			slices.ContainsFunc(ours, func(own string) bool { return own == path || strings.HasPrefix(own, path+"/") })
	})
}
