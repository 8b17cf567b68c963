package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/workspace"
)

// copyWorkspace takes the fingerprint of the source and gets the baseline's
// tree, from the cache if it is there.
func (r *run) copyWorkspace(ctx context.Context) error {
	s := r.begin(evidence.StepWorkspace, evidence.PlanWorkspace,
		map[string]string{"baseline_commit": r.base.Commit, "baseline_tree": r.base.Tree})
	err := r.checkoutBaseline(ctx)
	if err != nil {
		s.end(journal.Failed, nil, err.Error())
		return fmt.Errorf("copying the baseline: %w", err)
	}
	r.trimmed = r.beginTrim()
	r.note(evidence.StepSourceObserved, "source-before", journal.Completed, nil, r.before)
	s.end(journal.Completed, evidence.WorkspaceCopied{BaselineTree: r.base.Tree, Files: int64(r.checkout.Files), Bytes: r.checkout.Bytes,
		CacheWarm: r.checkout.Warm}, fmt.Sprintf("%d file(s)", r.checkout.Files))
	return nil
}

// checkoutBaseline looks at the source while the tree is written: the two do
// not touch each other.
func (r *run) checkoutBaseline(ctx context.Context) error {
	looked := begin(func() (*workspace.Fingerprint, error) { return r.source.Fingerprint(ctx) })
	err := func() (err error) {
		if r.store, err = workspace.NewStore(ctx, r.work+"/store.git", r.source, r.base); err != nil {
			return err
		}
		cache, err := workspace.OpenCache(r.Home.CacheDir())
		if err != nil {
			return err
		}
		if r.checkout, err = cache.Checkout(ctx, r.store, r.base.Tree); err != nil {
			return err
		}
		r.secrets.Baseline = r.checkout.Dir
		return r.beginFromParent(ctx)
	}()
	before, lookErr := looked()
	if err != nil {
		return err
	}
	r.before = before
	return lookErr
}

// runEngine starts the engine in the sandbox and waits for its whole process
// tree to be gone.
func (r *run) runEngine(ctx context.Context) error {
	way, err := r.openWay(ctx)
	if err != nil {
		return err
	}
	instructions, err := r.assignment(ctx)
	if err != nil {
		return err
	}
	assignment := engine.Task{Title: r.Contract.Title, Instructions: instructions, Verify: r.Contract.VerificationCommands,
		InBaseline: r.inBaseline}
	if way != nil {
		defer r.closeWay(way)
		assignment.Model = way.model
	}
	inv, err := r.Engine.Invocation(ctx, assignment)
	if err != nil {
		return err
	}
	if err := available(inv); err != nil {
		return err
	}
	argv, err := r.guardEngine(inv)
	if err != nil {
		return err
	}
	if err := r.probe(ctx, way); err != nil { // it costs something: nothing else may be in the way
		return err
	}
	argvDigest, err := canon.DigestOf(argv)
	if err != nil {
		return fmt.Errorf("digesting the command line: %w", err)
	}
	for _, note := range inv.Notes {
		r.output([]byte(r.secrets.Redact(note)))
	}
	s := r.begin(evidence.StepEngine, evidence.PlanEngine, evidence.EngineStarted{
		Engine: r.opened.Engine.Name, Argv: argv, ArgvSHA256: argvDigest, Network: string(r.Contract.Network)})
	out, err := r.openStreams(inv, argv)
	if err != nil {
		s.end(journal.Failed, evidence.EngineFinished{}, err.Error())
		return err
	}
	started := time.Now()
	res, runErr := r.inSandbox(ctx, inv, out, way)
	how := engineRan{res: res, took: ranFor(res, time.Since(started)), err: runErr, idle: onlyIdle(runErr), traffic: r.closeWay(way)}
	switch {
	case how.idle && (res == nil || len(res.Commands) == 0): // what was not started was not silent
		runErr = reason.Errorf(reason.Timeout, "the sandbox was not ready within the %s that the engine may be silent", r.Contract.Budget.Idle())
		how.idle, how.err = false, runErr
	case how.idle:
		how.err, runErr = nil, nil
	}
	if res != nil {
		res.Changes = inv.Changes(res.Changes, r.inBaseline)
	}
	imported := r.times.Begin("changes.imported")
	defer imported()
	change := r.measure(context.WithoutCancel(ctx), res)
	finished, err := r.engineFinished(inv, how, out, change)
	if err == nil {
		err = r.keepEngineServices(res)
	}
	state, detail := status(finished.Blockers), engineDetail(finished)
	switch {
	case runErr != nil:
		state, detail = journal.Failed, r.scrub(runErr.Error())
	case r.hung != nil:
		state, detail = journal.Failed, r.hung.timeout.Message
	case r.broken != nil:
		state, detail = journal.Failed, r.broken[0].Message
	}
	s.end(state, finished, detail)
	r.boundStore()
	if err == nil && runErr == nil && len(finished.Blockers) == 0 && r.review == nil && change.fits() {
		err = r.startBase(ctx)
	}
	// An error that left no change left none that is known: an empty patch
	// would say that the engine changed nothing.
	if res != nil && (runErr == nil || len(res.Changes) > 0) {
		if captureErr := r.importChanges(context.WithoutCancel(ctx), change); err == nil {
			err = captureErr
		}
	}
	if err != nil {
		return err
	}
	if runErr != nil {
		return fmt.Errorf("running the engine: %w", runErr)
	}
	return nil
}

