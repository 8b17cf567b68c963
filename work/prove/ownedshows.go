package prove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"remit/law/admission"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/matrix"
	"remit/work/route"
	"remit/work/session"
	"remit/work/workspace"
)

// recordShown holds proofs/target-admission.json against the record.
func recordShown(k kept, tg *target) (bool, string) {
	var p struct {
		Admitted bool   `json:"admitted"`
		Status   string `json:"admission_status"`
		SHA256   string `json:"admission_sha256"`
		Target   string `json:"target_repository"`
	}
	digest, err := canon.DigestOf(tg.record)
	ok := err == nil && k.read("target-admission", &p) && p.Admitted && p.SHA256 == digest && p.Target == admission.TargetDigest(tg.path)
	return ok, fmt.Sprintf("record %s, %s", tg.record.ID, p.Status)
}

// scopeShown looks for the record's actions and paths in the contract of the session.
func scopeShown(k kept, tg *target) (bool, string) {
	c, err := task.ParseCanonical(evidence.ContractFile, []byte(strings.TrimSuffix(k.text(evidence.ContractFile), "\n")))
	if err != nil {
		return false, "the contract of the session cannot be read"
	}
	scope := task.Scope{AllowedPaths: tg.record.AllowedPaths, ForbiddenPaths: tg.record.ForbiddenPaths, ForbiddenActions: tg.record.ForbiddenActions}
	outside := scope.Outside(c)
	return len(outside) == 0, fmt.Sprintf("%d allowed paths, %d forbidden actions%s", len(c.AllowedPaths), len(c.ForbiddenActions), listed(outside))
}

// insideRecord holds the change against the record's allowed paths.
func insideRecord(k kept, tg *target) (bool, string) {
	var outside []string
	for _, file := range k.report.ChangedFiles {
		if !task.Covered(tg.record.AllowedPaths, file) || task.Covered(tg.record.ForbiddenPaths, file) {
			outside = append(outside, file)
		}
	}
	return len(outside) == 0 && len(k.report.ChangedFiles) > 0 && k.report.AllowedWritesPassed, fmt.Sprintf("%d changed files%s", len(k.report.ChangedFiles), listed(outside))
}

// spoiledTargets are records that lack one thing each, and the code of that.
var spoiledTargets = []struct {
	class string
	code  reason.Code
	spoil func(*admission.TargetDecision)
}{
	{ladder.ClassTargetNotAdmitted, reason.TargetNotAdmitted, func(d *admission.TargetDecision) {
		d.Decision, d.Status = admission.NotDecided, admission.StatusNotAdmitted
	}},
	{ladder.ClassUnowned, reason.TargetUnowned, func(d *admission.TargetDecision) { d.Owner = "" }},
	{ladder.ClassCritical, reason.TargetCritical, func(d *admission.TargetDecision) { d.Risk = "critical" }},
	{ladder.ClassTargetPaths, reason.TargetPathsMissing, func(d *admission.TargetDecision) { d.AllowedPaths = nil }},
	{ladder.ClassTargetActions, reason.TargetActionOpen, func(d *admission.TargetDecision) { d.ForbiddenActions = nil }},
	{ladder.ClassTargetApproval, reason.TargetApprovalMissing, func(d *admission.TargetDecision) { d.By = "" }},
	{ladder.ClassTargetOutcome, reason.TargetOutcomeOptional, func(d *admission.TargetDecision) { d.OutcomeRequired = false }},
}

