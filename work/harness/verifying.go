package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verdictcache"
	"remit/work/verify"
)

func verifierIdentity() evidence.VerifierIdentity {
	return evidence.VerifierIdentity{Name: verify.Name, Version: verify.Version, SHA256: verify.Digest()}
}

// verify runs the objective verifier over patch.diff, not over the agent's
// tree: the patch as it was written is applied to the baseline by git, and
// must give the very tree that was captured.
func (r *run) verify(ctx context.Context) error {
	if r.review != nil {
		return r.reviewerRejected()
	}
	if r.measured == nil {
		if err := r.startBase(ctx); err != nil {
			return err
		}
	}
	applied := r.times.Begin("patch.applied")
	changes, err := r.applied(ctx)
	applied()
	if err == nil {
		err = r.prepareHead(ctx)
	}
	if err != nil {
		return err
	}
	base, err := r.measured.wait()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(r.session.Dir, evidence.TestLogFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return writeFailure(evidence.TestLogFile, err)
	}
	plan := r.verifyPlan(r.measured.held, log)
	plan.Patch, plan.Before = changes, base
	withDependencies(&plan, r.headPrepared)
	var head *verify.PhaseResult
	if err = r.measured.copyLog(log); err == nil {
		head, err = r.phase(ctx, evidence.StepVerifyHead, verify.Head, plan, nil)
	}
	if closeErr := log.Close(); err == nil && closeErr != nil {
		err = writeFailure(evidence.TestLogFile, closeErr)
	}
	if err != nil {
		return err
	}
	if err := r.recordArtifact(evidence.TestLogFile); err != nil {
		return err
	}
	if err := r.keepServiceLog(verifierServices, &r.servedLog); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // a verdict over killed commands would be about us, not about the patch
	}
	if err := r.keepResults(base, head); err != nil {
		return err
	}
	r.judge(judged(base, head, plan.Tests), r.untrackedTests(ctx))
	r.keepBase(ctx, base)
	return nil
}

// keepBase keeps the base phase for the next run against the same baseline. It
// comes last: only then is it known that its output holds no secret, and that
// the host is still what the key says.
func (r *run) keepBase(ctx context.Context, base *verify.PhaseResult) {
	b := r.measured
	if b.cache == nil || b.from != nil {
		return
	}
	if now := r.baseCache(ctx); now == nil || !bytes.Equal(now.key, b.cache.key) {
		return
	}
	for _, name := range []string{evidence.TestLogFile, evidence.TestResultsFile} {
		if r.secrets.Holds(name) {
			return
		}
	}
	f, err := os.Open(b.log)
	if err == nil {
		defer f.Close()
		var log []byte
		if log, err = io.ReadAll(io.LimitReader(f, verdictcache.MaxLog+1)); err == nil {
			err = b.cache.cache.KeepBase(b.cache.key, base, log)
		}
	}
	if err != nil {
		r.tell("verdict.cache", "failed", r.scrub(err.Error())) // the run does not need it
	}
}

// reviewerRejected closes the verification of a change that the engine's own
// reviewer turned down: no one vouches for it, so it is not judged.
func (r *run) reviewerRejected() error {
	blocker := evidence.Blocker{Code: reason.ReviewerRejected, Message: "the engine's own reviewer rejected the change: " + *r.review,
		Evidence: stdoutFile}
	r.note(evidence.StepVerification, evidence.PlanVerify, journal.Denied, nil, evidence.VerificationCompleted{
		Status: evidence.StatusBlocked, TestsRule: string(r.Contract.Tests), Verifier: verifierIdentity(), Blockers: []evidence.Blocker{blocker}})
	r.tell(evidence.StepVerification, "denied", blocker.Message)
	return errStopped
}

// applied gives the changes that patch.diff makes to the baseline.
func (r *run) applied(ctx context.Context) ([]tree.Change, error) {
	patch, err := os.Open(filepath.Join(r.session.Dir, evidence.PatchFile))
	if err != nil {
		return nil, fmt.Errorf("reading back the patch: %w", err)
	}
	defer patch.Close()
	bounded, cancel := r.onHost(ctx, "applying the patch")
	defer cancel()
	head, err := r.store.Apply(bounded, r.base.Tree, patch)
	if err != nil {
		return nil, fmt.Errorf("applying the patch to the baseline: %w", err)
	}
	if head != r.patched.imported.Tree {
		return nil, reason.Errorf(reason.TreeMismatch, "the patch gives tree %s, the engine left %s", head, r.patched.imported.Tree)
	}
	return r.store.Changes(ctx, r.base.Tree, head)
}

// untrackedTests are test files of the source that no commit has, and that this
// run has therefore not seen. Where they cannot be listed the progress says so.
func (r *run) untrackedTests(ctx context.Context) []string {
	names, err := r.source.UntrackedTests(ctx, verify.DefaultTestPath)
	if err != nil {
		r.tell("untracked.tests", "skipped", r.scrub(err.Error()))
		return nil
	}
	for i, name := range names {
		names[i] = evidence.DisplayPath(name)
	}
	if len(names) > 0 {
		r.tell("untracked.tests", "completed", "not part of this run: "+named(names))
	}
	return names
}

