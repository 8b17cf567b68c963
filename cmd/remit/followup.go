package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"remit/law/audit"
	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/acp"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/harness"
	"remit/work/session"
	"remit/work/workspace"
)

// followFlags have a run continue an earlier one.
type followFlags struct {
	session, message, review string

	parent *harness.Parent // the session, once it was looked at
}

func (f *followFlags) add(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.session, "continue", "", "start from the change of this session, with its task, base and the rest of its budget; --message or --review says what is to be changed")
	fl.StringVar(&f.message, "message", "", "with --continue: what is to be changed")
	fl.StringVar(&f.review, "review", "", "with --continue: file that says what is to be changed, such as the comments of a review")
	a.completeSession(cmd, "continue")
}

// completeSession completes a flag that names a session.
func (a *app) completeSession(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return a.sessionArgs(cmd, nil, typed)
	}); err != nil {
		panic(err) // the caller has defined the flag
	}
}

// given reports whether any of the flags is.
func (f *followFlags) given() bool { return f.session != "" || f.message != "" || f.review != "" }

// continueSession has a run go on from the change of an earlier session: from its
// base commit with its patch, under its contract with what is left of its budget,
// with the review beside its instructions. The new session is verified whole, so
// nothing of the earlier verdict counts.
func (a *app) continueSession(cmd *cobra.Command, f *runFlags, args []string) error {
	follow := &f.follow
	if follow.session == "" {
		return usagef("--message and --review say what a follow-up is to change: name its session with --continue")
	}
	if f.task != "" || f.issue != "" || f.base != "" || f.title != "" || f.patchOf != "" {
		return usagef("--continue takes task, title and base from the session: leave out --task, --issue, --title, --base and --patch-of")
	}
	text, source, err := follow.said()
	if err != nil {
		return err
	}
	e, err := earlierChange(a.home, follow.session)
	if err != nil {
		return err
	}
	if err := f.sameEngine(e, args); err != nil {
		return err
	}
	if follow.parent, err = e.parent(cmd.Context()); err != nil {
		return err
	}
	if err := f.sameRepository(cmd, a.home, e); err != nil {
		return err
	}
	if err := e.heldOutStillHidden(text, source); err != nil {
		return err
	}
	used := e.Report.Usage
	base := string(e.opened.BaselineCommit)
	if f.given, err = e.contract.Continue(task.FollowUp{SessionID: follow.parent.Facts.SessionID, Base: base, PatchSHA256: follow.parent.Facts.PatchSHA256,
		Used:      task.Spent{MicroUSD: used.CostMicroUSD, Tokens: used.Tokens, Requests: used.Requests, CostUnknown: used.CostKnown != nil && !*used.CostKnown},
		AsksModel: eligibility.AdmissionRequired(f.engine), Review: text, Source: source}); err != nil {
		return err
	}
	f.base = base
	return nil
}

// said is what the follow-up is to change, and where that was written.
func (f *followFlags) said() (text, source string, err error) {
	switch {
	case (f.message == "") == (f.review == ""):
		return "", "", usagef("a follow-up says what is to be changed: give --message TEXT or --review FILE, one of the two")
	case f.message != "":
		return f.message, "--message", nil
	}
	if err := readable(f.review); err != nil {
		return "", "", usagef("--review: %w", err)
	}
	raw, err := readFlagFile(f.review, task.MaxReviewBytes)
	if err != nil {
		return "", "", usagef("--review: %w", err)
	}
	return string(raw), f.review, nil
}

// sameEngine takes the engine and the model of the session where the command line
// names none. What the command engine ran then is not run again: it was made for the
// task as it was. The way to the model is in no session: it is the one that was settled,
// if the command line says nothing of it.
func (f *runFlags) sameEngine(e *earlier, args []string) error {
	before := e.opened.Engine.Name
	switch {
	case f.engine != "":
	case len(args) > 0:
		f.engine = command.Name
	case f.fakePatch != "":
		f.engine = fake.Name
	case !eligibility.AdmissionRequired(before) || before == acp.Name || before == evidence.NoEngine:
		return usagef("session %s was made by the engine %s: say what makes this change, with --engine NAME or -- COMMAND", e.ID, before)
	default:
		f.engine = before
	}
	if f.engine == before && e.opened.Model != nil && e.opened.ModelProvider != nil && f.model.model == "" &&
		(f.model.provider == "" || f.model.provider == *e.opened.ModelProvider) {
		f.model.ofSession = !f.model.given()
		f.model.provider, f.model.model = *e.opened.ModelProvider, *e.opened.Model
	}
	return nil
}

