package harness

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"strings"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/detect"
	"remit/work/engine"
	"remit/work/workspace"
)

// Check is a change that was there before the run: nothing makes it, so the run has
// no engine. It is applied to the baseline and judged as any other.
type Check struct {
	Head  string // the revision whose change it is, "" for a patch
	Patch string // file with the patch
	// Pack is a file with the commits of Head that the repository lacks, "" for none.
	// Head is a full commit id then.
	Pack        string
	PullRequest string // where a person finds it, "" for none
	Author      string // whose a patch is that does not say so itself, as the caller says
}

// noEngine stands where a run has its engine. Nothing starts it.
type noEngine struct{}

// Identity implements [engine.Engine].
func (noEngine) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: evidence.NoEngine}, nil
}

// Invocation implements [engine.Engine].
func (noEngine) Invocation(context.Context, engine.Task) (*engine.Invocation, error) {
	return nil, reason.Errorf(reason.EngineUnknown, "a check has no engine")
}

// withoutEngine is the request of a run that checks a change.
func (req Request) withoutEngine() Request {
	if req.Check != nil {
		req.Engine, req.EngineName, req.Purpose = noEngine{}, evidence.NoEngine, eligibility.PurposeCheck
	}
	return req
}

// named says which change it is, by the id of a commit or the digest of a patch: the
// name of a branch may mean another one in the next moment.
func (c *Check) named(ctx context.Context, source *workspace.Source) (*evidence.Checked, error) {
	out := &evidence.Checked{PullRequest: c.PullRequest}
	var err error
	switch {
	case c.Head == "":
		out.PatchSHA256, err = digestOfFile(c.Patch)
	case c.Pack != "":
		out.HeadCommit = c.Head
	default:
		out.HeadCommit, err = source.Commit(ctx, c.Head)
	}
	return out, err
}

func digestOfFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", reason.Errorf(reason.FileUnusable, "reading the patch: %w", err)
	}
	defer f.Close()
	digest, _, err := canon.DigestReader(io.LimitReader(f, workspace.MaxPatchBytes+1))
	return digest, err
}

// checks reports whether the run checks a change that was there before.
func (r *run) checks() bool { return r.opened.Checked != nil }

// takeChange stands where other runs have their engine: it makes of the change that
// is checked a tree over the baseline.
func (r *run) takeChange(ctx context.Context) error {
	s := r.begin(evidence.StepTaken, evidence.PlanTake, r.opened.Checked)
	r.boundStore()
	out, tree, err := r.changeToCheck(ctx)
	if err == nil {
		r.patched = &patched{imported: &workspace.Imported{Tree: tree}}
		r.links, err = r.allLinks(ctx, tree)
	}
	if err != nil {
		s.end(journal.Failed, nil, r.scrub(err.Error()))
		return err
	}
	detail := "patch"
	if out.HeadCommit != "" {
		detail = fmt.Sprintf("%d commit(s)", out.Commits)
	}
	s.end(journal.Completed, evidence.ChangeTaken{Checked: out}, detail)
	return r.startBase(ctx)
}

func (r *run) changeToCheck(ctx context.Context) (out evidence.Checked, tree string, err error) {
	ctx, cancel := r.onHost(ctx, "applying the change to the base")
	defer cancel()
	if out = *r.opened.Checked; out.HeadCommit == "" {
		tree, err = r.applyGiven(ctx, &out)
		return out, tree, err
	}
	if err := r.receivePack(ctx); err != nil {
		return out, "", err
	}
	h, err := r.store.History(ctx, out.HeadCommit)
	if err != nil {
		return out, "", err
	}
	out.MergeBase, out.Commits = h.Base, h.Commits
	for _, a := range h.Authors {
		out.Authors = append(out.Authors, author(a.Name, a.Email))
	}
	if err := r.boundChange(ctx, h.BaseTree, h.HeadTree); err != nil {
		return out, "", err
	}
	_, limit := r.Contract.Limits.ChangeCap()
	tree, err = r.store.Rebase(ctx, h.BaseTree, h.HeadTree, limit)
	switch {
	case reason.CodeOf(err) == reason.PatchInvalid && h.Base != r.base.Commit:
		err = reason.Errorf(reason.PatchInvalid, "the change does not apply to the base, which has moved on since %s: %w", h.Base,
			errors.Unwrap(err)).
			WithHint("merge the base into the branch, or rebase it, and check again")
	case err == nil && h.Base == r.base.Commit && tree != h.HeadTree:
		err = reason.Errorf(reason.TreeMismatch, "the change of %s gives tree %s, and the commit has %s", h.Head, tree, h.HeadTree).
			WithHint("the commit has what no patch can hold: look at it with `git fsck`")
	}
	return out, tree, err
}

// boundChange holds a change against the caps of the contract, before anything is made
// of its files.
func (r *run) boundChange(ctx context.Context, from, to string) error {
	changes, err := r.store.Changes(ctx, from, to)
	if err != nil {
		return err
	}
	if excess, hint := r.excess(changes); excess != "" {
		return reason.Errorf(reason.ChangeTooLarge, "the change: %s", excess).WithHint("%s", hint)
	}
	return nil
}

// receivePack takes the commits that the repository lacks into the store of the run.
func (r *run) receivePack(ctx context.Context) error {
	if r.Check == nil || r.Check.Pack == "" {
		return nil
	}
	pack, err := os.Open(r.Check.Pack)
	if err != nil {
		return fmt.Errorf("reading the commits that were fetched: %w", err)
	}
	defer pack.Close()
	return r.store.Receive(ctx, pack)
}