func (r *run) verifyPlan(held []tree.Change, log io.Writer) verify.Plan {
	p := planOf(r.Contract)
	withDependencies(&p, r.prepared)
	p.OnServices = r.servedLog.add
	p.Lower, p.HeldOut, p.Repeat, p.Log = r.checkout.Dir, held, max(1, r.Repeat), artifactWriter{log, evidence.TestLogFile}
	p.Scratch, p.CacheDir, p.TestingDir, p.OnEvent = r.work, filepath.Join(r.work, "caches"), r.Home.TestingDir(), r.verifierEvents()
	return p
}

// planOf is what a contract says about its verification.
func planOf(c *task.Contract) verify.Plan {
	return verify.Plan{
		Tests: string(c.Tests), Commands: c.VerificationCommands, Groups: c.VerificationGroups, Shared: c.SharedView(), Limits: limitsOf(c),
		Control: string(c.Verify.ControlRule()), Scheme: string(c.Verify.SchemeRule()), Observe: string(c.Verify.ObserveRule()),
		Observed: c.Verify.Requires(task.RequireObserved), Extra: c.Verify.Extra,
	}
}

// verifierEvents journals the runs of a phase with both ends, and shows them. A
// run whose result was not needed ends as skipped.
func (r *run) verifierEvents() func(verify.Event) {
	began := map[string]journal.Step{}
	return func(e verify.Event) {
		r.output([]byte(eventLine(e)))
		id := fmt.Sprintf("verify-%s-%s-%d", e.Phase, e.Run, e.Repetition)
		s := began[id]
		switch e.Kind {
		case verify.RunStarted:
			s = journal.Step{StepID: id, Name: evidence.StepVerifyRun, Status: journal.Started, StartedAt: r.clock(),
				Inputs: evidence.VerifyRunStarted{Phase: e.Phase, Tree: e.Run, Repetition: e.Repetition, Commands: r.Contract.VerificationCommands}}
			began[id] = s
		case verify.RunFinished:
			s.Status, s.CompletedAt, s.Outputs = journal.Completed, r.clock(), runEnded(e)
		case verify.RunStopped:
			s.Status, s.CompletedAt = journal.Skipped, r.clock()
		default:
			return
		}
		r.append(s)
	}
}

// runEnded is one run of the verifier as the journal has it.
func runEnded(e verify.Event) evidence.VerifyRunEnded {
	out := evidence.VerifyRunEnded{Phase: e.Phase, Tree: e.Run, Repetition: e.Repetition, Runs: []evidence.CommandRun{},
		Usage: usage(e.Result.Usage), Expected: e.Result.Expected, FailedAsExpected: e.Result.FailedAsExpected}
	for _, c := range e.Result.Commands {
		if c.Skipped {
			continue
		}
		out.Runs = append(out.Runs, commandRun(e.Phase, c))
	}
	if e.Result.Fault != nil {
		out.Fault = e.Result.Fault.Detail
	}
	return out
}

// basePhase is the verification of the baseline, on its way.
type basePhase struct {
	held   []tree.Change
	log    string // file with its part of test.log
	cache  *known
	from   *verdictcache.Origin // of a result that was not made in this run; known after wait
	wait   func() (*verify.PhaseResult, error)
	cancel context.CancelCauseFunc
}

// startBase begins the first phase of the verifier. It needs nothing of the
// patch, so it goes on while the patch is captured and checked; but never
// beside the engine, which could starve the phase that its work is measured
// against.
func (r *run) startBase(ctx context.Context) error {
	held, err := r.keepHeldOut()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b := &basePhase{held: held, cancel: cancel, log: filepath.Join(r.work, "base.log")}
	b.wait = begin(func() (*verify.PhaseResult, error) {
		log, err := os.OpenFile(b.log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, writeFailure(evidence.TestLogFile, err)
		}
		b.cache = r.baseCache(ctx)
		measure := phaseFunc(verify.Base)
		if b.cache != nil {
			if kept, entry := b.cache.cache.Base(b.cache.key, r.Contract.VerificationCommands); kept != nil {
				measure, b.from = replay(kept, entry), &entry.Origin
			}
		}
		p, err := r.phase(ctx, evidence.StepVerifyBase, measure, r.verifyPlan(held, log), b.from)
		if closeErr := log.Close(); err == nil && closeErr != nil {
			err = writeFailure(evidence.TestLogFile, closeErr)
		}
		return p, err
	})
	r.measured = b
	return nil
}