// targetRefusals are runs under a record that lacks something: each is refused
// before anything is opened, with the code of its gate.
func (t *trial) targetRefusals(ctx context.Context, tg *target) error {
	none, _ := route.Records(t.scratch, false, nil).TargetResult(tg.path, nil)
	if err := t.refusedTarget(ctx, tg, ladder.ClassTargetMissing, reason.TargetRecordMissing, harness.TargetAdmission{Code: none.Code, Detail: none.Detail}); err != nil {
		return err
	}
	for _, s := range spoiledTargets {
		d := tg.record.TargetDecision
		s.spoil(&d)
		gates := d.Gates()
		if len(gates) == 0 {
			return fmt.Errorf("the record of class %s lacks nothing", s.class)
		}
		if err := t.refusedTarget(ctx, tg, s.class, s.code, harness.TargetAdmission{Code: gates[0].Code, Detail: gates[0].Detail, Status: string(d.Status)}); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) refusedTarget(ctx context.Context, tg *target, class string, code reason.Code, admitted harness.TargetAdmission) error {
	w, err := t.task(tg, 1)
	if err != nil {
		return err
	}
	before, err := lookAt(tg.path)
	if err != nil {
		return err
	}
	k, err := t.run(ctx, w, &attempt{engine: t.Engine, change: t.under(tg, admitted)})
	if err != nil {
		return err
	}
	after, err := lookAt(tg.path)
	if err != nil {
		return err
	}
	differs := before.Differences(after.Snapshot)
	if t.check("refused_"+strings.ReplaceAll(class, "-", "_"), k.Status == evidence.StatusBlocked && k.Code == string(code) && nothingRan(k) && len(differs) == 0 && !strings.Contains(k.text(evidence.ReportFile), tg.path),
		"%s %s, %d paths differ", k.Status, k.Code, len(differs)) {
		t.failure(k, class, string(code))
	}
	return nil
}

// withoutOutcome is a run that passes and gets no outcome: as it is, it counts for
// nothing. Then it is rejected, which takes its branch back.
func (t *trial) withoutOutcome(ctx context.Context, tg *target) error {
	w, err := t.task(tg, passesOwned+1)
	if err != nil {
		return err
	}
	out, model, err := t.launch(ctx, w, &attempt{engine: t.Engine, scripted: true, change: t.under(tg, harness.TargetAdmission{Admitted: true, Status: string(tg.record.Status)})})
	if err != nil {
		return err
	}
	if out.Report.Status == evidence.StatusBlocked {
		return t.notTried("outcome_missing_counts_for_nothing", "session %s: %s", out.Session.ID, said(out.Report.FailureReason))
	}
	k, err := t.keep(out.Session.Dir, t.Engine, model)
	if err != nil {
		return err
	}
	k.Code = codeOf(k.report, ladder.ClassMissingOutcome)
	if t.check("outcome_missing_counts_for_nothing", k.Status == evidence.StatusPass && k.Code == string(reason.OperatorOutcomeMissing), "%s %s", k.Status, k.Code) {
		t.failure(k, ladder.ClassMissingOutcome, "pending")
	}
	if out.Report.Delivered == nil {
		return nil
	}
	if err := t.decided(ctx, t.scratchHome(), out.Session, session.Rejected, "the run showed that a pass without an outcome counts for nothing"); err != nil {
		return err
	}
	source, err := workspace.OpenSource(ctx, tg.path)
	if err != nil {
		return err
	}
	left, err := source.Names("refs/heads/" + out.Report.Delivered.Branch)
	t.check("rejection_removes_branch", err == nil && left == "", "branch %s is gone", out.Report.Delivered.Branch)
	return err
}

// fullMatrix names the complete failure matrix of the engine. One of this build that
// passes is taken as it is, else it is made; a copy lies beside the proof.
func (t *trial) fullMatrix(ctx context.Context) error {
	name := filepath.Join(t.Home, recordsDir, t.Engine, "matrix.json")
	records, err := matrix.ReadRecords(t.Home, t.Engine, t.Build)
	if err != nil {
		return err
	}
	rep, text := readMatrix(name)
	if m := records.Matrix; m == nil || !m.Current || rep == nil || rep.Status != evidence.StatusPass || t.Agent != nil && rep.Engine != t.identity {
		if rep, err = matrix.Run(ctx, matrix.Options{Engine: t.Engine, Agent: t.Agent, Binary: t.Binary, Sandbox: t.Sandbox, Build: t.Build, Dir: t.scratch,
			OnCase: func(row string, c matrix.CaseResult) { t.tell("matrix "+row+"/"+c.Name, c.Verdict, c.Reason) }}); err != nil {
			return err
		}
		if err := rep.Save(t.Home); err != nil {
			return err
		}
		if rep, text = readMatrix(name); rep == nil {
			return errors.New("the failure matrix that was kept cannot be read")
		}
	}
	t.check("failure_matrix_complete", rep.Status == evidence.StatusPass && rep.Complete && rep.Held == rep.Total, "%s, %d of %d rows hold", rep.Status, rep.Held, rep.Total)
	digest := canon.Digest(text)
	t.proof.MatrixSHA256 = &digest
	return t.attach(ladder.MatrixFile(t.stage.Number), text)
}

func readMatrix(name string) (*matrix.Report, []byte) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil
	}
	return matrix.Read(text), text
}