// applyGiven applies the patch, which has to be the one that the run was opened with.
func (r *run) applyGiven(ctx context.Context, out *evidence.Checked) (string, error) {
	f, err := os.Open(r.Check.Patch)
	if err != nil {
		return "", reason.Errorf(reason.FileUnusable, "reading the patch: %w", err)
	}
	defer f.Close()
	_, limit := r.Contract.Limits.ChangeCap()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		return "", reason.Errorf(reason.ChangeTooLarge, "the patch has %d MiB, more than the %d that a run takes", info.Size()>>20, limit>>20)
	}
	head := bufio.NewReaderSize(f, maxMailHeader)
	sum := sha256.New()
	if from, err := head.Peek(maxMailHeader); err == nil || errors.Is(err, io.EOF) {
		out.Authors = mailAuthor(string(from))
	}
	if out.Authors == nil && r.Check.Author != "" {
		out.Authors = []evidence.Author{author(r.Check.Author, "")}
	}
	tree, err := r.store.Apply(ctx, r.base.Tree, io.TeeReader(head, sum))
	name := evidence.DisplayPath(filepath.Base(r.Check.Patch))
	switch coded, ok := errors.AsType[*reason.Error](err); {
	case ok && coded.Code == reason.PatchInvalid:
		coded.File = name
		return "", coded
	case err != nil:
		return "", err
	case canon.DigestSum(sum) != out.PatchSHA256:
		err = reason.Errorf(reason.ArtifactDigest, "the patch was changed while it was read")
	}
	if err == nil {
		err = r.boundChange(ctx, r.base.Tree, tree)
	}
	return tree, err
}

// maxMailHeader bounds what of a patch is looked at for its author.
const maxMailHeader = 16 << 10

// mailAuthor is the author of a patch that git format-patch has made.
func mailAuthor(text string) []evidence.Author {
	if !strings.HasPrefix(text, "From ") {
		return nil
	}
	for line := range strings.Lines(text) {
		from, ok := strings.CutPrefix(line, "From: ")
		if !ok {
			if strings.TrimSpace(line) == "" {
				return nil // the header is over
			}
			continue
		}
		if a, err := mail.ParseAddress(strings.TrimSpace(from)); err == nil {
			return []evidence.Author{author(a.Name, a.Address)}
		}
		return nil
	}
	return nil
}

const maxAuthor = 200 // bytes of a name or an address

// author is what a commit says of its author, as text that a terminal can take.
func author(name, email string) evidence.Author {
	shown := func(s string) string { return evidence.CutText(evidence.DisplayPath(s), maxAuthor) }
	return evidence.Author{Name: shown(name), Email: shown(email)}
}

// standing are the blockers so far that end the run before its tests. That a person
// has to look at a change which is checked does not: its tests are judged all the same.
func (r *run) standing() []evidence.Blocker {
	var out []evidence.Blocker
	for _, b := range r.blockersSoFar() {
		if b.Code != reason.ReviewRequired {
			out = append(out, b)
		}
	}
	return out
}

// writeBlockers says what the changed paths mean for the run. Who has made a change
// that is checked may change anything, with the consent of another person.
func (r *run) writeBlockers(findings []reason.Finding) []evidence.Blocker {
	var out, review []evidence.Blocker
	for _, f := range findings {
		b := evidence.Blocker{Code: f.Code, Message: f.Path + ": " + f.Detail, Evidence: evidence.PatchFile, Hint: f.Hint}
		if r.checks() && f.Code == reason.ProtectedPath {
			b.Code, b.Message = reason.ReviewRequired, f.Path+": a person has to look at it: "+
				strings.TrimSuffix(f.Detail, ", whatever the contract says")
			if f.Path == task.PolicyFile {
				b.Hint = "proofs/policy-change.json says what the new policy allows and forbids; so does `remit policy diff OLD NEW`"
			}
			review = append(review, b)
			continue
		}
		out = append(out, b)
	}
	return append(out, review...) // what is a failure in any case goes first
}

// policyChangeProof has what a change of remit.yaml means.
const policyChangeProof = "policy-change"

// provePolicyChange records what a change of the policy allows and forbids, of a
// change that is checked. The new policy counts for nothing else.
func (r *run) provePolicyChange(ctx context.Context) error {
	if !r.checks() {
		return nil
	}
	touched := false
	for _, c := range r.changed {
		touched = touched || c.Path == task.PolicyFile
	}
	if !touched {
		return nil
	}
	before, err := r.policyIn(ctx, r.base.Tree)
	if err != nil {
		return err
	}
	after, err := r.policyIn(ctx, r.patched.imported.Tree)
	body := map[string]any{"readable": err == nil, "changes": []task.PolicyChange{}}
	if err != nil {
		body["error"] = r.scrub(err.Error())
	} else {
		body["changes"] = task.ComparePolicies(before, after)
	}
	r.recordProof(policyChangeProof, body)
	return nil
}

// policyIn is the policy of a tree, nil for none.
func (r *run) policyIn(ctx context.Context, tree string) (*task.Policy, error) {
	text, err := r.store.ReadFile(ctx, tree, task.PolicyFile)
	if errors.Is(err, workspace.ErrNoFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return task.ParsePolicy(task.PolicyFile, text)
}

// DetectedPolicy is the policy of a check in a repository without remit.yaml: the
// test commands and what they need as `remit init` finds them, and no rule about
// paths but the protection that always holds.
func DetectedPolicy(files fs.FS) (*task.Policy, error) {
	facts, err := detect.Look(files, depend.Ecosystems())
	if err != nil {
		return nil, err
	}
	text, err := facts.Policy()
	if err != nil {
		return nil, err
	}
	policy, err := task.ParsePolicy(task.PolicyFile, text)
	if err != nil {
		return nil, err
	}
	policy.AllowedPaths, policy.ForbiddenPaths, policy.AllowSymlinks = []string{"**"}, nil, true
	return policy, nil
}