// inSandbox runs the engine's process tree to its end, or until it has given no
// sign of life for as long as the contract allows.
func (r *run) inSandbox(ctx context.Context, inv *engine.Invocation, out *streams, way *way) (*sandbox.Result, error) {
	watched, pulse, done := watch(ctx, r.Contract.Budget.Idle())
	defer done()
	out.stdout.beat, out.stderr.beat = pulse.beat, pulse.beat
	return r.Sandbox.Run(watched, sandbox.Spec{
		Lower: r.startDir(), Layers: r.prepared.Mounts(), PathDirs: r.prepared.Programs(), Env: withEnvironment(r.prepared, inv.Env),
		Binds: inv.Binds, Limits: limitsOf(r.Contract), Capture: true, SpoolDir: r.work, Loopback: way.serve(pulse),
		Services: r.prepared.Served(), More: true, Commands: []sandbox.Command{{Argv: inv.Argv, Stdout: out.stdout, Stderr: out.stderr}},
	})
}

// engineRan is what became of an engine's process.
type engineRan struct {
	res     *sandbox.Result
	took    time.Duration
	err     error // of the sandbox, or of who cancelled the run
	idle    bool  // it was stopped for its silence
	traffic traffic
}

// ranFor is how long an engine ran: what comes before its process, and reading
// what it left, is not its time. whole is for a sandbox that was not ready.
func ranFor(res *sandbox.Result, whole time.Duration) time.Duration {
	if res == nil || len(res.Commands) == 0 || !res.Commands[0].Started {
		return whole
	}
	return res.Commands[0].Duration
}

// available refuses an invocation that lends a file which is not there: the
// agent could not be what its identity says.
func available(inv *engine.Invocation) error {
	for _, b := range inv.Binds {
		_, err := os.Stat(b.Host)
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err // without the path: evidence does not tell how a machine is laid out
		}
		if err != nil {
			return reason.Errorf(reason.ProviderUnavailable, "the file that the engine needs at %q cannot be lent to the sandbox: %w", b.Inside, err)
		}
	}
	return nil
}

// inBaseline reports whether what the engine starts from has something at a
// relative path.
func (r *run) inBaseline(path string) bool {
	root, err := os.OpenRoot(r.startDir())
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(path)
	return err == nil
}