// parent is what a run that continues the session starts from, or why it cannot. The
// session is audited first: its word about its patch and about what it has used is
// taken over.
func (e *earlier) parent(ctx context.Context) (*harness.Parent, error) {
	if s := e.Report.Status; s != evidence.StatusPass && s != evidence.StatusFail {
		why := "it says no reason"
		if e.Report.FailureReason != nil {
			why = *e.Report.FailureReason
		}
		return nil, reason.Errorf(reason.SessionNotContinuable,
			"session %s is %s (%s): only a run that passed or failed can be continued", e.ID, s, why).
			WithHint("start its task again; `remit run --patch-of %s` judges a good change behind a broken end", e.ID)
	}
	if slices.ContainsFunc(e.Report.Blockers, func(b evidence.Blocker) bool { return b.Code == reason.SecretLeak }) {
		return nil, reason.Errorf(reason.SessionNotContinuable,
			"session %s had a secret in its evidence, which was taken out: its patch is not the change that was made", e.ID).
			WithHint("start its task again, without the secret in reach of the engine")
	}
	rep, err := bundle.Audit(ctx, e.Dir, audit.Options())
	if err != nil {
		return nil, err
	}
	if rep.Status != bundle.Pass {
		why := string(rep.Status)
		for _, g := range rep.Gates {
			if len(g.Findings) > 0 && g.Status != bundle.Pass {
				why = fmt.Sprintf("gate %s: %s", g.Name, g.Findings[0])
				break
			}
		}
		return nil, reason.Errorf(reason.SessionNotContinuable,
			"session %s does not pass its audit, so nothing is continued from it: %s", e.ID, why).
			WithHint("see all findings with `remit audit %s`", e.ID)
	}
	raw, err := evidence.VerdictReceipt(e.Log.Entries)
	if err != nil {
		return nil, err
	}
	var receipt evidence.Receipt
	if err := evidence.DecodeReceipt(raw, &receipt); err != nil {
		return nil, err
	}
	if receipt.PatchSHA256 == nil || receipt.HeadTree == nil || receipt.BaselineCommit == "" {
		return nil, reason.Errorf(reason.NoDiff, "session %s has no change that could be continued", e.ID).
			WithHint("start the task again with an engine")
	}
	return &harness.Parent{Facts: *evidence.ParentOf(&receipt, canon.Digest(raw), e.Report.Usage), Patch: e.patch}, nil
}

// sameRepository refuses a repository that is not the session's, or has lost its
// base commit.
func (f *runFlags) sameRepository(cmd *cobra.Command, home session.Home, e *earlier) error {
	if !cmd.Flags().Changed("repo") {
		if other := latestElsewhere(cmd.Context(), home, f.follow.session, e.ID, reason.SessionNotContinuable); other != nil {
			return other.WithHint("name the session that you mean, `remit list` shows them: --continue %s for that one", e.ID)
		}
		f.repo = e.local.Repo
	}
	src, err := workspace.OpenSource(cmd.Context(), f.repo)
	if err != nil {
		return err
	}
	commit := string(e.opened.BaselineCommit)
	base, err := src.Resolve(cmd.Context(), commit)
	switch {
	case err == nil && base.Tree == string(e.opened.BaselineTree):
		return nil
	case err != nil && !noBase(err):
		return err
	}
	here, hereErr := filepath.Abs(f.repo)
	if hereErr == nil && here != e.local.Repo {
		return reason.Errorf(reason.BaseNotFound, "%s is another repository than that of session %s: it has no commit %s", here, e.ID, commit).
			WithHint("leave --repo out, or name a clone of %s", e.local.Repo)
	}
	return reason.Errorf(reason.BaseNotFound, "the base commit %s of session %s is gone from the repository", commit, e.ID).
		WithHint("fetch it there, or start the task again from a commit that is there")
}

// heldOutStillHidden holds the held-out tests of the contract to what they were, and
// refuses a review that shows one.
func (e *earlier) heldOutStillHidden(text, source string) error {
	if len(e.contract.HeldOutTests) == 0 {
		return nil
	}
	if err := e.contract.BindHeldOut(e.contract.Dir); err != nil {
		return err
	}
	shown, err := harness.ShowsHeldOut(e.contract, e.contract.Dir, text)
	if err == nil && shown != "" {
		err = reason.Errorf(reason.HeldOutVisible, "%s quotes the held-out test %s, which the agent must not see", source, shown).
			WithHint("say in words what is wrong, without the text of the test")
	}
	return err
}
