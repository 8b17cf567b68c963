package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"remit/law/board"
)

func (a *app) recordsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "records", Short: "Check a folder of governance records",
		Long: `Records are Markdown files with front matter that say what was decided and why, and
a WORKBOARD.yaml that says which work is done and which files show it.`,
	}
	cmd.AddCommand(a.recordsCheckCommand())
	return cmd
}

func (a *app) recordsCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check DIR", Short: "Hold records and their workboard against the evidence", Args: cobra.ExactArgs(1),
		Long: `Check reads every record below DIR and DIR/WORKBOARD.yaml, and lists all that is
wrong: fields of the front matter, items that wait for each other, items that are
validated behind one that is not, evidence that is not there or has changed, a pass
that no report says, a statement that is missing, a review that is due, and text
that looks like a credential, in any file of DIR.

It reads DIR and nothing else, and follows no link. Exit code 0 without a finding, 2
with one, 3 when DIR cannot be read.`,
		Example: `  remit records check governance
  remit records check governance --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rep, err := board.Check(args[0], time.Now())
			if err != nil {
				return err
			}
			if err := a.present(cmd.OutOrStdout(), rep, func(w io.Writer) error { return printRecords(w, rep) }); err != nil || rep.OK {
				return err
			}
			return exitCode(rep.ExitCode)
		},
	}
}

func printRecords(w io.Writer, rep *board.Report) error {
	for _, f := range rep.Findings {
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		fmt.Fprintf(w, "%s: %s (%s, %s)\n", plain(place), plain(f.Message), f.Rule, f.Code)
	}
	if rep.Omitted > 0 {
		fmt.Fprintf(w, "… and %d more\n", rep.Omitted)
	}
	_, err := fmt.Fprintf(w, "%s  records: %d, items: %d, evidence files: %d, findings: %d\n", upper(rep.Status),
		rep.Checked.Records, rep.Checked.Items, rep.Checked.Evidence, len(rep.Findings)+rep.Omitted)
	return err
}
