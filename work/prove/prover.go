package prove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/atomicfile"
	"remit/proof/attest"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/harness"
	"remit/work/keyring"
	"remit/work/matrix"
	"remit/work/sandbox"
	"remit/work/verify"
)

// Options say what to prove.
type Options struct {
	Home   string
	Engine string
	// Agent is an engine that is not built in, Route its way to the pair that is
	// being proved; nil is the scripted model of this process.
	// Program is that of an engine which drives several, "" for the others.
	Program string
	Agent   engine.Modelled
	Route   *harness.ModelRoute
	// Admission is what the records say of the agent; the ids are of the records.
	Admission                         harness.Admission
	SourceAdmissionID, ModelAdmission string
	Binary                            string // the remit executable
	Sandbox                           sandbox.Driver
	Build                             evidence.Build
	// Case names the shipped fixture that the engine runs on.
	Case string
	// Repo is the repository of stage 3, "" for a fixture that is made for it, and that
	// of stages 5 and 6.
	Repo           string
	First, Through int
	Govern
	// Signed asks for signatures of the records that are there, as of the proofs.
	Signed bool
	// ForProgram makes the proofs that come with the program: those that come with
	// this one are not asked.
	ForProgram bool
	Clock      func() time.Time
	// OnStep gets what has ended.
	OnStep func(what, status, detail string)
}

// Result is what came of a proving.
type Result struct {
	Key      ladder.Key      `json:"key"`
	Dir      string          `json:"dir"` // relative to REMIT_HOME
	Made     []Made          `json:"proofs"`
	Standing ladder.Standing `json:"standing"`
}

// Made is one stage of it.
type Made struct {
	Stage  int      `json:"stage"`
	Path   string   `json:"path"`
	Reused bool     `json:"reused"` // the proof that is there holds
	Status string   `json:"status"`
	Errors []string `json:"errors"`
}

// Status is the worst status of the stages.
func (r *Result) Status() string {
	status := evidence.StatusPass
	for _, m := range r.Made {
		if m.Status == evidence.StatusFail || status == evidence.StatusPass {
			status = m.Status
		}
	}
	return status
}

// prover makes the proofs of one key.
type prover struct {
	Options
	identity evidence.EngineIdentity
	key      ladder.Key
	dir      string                   // of the key
	scratch  string                   // below dir, removed at the end
	scripted map[string]*matrix.Model // by engine and what it is to do
	classes  map[string][]classRun    // of a mode and a class
	earlier  []ladder.EarlierProof
	proven   task.MutationMode // that the stages below open
}

// Run proves the stages from First to Through, in order. A stage whose proof
// holds is not proved again; one whose predecessor does not hold is refused with
// stage_not_proven. The error is for what keeps a proof from being made at all: a
// stage that could not be shown has a proof that says so.
func Run(ctx context.Context, opt Options) (*Result, error) {
	p := &prover{Options: opt, classes: map[string][]classRun{}, scripted: map[string]*matrix.Model{}}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	defer p.close()
	res := &Result{Key: p.key, Dir: filepath.ToSlash(filepath.Join(recordsDir, p.key.Engine, filepath.Base(p.dir)))}
	for stage := opt.First; stage <= opt.Through; stage++ {
		standing, err := p.standing()
		if err != nil {
			return nil, err
		}
		if below := stage - 1; standing.Stage < below {
			return nil, reason.Errorf(reason.StageNotProven, "stage %d is to be proved, and stage %d is %s: %s", stage, standing.Stage+1,
				standing.Stages[standing.Stage].State, standing.Stages[standing.Stage].Why).WithHint("%s", ladder.ProveCommand(p.key, stage))
		}
		m := Made{Stage: stage, Path: res.Dir + "/" + ladder.ProofFile(stage), Errors: []string{}}
		if standing.Stages[stage-1].State == ladder.Proven {
			m.Reused, m.Status, m.Path = true, evidence.StatusPass, standing.Stages[stage-1].Path
		} else {
			proof, err := p.prove(ctx, stage)
			if err != nil {
				return nil, err
			}
			m.Status, m.Errors = proof.Status, proof.Errors
		}
		p.tell(fmt.Sprintf("stage %d", stage), m.Status, firstOf(m.Errors))
		if res.Made = append(res.Made, m); m.Status != evidence.StatusPass {
			break
		}
	}
	var err error
	res.Standing, err = p.standing()
	return res, err
}

func firstOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

func (p *prover) tell(what, status, detail string) {
	if p.OnStep != nil {
		p.OnStep(what, status, detail)
	}
}

func (p *prover) prepare(ctx context.Context) (err error) {
	if p.Clock == nil {
		p.Clock = time.Now
	}
	if p.First < 1 || p.Through < p.First || p.Through > len(ladder.Stages()) {
		return fmt.Errorf("stages %d to %d: the stages are 1 to %d", p.First, p.Through, len(ladder.Stages()))
	}
	if p.Sandbox == nil {
		return reason.Errorf(reason.SandboxUnavailable, "a proof needs a sandbox, and none works on this machine").WithHint("`remit doctor` says what is missing")
	}
	scratch, err := os.MkdirTemp("", "remit-prove-")
	if err != nil {
		return fmt.Errorf("making a scratch directory: %w", err)
	}
	p.scratch = scratch
	if err := p.open(ctx); err != nil {
		p.close()
		return err
	}
	if p.dir, err = Dir(p.Home, p.key); err == nil {
		err = os.MkdirAll(filepath.Join(p.dir, bundlesDir), 0o700)
	}
	if err != nil {
		p.close()
		return fmt.Errorf("making the directory of the proofs: %w", err)
	}
	return nil
}

