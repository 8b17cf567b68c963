package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/nexus/api"
)

func (a *app) treasuryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "treasury", Short: "Look at the books of the nexus, set limits, fund accounts, and free what is overdue",
		Long: `The treasury holds the price of a job before it is dispatched, and pays it or
gives it back after the verdict. Amounts are whole millisatoshis.`,
	}
	cmd.AddCommand(a.treasurySummaryCommand(), a.treasuryAccountsCommand(), a.treasuryAccountCommand(), a.treasuryFundCommand(), a.treasuryReconcileCommand())
	return cmd
}

func (a *app) treasurySummaryCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	cmd := &cobra.Command{
		Use: "summary", Short: "Print accounts, totals and the latest reservations of an owner", Args: cobra.NoArgs,
		Example: `  remit treasury summary
  remit treasury summary --owner alice --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			got, err := api.GetTreasurySummary.Get(cmd.Context(), c, api.GetTreasurySummaryParams{Owner: api.Optional(owner)})
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), got)
			}
			return printSummary(cmd.OutOrStdout(), got)
		},
	}
	nexus.add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "whose books, with an administrator's token (default the token's owner)")
	return cmd
}

func printSummary(w io.Writer, s api.TreasurySummary) error {
	if s.ReadOnly != nil {
		fmt.Fprintf(w, "READ-ONLY: %s\n\n", plainText(*s.ReadOnly))
	}
	fmt.Fprintf(w, "Books of %s at %s\n\n", plainText(s.Owner), s.AsOf)
	if err := printAccounts(w, s.Accounts); err != nil {
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	t := s.Totals
	fmt.Fprintf(tab, "\nRESERVATIONS\tCOUNT\tMSATS\nreserved\t%d\t%d\nreleased\t%d\t%d\nwithheld\t%d\t%d\n",
		t.ReservedCount, t.ReservedMsats, t.ReleasedCount, t.ReleasedMsats, t.WithheldCount, t.WithheldMsats)
	if len(s.RecentJobs) > 0 {
		fmt.Fprintln(tab, "\nJOB\tRUN\tMSATS\tSTATUS\tREASON")
	}
	for _, r := range s.RecentJobs {
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\n", r.JobID, r.RunID, r.AmountMsats, r.Status, plainText(api.Value(r.Reason)))
	}
	return tab.Flush()
}

func printAccounts(w io.Writer, list []api.Account) error {
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "ACCOUNT\tKIND\tLIMIT\tFUNDED\tRESERVED\tSPENT\tEARNED\tREMAINING\tUNIT\tSTATE")
	for _, a := range list {
		state := "open"
		if a.Closed {
			state = "closed"
		}
		fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n",
			a.AccountID, a.Kind, a.Limit, a.Funded, a.Reserved, a.Spent, a.Earned, a.Remaining, a.Unit, state)
	}
	return tab.Flush()
}

func (a *app) treasuryReconcileCommand() *cobra.Command {
	var nexus nexusFlags
	var maxAge, most int64
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Give back what is reserved for longer than it may be", Args: cobra.NoArgs,
		Long: `Withhold reservations that outlived their time and free the budget. The nexus
does this by itself every few seconds; the command does it now, and with
--max-age also for reservations that are younger than their limit. A second
call finds nothing. It needs an administrator's token.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			got, err := api.Reconcile.Do(cmd.Context(), c, api.NewKey(), api.None{},
				api.ReconcileRequest{MaxAgeSeconds: api.Optional(maxAge), MaxJobs: api.Optional(most)})
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), got)
			}
			s := got
			fmt.Fprintf(cmd.OutOrStdout(), "%d reservations withheld, %d msats freed.\n", s.ExpiredReservations, s.FreedMsatsTotal)
			return nil
		},
	}
	nexus.add(cmd)
	cmd.Flags().Int64Var(&maxAge, "max-age", 0, "also withhold what is this many seconds old (default the limit of each)")
	cmd.Flags().Int64Var(&most, "max-jobs", 0, "withhold at most this many (default 200)")
	return cmd
}
