package verify

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/results"
)

// command is one command of a run.
type command struct {
	given, run, runner string
}

// commandsOf prepares the commands of the contract.
func commandsOf(p *Plan) []command {
	out := make([]command, len(p.Commands))
	for i, given := range p.Commands {
		run, runner, _ := results.Augment(given)
		out[i] = command{given, run, runner}
	}
	return out
}

// runEnv makes the runners independent of files that a run could write: Go
// reads settings from a file in the home directory and may fetch another
// toolchain, Python leaves bytecode behind that a later command would prefer.
var runEnv = map[string]string{"GOENV": "off", "GOTOOLCHAIN": "local", "PYTHONDONTWRITEBYTECODE": "1"}

// tryRun runs commands over one tree and reads their results. The error is
// non-nil only when the context ended or the log could not be written; what
// went wrong in the sandbox is the run's Fault.
func (p *Plan) tryRun(ctx context.Context, sb Sandbox, phase, name string, repetition int, apply []tree.Change, commands []command) (RunResult, error) {
	r := RunResult{Tree: name, Repetition: repetition, Commands: make([]CommandResult, len(commands))}
	event := Event{Kind: RunStarted, Phase: phase, Run: name, Repetition: repetition, Command: -1}
	p.tell(event)
	dir, err := os.MkdirTemp(p.Scratch, "remit-verify-")
	if err != nil {
		return r, reason.Errorf(reason.ArtifactWriteFailure, "making the spool: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	spools, err := p.spools(dir, len(commands))
	defer func() {
		for _, s := range spools {
			s.close()
		}
	}()
	if err != nil {
		return r, err
	}
	result, runErr := sb.Run(ctx, p.spec(dir, apply, commands, spools))
	r.fill(commands, result, spools, p.Limits.Wall.Milliseconds())
	r.Fault = r.faultOf(runErr, result)
	if cause := context.Cause(ctx); cause != nil { // what there is still goes into the log
		stopped := reason.Errorf(interruption(cause), "verification stopped: %w", cause)
		return r, errors.Join(stopped, writeRun(p.Log, phase, &r, spools))
	}
	if r.Fault == nil {
		r.Rewritten = p.rewritten(result.Changes, apply)
	}
	for i, c := range r.Commands {
		p.tell(Event{Kind: CommandFinished, Phase: phase, Run: name, Repetition: repetition, Command: i, ExitCode: c.ExitCode, DurationMS: c.DurationMS})
	}
	event.Kind = RunFinished
	p.tell(event)
	return r, writeRun(p.Log, phase, &r, spools)
}

func (p *Plan) tell(e Event) {
	if p.OnEvent != nil {
		p.OnEvent(e)
	}
}

// interruption tells a stopped program from a stopped run.
func interruption(cause error) reason.Code {
	if code := reason.CodeOf(cause); code != "" {
		return code
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return reason.Timeout
	}
	return reason.Interrupted
}

// spools are two streams a command: standard output, standard error.
func (p *Plan) spools(dir string, n int) ([]*stream, error) {
	var out []*stream
	for range 2 * n {
		s, err := newStream(dir, p.Limits.OutputBytes)
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (p *Plan) spec(dir string, apply []tree.Change, commands []command, spools []*stream) sandbox.Spec {
	env := maps.Clone(runEnv)
	maps.Copy(env, p.Env)
	s := sandbox.Spec{Lower: p.Lower, Apply: apply, Env: env, Binds: p.Binds, Limits: p.Limits, Capture: true, SpoolDir: dir}
	for i, c := range commands {
		s.Commands = append(s.Commands, sandbox.Command{
			Argv: []string{"sh", "-c", "--", c.run}, Stdout: spools[2*i], Stderr: spools[2*i+1],
		})
	}
	return s
}

// fill takes over what the sandbox saw and what the runners printed.
func (r *RunResult) fill(commands []command, result *sandbox.Result, spools []*stream, wall int64) {
	if result == nil {
		result = &sandbox.Result{}
	}
	r.Caps, r.Usage, r.OOMKilled = result.Caps, result.Usage, result.OOMKilled
	var spent int64
	timedOut := false
	for i, cmd := range commands {
		c := CommandResult{Command: cmd.given, Ran: cmd.run, direct: cmd.runner != "", ExitCode: -1}
		if i < len(result.Commands) {
			s := result.Commands[i]
			c.Started, c.ExitCode, c.Signal = s.Started, s.ExitCode, s.Signal
			c.TimedOut, c.OutputExceeded, c.DurationMS = s.TimedOut, s.OutputExceeded, s.Duration.Milliseconds()
			spent += c.DurationMS
		} else {
			// The limit is for all commands together, so those behind the one
			// that used it up were not reached.
			c.TimedOut = timedOut || spent >= wall
		}
		timedOut = timedOut || c.TimedOut
		if err := c.read(cmd.runner, spools[2*i], spools[2*i+1]); err != nil && r.Fault == nil {
			r.Fault = &reason.Finding{Code: codeOr(err, reason.InfrastructureFault), Detail: err.Error()}
		}
		r.Commands[i] = c
	}
}

// read digests the streams and reads the test results in them.
func (c *CommandResult) read(runner string, stdout, stderr *stream) error {
	var errOut, errErr error
	c.StdoutSHA256, c.StdoutBytes, errOut = stdout.finish()
	c.StderrSHA256, c.StderrBytes, errErr = stderr.finish()
	if err := errors.Join(errOut, errErr); err != nil {
		return cmp.Or(errOut, errErr)
	}
	rep, err := results.Read(stdout.open, stderr.open, runner)
	if err != nil {
		return err
	}
	c.Runner = runner
	c.Passed = c.ExitCode == 0 && c.Started && !c.TimedOut && !c.OutputExceeded
	if rep == nil {
		return nil
	}
	c.Runner, c.complete, c.Problems = rep.Runner, rep.Complete, rep.Problems
	c.Passed = c.Passed && rep.Ran() > 0 && (!c.direct || rep.Failed == 0)
	if !c.direct || rep.Complete || len(rep.Tests) > 0 {
		c.Tests = &Counts{rep.Passed, rep.Failed, rep.Skipped}
	}
	if rep.Listed && len(rep.Tests) > 0 {
		c.PerTest, c.transient = make(map[string]results.Outcome, len(rep.Tests)), make(map[string]bool)
		for _, t := range rep.Tests {
			c.PerTest[t.ID] = t.Outcome
			if t.Transient {
				c.transient[t.ID] = true
			}
		}
	}
	return nil
}

// faultOf is why a run says nothing about the code, nil when it does.
func (r *RunResult) faultOf(err error, result *sandbox.Result) *reason.Finding {
	if r.Fault != nil {
		return r.Fault
	}
	if err != nil {
		return &reason.Finding{Code: codeOr(err, reason.InfrastructureFault), Detail: "the sandbox could not run the commands: " + err.Error()}
	}
	if result == nil {
		return &reason.Finding{Code: reason.InfrastructureFault, Detail: "the sandbox gave no result"}
	}
	for _, c := range r.Commands {
		if !c.Started && !c.TimedOut {
			return &reason.Finding{Code: reason.InfrastructureFault, Detail: "a command was not started: " + c.Command}
		}
	}
	return nil
}

func codeOr(err error, other reason.Code) reason.Code {
	return cmp.Or(reason.CodeOf(err), other)
}
