package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"remit/law/job"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
	"remit/work/session"
)

func (a *app) acceptCommand() *cobra.Command {
	return a.decideCommand(session.Accepted, "accept SESSION", "Record that you take the change of a run that passed")
}

func (a *app) rejectCommand() *cobra.Command {
	return a.decideCommand(session.Rejected, "reject SESSION", "Record that you do not take the change of a run")
}

func (a *app) decideCommand(outcome, use, short string) *cobra.Command {
	var why string
	var force bool
	var nexus nexusFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: short + `.

The operator's outcome is apart from the verdict of the verifier and never changes
it. It is appended to the journal and the bundle is sealed anew.

A run of a nexus has the outcome that the nexus has: it is asked first, and without its
answer nothing is recorded. The first outcome counts, from this command or from the
panel. If the nexus has another outcome, the command is refused (outcome_given), and says
who decided what, when and why; ` + "`remit resume SESSION`" + ` takes that over into this copy.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.findOwn(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if outcome == session.Accepted && !force {
				if err := a.applies(cmd, s); err != nil {
					return err
				}
			}
			rep, err := a.decide(cmd, &nexus, s, outcome, why)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rep)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is %s.\n", s.ID, rep.OperatorOutcome)
			if outcome == session.Rejected && why == "" {
				fmt.Fprintln(cmd.OutOrStdout(), "No reason was given, and none can be added: an outcome is recorded once. Next time: --reason TEXT.")
			}
			if d := rep.Delivered; d != nil && d.Removed {
				fmt.Fprintf(cmd.OutOrStdout(), "Branch %s is removed.\n", d.Branch)
			}
			return nil
		},
	}
	nexus.addOr(cmd, "the one that the run began with")
	cmd.Flags().StringVar(&why, "reason", "", "why")
	if outcome == session.Rejected {
		cmd.Long += "\n\nA change that the run has delivered is taken back: its branch is removed, as long as\nit is where the run left it and no work tree has it checked out. Otherwise nothing is\nrecorded (ref_moved)."
	}
	if outcome == session.Accepted {
		cmd.Flags().BoolVar(&force, "force", false, "accept although the change does not apply to HEAD any more")
		cmd.Long += "\n\nA change that does not apply to HEAD of the repository any more, since the\nsame lines have changed there, is accepted with --force only."
	}
	return cmd
}

// applies refuses to accept a change that the repository has moved away from.
// What cannot be accepted at all is refused by [session.Session.Decide].
func (a *app) applies(cmd *cobra.Command, s session.Session) error {
	st, err := s.Inspect()
	if err != nil || st.Phase != session.Sealed || st.Report.Status != evidence.StatusPass || st.Report.OperatorOutcome != evidence.Pending {
		return nil //nolint:nilerr // Decide says it
	}
	return a.home.StillApplies(cmd.Context(), s)
}

// decide records an outcome, and hands the bundle with it to the authority of the
// run. A nexus is asked first: what it does not agree to is not recorded.
func (a *app) decide(cmd *cobra.Command, f *nexusFlags, s session.Session, outcome, why string) (rep *evidence.Report, err error) {
	authority, err := a.authorityOf(cmd, f, s.ID)
	if err != nil {
		return nil, notAsked(err, s.ID, "nothing is recorded")
	}
	if f.url == "" { // the authority of this machine hears of outcomes from here alone
		rep, err = s.Decide(cmd.Context(), outcome, why, operator(), time.Now)
	} else {
		var taken *job.Decision
		rep, taken, err = a.home.DecideAt(cmd.Context(), s, authority, outcome, why, operator(), time.Now)
		if err != nil {
			err = notAsked(err, s.ID, "nothing is recorded")
		} else if taken != nil {
			fmt.Fprintf(os.Stderr, "The authority has it already, and its words are recorded: %s.\n", plain(taken.String()))
		}
	}
	if err != nil {
		return nil, err
	}
	warnResealed(os.Stderr, s)
	if err := a.home.Amend(cmd.Context(), s, authority); err != nil {
		printOne(os.Stderr, notHandedOver(err, s.ID, "the outcome is recorded, but the authority has not got the bundle with it", ""))
	}
	return rep, nil
}

// notAsked says why an authority did not agree to an outcome, and what is not done for
// that.
func notAsked(err error, session, left string) error {
	switch reason.CodeOf(err) {
	case reason.StoreUnavailable:
		return reason.Errorf(reason.StoreUnavailable, "%s, for the authority of the run is not there to agree: %w", left, err).
			WithHint("give the same command again when it can be reached, or say where it is with --nexus URL")
	case reason.Unauthenticated, reason.TokenExpired, reason.Forbidden, reason.ScopeMissing, reason.NotFound:
		return reason.Errorf(reason.CodeOf(err), "%s, for the authority of the run was not asked: %w", left, err).
			WithHint("%s to the same command", ownersToken)
	case reason.Conflict: // it does not know of the end of the run
		return reason.Errorf(reason.Conflict, "%s: %w", left, err).
			WithHint("`remit resume %s` tells the authority of the end of the run; then give the same command again", session)
	}
	return err
}

// notHandedOver says why the authority did not get what a session has for it, and
// how it gets that: a credential that it refuses is no outage.
func notHandedOver(err error, session, what, until string) error {
	e := reason.Errorf(reason.CodeOf(err), "%s: %w", what, err)
	switch e.Code {
	case reason.Unauthenticated, reason.TokenExpired, reason.Forbidden, reason.ScopeMissing, reason.NotFound:
		return e.WithHint("%s to `remit resume %s`%s", ownersToken, session, until)
	}
	return e.WithHint("hand it over with `remit resume %s` when the authority can be reached%s", session, until)
}

const ownersToken = "it takes only a token of the owner of the run: give one with --token-file FILE, $" + envToken + " or $" + envTFile

// warnResealed says why a bundle that was sealed again has no signature.
func warnResealed(w io.Writer, s session.Session) {
	if _, err := s.Signature(); err != nil {
		warnUnsigned(w, err)
	}
}

func (a *app) resumeCommand() *cobra.Command {
	f := new(reproduceFlags)
	var nexus nexusFlags
	var maxPrice int64
	var at forgeFlags
	cmd := &cobra.Command{
		Use: "resume SESSION", Short: "Continue or close a run that was interrupted", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Resume takes up a run that was cut off by a crash. With a captured patch the path
check and the verification are done now; without one the run is closed as blocked,
interrupted, with all the evidence there is. A run that has its verdict is sealed if
that is missing, and otherwise left as it is.

A nexus that was out of reach when the run ended learns of its end now, and gets the
bundle: until then it counts the run as running, and its issue as claimed. An outcome
that was given at the nexus, in the panel or on another machine, is taken over: it is
recorded here, and the bundle is sealed anew. An issue of a
forge that the run has claimed gets its comment, and is given back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPrice(maxPrice); err != nil {
				return err
			}
			s, err := a.findOwn(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			driver, err := sandbox.Open(cmd.Context(), a.sandboxOptions(f.sandbox, f.toolchains))
			if err != nil && reason.CodeOf(err) != reason.SandboxUnavailable {
				return err
			}
			authority, err := a.authorityOf(cmd, &nexus, s.ID)
			if err != nil {
				return err
			}
			view := newProgress(os.Stderr)
			out, err := harness.Resume(cmd.Context(), harness.Resumption{Home: a.home, Session: s, Repo: f.repo, Sandbox: driver, Progress: view,
				Authority: authority, MaxPriceMsats: maxPrice, Registries: a.registries(),
				Credentials: slices.Concat(nexus.credentials(), at.credentials())})
			view.close()
			if err != nil {
				return err
			}
			if err := a.takeOver(cmd.Context(), authority, nexus.url != "", out); err != nil {
				return err
			}
			warnNotConcluded(os.Stderr, out)
			a.tellIssue(cmd, out.Session, &at, nil)
			return a.report(cmd.OutOrStdout(), out, "", nil, nil)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "where the repository is now (default: where the run started from)")
	nexus.addOr(cmd, "the one that the run began with")
	at.addToken(cmd)
	fl.Int64Var(&maxPrice, "max-price-msats", 0, "the most that the proof of the change may cost at the nexus (default as the run began)")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}

// takeOver records the outcome that the nexus of a run has, where there is none here.
func (a *app) takeOver(ctx context.Context, authority session.Authority, elsewhere bool, out *harness.Outcome) error {
	if !elsewhere || out.NotConcluded != nil && reason.CodeOf(out.NotConcluded) != reason.OutcomeGiven {
		return nil // what is said of that says what to do
	}
	taken, err := a.home.TakeOver(ctx, out.Session, authority)
	if err != nil || taken == nil {
		if err != nil && out.NotConcluded == nil {
			out.NotConcluded = fmt.Errorf("taking over the outcome of the run: %w", err)
		}
		return nil // the caller warns of it
	}
	fmt.Fprintf(os.Stderr, "The outcome of the nexus is recorded here: %s.\n", plain(taken.String()))
	warnResealed(os.Stderr, out.Session)
	if out.Report, err = out.Session.Report(); err != nil {
		return err
	}
	out.NotConcluded = a.home.Amend(ctx, out.Session, authority)
	return nil
}

// checkPrice refuses a price limit that is none; 0 is no limit.
func checkPrice(msats int64) error {
	if msats < 0 {
		return usagef("--max-price-msats %d: must not be negative", msats)
	}
	return nil
}

// warnNotConcluded says that the authority does not know how a run ended.
func warnNotConcluded(w io.Writer, out *harness.Outcome) {
	switch {
	case out.NotConcluded == nil:
	case reason.CodeOf(out.NotConcluded) == reason.OutcomeGiven:
		printOne(w, out.NotConcluded)
	default:
		printOne(w, notHandedOver(out.NotConcluded, out.Session.ID, "the authority does not know of the end of the run",
			": until then it counts the run as running, and its issue as claimed"))
	}
}