func (p *prover) close() {
	for _, m := range p.scripted {
		m.Close()
	}
	_ = os.RemoveAll(p.scratch) // scratch: what stays lies in the temporary directory
}

// standing is how far the key is.
func (p *prover) standing() (ladder.Standing, error) {
	proofs, err := Proofs(p.Home, p.key.Engine, p.Signed)
	if err != nil {
		return ladder.Standing{}, err
	}
	if p.ForProgram {
		proofs = slices.DeleteFunc(proofs, func(r ladder.Recorded) bool { return r.BuiltIn })
	}
	s := ladder.Judge(p.key, proofs, p.Clock())
	p.earlier, p.proven = nil, s.Mode
	for _, st := range s.Stages[:s.Stage] {
		i := slices.IndexFunc(proofs, func(r ladder.Recorded) bool { return r.Path == st.Path })
		p.earlier = append(p.earlier, ladder.EarlierProof{Stage: st.Number, SHA256: proofs[i].Proof.CanonicalJSONSHA256})
	}
	return s, nil
}

// prove runs one stage, writes its proof and removes the sessions that no proof
// of the key names.
func (p *prover) prove(ctx context.Context, stage int) (*ladder.Proof, error) {
	now := p.Clock().UTC()
	t := &trial{prover: p, stage: ladder.Stages()[stage-1], proof: &ladder.Proof{Stage: stage, MadeAt: now.Format(journal.TimeFormat),
		ReviewBy: now.Add(ladder.ReviewAfter).Format(journal.TimeFormat), Key: p.key, Engine: p.identity, Build: p.Build,
		Sandbox: p.sandboxFacts(), Earlier: p.earlier[:stage-1]}}
	if p.SourceAdmissionID != "" {
		t.proof.SourceAdmissionID = &p.SourceAdmissionID
	}
	if p.ModelAdmission != "" {
		t.proof.ModelAdmissionID = &p.ModelAdmission
	}
	if stage > 1 {
		t.check(fmt.Sprintf("stage%d_proved", stage-1), true, "%s", p.earlier[stage-2].SHA256)
	}
	err := []func(context.Context) error{t.gatedEngine, t.artificialFixture, t.copiedRepo, t.disposableRepo, t.ownedRepo, t.candidateDefault}[stage-1](ctx)
	if err != nil && !errors.Is(err, errNotTried) {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		t.failureClasses(ctx)
		t.artifactSet(ctx)
	}
	if err := t.proof.Seal(t.blocked); err != nil {
		return nil, err
	}
	return t.proof, p.save(t.proof)
}

func (p *prover) sandboxFacts() evidence.SandboxFacts {
	d := p.Sandbox.Describe()
	return evidence.SandboxFacts{Driver: d.Driver, Version: d.Version, Layer: d.Layer, NotEnforced: d.NotEnforced}
}

// save writes a proof and its signature, the signature first: a proof that is
// there is signed.
func (p *prover) save(proof *ladder.Proof) error {
	text, err := proof.Encode()
	if err == nil {
		_, err = ladder.ParseProof(text) // what is kept is read again
	}
	if err != nil {
		return err
	}
	name := filepath.Join(p.dir, ladder.ProofFile(proof.Stage))
	signature, err := keyring.SignRecord(p.Home, attest.NamespaceRecord, text)
	if err != nil {
		return err
	}
	if err := atomicfile.ReplaceDurably(name+keyring.SignatureSuffix, signature, 0o600); err != nil {
		return err
	}
	return atomicfile.ReplaceDurably(name, text, 0o600)
}

// KeyOf is the key of an engine as it is now, with the pair that it asks and the
// sandbox that confines it. The program of an engine that is built in is the
// user's, so its key leaves version and digest open.
func KeyOf(e engine.Engine, id evidence.EngineIdentity, provider, model, driver string) ladder.Key {
	k := ladder.Key{Engine: id.Name, AdapterVersion: engine.AdapterVersion(e), VerifierSHA256: verify.Digest(), SandboxDriver: driver}
	if eligibility.AdmissionRequired(id.Name) {
		k.EngineVersion, k.EngineSHA256, k.Provider, k.Model = id.Version, id.SHA256, provider, model
	}
	return k
}

// Question asks how far an engine may go that is about to be run.
type Question struct {
	Home     string
	Signed   bool // the policy asks for signatures of the records
	Engine   engine.Engine
	Identity evidence.EngineIdentity
	Model    *harness.ModelRoute // nil for an engine that asks none
	Driver   string              // of the sandbox
	Mode     task.MutationMode   // that is asked for
}

// Into says in an admission how far the proofs bring the engine, and what would
// bring it further. An engine whose program is not there has nothing to prove.
func (q Question) Into(a *harness.Admission) error {
	if a.Unavailable != nil {
		return nil //nolint:nilerr // the admission says it already
	}
	provider, model := "", ""
	if q.Model != nil {
		provider, model = q.Model.Upstream.Provider, q.Model.Model
	}
	key := KeyOf(q.Engine, q.Identity, provider, model, q.Driver)
	proofs, err := Proofs(q.Home, key.Engine, q.Signed)
	if err != nil {
		return err
	}
	standing := ladder.Judge(key, proofs, time.Now())
	a.ProvenMode, a.Unproved, a.Prove = standing.Mode, "", ""
	if stage, why := standing.Missing(proofs); stage > 0 {
		a.Unproved = fmt.Sprintf("stage %d is %s: %s", stage, strings.ReplaceAll(string(standing.Stages[stage-1].State), "_", " "), why)
		a.Prove = "`" + ladder.ProveCommand(key, max(ladder.StageFor(q.Mode), stage)) + "`"
	}
	return nil
}
