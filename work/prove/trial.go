package prove

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/faulty"
	"remit/work/harness"
	"remit/work/matrix"
	"remit/work/sandbox"
)

// open looks the engine up.
func (p *prover) open(ctx context.Context) error {
	if _, known := fixes[p.Case]; !known {
		return fmt.Errorf("no engine can be proved on the case %q", p.Case)
	}
	e, err := p.engine(p.Engine, p.shippedChange())
	if err != nil {
		return err
	}
	if p.identity, err = e.Identity(ctx); err != nil {
		return err
	}
	provider, model := "", ""
	switch {
	case p.Agent == nil:
	case p.Route == nil:
		provider, model = matrix.ScriptedProvider, matrix.ScriptedModel
	default:
		provider, model = p.Route.Upstream.Provider, p.Route.Model
	}
	p.key = KeyOf(e, p.identity, provider, model, p.Sandbox.Describe().Driver)
	return nil
}

// trial makes the proof of one stage.
type trial struct {
	*prover
	stage   ladder.Stage
	proof   *ladder.Proof
	blocked bool // something could not be tried, and nothing failed
}

// check notes one thing that was looked at.
func (t *trial) check(name string, ok bool, format string, args ...any) bool {
	t.proof.Checks = append(t.proof.Checks, ladder.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	return ok
}

// attempt is one run of an engine.
type attempt struct {
	engine string
	change func(*harness.Request)
	// scripted says that the scripted model answers, whatever pair is proved.
	scripted bool
	// other is another engine than the one that is proved, with its own way to a model.
	other   *Other
	invoked *engine.Invocation // as it went to the sandbox, nil if it did not
}

// run makes one run and keeps its session.
func (t *trial) run(ctx context.Context, w world, a *attempt) (kept, error) {
	out, model, err := t.launch(ctx, w, a)
	if err != nil {
		return kept{}, err
	}
	return t.keep(out.Session.Dir, a.engine, model)
}

// launch makes one run; model says which one answered.
func (t *trial) launch(ctx context.Context, w world, a *attempt) (out *harness.Outcome, model string, err error) {
	e, err := t.engine(a.engine, w.wants)
	if err != nil {
		return nil, "", err
	}
	if a.other != nil && a.other.Agent != nil {
		e = a.other.Agent
	}
	wrapped := &faulty.Engine{Inner: e, Seen: func(inv *engine.Invocation) { a.invoked = inv }}
	req := harness.Request{Home: t.scratchHome(), Repo: w.repo, Contract: w.contract, Sandbox: t.Sandbox,
		ExplicitNone: t.Sandbox.Describe().Driver == sandbox.DriverNone, Repeat: 1, Build: t.Build, Clock: t.Clock}
	if req.PolicySHA256, err = (*task.Policy)(nil).Digest(); err != nil {
		return nil, "", err
	}
	if model, err = t.wayToModel(a, w, wrapped, &req); err != nil {
		return nil, "", err
	}
	req.Admission.ProvenMode, req.Purpose = t.proven, eligibility.PurposeProof
	if a.other != nil {
		req.Admission.ProvenMode, req.Purpose = a.other.proven, ""
	}
	req.Engine = wrapped.Wrapped()
	if a.change != nil {
		a.change(&req)
	}
	out, err = harness.Run(ctx, req)
	return out, model, err
}

// wayToModel gives a run of an agent its way to a model, and what the records say of it.
func (t *trial) wayToModel(a *attempt, w world, wrapped *faulty.Engine, req *harness.Request) (model string, err error) {
	agent, route, identity, admitted := t.Agent, t.Route, t.identity, t.Admission
	switch {
	case a.other != nil:
		agent, route, identity, admitted = a.other.Agent, a.other.Route, a.other.Identity, a.other.Admission
	case a.engine != t.Engine:
		agent = nil
	}
	if agent == nil {
		return ladder.ModelNone, nil
	}
	wrapped.Known, model = &identity, ladder.ModelPair
	if a.scripted && route != nil {
		route, model = nil, ladder.ModelScripted
	}
	if route == nil {
		m, err := t.scriptedModel(agent, a.engine, w.wants)
		if err != nil {
			return "", err
		}
		route = m.Route()
	}
	req.Model, req.Admission = route, admitted
	req.Admission.Enabled = true
	return model, nil
}

// kept is a session that lies beside the proofs.
type kept struct {
	ladder.Session
	dir    string
	report *evidence.Report
	opened evidence.RunOpened
}

// keep copies a sealed session to where the proof's sessions are.
func (p *prover) keep(dir, engine, model string) (kept, error) {
	rep, err := readReport(dir)
	if err != nil {
		return kept{}, err
	}
	k := kept{dir: filepath.Join(p.dir, bundlesDir, rep.SessionID), report: rep}
	if err := os.RemoveAll(k.dir); err != nil { // as it was before its outcome
		return kept{}, fmt.Errorf("keeping session %s: %w", rep.SessionID, err)
	}
	if err := os.CopyFS(k.dir, os.DirFS(dir)); err != nil {
		return kept{}, fmt.Errorf("keeping session %s: %w", rep.SessionID, err)
	}
	k.Session = ladder.Session{SessionID: rep.SessionID, Engine: engine, Model: model, Status: rep.Status}
	k.Code = codeOf(rep, "")
	for name, to := range map[string]*string{evidence.ReportFile: &k.ReportSHA256, evidence.ManifestFile: &k.ManifestSHA256} {
		text, err := readBounded(filepath.Join(k.dir, name))
		if err != nil {
			return kept{}, err
		}
		*to = canon.Digest(text)
	}
	log, err := readBounded(filepath.Join(k.dir, evidence.JournalFile))
	if err != nil {
		return kept{}, err
	}
	if k.opened, err = openedBy(log); err != nil {
		return kept{}, err
	}
	k.Journal, err = headOf(k.dir)
	return k, err
}

func readReport(dir string) (*evidence.Report, error) {
	text, err := readBounded(filepath.Join(dir, evidence.ReportFile))
	if err != nil {
		return nil, fmt.Errorf("the run left no report: %w", err)
	}
	return evidence.ReadReport(text)
}

// text is a file of the session, "" if it is not there.
func (k kept) text(name string) string {
	b, err := readBounded(filepath.Join(k.dir, filepath.FromSlash(name)))
	if err != nil {
		return ""
	}
	return string(b)
}

// pass names a session that shows what the stage proves.
func (t *trial) pass(k kept, class string) {
	k.Class = class
	t.proof.Passes = append(t.proof.Passes, k.Session)
}

// failure names a session of a failure class.
func (t *trial) failure(k kept, class, name string) {
	k.Class, k.Case = class, name
	t.proof.Failures = append(t.proof.Failures, k.Session)
}

// classRun is one case of a failure class that was brought about.
type classRun struct {
	class  string
	result matrix.CaseResult
	kept   kept
}

// failureClasses brings about the classes of the stage that are rows of the
// matrix, in the stage's mode, and checks that each ended as the table says.
func (t *trial) failureClasses(ctx context.Context) {
	var wrong []string
	mode := max(t.stage.Mode, task.CopiedFixture)
	if err := t.bringAbout(ctx, mode); err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, class := range t.stage.FailureClasses {
		held := slices.ContainsFunc(t.proof.Failures, func(s ladder.Session) bool { return s.Class == class })
		for _, r := range t.classes[mode.String()+"/"+class] {
			switch r.result.Verdict {
			case matrix.Held:
				held = true
				t.failure(r.kept, class, r.result.Name)
			case matrix.Broken:
				wrong = append(wrong, fmt.Sprintf("%s/%s: %s", class, r.result.Name, r.result.Reason))
			case matrix.NotTried:
				t.blocked = true
				wrong = append(wrong, fmt.Sprintf("%s/%s was not tried: %s", class, r.result.Name, r.result.Reason))
			}
		}
		if !held {
			wrong = append(wrong, class+" has no run that ended as the table says")
		}
	}
	t.check("failure_classes_hold", len(wrong) == 0, "%s", cmp.Or(strings.Join(wrong, "; "), fmt.Sprintf("%d classes, %d runs", len(t.stage.FailureClasses), len(t.proof.Failures))))
}

// bringAbout runs the classes of a mode that were not run before: those of every
// stage with this mode that is to be proved.
func (t *trial) bringAbout(ctx context.Context, mode task.MutationMode) error {
	var rows []string
	for _, s := range ladder.Stages() {
		if s.Number < t.stage.Number || s.Number > t.Through || max(s.Mode, task.CopiedFixture) != mode {
			continue
		}
		for _, class := range s.FailureClasses {
			_, row := ladder.ClassNamed(class)
			if _, done := t.classes[mode.String()+"/"+class]; row && !done && !slices.Contains(rows, class) {
				rows = append(rows, class)
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	var guard sync.Mutex // cases end at the same time
	sessions := map[string]kept{}
	model := ladder.ModelNone
	if t.Agent != nil {
		model = ladder.ModelScripted
	}
	rep, err := matrix.Run(ctx, matrix.Options{Engine: t.Engine, Agent: t.Agent, Binary: t.Binary, Sandbox: t.Sandbox, Rows: rows, Build: t.Build, Mode: mode,
		Dir: t.scratch,
		Keep: func(dir string, _ matrix.CaseResult) error {
			k, err := t.keep(dir, t.Engine, model)
			guard.Lock()
			defer guard.Unlock()
			sessions[k.SessionID] = k
			return err
		},
		OnCase: func(row string, c matrix.CaseResult) { t.tell(row+"/"+c.Name, c.Verdict, c.Reason) }})
	if err != nil {
		return err
	}
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			r := classRun{class: row.Name, result: c}
			if c.Got != nil {
				r.kept = sessions[c.Got.SessionID]
			}
			key := mode.String() + "/" + row.Name
			t.classes[key] = append(t.classes[key], r)
		}
	}
	return nil
}

// artifactSet audits every session that the proof names.
func (t *trial) artifactSet(ctx context.Context) {
	seen := map[string]bool{}
	for _, s := range slices.Concat(t.proof.Passes, t.proof.Failures) {
		if seen[s.SessionID] {
			continue
		}
		seen[s.SessionID] = true
		if err := auditSession(ctx, filepath.Join(t.dir, bundlesDir, s.SessionID), s.Journal); err != nil {
			t.check("artifact_set", false, "session %s: %v", s.SessionID, err)
			return
		}
	}
	t.check("artifact_set", len(seen) > 0, "%d sessions pass their audit", len(seen))
}

// gateMissing is an ordinary run in the stage's mode by the engine, of which that
// stage is not proved.
func (t *trial) gateMissing(ctx context.Context) error {
	w, err := t.fixture(ctx, fmt.Sprintf("stage%d-closed", t.stage.Number), t.stage.Mode)
	if err != nil {
		return err
	}
	k, err := t.run(ctx, w, &attempt{engine: t.Engine, change: ordinary})
	if err != nil {
		return err
	}
	t.proof.ContractSHA256, t.proof.PolicySHA256 = k.opened.ContractSHA256, k.opened.PolicySHA256 // until a run passes
	if t.check("missing_gate_blocks", k.Status == evidence.StatusBlocked && k.Code == string(reason.ModeExceedsStage) && nothingRan(k), "%s %s", k.Status, k.Code) {
		t.failure(k, ladder.ClassGateMissing, k.Code)
	}
	return nil
}

// ordinary takes from a run what makes it a part of a proof.
func ordinary(req *harness.Request) { req.Purpose = "" }

// nothingRan reports whether a session copied no workspace and started no process.
func nothingRan(k kept) bool {
	return !k.report.EngineProcessStarted && len(k.report.ChangedFiles) == 0 && k.text(evidence.PatchFile) == "" &&
		!strings.Contains(k.text(evidence.JournalFile), `"name":"`+evidence.StepWorkspace+`"`) &&
		!strings.Contains(k.text(evidence.JournalFile), `"name":"`+evidence.StepEngine+`"`)
}
