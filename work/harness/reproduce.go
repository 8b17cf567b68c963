package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/verify"
	"remit/work/workspace"
)

// Reproduction rebuilds a change from its evidence alone.
type Reproduction struct {
	Evidence fs.FS  // a session directory or the content of a bundle, already audited
	Repo     string // any clone that has the baseline commit
	Head     string // revision that has to have the tree that was verified, "" for none
	Home     session.Home
	Sandbox  sandbox.Driver
	Repeat   int
	Log      io.Writer // receives every verification command with its output
	Progress Progress
	// Verdicts allows the verdict to be taken from the cache, and kept there.
	// What is taken says so; a reproduction for others asks anew.
	Verdicts bool
	// Fresh leaves out the reading: the verdict is made now, and kept if it
	// agrees with the one that is there.
	Fresh bool
	Clock func() time.Time // time.Now by default
	// Registries say where dependencies are fetched from; nil is the public ones.
	Registries Registries
}

// Reproduced is what came of it.
type Reproduced struct {
	SessionID      string           `json:"session_id"`
	Status         string           `json:"status"`          // of the verification just made
	RecordedStatus string           `json:"recorded_status"` // in the receipt
	BaselineCommit string           `json:"baseline_commit"`
	PatchSHA256    string           `json:"patch_sha256"`
	HeadTree       string           `json:"head_tree"`
	Verification   *verify.Verdict  `json:"verification"`
	Findings       []reason.Finding `json:"findings"`

	// Cached says that nothing was run: the verdict is that of an earlier
	// verification of the same patch, under the same key, at CachedAt.
	Cached   bool   `json:"cached"`
	CacheKey string `json:"cache_key,omitempty"`
	CachedAt string `json:"cached_at,omitempty"`

	// Environment compares the dependencies with those of the run, where there are
	// any.
	Environment *EnvironmentAgain `json:"environment,omitempty"`
}

// Reproduce applies the recorded patch to the baseline in the given repository,
// compares the tree with the recorded one and runs the verifier again. The
// repository is only read.
func Reproduce(ctx context.Context, req Reproduction) (*Reproduced, error) {
	rec, err := readSealed(req.Evidence)
	if err != nil {
		return nil, err
	}
	out := &Reproduced{SessionID: rec.receipt.SessionID, RecordedStatus: rec.receipt.Status,
		BaselineCommit: string(rec.receipt.BaselineCommit), PatchSHA256: *rec.receipt.PatchSHA256, Findings: []reason.Finding{}}
	source, err := workspace.OpenSource(ctx, req.Repo)
	if err != nil {
		return nil, err
	}
	base, err := source.Resolve(ctx, string(rec.receipt.BaselineCommit))
	if err != nil {
		return nil, err
	}
	store, done, err := workspace.TempStore(ctx, source, base)
	if err != nil {
		return nil, err
	}
	defer done()
	patch, err := req.Evidence.Open(evidence.PatchFile)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	if out.HeadTree, err = store.Apply(ctx, base.Tree, patch); err != nil {
		return nil, err
	}
	if out.HeadTree != *rec.receipt.HeadTree {
		out.Status = string(reason.StatusOf(reason.TreeMismatch))
		out.Findings = append(out.Findings, reason.Finding{Code: reason.TreeMismatch, Path: evidence.PatchFile,
			Detail: fmt.Sprintf("gives tree %s here, the receipt says %s", out.HeadTree, *rec.receipt.HeadTree)})
		return out, nil
	}
	if req.Head != "" {
		head, err := source.Resolve(ctx, req.Head)
		if err != nil {
			return nil, err
		}
		if head.Tree != out.HeadTree {
			out.Status = string(reason.StatusOf(reason.TreeMismatch))
			out.Findings = append(out.Findings, reason.Finding{Code: reason.TreeMismatch, Path: req.Head,
				Detail: fmt.Sprintf("commit %s has tree %s, and what was verified is tree %s", head.Commit, head.Tree, out.HeadTree)})
			return out, nil
		}
	}
	if began := rec.beganElsewhere(ctx, req.Evidence, store, base); began != nil {
		out.Status, out.Findings = string(reason.StatusOf(began.Code)), append(out.Findings, *began)
		return out, nil
	}
	if weak := weakerThanBase(ctx, source, base, rec.contract); weak != nil {
		out.Status, out.Findings = string(reason.StatusOf(weak.Code)), append(out.Findings, *weak)
		return out, nil
	}
	if err := req.Home.Distrust(req.Sandbox); err != nil {
		return nil, err
	}
	defer func() { _ = req.Home.Distrust(req.Sandbox) }() // it could be emptied before
	trees, err := workspace.OpenCache(req.Home.CacheDir())
	if err != nil {
		return nil, err
	}
	checkout, err := trees.Checkout(ctx, store, base.Tree)
	if err != nil {
		return nil, err
	}
	defer checkout.Release()
	prepared, head, environment, err := rec.environmentAgain(ctx, &req, base.Tree, checkout.Dir, headOf{trees, store})
	if err != nil {
		return nil, err
	}
	defer prepared.Release()
	defer head.Release()
	out.Environment = environment
	cache, err := rec.verdicts(ctx, req, base.Tree, checkout.Dir, prepared, head)
	if err != nil {
		return nil, err
	}
	verdict, from, err := cache.find(req)
	if err == nil && verdict == nil {
		verdict, err = rec.verifyAgain(ctx, req, store, base, checkout.Dir, prepared, head, cache)
	}
	if err != nil {
		return nil, err
	}
	if from != nil {
		out.Cached, out.CacheKey, out.CachedAt = true, from.Key, from.MadeAt
	}
	out.Verification, out.Status = verdict, verdict.Status
	out.Findings = append(out.Findings, verdict.Findings...)
	return out, nil
}

