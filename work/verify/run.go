package verify

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/results"
)

// command is one command of a run.
type command struct {
	given, run, runner string
	mark               string // of its result files, "" where none are asked for
}

// commandsOf prepares the commands of the contract.
func commandsOf(p *Plan) []command {
	out := make([]command, len(p.Commands))
	for i, given := range p.Commands {
		run, runner, _ := results.Augment(given)
		out[i] = command{given: given, run: run, runner: runner}
		if results.Collects(runner) {
			out[i].run, out[i].mark = results.Keep(run), results.Mark()
		}
	}
	return out
}

// runEnv makes the runners independent of files that a run could write: Go
// reads settings from a file in the home directory and may fetch another
// toolchain, Python leaves bytecode behind that a later command would prefer.
//
// Where half of the tests fail, as in a run of the control, pytest takes several times as
// long as the tests to show their sources: it parses the whole file for each line of each
// trace. So the traces are those of Python itself, in every run, and mark none.
var runEnv = map[string]string{"GOENV": "off", "GOTOOLCHAIN": "local", "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "--tb=native"}

// job is one run of the verifier: commands over one tree.
type job struct {
	phase, tree string
	repetition  int
	apply       []tree.Change
	commands    []command
	// twin says how the tests are edited in this run; nil leaves them.
	twin *twinRun
}

// tryRun carries out a job, each group of commands in a fresh view of the tree,
// and reads the results. Its part of test.log goes to log. The error is non-nil
// only when the context ended or the log could not be written; what went wrong
// in the sandbox is the run's Fault.
func (p *Plan) tryRun(ctx context.Context, sb Sandbox, j job, log io.Writer) (RunResult, error) {
	r := RunResult{Tree: j.tree, Repetition: j.repetition, Commands: make([]CommandResult, len(j.commands))}
	event := Event{Kind: RunStarted, Phase: j.phase, Run: j.tree, Repetition: j.repetition, Command: -1}
	p.tell(event)
	dir, err := os.MkdirTemp(p.Scratch, "remit-verify-")
	if err != nil {
		return r, reason.Errorf(reason.ArtifactWriteFailure, "making the spool: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hooks, err := layHooks(dir, j.commands)
	if err != nil {
		return r, err
	}
	spools, err := p.spools(dir, len(j.commands))
	defer func() {
		for _, s := range spools {
			s.close()
		}
	}()
	if err != nil {
		return r, err
	}
	var spent int64
	for _, v := range p.views(len(j.commands)) {
		err = p.runView(ctx, sb, j, v, &r, dir, hooks, spools, &spent)
		if err != nil || r.Fault != nil || ctx.Err() != nil {
			break
		}
	}
	if cause := context.Cause(ctx); err == nil && cause != nil { // what there is still goes into the log
		err = stoppedBy(cause)
	}
	if err != nil {
		event.Kind = RunStopped
		p.tell(event)
		return r, errors.Join(err, writeRun(log, j.phase, &r, spools))
	}
	if j.twin != nil {
		j.twin.count(p, &r)
	}
	event.Kind, event.Result = RunFinished, &r
	p.tell(event)
	return r, writeRun(log, j.phase, &r, spools)
}

// view is a group of commands that share a view of the tree: those from first
// up to, and not including, end.
type view struct{ first, end int }

// views are the groups of n commands.
func (p *Plan) views(n int) []view {
	if p.Shared {
		return []view{{0, n}}
	}
	var out []view
	at := 0
	for _, size := range p.Groups {
		if size > 0 && at+size <= n {
			out = append(out, view{at, at + size})
			at += size
		}
	}
	for ; at < n; at++ {
		out = append(out, view{at, at + 1})
	}
	return out
}

// runView runs the commands of one view and adds what came of them to r. spent
// is the time that the commands before have taken, in milliseconds: the limit
// is for all of them together.
func (p *Plan) runView(ctx context.Context, sb Sandbox, j job, v view, r *RunResult, dir, hooks string, spools []*stream, spent *int64) error {
	commands := j.commands[v.first:v.end]
	if j.twin != nil && !j.twin.runs(v) {
		for i := v.first; i < v.end; i++ {
			r.Commands[i] = CommandResult{Command: j.commands[i].given, Ran: j.commands[i].run, Skipped: true}
		}
		return nil
	}
	wall := p.Limits.Wall.Milliseconds()
	s := p.spec(dir, j.apply, commands, spools[2*v.first:2*v.end])
	s.Limits.Wall = max(p.Limits.Wall-time.Duration(*spent)*time.Millisecond, time.Millisecond)
	if j.twin != nil && j.twin.views[v.first].limit > 0 {
		s.Limits.Wall = min(s.Limits.Wall, j.twin.views[v.first].limit)
	}
	var cleanup func()
	if j.twin != nil {
		var err error
		if cleanup, err = j.twin.prepare(p, v, &s); err != nil {
			r.Fault = &reason.Finding{Code: reason.InfrastructureFault, Detail: "editing the tests: " + err.Error()}
			return nil
		}
		defer cleanup()
	}
	collecting(&s, commands, hooks, j.twin != nil || j.tree == TreeBase)
	s.Caches = p.caches
	if j.twin != nil && p.quiet != "" && len(s.Caches) < sandbox.MaxCaches {
		s.Caches = append([]string{p.quiet}, s.Caches...)
	}
	if j.tree == TreeBase && j.repetition == 1 && p.CacheDir != "" {
		s.KeepCache = filepath.Join(p.CacheDir, strconv.Itoa(v.first))
	}
	result, runErr := sb.Run(ctx, s)
	if s.KeepCache != "" && result != nil && result.GoCache.Files > 0 {
		p.caches = append(slices.Clone(p.caches), s.KeepCache)
	}
	part := RunResult{Tree: r.Tree, Commands: r.Commands[v.first:v.end]}
	part.fill(commands, result, spools[2*v.first:2*v.end], wall, spent)
	p.tellServices(j, v, result)
	if j.twin != nil {
		j.twin.loud(part.Commands)
	}
	part.Fault = part.faultOf(runErr, result)
	if part.Fault == nil {
		part.Fault = lostService(j, v, result)
	}
	r.join(&part)
	if r.Fault == nil && ctx.Err() == nil && result != nil {
		if j.twin == nil {
			r.Rewritten = append(r.Rewritten, p.rewritten(result.Changes, j.apply)...)
			if v.end-v.first > 1 {
				r.Rewritten = append(r.Rewritten, replaced(result.Layers)...)
			}
		} else if err := j.twin.collect(v, result.Changes); err != nil {
			r.Fault = &reason.Finding{Code: reason.InfrastructureFault, Detail: "reading the trace of the tests: " + err.Error()}
		}
	}
	for i, c := range part.Commands {
		p.tell(Event{Kind: CommandFinished, Phase: j.phase, Run: j.tree, Repetition: j.repetition, Command: v.first + i, ExitCode: c.ExitCode, DurationMS: c.DurationMS})
	}
	return nil
}

// join adds the sandbox run of one view.
func (r *RunResult) join(part *RunResult) {
	if r.Fault == nil {
		r.Fault = part.Fault
	}
	r.OOMKilled = r.OOMKilled || part.OOMKilled
	r.Usage.CPUMillis += part.Usage.CPUMillis
	r.Usage.WallMillis += part.Usage.WallMillis
	r.Usage.PeakMemoryBytes = max(r.Usage.PeakMemoryBytes, part.Usage.PeakMemoryBytes)
	if r.Caps == nil {
		r.Caps = slices.Clone(part.Caps)
		return
	}
	for i := range r.Caps {
		for _, c := range part.Caps {
			if c.Name == r.Caps[i].Name {
				r.Caps[i].Observed = max(r.Caps[i].Observed, c.Observed)
			}
		}
	}
}

// tell passes an event on. Runs go on side by side, and OnEvent is called by one
// of them at a time.
func (p *Plan) tell(e Event) {
	if p.OnEvent == nil {
		return
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	p.OnEvent(e)
}

// stoppedBy is the error of a verification whose context ended.
func stoppedBy(cause error) error {
	return reason.Errorf(interruption(cause), "verification stopped: %w", cause)
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
	s := sandbox.Spec{Lower: p.Lower, Layers: p.Layers, PathDirs: p.PathDirs, Apply: apply, Env: env, Binds: p.Binds, Limits: p.Limits, Capture: true, SpoolDir: dir,
		Services: p.Services}
	for i, c := range commands {
		s.Commands = append(s.Commands, sandbox.Command{
			Argv: []string{"sh", "-c", "--", c.run}, Stdout: spools[2*i], Stderr: spools[2*i+1],
		})
	}
	return s
}

// fill takes over what the sandbox saw and what the runners printed.
func (r *RunResult) fill(commands []command, result *sandbox.Result, spools []*stream, wall int64, spent *int64) {
	if result == nil {
		result = &sandbox.Result{}
	}
	r.Caps, r.Usage, r.OOMKilled = result.Caps, result.Usage, result.OOMKilled
	timedOut := false
	for i, cmd := range commands {
		c := CommandResult{Command: cmd.given, Ran: cmd.run, direct: cmd.runner != "", ExitCode: -1}
		if i < len(result.Commands) {
			s := result.Commands[i]
			c.Started, c.ExitCode, c.Signal = s.Started, s.ExitCode, s.Signal
			c.TimedOut, c.OutputExceeded, c.DurationMS = s.TimedOut, s.OutputExceeded, s.Duration.Milliseconds()
			*spent += c.DurationMS
		} else {
			// The limit is for all commands together, so those behind the one
			// that used it up were not reached.
			c.TimedOut = timedOut || *spent >= wall
		}
		timedOut = timedOut || c.TimedOut
		if err := c.read(cmd, spools[2*i], spools[2*i+1]); err != nil && r.Fault == nil {
			r.Fault = &reason.Finding{Code: codeOr(err, reason.InfrastructureFault), Detail: err.Error()}
		}
		r.Commands[i] = c
	}
}

// read digests the streams and reads the test results in them.
func (c *CommandResult) read(cmd command, stdout, stderr *stream) error {
	var errOut, errErr error
	c.StdoutSHA256, c.StdoutBytes, errOut = stdout.finish()
	c.StderrSHA256, c.StderrBytes, errErr = stderr.finish()
	if err := errors.Join(errOut, errErr); err != nil {
		return cmp.Or(errOut, errErr)
	}
	if c.ExitCode != 0 {
		var err error
		if c.starved, err = looksStarved(stdout, stderr); err != nil {
			return err
		}
		if c.tail, err = tailOf(stdout, stderr); err != nil {
			return err
		}
	}
	rep, err := results.Read(results.Input{Stdout: stdout.open, Stderr: stderr.open, Runner: cmd.runner, Mark: cmd.mark})
	if err != nil {
		return err
	}
	c.Runner = cmd.runner
	c.Passed = c.ExitCode == 0 && c.Started && !c.TimedOut && !c.OutputExceeded
	if rep == nil {
		if c.Passed {
			c.idle, err = idleOf(c.Command, stdout, stderr)
			c.Passed = c.idle == ""
		}
		return err
	}
	c.Runner, c.complete, c.filed, c.Problems = rep.Runner, rep.Complete, rep.Filed, rep.Problems
	c.messages = rep.Messages
	c.emptyRun = len(rep.Tests) == 0 && rep.Ran()+rep.Skipped == 0
	c.Passed = c.Passed && rep.Ran() > 0 && (!c.direct || rep.Failed == 0)
	c.reported = c.direct && c.complete && results.EndsWithSummary(c.Runner)
	if c.unfinished() {
		rep.Failed, c.messages = 0, nil
	}
	if !c.direct || rep.Complete || len(rep.Tests) > 0 {
		c.Tests = &Counts{rep.Passed, rep.Failed, rep.Skipped}
	}
	for _, t := range rep.Tests {
		if t.Outcome == results.Fail && !c.unfinished() && len(c.failedNames) < MaxListed {
			c.failedNames = append(c.failedNames, t.ID)
		}
	}
	if rep.Listed && len(rep.Tests) > 0 {
		c.PerTest, c.transient = make(map[string]results.Outcome, len(rep.Tests)), make(map[string]bool)
		for _, t := range rep.Tests {
			if t.Outcome == results.Fail && c.unfinished() {
				continue
			}
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