// engineFinished turns the sandbox's result into the outputs of engine.run. An
// engine that left a change has no blocker yet, whatever its end: see judgeEnd.
func (r *run) engineFinished(inv *engine.Invocation, how engineRan, out *streams, left change) (evidence.EngineFinished, error) {
	f := evidence.EngineFinished{DurationMS: how.took.Milliseconds()}
	if res := how.res; res != nil {
		for _, c := range res.Changes {
			r.paths = append(r.paths, c.Path)
		}
		f.Caps, f.Layer, f.OOMKilled = caps(res.Caps), res.Layer, res.OOMKilled
		f.Dependencies = dependencyChanges(res.Layers)
		f.Usage = evidence.ResourceUsage{CPUMillis: res.Usage.CPUMillis, PeakMemoryBytes: res.Usage.PeakMemoryBytes,
			WallMillis: res.Usage.WallMillis}
		if len(res.Commands) > 0 {
			c := res.Commands[0]
			f.ProcessStarted, f.Signal, f.OutputExceeded = c.Started, c.Signal, c.OutputExceeded
			f.TimedOut, f.Idle = c.TimedOut || how.idle, how.idle
			if c.Started {
				f.ExitCode = &c.ExitCode
			}
		}
	}
	end, err := out.finish(r, f)
	f.Summary = end.Summary
	if end.Rejected {
		why := evidence.CutText(end.Reason, maxSummary)
		r.review, f.Rejected = &why, &why
	}
	f.StdoutSHA256, f.StdoutBytes = out.stdout.digest(), out.stdout.size
	f.StderrSHA256, f.StderrBytes = out.stderr.digest(), out.stderr.size
	if how.err != nil {
		return f, err
	}
	ended, blamed := endBlockers(f, how.traffic, end), r.secrets.Blame()
	r.explainStart(ended, f, inv)
	r.quoteLast(ended, out.stderr)
	if len(ended) == 0 && len(left.changes) == 0 && r.Contract.ExpectDiff {
		ended = how.traffic.idleBlockers()
	}
	if r.review == nil && err == nil && len(blamed) == 0 && left.fits() && len(left.changes) > 0 {
		if r.hung = hang(f, ended, true); r.hung == nil {
			f.Ending, r.broken = ended, ended
		}
	}
	if r.hung == nil && r.broken == nil {
		f.Blockers = append(blamed, ended...)
	}
	return f, err
}

func engineDetail(f evidence.EngineFinished) string {
	if len(f.Blockers) > 0 {
		return f.Blockers[0].Message
	}
	return fmt.Sprintf("exit 0 after %s", time.Duration(f.DurationMS)*time.Millisecond)
}

// displayed are words or paths in the form that evidence has them.
func displayed(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = evidence.DisplayPath(w)
	}
	return out
}

func caps(in []sandbox.Cap) []evidence.Cap {
	out := make([]evidence.Cap, len(in))
	for i, c := range in {
		out[i] = evidence.Cap{Name: c.Name, Limit: c.Limit, Enforced: c.Enforced, How: c.How, Observed: c.Observed}
	}
	return out
}

// limitsOf are the contract's limits, where it states any.
func limitsOf(c *task.Contract) sandbox.Limits {
	return sandbox.Limits{CPUsMilli: int(c.Limits.CPUsMilli), MemoryMB: int(c.Limits.MemoryMB), Pids: int(c.Limits.Pids),
		DiskMB: int(c.Limits.DiskMB), OutputBytes: c.Limits.OutputBytes, Wall: c.Budget.Wall()}
}

// toolCalled and toolReturned journal one tool call of the agent.
func (r *run) toolCalled(id, tool string, params json.RawMessage) error {
	params, err := canon.Marshal(r.secrets.Clean(evidence.StepTool+"/inputs/params", params))
	if err != nil {
		return err
	}
	now := r.clock()
	r.append(journal.Step{StepID: id, Name: evidence.StepTool, Status: journal.Started, StartedAt: now,
		Inputs: evidence.ToolCalled{ID: id, Tool: tool, Params: params, ParamsHash: canon.Digest(params)}})
	return nil
}

func (r *run) toolReturned(id string, began time.Time, back evidence.ToolReturned) {
	state := journal.Completed
	if !back.OK {
		state = journal.Failed
	}
	r.append(journal.Step{StepID: id, Name: evidence.StepTool, Status: state, StartedAt: began, CompletedAt: r.clock(), Outputs: back})
}

// sideEffects names changed paths as a receipt does.
func sideEffects(paths []string) []evidence.SideEffect {
	out := make([]evidence.SideEffect, len(paths))
	for i, p := range paths {
		out[i] = evidence.SideEffect{Type: "file", Path: evidence.DisplayPath(p)}
	}
	return out
}

// linksOf collects the symlinks among changes.
func linksOf(changes []tree.Change) map[string]string {
	links := map[string]string{}
	for _, c := range changes {
		if c.Kind == "symlink" {
			links[c.Path] = c.Target
		}
	}
	return links
}
