package provider

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"remit/law/job"
	"remit/law/secret"
	"remit/law/task"
	"remit/nexus/api"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/session"
	"remit/work/verify"
	"remit/work/workspace"
)

// blockedExit is the exit code of a run that has no verdict, as `remit run` has it.
const blockedExit = 3

// engineRun is one execution of remit.engine_run.v1: the same pipeline as
// `remit run`, in a home that only this job has, under no authority of its own.
// What it leaves is the sealed bundle.
type engineRun struct {
	*Daemon
	req      job.EngineRunRequest
	caps     api.Caps // what binds this job
	runID    string   // whose artifacts it may read
	dir      string   // of the spool
	progress harness.Progress
}

// errTimeUsed ends a run whose job has used up its time.
var errTimeUsed = reason.Errorf(reason.Timeout, "the time of the job is used up")

// run executes the request. The response is complete whatever happened; the
// error is that there was no place to work.
func (r *engineRun) run(ctx context.Context) (job.EngineRunResponse, []File, error) {
	resp := job.EngineRunResponse{Status: job.Errored, ExitCode: blockedExit, Verification: []job.Verified{}, Artifacts: []job.Artifact{},
		Provider: r.describe(), Platform: r.platform()}
	// Everything that a run writes is below it: nothing of one job is in reach
	// of the next, not even a cached tree.
	scratch, err := os.MkdirTemp(r.scratch, scratchName)
	if err != nil {
		return resp, nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }() // what stays is swept by the next daemon
	var files []File
	ask, err := r.prepare(ctx, scratch)
	if err == nil {
		files, err = r.pipeline(ctx, ask, newCapped(r.driver, r.req.Budget, r.caps), &resp)
	}
	switch {
	case ctx.Err() != nil:
		resp.Status, resp.Error = job.Cancelled, nil
	case err != nil && !isOwnTrouble(err) && job.Refusable(reason.CodeOf(err)):
		resp.Status, resp.Refusal = job.Failed, refusalOf(err, scratch)
		r.log.Warn("a job was refused", "error", err)
	case err != nil:
		resp.Error = cannot(reason.CodeOf(err))
		r.log.Error("a job could not be run", "error", err, "hint", hintOf(err))
	}
	return resp, files, nil
}

// prepare reads the contract, finds the engine and brings the repository in.
// Errors are as those of checkout.
func (r *engineRun) prepare(ctx context.Context, scratch string) (harness.Request, error) {
	none := harness.Request{}
	contract, err := r.contract()
	if err != nil {
		return none, err
	}
	rule := rule{mode: contract.MutationMode}
	chosen, err := r.worker(ctx, r.req.Engine, r.req.Budget.MicroUSD, rule)
	if err != nil {
		return none, err
	}
	source, err := r.source(ctx, scratch)
	if err != nil {
		return none, err
	}
	// The contract says where to begin, and its digest is agreed: the baseline of
	// the request must be what it says.
	base, err := source.Resolve(ctx, contract.Base)
	if err != nil {
		return none, err
	}
	if err := r.sameBaseline(base.Commit, base.Tree); err != nil {
		return none, err
	}
	policy, known := policyAt(ctx, source, base)
	if rule.signed = !known || policy.SignedRecords(); rule.signed {
		if chosen, err = r.worker(ctx, r.req.Engine, r.req.Budget.MicroUSD, rule); err != nil {
			return none, err
		}
	}
	if err := r.obtain(ctx, policy.Surroundings()); err != nil {
		return none, blameless(err)
	}
	return r.request(contract, chosen, source, scratch), nil
}

// policyAt reads the policy of a repository as its base commit has it. One that
// cannot be read is not known: it is no leave to count records without a signature.
func policyAt(ctx context.Context, source *workspace.Source, base workspace.Baseline) (policy *task.Policy, known bool) {
	text, err := source.ReadFile(ctx, base.Commit, task.PolicyFile)
	if errors.Is(err, workspace.ErrNoFile) {
		return nil, !errors.Is(err, workspace.ErrNotRegular)
	}
	policy, err = task.ParsePolicy(task.PolicyFile, text)
	return policy, err == nil
}

