package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/law/admission"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/deliver"
	"remit/work/session"
	"remit/work/workspace"
)

// protectedRefs are what no delivery touches, beside what is checked out.
var protectedRefs = []string{"HEAD", "refs/heads/** but the new branch", "refs/tags/**", "refs/remotes/**"}

// delivers reports whether the verified change of this run goes into a repository.
func (r *run) delivers() bool { return r.Contract.MutationMode.Delivers() }

// branchPolicy records where the change may go if it is verified, before the
// engine is started. A disposable repository is made now.
func (r *run) branchPolicy(ctx context.Context) error {
	if !r.delivers() {
		return nil
	}
	p := evidence.BranchPolicy{Branch: "remit/" + r.session.ID, BaselineCommit: r.base.Commit, Repository: evidence.TargetRepository,
		TargetSHA256: admission.TargetDigest(r.source.Root()), Protected: protectedRefs}
	into, err := r.source, error(nil)
	if r.disposable() {
		p.Repository, p.Dir = evidence.DisposableRepository, session.DisposableName(r.session.ID)
		into, err = deliver.Disposable(ctx, r.store, r.Home.DisposableDir(r.session.ID))
	}
	if err == nil && !r.opened.Host.Sandbox.KeepsOut() {
		err = reason.Errorf(reason.SandboxUnavailable, "a change is delivered only by a run whose sandbox keeps what it starts away from every repository, and %q does not", r.opened.Host.Sandbox.Driver)
	}
	if err == nil {
		err = deliver.MayDeliver(into, p.Branch)
	}
	if err != nil {
		p.Blockers = []evidence.Blocker{r.deliveryBlocker(err)}
	}
	r.note(evidence.StepBranchPolicy, "branch-policy", status(p.Blockers), nil, p)
	r.recordProof("branch-policy", map[string]any{"branch": p.Branch, "baseline_commit": p.BaselineCommit, "repository": p.Repository,
		"target_repository": p.TargetSHA256, "disposable_repository_dir": p.Dir, "protected": p.Protected, "pushed": p.Pushed,
		"exists": reason.CodeOf(err) == reason.OutputExists, "allowed": err == nil})
	if err != nil {
		r.tell(evidence.StepBranchPolicy, "failed", p.Blockers[0].Message)
		return errStopped
	}
	r.tell(evidence.StepBranchPolicy, "completed", "the verified change will be branch "+p.Branch)
	return nil
}

// disposable reports whether the change goes into a repository that the run makes.
func (r *run) disposable() bool {
	return r.Contract.MutationMode == task.SandboxRepo
}

func (r *run) deliveryBlocker(err error) evidence.Blocker {
	b := evidence.Blocker{Code: reason.InfrastructureFault, Message: r.scrub(err.Error()),
		Evidence: evidence.ProofsDir + "/branch-policy.json"}
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		b.Code, b.Hint = coded.Code, r.scrub(coded.Hint)
		b.Message = strings.TrimSuffix(b.Message, fmt.Sprintf(" (%s)", coded.Code))
	}
	return b
}

// deliver puts the change on its branch, if the run would pass with that. It is
// the last thing that a run does: everything else has been looked at before.
func (r *run) deliver(ctx context.Context) {
	if !r.delivers() {
		return
	}
	defer r.dispose()
	may, err := evidence.Deliverable(r.w.Entries())
	if err != nil || !may || r.has(evidence.StepDelivered, journal.Completed) {
		return // what stands against it is in the journal
	}
	bounded, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), r.hostTime(),
		reason.Errorf(reason.Timeout, "delivering the change took too long"))
	defer cancel()
	s := r.begin(evidence.StepDelivered, "delivery", map[string]string{"branch": "remit/" + r.session.ID})
	out, err := r.publish(bounded)
	if err != nil {
		b := r.deliveryBlocker(err)
		s.end(journal.Failed, blockersOnly{[]evidence.Blocker{b}}, b.Message)
		return
	}
	s.end(status(out.Blockers), out, fmt.Sprintf("branch %s is at %.12s", out.Branch, out.Commit))
}

