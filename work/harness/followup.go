package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
	"remit/work/tree"
	"remit/work/workspace"
)

// Parent is the session whose change a run continues: its engine starts from the
// baseline with the parent's patch. Everything else about the run is as ever; its
// own patch is against the baseline, and is verified whole.
type Parent struct {
	Facts evidence.Parent
	Patch string // file with the patch
}

// startDir is the checkout that the engine gets a copy of, and startTree its tree.
func (r *run) startDir() string {
	if r.start != nil {
		return r.start.Dir
	}
	return r.checkout.Dir
}

func (r *run) startTree() string {
	if r.opened.Parent != nil {
		return r.opened.Parent.HeadTree
	}
	return r.base.Tree
}

// beginFromParent makes the tree that the engine of a follow-up starts from, out of
// the patch that the bundle keeps: so the one is what the other says.
func (r *run) beginFromParent(ctx context.Context) error {
	p := r.opened.Parent
	if p == nil {
		return nil
	}
	if err := r.keepParentPatch(p); err != nil {
		return err
	}
	patch, err := os.Open(filepath.Join(r.session.Dir, evidence.ParentPatchFile))
	if err != nil {
		return fmt.Errorf("reading back the patch of session %s: %w", p.SessionID, err)
	}
	defer patch.Close()
	ctx, cancel := r.onHost(ctx, "applying the patch of the session that is continued")
	defer cancel()
	head, err := r.store.Apply(ctx, r.base.Tree, patch)
	if err != nil {
		return fmt.Errorf("applying the patch of session %s to the baseline: %w", p.SessionID, err)
	}
	if head != p.HeadTree {
		return reason.Errorf(reason.TreeMismatch, "the patch of session %s gives tree %s, its receipt says %s", p.SessionID, head, p.HeadTree)
	}
	if err := r.hidesHeldOut(ctx, head); err != nil {
		return err
	}
	cache, err := workspace.OpenCache(r.Home.CacheDir())
	if err != nil {
		return err
	}
	r.start, err = cache.Checkout(ctx, r.store, head)
	return err
}

// keepParentPatch puts the patch among the evidence, under its name only when it is
// whole. It is searched for secrets as everything is that goes there.
func (r *run) keepParentPatch(p *evidence.Parent) error {
	fresh := filepath.Join(r.session.Dir, session.NewPrefix+evidence.ParentPatchFile)
	if err := copyPatch(r.Parent.Patch, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, filepath.Join(r.session.Dir, evidence.ParentPatchFile)); err != nil {
		return writeFailure(evidence.ParentPatchFile, err)
	}
	digest, _, err := r.record(evidence.ParentPatchFile)
	if err == nil && digest != p.PatchSHA256 {
		if len(r.blockersSoFar()) > 0 {
			return errStopped // a secret was taken out of it
		}
		err = reason.Errorf(reason.ArtifactDigest, "the patch of session %s is %s, its receipt says %s", p.SessionID, digest, p.PatchSHA256)
	}
	return err
}

// copyPatch reads no more than a patch may have.
func copyPatch(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("reading the patch of the session that is continued: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return writeFailure(evidence.ParentPatchFile, err)
	}
	_, err = io.Copy(artifactWriter{out, evidence.ParentPatchFile}, io.LimitReader(in, workspace.MaxPatchBytes+1))
	if closeErr := out.Close(); err == nil && closeErr != nil {
		err = writeFailure(evidence.ParentPatchFile, closeErr)
	}
	return err
}

// hidesHeldOut refuses to start from a change that has the content of a held-out
// test: its engine would see it. The baseline was looked through before.
func (r *run) hidesHeldOut(ctx context.Context, head string) error {
	if len(r.Contract.HeldOutTests) == 0 {
		return nil
	}
	changes, err := r.store.Changes(ctx, r.base.Tree, head)
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if ch.Kind != tree.File || ch.Size == 0 || ch.Size > maxHeldOut {
			continue
		}
		digest, err := digestOf(ch)
		if err != nil {
			return err
		}
		for _, h := range r.Contract.HeldOutTests {
			if digest == h.SHA256 {
				return reason.Errorf(reason.HeldOutVisible, "the change of the session that is continued has the held-out test %s as %s, where the agent can read it",
					evidence.DisplayPath(h.Source), evidence.DisplayPath(ch.Path)).WithHint("start the task anew: what a change shows cannot be held out any more")
			}
		}
	}
	return nil
}

func digestOf(ch tree.Change) (string, error) {
	f, err := ch.Open()
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", ch.Path, err)
	}
	defer f.Close()
	digest, _, err := canon.DigestReader(f)
	return digest, err
}

// ShowsHeldOut names the held-out test whose text is a part of what an agent is
// going to read, "" for none. The tests are those below dir.
func ShowsHeldOut(c *task.Contract, dir, text string) (string, error) {
	for _, h := range c.HeldOutTests {
		content, err := readHeldOut(dir, h.Source)
		if err != nil {
			return "", fmt.Errorf("reading the held-out test %q: %w", h.Source, err)
		}
		if content = bytes.TrimSpace(content); len(content) > 0 && bytes.Contains([]byte(text), content) {
			return h.Source, nil
		}
	}
	return "", nil
}

// allLinks are the links of all that a follow-up changes, of which its engine made the
// last part.
func (r *run) allLinks(ctx context.Context, head string) (map[string]string, error) {
	changes, err := r.store.Changes(ctx, r.base.Tree, head)
	if err != nil {
		return nil, fmt.Errorf("comparing the change with the baseline: %w", err)
	}
	return linksOf(changes), nil
}

// unchanged says of a follow-up that its engine left what it began with.
func (r *run) unchanged() bool {
	return r.opened.Parent != nil && r.patched.imported.Tree == r.opened.Parent.HeadTree
}

// nothingChanged says why there is no change although the task expects one.
func (r *run) nothingChanged() string {
	switch p := r.opened.Parent; {
	case r.checks():
		return "the head has no change that the base lacks"
	case p == nil:
		return "the engine changed nothing, and the task expects a change"
	case r.unchanged():
		return fmt.Sprintf("the engine changed nothing of what session %s had left, and the task expects a change", p.SessionID)
	default:
		return fmt.Sprintf("the engine took back all of the change of session %s, and the task expects a change", p.SessionID)
	}
}

// beganElsewhere holds where a follow-up says that it began against the patch that it
// keeps of its parent, nil where that is so: whether it has a change of its own is
// decided by that tree.
func (rec *sealed) beganElsewhere(ctx context.Context, files fs.FS, store *workspace.Store, base workspace.Baseline) *reason.Finding {
	p := rec.receipt.Parent
	if p == nil {
		return nil
	}
	found := reason.Finding{Code: reason.TreeMismatch, Path: evidence.ParentPatchFile}
	patch, err := files.Open(evidence.ParentPatchFile)
	if err != nil {
		found.Code, found.Detail = reason.ArtifactMissing, "the patch that the run started from is not there"
		return &found
	}
	defer patch.Close()
	tree, err := store.Apply(ctx, base.Tree, patch)
	switch {
	case err != nil:
		found.Detail = "the patch that the run started from does not apply: " + err.Error()
	case tree != p.HeadTree:
		found.Detail = fmt.Sprintf("gives tree %s here, the receipt says that the run started from %s", tree, p.HeadTree)
	default:
		return nil
	}
	return &found
}