// contract reads the contract of the request.
func (r *engineRun) contract() (*task.Contract, error) {
	c, err := task.ParseCanonical("contract", []byte(r.req.Contract))
	if err != nil {
		return nil, reason.Errorf(reason.JobInvalid, "the contract cannot be used: %w", err)
	}
	switch {
	case len(c.HeldOutTests) > 0:
		return nil, reason.Errorf(reason.JobInvalid, "the contract names held-out tests, and a job does not carry them")
	case c.Limits.Pids > 0 && c.Limits.Pids < LeastPids:
		return nil, reason.Errorf(reason.JobInvalid, "limits.pids is %d, and the sandbox itself needs up to %d", c.Limits.Pids, LeastPids)
	case c.Limits.MemoryMB > 0 && c.Limits.MemoryMB < LeastMemoryMB || r.req.Budget.MemoryMB < LeastMemoryMB:
		return nil, reason.Errorf(reason.JobInvalid, "the job gets less than %d MB of memory, and the sandbox itself needs up to that",
			LeastMemoryMB)
	}
	return c, nil
}

// LeastPids and LeastMemoryMB are what the sandbox itself may need to start. With
// less a job would look like a fault of this machine, and cost it a strike.
const (
	LeastPids     = 16
	LeastMemoryMB = 16
)

// source opens the repository of the request.
func (r *engineRun) source(ctx context.Context, scratch string) (*workspace.Source, error) {
	b := r.req.Baseline
	if digest, sent := strings.CutPrefix(b.Source, artifactScheme); sent {
		return r.received(ctx, r.runID, digest, job.Repo{Source: b.Source, GitRef: &b.Commit}, scratch)
	}
	return r.lent(ctx, b.Source)
}

// sameBaseline refuses a run that would begin elsewhere than the request says.
func (r *engineRun) sameBaseline(commit, tree string) error {
	b := r.req.Baseline
	if commit != b.Commit || tree != b.Tree {
		return reason.Errorf(reason.JobInvalid, "the contract begins at commit %s with tree %s, the request at %s with %s", commit, tree,
			b.Commit, b.Tree)
	}
	return nil
}

// request is the run. No person here can approve a contract, and no verdict is
// taken from an earlier run: strangers share nothing.
func (r *engineRun) request(c *task.Contract, w worker, source *workspace.Source, scratch string) harness.Request {
	return harness.Request{
		Home: r.homeFor(scratch), Registries: r.registries, Repo: source.Root(), Contract: c,
		Engine: w.engine, Admission: w.admission, Model: w.model,
		Repeat: 1, Build: r.build, Progress: r.progress, Clock: r.clock,
		Credentials: []secret.Value{{Name: "PROVIDER_CREDENTIAL", Value: r.credential}},
	}
}

// pipeline runs the job and takes over what came of it.
func (r *engineRun) pipeline(ctx context.Context, ask harness.Request, box *capped, resp *job.EngineRunResponse) ([]File, error) {
	started := r.clock()
	working, cancel := context.WithTimeoutCause(ctx, box.most.Wall, errTimeUsed)
	defer cancel()
	ask.Sandbox = box
	if unknown := false; ask.Model != nil {
		resp.CostKnown = &unknown // until there is a report that says more
	}
	out, err := harness.Run(working, ask)
	r.trimLayers()
	took := r.clock().Sub(started)
	resp.Caps, resp.Usage = box.report(took)
	late := took >= box.most.Wall
	if err != nil {
		if sessions, readErr := os.ReadDir(ask.Home.Sessions()); readErr != nil || len(sessions) == 0 {
			resp.CostKnown = nil // there is no run that could have asked
		}
		if late {
			resp.Status, err = job.Timeout, nil
		}
		return nil, err
	}
	resp.MicroUSD, resp.CostKnown = out.Report.Usage.CostMicroUSD, out.Report.Usage.CostKnown
	account, err := r.read(out)
	if err != nil {
		return nil, err
	}
	zip, err := r.keepBundle(out.Session)
	if err != nil {
		return nil, err
	}
	mime := "application/zip"
	resp.Artifacts = []job.Artifact{{Path: zip.Name, SHA256: zip.SHA256, SizeBytes: uint64(zip.Bytes), MimeType: &mime}}
	resp.BundleSHA256, resp.HeadTree, resp.Verification = zip.SHA256, account.headTree, verified(out.Report.Verification)
	resp.ExitCode = int32(evidence.ExitCode(out.Report.Status))
	switch {
	case out.Report.Status == evidence.StatusPass:
		resp.Status = job.Success
	case late:
		resp.Status = job.Timeout
	case ofThisMachine(out.Report.Blockers, account.started):
		resp.Status, resp.Error = job.Errored, cannot(out.Report.Blockers[0].Code)
	default:
		resp.Status = job.Failed
	}
	return []File{zip}, nil
}

