package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/verify"
	"remit/work/verify/results"
	"remit/work/workspace"
)

// Base is the base commit of a repository as files, to be looked at and tried
// before there is a contract. Close it after use.
type Base struct {
	Commit, Tree string

	home     session.Home
	work     string
	store    *workspace.Store
	checkout *workspace.Checkout
}

// OpenBase lays out a commit as a run does. The repository is only read.
func OpenBase(ctx context.Context, home session.Home, source *workspace.Source, rev string) (b *Base, err error) {
	if err := home.Prepare(); err != nil {
		return nil, err
	}
	base, err := source.Resolve(ctx, rev)
	if err != nil {
		return nil, err
	}
	b = &Base{Commit: base.Commit, Tree: base.Tree, home: home}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
			b = nil
		}
	}()
	if b.work, err = os.MkdirTemp("", "remit-base-"); err != nil {
		return b, fmt.Errorf("making a work directory: %w", err)
	}
	if b.store, err = workspace.NewStore(ctx, filepath.Join(b.work, "store.git"), source, base); err != nil {
		return b, err
	}
	trees, err := workspace.OpenCache(home.CacheDir())
	if err != nil {
		return b, err
	}
	b.checkout, err = trees.Checkout(ctx, b.store, base.Tree)
	return b, err
}

// Close ends the use of the files.
func (b *Base) Close() error {
	var err error
	if b.checkout != nil {
		b.checkout.Release()
	}
	if b.store != nil {
		err = b.store.Close()
	}
	if b.work != "" {
		err = errors.Join(err, os.RemoveAll(b.work))
	}
	return err
}

// Files gives the files of the commit. A symbolic link among them leads nowhere
// outside of it.
func (b *Base) Files() (fs.FS, func() error, error) {
	root, err := os.OpenRoot(b.checkout.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the checkout: %w", err)
	}
	return root.FS(), root.Close, nil
}

// Tried is what came of running the commands of a contract on the base alone.
type Tried struct {
	Status   string           `json:"status"` // pass: all commands exit 0 and run tests
	Commands []TriedCommand   `json:"commands"`
	Findings []reason.Finding `json:"findings"` // what kept the commands from running
}

// TriedCommand is one command of the base.
type TriedCommand struct {
	Command    string         `json:"command"`
	Passed     bool           `json:"passed"`
	ExitCode   int            `json:"exit_code"`
	DurationMS int64          `json:"duration_ms"`
	Tests      *verify.Counts `json:"tests,omitempty"`
	Failed     []string       `json:"failed_tests,omitempty"` // at most maxTriedFailures, sorted
	Why        string         `json:"why,omitempty"`          // in a few words, for one that did not pass
	Hint       string         `json:"hint,omitempty"`
	Output     string         `json:"output,omitempty"` // the end of it, likewise

	// Runs says that tests ran, whether they passed or not.
	Runs bool `json:"runs_tests"`
}

// maxTriedFailures bounds the failed tests that a command names.
const maxTriedFailures = 50

// Trial is what a base is tried with.
type Trial struct {
	Sandbox     sandbox.Driver
	Contract    *task.Contract
	Environment task.Environment // as a policy that is not committed yet states it
	Registries  Registries
	Progress    Progress // nil for none
}

