package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/proof/reason"
	"remit/work/engine/fake"
	"remit/work/matrix"
	"remit/work/sandbox"
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

func (a *app) ladderMatrixCommand() *cobra.Command {
	var engine string
	var rows []string
	cmd := &cobra.Command{
		Use: "matrix --engine NAME", Short: "Bring about the twelve failures, and check how each run ends", Args: cobra.NoArgs,
		Long: `Matrix wraps an engine so that it really fails in one way after another (a full
disk, a process that sleeps past its limit, a lost event, …), runs the pipeline over
a small repository of its own, and reads from the session on disk whether the run
ended as it must: status, first blocker, event, exit code, artifacts with digests
and times, source untouched, audit.

Exit code 0 when every row holds, 2 when one does not, 3 when one could not be tried
on this machine. A complete matrix is kept below REMIT_HOME, for status to name;
the sessions are thrown away.`,
		Example: `  remit ladder matrix --engine fake
  remit ladder matrix --engine command --row timeout --row artifact-write-failure --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ladderMatrix(cmd, engine, rows) },
	}
	fl := cmd.Flags()
	fl.StringVar(&engine, "engine", fake.Name, "engine: "+strings.Join(matrix.Engines(), ", "))
	fl.StringArrayVar(&rows, "row", nil, "only this row (repeatable): "+strings.Join(ladder.RowNames(), ", "))
	for flag, values := range map[string][]string{"engine": matrix.Engines(), "row": ladder.RowNames()} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // only for a flag that does not exist
		}
	}
	return cmd
}

func (a *app) ladderMatrix(cmd *cobra.Command, engine string, rows []string) error {
	if !slices.Contains(matrix.Engines(), engine) {
		return reason.Errorf(reason.EngineUnknown, "no engine %q", engine).WithHint("engines: %s", strings.Join(matrix.Engines(), ", "))
	}
	for _, name := range rows {
		if _, ok := ladder.RowNamed(name); !ok {
			return usagef("--row %q: the rows are %s", name, strings.Join(ladder.RowNames(), ", "))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	driver, err := sandbox.Open(cmd.Context(), a.sandboxOptions("", nil))
	if err != nil {
		if reason.CodeOf(err) != reason.SandboxUnavailable {
			return err
		}
		printOne(os.Stderr, err) // no row can be tried, and the report says so
		driver = nil
	}
	view := newProgress(os.Stderr)
	rep, err := matrix.Run(cmd.Context(), matrix.Options{Engine: engine, Binary: self, Sandbox: driver, Rows: rows, Build: build(),
		OnCase: func(row string, c matrix.CaseResult) { view.Step(row+"/"+c.Name, stepStatus(c.Verdict), c.Reason) }})
	view.close()
	if err != nil {
		return err
	}
	if rep.Complete && cmd.Context().Err() == nil {
		if err := rep.Save(a.home.Dir); err != nil {
			return err
		}
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), rep)
	} else {
		err = printMatrix(cmd.OutOrStdout(), rep)
	}
	if err == nil && rep.ExitCode != 0 {
		err = exitCode(rep.ExitCode)
	}
	return err
}

func printMatrix(w io.Writer, rep *matrix.Report) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ROW\tEXPECTED\tGOT\tHELD")
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			e := c.Expected
			fmt.Fprintf(tw, "%s/%s\t%s %s\t%s\t%s\n", row.Name, c.Name, e.Status, e.Code, gotText(c), heldText(c.Verdict))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			if c.Verdict != matrix.Held {
				fmt.Fprintf(w, "\n%s/%s is %s: %s\n", row.Name, c.Name, c.Verdict, plain(c.Reason))
			}
		}
	}
	_, err := fmt.Fprintf(w, "\n%s  engine %s: %d of %d rows hold\n", upper(rep.Status), rep.Engine.Name, rep.Held, rep.Total)
	return err
}

func gotText(c matrix.CaseResult) string {
	switch {
	case c.Got == nil && c.Verdict == matrix.Broken:
		return "no evidence"
	case c.Got == nil:
		return c.Verdict
	}
	return fmt.Sprintf("%s %s", c.Got.Status, c.Got.Code)
}

// stepStatus is a verdict as the progress view knows the end of a step.
func stepStatus(verdict string) string {
	switch verdict {
	case matrix.Held:
		return "completed"
	case matrix.Broken:
		return "failed"
	case matrix.NotTried:
		return "blocked"
	}
	return "skipped"
}

func heldText(verdict string) string {
	switch verdict {
	case matrix.Held:
		return "yes"
	case matrix.Broken:
		return "NO"
	}
	return "-"
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
			for _, engine := range matrix.Engines() {
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