// copyLog writes the phase's part of test.log.
func (b *basePhase) copyLog(to io.Writer) error {
	f, err := os.Open(b.log)
	if err != nil {
		return fmt.Errorf("reading back the log of the baseline: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(to, f); err != nil {
		return writeFailure(evidence.TestLogFile, err)
	}
	return nil
}

// errNotNeeded is why the first phase is cut off when the run is decided without it.
var errNotNeeded = errors.New("not needed: the run is decided without it")

// stopBase ends the first phase when nothing waits for it any more.
func (r *run) stopBase() {
	if r.measured != nil {
		r.measured.cancel(errNotNeeded)
		_, _ = r.measured.wait() // how it ended is in the journal
	}
}

type phaseFunc func(context.Context, verify.Sandbox, verify.Plan) (*verify.PhaseResult, error)

// phase journals a phase. from is where its result comes from when it is not
// made now.
func (r *run) phase(ctx context.Context, name string, run phaseFunc, plan verify.Plan,
	from *verdictcache.Origin) (*verify.PhaseResult, error) {
	s := r.begin(name, name, map[string]any{"commands": plan.Commands, "tests_rule": plan.Tests, "repeats": plan.Repeat})
	p, err := run(ctx, r.Sandbox, plan)
	if err != nil {
		state, detail := journal.Failed, err.Error()
		if ctx.Err() != nil {
			state = journal.Skipped // cut off: it has no outcome
		}
		if errors.Is(context.Cause(ctx), errNotNeeded) {
			detail = errNotNeeded.Error()
		}
		s.end(state, nil, detail)
		return nil, fmt.Errorf("verifying: %w", err)
	}
	out := evidence.VerifyPhase{Caps: caps(p.Caps), Usage: usage(p.Usage)}
	failed := 0
	for _, c := range p.Commands {
		run := commandRun(p.Phase, c)
		if !c.Passed {
			failed++
		}
		if from != nil {
			run.Cached, run.CacheKey, run.CachedAt = true, from.Key, from.MadeAt
		}
		out.Runs = append(out.Runs, run)
	}
	detail := fmt.Sprintf("%d of %d command(s) pass", len(out.Runs)-failed, len(out.Runs))
	if from != nil {
		detail += fmt.Sprintf(" (not run: cached result %s of %s)", verdictcache.Short(from.Key), from.MadeAt)
	}
	s.end(journal.Completed, out, detail)
	return p, nil
}

func usage(u sandbox.Usage) evidence.ResourceUsage {
	return evidence.ResourceUsage{CPUMillis: u.CPUMillis, PeakMemoryBytes: u.PeakMemoryBytes, WallMillis: u.WallMillis}
}

// judge journals the verdict of the verifier.
func (r *run) judge(v *verify.Verdict, untracked []string) {
	out := evidence.VerificationCompleted{Status: v.Status, TestsRule: v.TestsRule, Delta: v.Delta, Confidence: v.Confidence, Repeats: v.Repeats,
		FailToPass: v.FailToPass, PassToPass: v.Counts.PassToPass, PassToFail: v.PassToFail, Missing: v.Missing, Verifier: verifierIdentity(),
		Control: controlFacts(v.Control), NewTests: newTestFacts(v.NewTests), Observation: observationFacts(v.Observation), Untracked: untracked}
	for _, f := range v.Findings {
		message := f.Detail
		if f.Path != "" {
			message = f.Path + ": " + message
		}
		out.Blockers = append(out.Blockers, evidence.Blocker{Code: f.Code, Message: message, Evidence: evidence.TestLogFile, Hint: f.Hint})
	}
	if v.Status == verify.StatusPass {
		out.Blockers = nil
	}
	r.judgeEnd(v.Status == verify.StatusPass)
	r.note(evidence.StepVerification, evidence.PlanVerify, status(out.Blockers), nil, out)
	detail := fmt.Sprintf("%d fixed, %d kept, %d broken; %s", len(v.FailToPass), v.Counts.PassToPass, v.Counts.PassToFail,
		controlWords(v.Control))
	if len(out.Blockers) > 0 {
		detail = out.Blockers[0].Message
	}
	r.tell(evidence.StepVerification, v.Status, detail)
}

// keepResults writes the per-test results, if any are known.
func (r *run) keepResults(phases ...*verify.PhaseResult) error {
	var out bytes.Buffer
	base := phases[0]
	for _, p := range phases {
		for i, c := range p.Commands {
			for _, test := range slices.Sorted(maps.Keys(c.PerTest)) {
				origin, file := base.Place(test, i)
				line, err := canon.Marshal(evidence.TestResult{Phase: p.Phase, Command: c.Command,
					Test: strings.ToValidUTF8(test, "\uFFFD"), Outcome: string(c.PerTest[test]),
					Origin: origin, File: evidence.DisplayPath(file), Message: c.Message(test)})
				if err != nil {
					return fmt.Errorf("encoding a test result: %w", err)
				}
				out.Write(line)
				out.WriteByte('\n')
			}
		}
	}
	if out.Len() == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(r.session.Dir, evidence.TestResultsFile), out.Bytes(), 0o600); err != nil {
		return writeFailure(evidence.TestResultsFile, err)
	}
	return r.recordArtifact(evidence.TestResultsFile)
}
