package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"remit/work/harness"
)

func (a *app) acceptCommand() *cobra.Command {
	return a.decideCommand(harness.Accepted, "accept SESSION", "Record that you take the change of a run that passed")
}

func (a *app) rejectCommand() *cobra.Command {
	return a.decideCommand(harness.Rejected, "reject SESSION", "Record that you do not take the change of a run")
}

func (a *app) decideCommand(outcome, use, short string) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: short + `.

The operator's outcome is apart from the verdict of the verifier and never changes
it. It is appended to the journal and the bundle is sealed anew.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.home.Find(args[0])
			if err != nil {
				return err
			}
			rep, err := s.Decide(outcome, why, operator(), time.Now)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rep)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is %s.\n", s.ID, rep.OperatorOutcome)
			return nil
		},
	}
	cmd.Flags().StringVar(&why, "reason", "", "why")
	return cmd
}
