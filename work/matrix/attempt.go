package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/work/engine"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/engine/faulty"
	"remit/work/harness"
	"remit/work/sandbox"
	sessions "remit/work/session"
	"remit/work/shipped"
)

// patiences are how many times as long as usual what comes before the fault may take,
// one attempt after the other.
var patiences = [...]int{1, 3, 9}

// attempt runs one case under its fault and holds the session that it left
// against the row.
func (l *lane) attempt(parent context.Context, row ladder.Row, c ladder.Case) CaseResult {
	sc, err := scenarioOf(row.Name, c.Name)
	if err != nil {
		return untried(row, c, NotTried, err.Error())
	}
	ctx, cancel := context.WithTimeoutCause(parent, caseLimit, fmt.Errorf("the case did not end within %s", caseLimit))
	defer cancel()
	began := time.Now()
	var res CaseResult
	var kept error
	for _, patience := range patiences {
		res = newCaseResult(row, c)
		early := false
		err = l.execute(ctx, sc, row, patience, func(e ended) {
			o := e.judge(ctx, sc, res.Expected, &res)
			if early = patience < patiences[len(patiences)-1] && o != nil && sc.early != nil && sc.early(o); early {
				return // the limit ended what comes before the fault: this machine takes longer for it
			}
			if res.settle(); res.Got != nil && l.Keep != nil {
				kept = l.keep(e, res)
			}
		})
		if !early {
			break
		}
	}
	res.DurationMS = time.Since(began).Milliseconds()
	switch {
	case parent.Err() != nil:
		return untried(row, c, NotTried, context.Cause(parent).Error())
	case errors.Is(err, faulty.ErrNoMount):
		return untried(row, c, NotApplicable, err.Error())
	case err != nil:
		res.Verdict, res.Reason = NotTried, err.Error()
	case kept != nil:
		res.Verdict, res.Reason = NotTried, "its session could not be kept: "+kept.Error()
	}
	return res
}

// keep hands the session on while its world is still there: its disk goes with
// the case.
func (l *lane) keep(e ended, res CaseResult) error {
	dir, err := e.onlySession()
	if err != nil {
		return err
	}
	return l.Keep(dir, res)
}

// ended is a run that has ended, with its world still there.
type ended struct {
	*setup
	err     error    // of the harness
	asked   string   // when it was asked for
	differs []string // paths of the source that are not as they were
}

// execute makes the world of a case, runs the harness in it, under the fault or, with
// patience 0, without, and lets judge look while it is there. patience is how many
// times as long as usual what comes before the fault may take. Its error says that the case
// could not be brought about; what the harness made of it is for judge.
func (l *lane) execute(ctx context.Context, sc scenario, row ladder.Row, patience int, judge func(ended)) error {
	inside := func() error { return l.executeHere(ctx, sc, row, patience, judge) }
	if sc.mounts {
		return faulty.PrivateMounts(inside)
	}
	return inside()
}

