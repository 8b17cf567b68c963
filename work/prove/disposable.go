package prove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/matrix"
	"remit/work/session"
)

// disposableRepo is stage 4: the verified change is delivered into a repository that
// the run makes, after an approval, and the repository is disposed of.
func (t *trial) disposableRepo(ctx context.Context) error {
	if err := t.gateMissing(ctx); err != nil {
		return err
	}
	if t.Approver == "" || t.Put == nil {
		return t.notTried("approval_before_mutation", "the runs of stage 4 ask for an approval, which the person who proves gives with --approve")
	}
	if err := t.denial(ctx); err != nil {
		return err
	}
	w, err := t.fixture(ctx, "stage4", t.stage.Mode)
	if err != nil {
		return err
	}
	put, err := t.Put(w.repo, nil)
	if err != nil {
		return err
	}
	before, err := matrix.TakeSnapshot(w.repo)
	if err != nil {
		return err
	}
	out, model, err := t.launch(ctx, w, &attempt{engine: t.Engine, change: put})
	if err != nil {
		return err
	}
	after, err := matrix.TakeSnapshot(w.repo)
	if err != nil {
		return err
	}
	dir := t.scratchHome().DisposableDir(out.Session.ID)
	refs, err := refsOf(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if out.Report.Delivered != nil {
		if err := t.decided(ctx, t.scratchHome(), out.Session, session.Rejected, "the repository was made for this proof, which is over"); err != nil {
			return err
		}
	}
	k, err := t.keep(out.Session.Dir, t.Engine, model)
	if err != nil {
		return err
	}
	t.ranAs(k)
	t.approvedBy(&k)
	t.pass(k, "disposable-repository")
	t.tell("disposable repository", k.Status, k.Code)
	t.deliveredOnce(k, refs, before.Differences(after))
	t.disposed(k, dir)
	all := []kept{k}
	t.each("approval_proof", all, approvalShown)
	t.each("approval_before_mutation", all, approvedFirst)
	t.each("nothing_pushed", all, nothingForbidden)
	t.check("approval_required", w.contract.NeedsApproval() && k.opened.ApprovalRequired, "mode %s", k.report.MutationMode)
	return nil
}

// denial is a run whose approval is denied.
func (t *trial) denial(ctx context.Context) error {
	w, err := t.fixture(ctx, "stage4-denied", t.stage.Mode)
	if err != nil {
		return err
	}
	put, err := t.Put(w.repo, nil)
	if err != nil {
		return err
	}
	k, err := t.run(ctx, w, &attempt{engine: t.Engine, change: func(req *harness.Request) {
		put(req)
		req.Denier = t.Operator
	}})
	if err != nil {
		return err
	}
	if t.check("denial_blocks", k.Status == evidence.StatusBlocked && k.Code == string(reason.ApprovalDenied) && nothingRan(k), "%s %s", k.Status, k.Code) {
		t.failure(k, ladder.ApprovalDenied, "by-who-proves")
	}
	return nil
}

// deliveredOnce looks at the repository that the run made, and at the one that it
// was started for.
func (t *trial) deliveredOnce(k kept, refs, differs []string) {
	d, branch := k.report.Delivered, ""
	if d != nil {
		branch = d.Commit + " refs/heads/" + d.Branch
	}
	t.check("disposable_repository", d != nil && d.Repository == evidence.DisposableRepository && k.report.DisposableRepositoryDir != "",
		"made by the run, from the baseline alone: %s", k.report.DisposableRepositoryDir)
	t.check("only_one_ref_added", d != nil && slices.Equal(refs, []string{branch}) && len(differs) == 0, "%d refs, one for the change; %d paths of the other repository differ%s",
		len(refs), len(differs), listed(differs))
	var policy struct {
		Branch  string `json:"branch"`
		Allowed bool   `json:"allowed"`
	}
	t.check("branch_policy_proof", k.read("branch-policy", &policy) && d != nil && policy.Allowed && policy.Branch == d.Branch, "branch %s", policy.Branch)
}

// disposed looks for the note, and for the repository.
func (t *trial) disposed(k kept, dir string) {
	var note struct {
		Disposed bool   `json:"disposed"`
		Until    string `json:"kept_until"`
		Why      string `json:"why"`
	}
	_, err := os.Lstat(dir)
	gone := errors.Is(err, fs.ErrNotExist) && k.report.Delivered != nil && k.report.Delivered.Removed
	t.check("disposal_note", k.read("disposal", &note) && note.Why != "" && (note.Disposed || note.Until != "") && gone,
		"%s; after the proof it was rejected, and the repository is gone: %v", note.Why, gone)
}

// refsOf are the refs of a git directory, as "COMMIT NAME".
func refsOf(dir string) ([]string, error) {
	var refs []string
	err := filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		commit, err := readBounded(path)
		name, _ := filepath.Rel(dir, path) // it was found there
		refs = append(refs, strings.TrimSpace(string(commit))+" "+filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the refs of the repository that the run made: %w", err)
	}
	packed, err := readBounded(filepath.Join(dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for line := range strings.Lines(string(packed)) {
		if line[0] != '#' && line[0] != '^' {
			refs = append(refs, strings.TrimSpace(line))
		}
	}
	slices.Sort(refs)
	return refs, err
}