// Try prepares the environment and runs the verification commands of a contract
// on the base, as the first phase of a run does, without control: what is asked
// is whether they work here. An environment that cannot be prepared is a finding.
func (b *Base) Try(ctx context.Context, t Trial) (*Tried, error) {
	if err := b.home.Distrust(t.Sandbox); err != nil {
		return nil, err
	}
	defer func() { _ = b.home.Distrust(t.Sandbox) }() // it could be emptied before
	if err := b.checkout.Verify(ctx); err != nil {
		return nil, err
	}
	tell := func(line string) {
		if t.Progress != nil {
			t.Progress.Output(line)
		}
	}
	in, _, err := inImage(ctx, b.home, t.Sandbox, t.Environment)
	if refused, ok := errors.AsType[*reason.Error](err); ok && ctx.Err() == nil {
		return notPrepared(refused), nil
	}
	if err != nil {
		return nil, err
	}
	t.Sandbox = in
	p := Preparation{Home: b.home, Sandbox: t.Sandbox, Registries: t.Registries, Scratch: b.work, Clock: time.Now, Tell: tell}
	prepared, err := p.layers(ctx, t.Environment, depend.Base{Dir: b.checkout.Dir, Tree: b.Tree})
	var refused *reason.Error
	switch {
	case errors.As(err, &refused) && ctx.Err() == nil:
		return notPrepared(refused), nil
	case err != nil:
		return nil, fmt.Errorf("preparing the environment: %w", err)
	}
	defer prepared.Release()
	plan := planOf(t.Contract)
	plan.Lower, plan.CacheDir, plan.Scratch, plan.Control = b.checkout.Dir, filepath.Join(b.work, "caches"), b.work, verify.ControlOff
	plan.Layers, plan.Env, plan.PathDirs = prepared.Mounts(), prepared.Variables(), prepared.Programs()
	plan.Services = prepared.Served()
	plan.OnEvent = func(e verify.Event) { tell(eventLine(e)) }
	phase, err := verify.Base(ctx, t.Sandbox, plan)
	if err != nil {
		return nil, err
	}
	return triedOf(phase), nil
}

// notPrepared is what came of a base whose dependencies could not be had.
func notPrepared(refused *reason.Error) *Tried {
	hint := refused.Hint
	if info, ok := reason.Lookup(refused.Code); ok && hint == "" {
		hint = info.Hint
	}
	return &Tried{Status: string(reason.StatusOf(refused.Code)), Commands: []TriedCommand{},
		Findings: []reason.Finding{{Code: refused.Code, Path: refused.File,
			Detail: "the environment could not be prepared: " + refused.Message, Hint: hint}}}
}

// The first and the last line of a runner's result files.
var (
	filesBegin = form.Lazy(`(?m)^remit-results-[0-9a-f]{24} begin `)
	filesEnd   = form.Lazy(`(?m)^remit-results-[0-9a-f]{24} end(?:\n|\z)`)
)

// said is the end of an output without the result files of its runner, which are for
// a program. Where they are longer than that end, it begins in the middle of them.
func said(tail string) string {
	from := 0
	if at := filesBegin().FindStringIndex(tail); at != nil {
		from = at[0]
	}
	end := filesEnd().FindStringIndex(tail[from:])
	if end == nil {
		return tail
	}
	return tail[:from] + tail[from+end[1]:]
}

func triedOf(phase *verify.PhaseResult) *Tried {
	out := &Tried{Status: evidence.StatusPass, Commands: []TriedCommand{}, Findings: append([]reason.Finding{}, phase.Findings...)}
	for i, run := range phase.Runs {
		if i == 0 && run.Fault != nil {
			out.Findings = append(out.Findings, *run.Fault)
		}
	}
	for _, c := range phase.Commands {
		t := TriedCommand{Command: c.Command, Passed: c.Passed, ExitCode: c.ExitCode, DurationMS: c.DurationMS, Tests: c.Tests,
			Runs: c.Tests != nil && c.Tests.Passed+c.Tests.Failed > 0}
		for id, outcome := range c.PerTest {
			if outcome == results.Fail {
				t.Failed = append(t.Failed, id)
			}
		}
		slices.Sort(t.Failed)
		t.Failed = t.Failed[:min(len(t.Failed), maxTriedFailures)]
		if !c.Passed {
			out.Status = evidence.StatusFail
			t.Why, t.Hint, t.Output = c.Why(), verify.MissingProgram(c, c.Tail(), sandbox.SystemPath), said(c.Tail())
		}
		out.Commands = append(out.Commands, t)
	}
	if len(out.Findings) > 0 {
		out.Status = evidence.StatusBlocked
		for _, f := range out.Findings {
			if reason.StatusOf(f.Code) == reason.Fail {
				out.Status = evidence.StatusFail
			}
		}
	}
	return out
}
