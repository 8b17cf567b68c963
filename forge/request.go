package forge

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"remit/forge/pull"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/deliver"
	"remit/work/git"
	"remit/work/workspace"
)

// BundleFile is the file of the commit that a session's bundle travels in.
const BundleFile = "bundle.zip"

// BundleRef is the ref at a forge that holds the bundle of a session. It is no branch:
// no list of branches shows it, and no rule for branches is about it.
func BundleRef(session string) string { return "refs/remit-bundles/" + session }

// Request is the change of a session as a pull request has it. Its commits lie in a
// store that [Request.Close] removes.
type Request struct {
	Commit string // of the change, on its baseline: the same one each time
	Title  string
	Meta   pull.Metadata
	Status pull.Status
	Checks []pull.Check

	change *change

	at    time.Time
	work  string
	store *workspace.Store
}

// Prepare makes the commits of a pull request in a store beside the repository, which
// is only read.
func Prepare(ctx context.Context, dir, repo string, sign Sign) (r *Request, err error) {
	c, err := open(dir)
	if err != nil {
		return nil, err
	}
	r = &Request{change: c, Title: evidence.Subject(c.title), Status: c.status(), Checks: c.checks(),
		Meta: pull.Metadata{SessionID: c.receipt.SessionID, PolicyBundleID: c.receipt.PolicyBundleID,
			TrajectoryHash: c.receipt.TrajectoryHash, Confidence: c.receipt.FinalConfidence.String(),
			VerificationPassed: c.report.Status == evidence.StatusPass, ReceiptDigest: c.digest}}
	if r.work, err = os.MkdirTemp("", "remit-request-"); err != nil {
		return nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	change, source, err := c.commit(ctx, repo)
	if err != nil {
		return nil, err
	}
	if r.store, err = workspace.NewStore(ctx, filepath.Join(r.work, "store.git"), source, change.Base); err != nil {
		return nil, err
	}
	r.at, change.Sign = change.When, sign
	r.Commit, err = change.Commit(ctx, r.store)
	return r, err
}

// Bundle makes a commit without parents that holds the bundle as [BundleFile]. zip
// writes it; the same bundle gives the same commit.
func (r *Request) Bundle(ctx context.Context, zip func(io.Writer) error) (commit string, err error) {
	name := filepath.Join(r.work, BundleFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("writing the bundle: %w", err)
	}
	err = zip(f)
	size, seekErr := f.Seek(0, io.SeekEnd)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = seekErr
	}
	if err != nil {
		return "", fmt.Errorf("writing the bundle: %w", err)
	}
	d := r.store.Dir()
	made, err := d.Import(ctx, d.Format.EmptyTree(), []git.Edit{{Path: BundleFile, Mode: "100644", Size: size,
		Content: func() (io.ReadCloser, error) { return os.Open(name) }}},
		git.Commit{Message: "Verified Patch Bundle of " + r.Meta.SessionID + "\n", When: r.at})
	return made.Commit, err
}

// Store is where the commits lie.
func (r *Request) Store() git.Dir { return r.store.Dir() }

// Close removes the store.
func (r *Request) Close() {
	if r.store != nil {
		_ = r.store.Close() // its directory goes anyway
	}
	_ = os.RemoveAll(r.work) // a temporary directory
}

// commit is the change on its baseline in a repository.
func (c *change) commit(ctx context.Context, repo string) (deliver.Change, *workspace.Source, error) {
	if c.receipt.HeadTree == nil || len(c.report.ChangedFiles) == 0 {
		return deliver.Change{}, nil, reason.Errorf(reason.NoDiff, "the run changed nothing, so there is nothing to put on a branch")
	}
	at, err := c.completed()
	if err != nil {
		return deliver.Change{}, nil, err
	}
	source, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return deliver.Change{}, nil, err
	}
	base, err := source.Resolve(ctx, string(c.receipt.BaselineCommit))
	if err != nil {
		return deliver.Change{}, nil, err
	}
	return deliver.Change{Base: base, Tree: *c.receipt.HeadTree, Message: evidence.Subject(c.title) + "\n\n" + c.body(), When: at,
		Patch: func() (io.ReadCloser, error) { return os.Open(filepath.Join(c.dir, evidence.PatchFile)) }}, source, nil
}

// StatusContext names the status beside a commit.
const StatusContext = "remit"

// status is the verdict in one line.
func (c *change) status() pull.Status {
	s := pull.Status{State: "failure", Context: StatusContext, Description: "not verified: " + c.report.Status}
	if len(c.report.Blockers) > 0 {
		s.Description += " (" + string(c.report.Blockers[0].Code) + ")"
	}
	if c.report.Status != evidence.StatusPass {
		return s
	}
	s.State, s.Description = "success", "verified; no test was shown to be able to fail"
	if k := c.report.Control; k != nil && k.Proved > 0 {
		s.Description = fmt.Sprintf("verified; %d of %d tests shown to be able to fail", k.Proved, k.Counting)
	}
	return s
}
