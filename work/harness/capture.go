package harness

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/workspace"
)

// patched is what the engine's changes became.
type patched struct {
	imported     *workspace.Imported
	tooLarge     string // why only a part of the changes was imported, "" for all
	tooLargeHint string
	ignoredMore  int   // ignored paths that are not listed
	failed       error // why there is no patch.diff
	sha256       string
	bytes        int64
}

// importChanges makes a git tree of what the engine left in the sandbox. It
// happens whatever the engine's end was: work that was done is kept.
func (r *run) importChanges(ctx context.Context, change change) error {
	ctx, cancel := r.onHost(ctx, "importing the engine's changes")
	defer cancel()
	kept, err := r.part(ctx, change)
	if err != nil {
		return fmt.Errorf("choosing a part of the engine's changes: %w", err)
	}
	imported, err := r.store.Import(ctx, r.startTree(), kept)
	if err != nil {
		return fmt.Errorf("importing the engine's changes: %w", err)
	}
	r.links = linksOf(kept)
	r.patched = &patched{imported: imported}
	if n := len(change.ignored) - keptPaths; n > 0 {
		r.patched.ignoredMore, change.ignored = n, change.ignored[:keptPaths]
	}
	imported.Ignored = slices.Sorted(slices.Values(slices.Concat(imported.Ignored, change.ignored)))
	if !change.fits() {
		r.patched.tooLarge = fmt.Sprintf("%s; patch.diff has %d of the %d path(s), those of files that the baseline has first",
			change.excess, len(kept), len(change.changes))
		r.patched.tooLargeHint = change.hint
	}
	if r.opened.Parent != nil {
		r.links, err = r.allLinks(ctx, imported.Tree)
	}
	return err
}

// capture writes patch.diff: the exact difference between two git trees, with
// no work tree involved.
func (r *run) capture(ctx context.Context) error {
	ctx, cancel := r.onHost(ctx, "writing the patch")
	defer cancel()
	s := r.begin(evidence.StepPatch, evidence.PlanPatch, map[string]string{"base_tree": r.base.Tree})
	out, err := r.writePatch(ctx)
	if err != nil || len(out.Blockers) > 0 {
		r.judgeEnd(false)
	}
	if err != nil {
		r.patched.failed = err
		s.end(journal.Failed, nil, err.Error())
		return err
	}
	detail := fmt.Sprintf("%d file(s), %d bytes", len(out.Files), out.PatchBytes)
	if r.patched.tooLarge != "" {
		detail = r.patched.tooLarge
	}
	s.end(status(out.Blockers), out, detail)
	return nil
}