// account is what a response needs of a run beside its report.
type account struct {
	headTree string
	started  bool // a process of the engine was
}

// read finds the tree that the run led to in its journal, and refuses a run that
// began elsewhere: a directory of this machine can change between two looks.
func (r *engineRun) read(out *harness.Outcome) (a account, err error) {
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		return a, err
	}
	var opened evidence.RunOpened
	for _, e := range log.Entries {
		var patch evidence.PatchCaptured
		var finished evidence.EngineFinished
		switch {
		case e.Name == evidence.StepRunOpened:
			if err := json.Unmarshal(e.Inputs, &opened); err != nil {
				return a, fmt.Errorf("reading back the run: %w", err)
			}
		case e.Name == evidence.StepPatch && e.Status != journal.Started && json.Unmarshal(e.Outputs, &patch) == nil:
			a.headTree = patch.HeadTree
		case e.Name == evidence.StepEngine && e.Status != journal.Started && json.Unmarshal(e.Outputs, &finished) == nil:
			a.started = a.started || finished.ProcessStarted
		}
	}
	if a.headTree == r.req.Baseline.Tree && out.Report.Status != evidence.StatusPass {
		a.headTree = "" // nothing changed
	}
	if opened.DecidedOn != "" { // it was refused, and began nowhere
		return a, nil
	}
	return a, r.sameBaseline(string(opened.BaselineCommit), string(opened.BaselineTree))
}

// maxVerified bounds the commands in a response, in bytes. They stand there for
// people; the bundle has the contract with all of them.
const maxVerified = 64 << 10

// verified lists what the verifier saw on the changed tree.
func verified(runs []evidence.CommandRun) []job.Verified {
	out := []job.Verified{}
	for _, c := range runs {
		if c.Phase == verify.PhaseHead {
			out = append(out, job.Verified{Command: c.Command, ExitCode: int32(c.ExitCode), DurationMS: uint64(max(0, c.DurationMS))})
		}
	}
	for i := range out {
		out[i].Command = cut(out[i].Command, maxVerified/len(out))
	}
	return out
}

// cut shortens a text at a rune boundary.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// bundleFile is the artifact that the response is about.
const bundleFile = "bundle.zip"

// keepBundle writes the sealed bundle to the spool. One that the authority would
// not take is the work of the job: its engine or its commands wrote that much.
func (r *engineRun) keepBundle(s session.Session) (File, error) {
	f, err := os.OpenFile(filepath.Join(r.dir, bundleFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return File{}, fmt.Errorf("making the spool: %w", err)
	}
	sum := &summed{w: f, sum: sha256.New()}
	err = bundle.WriteZip(sum, s.Dir)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return File{}, fmt.Errorf("keeping the bundle: %w", err)
	}
	return File{bundleFile, canon.DigestSum(sum.sum), sum.n}, nil
}

// summed writes what an artifact may hold at most, and digests it.
type summed struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

// Write implements io.Writer.
func (s *summed) Write(p []byte) (int, error) {
	if s.n+int64(len(p)) > api.MaxArtifact {
		return 0, reason.Errorf(reason.RequestTooLarge, "the evidence of the run is larger than the %d bytes that an artifact may have",
			int64(api.MaxArtifact))
	}
	n, err := s.w.Write(p)
	s.sum.Write(p[:n])
	s.n += int64(n)
	return n, err
}
