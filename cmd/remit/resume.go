package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
)

func (a *app) resumeCommand() *cobra.Command {
	f := new(reproduceFlags)
	var nexus nexusFlags
	var maxPrice int64
	cmd := &cobra.Command{
		Use: "resume SESSION", Short: "Continue or close a run that was interrupted", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Resume takes up a run that was cut off by a crash. With a captured patch the path
check and the verification are done now; without one the run is closed as blocked,
interrupted, with all the evidence there is. A run that has its verdict is sealed if
that is missing, and otherwise left as it is.

A nexus that was out of reach when the run ended is told of its end now, and gets the
bundle: until then it counts the run as running, and its issue as claimed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPrice(maxPrice); err != nil {
				return err
			}
			s, err := a.home.Find(args[0])
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
			out, err := harness.Resume(cmd.Context(), harness.Resumption{Home: a.home, Session: s, Repo: f.repo, Sandbox: driver, Progress: view, Authority: authority, MaxPriceMsats: maxPrice})
			view.close()
			if err != nil {
				return err
			}
			warnNotConcluded(os.Stderr, out)
			return a.report(cmd.OutOrStdout(), out, "", nil)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "where the repository is now (default: where the run started from)")
	nexus.addOr(cmd, "the one that the run began with")
	fl.Int64Var(&maxPrice, "max-price-msats", 0, "the most that the proof of the change may cost at the nexus (default as the run began)")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	completeDrivers(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
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
	if out.NotConcluded != nil {
		printOne(w, notHandedOver(out.NotConcluded, out.Session.ID, "the authority does not know of the end of the run",
			": until then it counts the run as running, and its issue as claimed"))
	}
}