func (r *run) writePatch(ctx context.Context) (evidence.PatchCaptured, error) {
	im := r.patched.imported
	out := evidence.PatchCaptured{BaseTree: r.base.Tree, HeadTree: im.Tree}
	f, err := os.OpenFile(filepath.Join(r.session.Dir, evidence.PatchFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return out, writeFailure(evidence.PatchFile, err)
	}
	sum := sha256.New()
	_, limit := r.Contract.Limits.ChangeCap()
	n := &counter{limit: limit}
	r.changed, err = r.store.Diff(ctx, r.base.Tree, im.Tree, io.MultiWriter(n, artifactWriter{f, evidence.PatchFile}, sum))
	if err != nil {
		// Half a patch applies nowhere, and the evidence may need its space: at once, and
		// not when the last process that was being started meanwhile has let go of the file.
		_ = f.Truncate(0)
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = writeFailure(evidence.PatchFile, closeErr)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return out, fmt.Errorf("writing the patch: %w", err)
	}
	r.patched.sha256, r.patched.bytes = canon.DigestSum(sum), n.n
	out.PatchSHA256, out.PatchBytes = r.patched.sha256, n.n
	if r.patched.tooLarge != "" {
		out.Blockers = append(out.Blockers, evidence.Blocker{Code: reason.ChangeTooLarge, Message: r.patched.tooLarge,
			Evidence: evidence.PatchFile, Hint: r.patched.tooLargeHint})
	}
	for _, c := range r.changed {
		out.Files = append(out.Files, evidence.ChangedFile{Path: evidence.DisplayPath(c.Path), Op: c.Op, OldMode: c.OldMode, NewMode: c.NewMode,
			Added: c.Added, Removed: c.Removed, Binary: c.Binary})
	}
	out.IgnoredMore = int64(r.patched.ignoredMore)
	for _, p := range im.Ignored {
		out.Ignored = append(out.Ignored, evidence.DisplayPath(p))
	}
	for _, f := range im.Refused {
		out.Refused = append(out.Refused, f.Path)
		out.Blockers = append(out.Blockers, evidence.Blocker{Code: f.Code, Message: f.Path + ": " + f.Detail, Evidence: evidence.JournalFile})
	}
	digest, size, err := r.record(evidence.PatchFile)
	if err == nil {
		out.PatchSHA256, out.PatchBytes = digest, size // of what is left when secrets are taken out
	}
	return out, err
}

// counter counts bytes, and refuses more than its limit if it has one.
type counter struct{ n, limit int64 }

func (c *counter) Write(p []byte) (int, error) {
	if c.n += int64(len(p)); c.limit > 0 && c.n > c.limit {
		return 0, reason.Errorf(reason.ChangeTooLarge, "the patch has more than %d MiB", c.limit>>20)
	}
	return len(p), nil
}

// checkWrites holds every changed path against the envelope. This is the check
// that counts: it looks at the final diff, after everything that could change
// it is dead. A step that already has a blocker stops the run only after it,
// so that the report names the paths in any case.
func (r *run) checkWrites(ctx context.Context) error {
	ops := make([]task.WriteOp, len(r.changed))
	for i, c := range r.changed {
		ops[i] = task.WriteOp{Path: c.Path, Op: task.Op(c.Op), OldMode: c.OldMode, NewMode: c.NewMode, LinkTarget: r.links[c.Path]}
	}
	findings := r.Contract.Envelope().Check(ops)
	out := evidence.WritesChecked{AllowedWritesPassed: len(findings) == 0}
	for _, f := range findings {
		out.Offending = append(out.Offending, f.Path)
	}
	out.Blockers = r.writeBlockers(findings)
	if len(r.changed) == 0 || r.unchanged() || len(findings) > 0 || len(r.blockersSoFar()) > 0 {
		r.judgeEnd(false)
	}
	if (len(r.changed) == 0 || r.unchanged()) && r.Contract.ExpectDiff && len(r.blockersSoFar()) == 0 {
		out.Blockers = append(out.Blockers, evidence.Blocker{Code: reason.NoDiff, Message: r.nothingChanged(), Evidence: evidence.PatchFile})
	}
	r.note(evidence.StepWrites, "writes", status(out.Blockers), nil, out)
	r.recordProof("allowed-writes", map[string]any{
		"allowed_writes_passed": out.AllowedWritesPassed, "allowed_paths": r.Contract.AllowedPaths, "forbidden_paths": r.Contract.ForbiddenPaths,
		"protected_paths": task.ProtectedPaths(), "checked_paths": len(r.changed), "offending": orNone(out.Offending)})
	if len(out.Blockers) > 0 {
		r.tell(evidence.StepWrites, "failed", out.Blockers[0].Message)
	} else {
		r.tell(evidence.StepWrites, "completed", fmt.Sprintf("%d path(s) inside the contract", len(ops)))
	}
	if len(r.standing()) > 0 {
		return errStopped
	}
	return r.provePolicyChange(ctx)
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// blockersSoFar folds the journal as it stands.
func (r *run) blockersSoFar() []evidence.Blocker {
	var out []evidence.Blocker
	for _, e := range r.w.Entries() {
		out = append(out, evidence.BlockersOf(e)...)
	}
	return out
}
