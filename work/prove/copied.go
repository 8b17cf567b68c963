package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"remit/law/ladder"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/matrix"
	"remit/work/session"
)

// copiedRepo is stage 3: the engine on a copy of a repository, and the
// repository before and after.
func (t *trial) copiedRepo(ctx context.Context) error {
	if err := t.gateMissing(ctx); err != nil {
		return err
	}
	w, err := t.source(ctx)
	if err != nil {
		return err
	}
	owned, why := ownedHere(w.repo)
	if !t.check("owned_local_source", owned, "%s", cmp.Or(why, "a directory of this machine that belongs to the user who proves")) {
		t.blocked = true
		return nil
	}
	before, err := lookAt(w.repo)
	if err != nil {
		return err
	}
	k, err := t.run(ctx, w, &attempt{engine: t.Engine})
	if err != nil {
		return err
	}
	after, err := lookAt(w.repo)
	if err != nil {
		return err
	}
	t.pass(k, "copied-repo")
	t.ranAs(k)
	t.tell("copied repository", k.Status, k.Code)
	t.ranWell(k, "copied_repo_run_passes")
	t.check("source_starts_clean", k.Code != "dirty_starting_tree" && w.contract.RequireClean, "%s", cmp.Or(k.Code, "no tracked file differs from HEAD"))
	t.cleanProofs(k)
	for _, part := range sourceParts {
		was, is := before.digest(part), after.digest(part)
		t.check("source_"+part+"_equal", was == is, "%s before, %s after", was, is)
	}
	differs := before.Differences(after.Snapshot)
	t.check("changes_only_in_copy", len(differs) == 0 && len(k.report.ChangedFiles) > 0, "%d files in the patch, %d paths differ in the source%s",
		len(k.report.ChangedFiles), len(differs), listed(differs))
	text, err := canon.Marshal(map[string]any{"schema": SourceSchema, "before": before.digests(), "after": after.digests(), "session_id": k.SessionID})
	if err != nil {
		return err
	}
	return t.attach(ladder.SourceFile, append(text, '\n'))
}

// SourceSchema names the attachment of stage 3.
const SourceSchema = "remit.ladder.source.v1"

// source is the repository of the stage: the one that was named, or a fixture.
func (t *trial) source(ctx context.Context) (world, error) {
	if t.Repo == "" {
		return t.fixture(ctx, "stage3", t.stage.Mode)
	}
	c, wants, err := note("ladder-stage3", "remit-proof/NOTE.md", t.stage.Mode)
	if err != nil {
		return world{}, err
	}
	t.allowModel(c)
	return world{repo: t.Repo, contract: c, wants: wants}, nil
}

// ownedHere reports whether a directory is a repository of the user's.
func ownedHere(dir string) (owned bool, why string) {
	for _, name := range []string{dir, filepath.Join(dir, ".git")} {
		info, err := os.Lstat(name)
		if err != nil {
			return false, err.Error()
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !info.IsDir():
			return false, fmt.Sprintf("%s is no directory: name the repository itself, no link to it and no worktree of it", filepath.Base(name))
		case !ok || int(stat.Uid) != os.Geteuid():
			return false, fmt.Sprintf("%s belongs to another user", filepath.Base(name))
		}
	}
	return true, ""
}

// cleanProofs reads what the session proves of the copy and of the source.
func (t *trial) cleanProofs(k kept) {
	var clean struct {
		Tree   string `json:"baseline_tree"`
		Intact bool   `json:"baseline_intact"`
		Ended  bool   `json:"ended_clean"`
	}
	err := json.Unmarshal([]byte(k.text(evidence.ProofsDir+"/workspace-clean.json")), &clean)
	t.check("clean_start_proof", err == nil && clean.Intact && clean.Tree == string(k.opened.BaselineTree), "baseline_intact %v of tree %s", clean.Intact, clean.Tree)
	t.check("clean_end_proof", err == nil && clean.Ended, "ended_clean %v", clean.Ended)
	var source struct {
		Mutated *bool `json:"mutated"`
	}
	err = json.Unmarshal([]byte(k.text(evidence.ProofsDir+"/source-nonmutation.json")), &source)
	t.check("source_nonmutation_proof", err == nil && source.Mutated != nil && !*source.Mutated && !k.report.SourceRepositoryMutated, "source_repository_mutated %v",
		k.report.SourceRepositoryMutated)
}

// sourceParts are the parts of a repository that are compared one by one.
var sourceParts = []string{"head", "index", "refs", "config", "reflog", "status"}

// sourceLook is a repository at one time: every file of it, git's own too.
type sourceLook struct{ matrix.Snapshot }

func lookAt(dir string) (sourceLook, error) {
	s, err := matrix.TakeSnapshot(dir)
	return sourceLook{s}, err
}

// partOf is the part that a path belongs to, "" for git's objects and the like.
func partOf(path string) string {
	inGit, ok := strings.CutPrefix(path, ".git/")
	switch {
	case path == ".git" || path == ".":
		return ""
	case !ok:
		return "status"
	case inGit == "HEAD":
		return "head"
	case inGit == "index":
		return "index"
	case inGit == "packed-refs" || strings.HasPrefix(inGit, "refs/"):
		return "refs"
	case inGit == "config" || strings.HasPrefix(inGit, "info/") || strings.HasPrefix(inGit, "hooks/"):
		return "config"
	case strings.HasPrefix(inGit, "logs/"):
		return "reflog"
	}
	return ""
}

// digest is the digest of one part.
func (l sourceLook) digest(part string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(l.Snapshot)) {
		if partOf(filepath.ToSlash(path)) == part {
			fmt.Fprintf(&b, "%s %s\n", path, l.Snapshot[path])
		}
	}
	return canon.Digest([]byte(b.String()))
}

func (l sourceLook) digests() map[string]string {
	out := map[string]string{}
	for _, part := range sourceParts {
		out[part] = l.digest(part)
	}
	return out
}

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
