package main

import (
	"os"

	"github.com/spf13/cobra"

	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
)

func (a *app) resumeCommand() *cobra.Command {
	f := new(reproduceFlags)
	var nexus nexusFlags
	cmd := &cobra.Command{
		Use: "resume SESSION", Short: "Continue or close a run that was interrupted", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Resume takes up a run that was cut off by a crash. With a captured patch the path
check and the verification are done now; without one the run is closed as blocked,
interrupted, with all the evidence there is. A run that has its verdict is sealed if
that is missing, and otherwise left as it is.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.home.Find(args[0])
			if err != nil {
				return err
			}
			driver, err := sandbox.Open(cmd.Context(), sandbox.Options{Driver: f.sandbox, StateDir: a.home.SandboxDir(), Toolchains: f.toolchains})
			if err != nil && reason.CodeOf(err) != reason.SandboxUnavailable {
				return err
			}
			authority, err := a.authorityOf(cmd, &nexus, s.ID)
			if err != nil {
				return err
			}
			view := newProgress(os.Stderr)
			out, err := harness.Resume(cmd.Context(), harness.Resumption{Home: a.home, Session: s, Repo: f.repo, Sandbox: driver, Progress: view, Authority: authority})
			view.close()
			if err != nil {
				return err
			}
			return a.report(cmd.OutOrStdout(), out, "")
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "where the repository is now (default: where the run started from)")
	nexus.addOr(cmd, "the one that the run began with")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}
