package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/work/matrix"
)

func (a *app) ladderCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ladder", Short: "Try an engine against the failure matrix, and say what is proved of it",
		Long: `The ladder is what an engine has to show before it may come closer to a real
repository: six stages, and twelve ways to fail of which each must end in one way
only. No stage makes an engine the default.`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.ladderMatrixCommand(), a.ladderStatusCommand(), a.ladderGuardCommand())
	return cmd
}

func (a *app) ladderStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say what is proved of each engine, and what is not", Args: cobra.NoArgs,
		Long: `Status is the control summary: the six stages, for each engine which of them is
proved, the last complete failure matrix, and what to do next. It reads the ladder
directory below REMIT_HOME. Evidence that is missing, or that this version cannot
check, counts as not proven; and no evidence makes an engine the default.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var records []ladder.Records
			for _, engine := range engineNames() {
				r, err := matrix.ReadRecords(a.home.Dir, engine, build())
				if err != nil {
					return err
				}
				records = append(records, r)
			}
			status := ladder.Summarize(records)
			if a.json {
				return printJSON(cmd.OutOrStdout(), status)
			}
			return printLadder(cmd.OutOrStdout(), status)
		},
	}
}

func printLadder(w io.Writer, s ladder.Status) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprint(tw, "STAGE\tNAME\tMUTATION SCOPE")
	for _, e := range s.Engines {
		fmt.Fprintf(tw, "\t%s", strings.ToUpper(e.Engine))
	}
	fmt.Fprintln(tw)
	for i, stage := range s.Stages {
		fmt.Fprintf(tw, "%d\t%s\t%s", stage.Number, stage.Name, stage.MutationScope)
		for _, e := range s.Engines {
			fmt.Fprintf(tw, "\t%s", e.Stages[i].State)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, e := range s.Engines {
		last := "none kept"
		if e.Matrix != nil {
			last = fmt.Sprintf("%s, %d of %d rows held, %s (%s)", e.Matrix.Status, e.Matrix.Held, e.Matrix.Total, e.Matrix.FinishedAt, e.Matrix.Path)
			if !e.Matrix.Current {
				last += ", by another build"
			}
		}
		fmt.Fprintf(w, "\n%s\n  candidate  %s\n  matrix     %s\n  next       %s\n", e.Engine, e.CandidateStatus, plain(last), plain(e.NextAction))
	}
	_, err := fmt.Fprintf(w, "\nruntime default activation: %v (promotion %s, decision %s)\n", s.RuntimeDefaultActivation, s.CorePromotionStatus, s.DecisionStatus)
	return err
}