func (l *lane) executeHere(ctx context.Context, sc scenario, row ladder.Row, patience int, judge func(ended)) error {
	dir, err := os.MkdirTemp(l.Dir, row.Name+"-")
	if err != nil {
		return fmt.Errorf("making a scratch directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch: what stays lies in the temporary directory
	fx, err := newFixture(ctx, dir)
	if err != nil {
		return err
	}
	fx.contract.id = row.Name
	s := &setup{fixture: fx, asksModel: l.model != nil, patience: patience}
	defer func() {
		for _, undo := range s.undo {
			undo()
		}
	}()
	if err := sc.arrange(s, patience > 0); err != nil {
		return fmt.Errorf("bringing the fault about: %w", err)
	}
	before, err := TakeSnapshot(fx.repo())
	if err != nil {
		return err
	}
	e := ended{setup: s, asked: stamp(time.Now().Truncate(time.Millisecond))}
	e.err = l.run(ctx, s)
	if s.notDone != nil {
		return fmt.Errorf("bringing the fault about: %w", s.notDone)
	}
	after, err := TakeSnapshot(fx.repo())
	if err != nil {
		return err
	}
	e.differs = before.Differences(after)
	judge(e)
	return nil
}

// run is one run of the harness under the fault.
func (l *lane) run(ctx context.Context, s *setup) error {
	s.contract.mode, s.contract.model = l.Mode, l.model != nil
	contract, err := s.contract.parse()
	if err != nil {
		return err
	}
	req := harness.Request{Home: s.home(), Repo: s.repo(), Contract: contract, Engine: l.engine(s), JournalHook: s.fault.Journal,
		Sandbox: l.Sandbox, ExplicitNone: l.unconfined(), Approver: s.approver, Denier: s.denier, Repeat: 1, Build: l.Build}
	// All below the mode is proved, and every record holds: a matrix says how runs end
	// that nothing refuses, and its runs reach nothing but the shipped case.
	req.Admission, req.Purpose = harness.Admission{ProvenMode: contract.MutationMode - 1}, eligibility.PurposeProof
	if contract.MutationMode.Delivers() {
		req.Approver = approver
	}
	if contract.MutationMode.Exceeds(task.SandboxRepo) {
		req.Target = harness.TargetAdmission{Admitted: true, Status: string(admission.StatusAdmitted)}
	}
	if l.model != nil {
		req.Model, req.Admission.Enabled, req.Admission.SourceStatus = l.model.Route(), true, string(eligibility.ModelAdmitted)
	}
	_, err = harness.Run(ctx, req)
	return err
}

// unconfined reports that the caller chose the driver that confines nothing.
func (o Options) unconfined() bool { return o.Sandbox.Describe().Driver == sandbox.DriverNone }

// What the repository of the shipped case greeting holds: a misspelt word, and a
// check that wants it right. The check also runs a hook of the changed tree, if
// there is one.
const (
	greeting = "lib/greeting.txt"
	hook     = "lib/hook.sh"
	outside  = "outside.txt"
	wanted   = "hello"
	check    = "sh check.sh"
)

// correct is the command that makes the right change.
const correct = "echo " + wanted + " > " + greeting

// fixture is the world of one case: a repository, a place for sessions, a task.
type fixture struct {
	dir      string
	contract contractText
}

func (f *fixture) repo() string        { return filepath.Join(f.dir, "repo") }
func (f *fixture) home() sessions.Home { return sessions.Home{Dir: filepath.Join(f.dir, "home")} }
func (f *fixture) patch() string       { return filepath.Join(f.dir, "fix.patch") }

// contractText are the parts of the task that scenarios differ in.
type contractText struct {
	id        string
	noCommand bool
	approval  bool
	model     bool // the engine asks one
	wall      int  // seconds, 0 for the default
	mode      task.MutationMode
}

// parse makes the contract the way a user's is made.
func (c contractText) parse() (*task.Contract, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "task_id: matrix-%s\ntitle: Correct the greeting\ninstructions: Write %s in %s.\n", c.id, wanted, greeting)
	fmt.Fprintf(&b, "allowed_paths: [\"lib/**\"]\nforbidden_actions: [%s]\nmutation_mode: %s\n",
		strings.Join(task.DefaultForbiddenActions(), ", "), max(c.mode, task.CopiedFixture))
	if !c.noCommand {
		fmt.Fprintf(&b, "verification_commands: [%q]\n", check)
	}
	if c.approval {
		b.WriteString("approval_required: true\n")
	}
	if c.model {
		b.WriteString("network: gateway\n")
	}
	if c.wall > 0 {
		fmt.Fprintf(&b, "budget: {wall_seconds: %d}\n", c.wall)
	}
	return task.Parse("matrix.yaml", []byte(b.String()))
}

func newFixture(ctx context.Context, dir string) (*fixture, error) {
	f := &fixture{dir: dir}
	if err := f.writePatch(); err != nil {
		return nil, err
	}
	_, err := shippedGreeting().Write(ctx, f.repo())
	return f, err
}

func shippedGreeting() shipped.Case {
	c, ok := shipped.Named(shipped.Greeting)
	if !ok {
		panic("matrix: the program comes without the case " + shipped.Greeting)
	}
	return c
}

func (f *fixture) writePatch() error {
	if err := os.WriteFile(f.patch(), []byte(shippedGreeting().Patch), 0o644); err != nil {
		return fmt.Errorf("writing the fixture: %w", err)
	}
	return nil
}

// builtIn is the engine that makes the right change without a model; nil for the
// name of an agent.
func (f *fixture) builtIn(name, binary string) engine.Engine {
	switch name {
	case fake.Name:
		return &fake.Engine{Patch: f.patch(), Binary: binary}
	case command.Name:
		return &command.Engine{Argv: []string{"sh", "-c", correct}, Dir: f.dir}
	}
	return nil
}