// weakerThanBase holds the contract of a bundle against the policy that the base
// commit has: the maker of the bundle wrote the contract, and could have asked
// for less than the repository does.
func weakerThanBase(ctx context.Context, source *workspace.Source, base workspace.Baseline, c *task.Contract) *reason.Finding {
	text, err := source.ReadFile(ctx, base.Commit, task.PolicyFile)
	if errors.Is(err, workspace.ErrNoFile) && !errors.Is(err, workspace.ErrNotRegular) {
		return nil
	}
	var policy *task.Policy
	if err == nil {
		policy, err = task.ParsePolicy(task.PolicyFile, text)
	}
	if err != nil { // no run begins under such a file
		return &reason.Finding{Code: reason.EnvelopeMismatch, Path: evidence.ContractFile,
			Detail: "the contract cannot be held against " + task.PolicyFile + " of the base commit, which cannot be read: " + err.Error()}
	}
	asked := *c
	asked.MutationMode = task.ModeNone // how wide the run was is not the question
	applied, err := policy.Apply(&asked)
	if err == nil && applied.Tests == c.Tests && reflect.DeepEqual(applied.Verify, c.Verify) {
		return nil
	}
	return &reason.Finding{Code: reason.EnvelopeMismatch, Path: evidence.ContractFile,
		Detail: "the contract asks for less verification than " + task.PolicyFile + " of the base commit"}
}

// sealed is what a bundle says of the verification that is repeated.
type sealed struct {
	receipt  evidence.Receipt
	contract *task.Contract
}

func readSealed(files fs.FS) (*sealed, error) {
	rec := new(sealed)
	raw, err := fs.ReadFile(files, evidence.ReceiptFile)
	if err != nil {
		return nil, fmt.Errorf("reading the receipt: %w", err)
	}
	if err := evidence.DecodeReceipt(raw, &rec.receipt); err != nil {
		return nil, err
	}
	if rec.receipt.PatchSHA256 == nil || rec.receipt.HeadTree == nil {
		return nil, reason.Errorf(reason.ArtifactMissing, "the run captured no patch, so there is nothing to rebuild")
	}
	if raw, err = fs.ReadFile(files, evidence.ContractFile); err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	rec.contract, err = task.ParseCanonical(evidence.ContractFile, bytes.TrimSuffix(raw, []byte("\n")))
	return rec, err
}

func (rec *sealed) verifyAgain(ctx context.Context, req Reproduction, store *workspace.Store, base workspace.Baseline, lower string,
	prepared, head *depend.Prepared, kept *verdictStore) (*verify.Verdict, error) {
	changes, err := store.Changes(ctx, base.Tree, *rec.receipt.HeadTree)
	if err != nil {
		return nil, err
	}
	held, err := heldOutFrom(req.Evidence, rec.contract)
	if err != nil {
		return nil, err
	}
	c := rec.contract
	caches, err := os.MkdirTemp("", "remit-caches-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for build caches: %w", err)
	}
	defer func() { _ = os.RemoveAll(caches) }() // a temporary directory
	plan := planOf(c)
	plan.Lower, plan.Patch, plan.HeldOut, plan.Repeat, plan.Log, plan.CacheDir = lower, changes, held, max(1, req.Repeat),
		kept.recording(req.Log), caches
	plan.TestingDir = req.Home.TestingDir()
	withDependencies(&plan, prepared)
	plan.OnEvent = func(e verify.Event) {
		if req.Progress != nil {
			req.Progress.Output(eventLine(e))
		}
	}
	before, err := verify.Base(ctx, req.Sandbox, plan)
	if err != nil {
		return nil, err
	}
	plan.Before = before
	withDependencies(&plan, head)
	after, err := verify.Head(ctx, req.Sandbox, plan)
	if err != nil {
		return nil, err
	}
	verdict := verify.Judge(before, after, plan.Tests)
	if err := kept.keep(ctx, before, after, verdict); err != nil && req.Progress != nil {
		req.Progress.Output("the verdict is not kept: " + err.Error())
	}
	return verdict, nil
}