// publish commits the patch and makes the branch. A run that was cut off makes the
// same commit again, and finds its branch done.
func (r *run) publish(ctx context.Context) (evidence.Delivered, error) {
	out := evidence.Delivered{Branch: "remit/" + r.session.ID, BaselineCommit: string(r.opened.BaselineCommit), Differs: []string{}}
	if r.store == nil {
		if err := r.restore(ctx); err != nil {
			return out, err
		}
	}
	into := r.source
	if r.disposable() {
		var err error
		if into, err = workspace.OpenSource(ctx, r.Home.DisposableDir(r.session.ID)); err != nil {
			return out, err
		}
	}
	began := r.startedAt().Truncate(time.Second).UTC()
	c := deliver.Change{Base: r.base, Tree: r.patched.imported.Tree, Message: r.commitMessage(), When: began,
		Patch: func() (io.ReadCloser, error) { return os.Open(filepath.Join(r.session.Dir, evidence.PatchFile)) }}
	before, err := into.Fingerprint(ctx)
	if err != nil {
		return out, err
	}
	if out.Commit, err = c.Publish(ctx, r.store, into.GitDir(), out.Branch); err != nil {
		return out, err
	}
	out.Tree, out.Message, out.CommittedAt = c.Tree, c.Message, began.Unix()
	after, err := into.Fingerprint(ctx)
	if err != nil {
		return out, err
	}
	ref := "refs/heads/" + out.Branch
	ours := []string{"refs: " + ref, "logs: logs/" + ref}
	others := slices.DeleteFunc(before.Compare(after), func(what string) bool { return slices.Contains(ours, what) })
	for _, what := range others { // a person at work: nothing of the run is alive any more
		out.Differs = append(out.Differs, evidence.CutText(evidence.DisplayPath(r.secrets.Redact(what)), maxDifference))
	}
	return out, nil
}

// commitMessage is the message of the delivered commit. It signs nothing off,
// which only a person can do.
func (r *run) commitMessage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nVerified by Remit on a fresh checkout of %s:\n", evidence.Subject(r.Contract.Title), r.opened.BaselineCommit)
	for _, command := range r.Contract.VerificationCommands {
		fmt.Fprintf(&b, "- %s (exit 0)\n", strings.Join(strings.Fields(command), " "))
	}
	if n := r.opened.IssueNumber; n != nil {
		fmt.Fprintf(&b, "\nIssue: #%d\n", *n)
	}
	fmt.Fprintf(&b, "\nRemit-Session: %s\nRemit-Policy-Bundle: %s\nRemit-Patch: %s\nAssisted-by: %s %s\n",
		r.session.ID, r.Contract.PolicyBundleID, r.patched.sha256, r.opened.Engine.Name, r.opened.Engine.Version)
	return b.String()
}

// dispose says what becomes of the repository. One that the run made is thrown
// away when it has no change, and is kept for the operator when it has.
func (r *run) dispose() {
	if r.has(evidence.StepDisposed, journal.Completed) {
		return
	}
	out := evidence.Disposed{Repository: evidence.TargetRepository,
		Why: "the repository is its owner's, and nothing but the branch is the run's"}
	if r.disposable() {
		out.Repository = evidence.DisposableRepository
		dir := r.Home.DisposableDir(r.session.ID)
		_, err := os.Lstat(dir)
		switch {
		case err != nil:
			out.Why = "none was made: the run ended before"
		case r.has(evidence.StepDelivered, journal.Completed):
			out.KeptUntil = stamp(r.clock().Add(session.DisposableKept))
			out.Why = "it has the change until the operator rejects it, or that time is over"
		default:
			out.Why = "it has no change"
			if err := os.RemoveAll(dir); err != nil {
				out.KeptUntil, out.Why = stamp(r.clock().Add(session.DisposableKept)), "it could not be removed: "+r.scrub(err.Error())
			} else {
				out.Disposed = true
			}
		}
	}
	r.note(evidence.StepDisposed, "disposal", journal.Completed, nil, out)
	r.recordProof("disposal", out)
}

// recordDelivery records the proofs that every run has which may deliver its
// change, whether it came to that or not.
func (r *run) recordDelivery() {
	if !r.delivers() {
		return
	}
	for _, p := range []struct {
		name string
		body any
	}{{"approval", evidence.ApprovalProof(r.w.Entries())}, {"target-admission", r.targetProof()}, {"forbidden-actions", r.forbiddenProof()}} {
		if !r.hasProof(p.name) {
			r.recordProof(p.name, p.body)
		}
	}
}

func (r *run) hasProof(name string) bool {
	return slices.ContainsFunc(r.w.Entries(), func(e journal.Entry) bool { return e.Name == evidence.StepProof && e.StepID == "proof-"+name })
}

func (r *run) targetProof() map[string]any {
	out := map[string]any{"required": !r.disposable(), "admitted": r.Target.Admitted, "admission_status": r.Target.Status,
		"admission_sha256": r.Target.SHA256, "code": r.Target.Code, "detail": r.Target.Detail}
	if r.source != nil {
		out["target_repository"] = admission.TargetDigest(r.source.Root())
	}
	if r.disposable() {
		out["why"] = "the repository that gets the change is made by the run, from the baseline alone"
	}
	return out
}
