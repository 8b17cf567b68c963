package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

func (a *app) treasuryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "treasury", Short: "Look at the books of the nexus, set limits, fund accounts, and free what is overdue",
		Long: `The treasury holds the price of a job before it is dispatched, and pays it or
gives it back after the verdict. Amounts are whole millisatoshis.`,
	}
	cmd.AddCommand(a.treasurySummaryCommand(), a.treasuryAccountsCommand(), a.treasuryAccountCommand(), a.treasuryFundCommand(),
		a.treasuryReconcileCommand())
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
	return printTable(w, "", "ACCOUNT\tKIND\tLIMIT\tFUNDED\tRESERVED\tSPENT\tEARNED\tREMAINING\tUNIT\tSTATE", list, func(a api.Account) string {
		state := "open"
		if a.Closed {
			state = "closed"
		}
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s",
			a.AccountID, a.Kind, a.Limit, a.Funded, a.Reserved, a.Spent, a.Earned, a.Remaining, a.Unit, state)
	})
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

func (a *app) treasuryAccountCommand() *cobra.Command {
	var nexus nexusFlags
	var limit int64
	var end bool
	cmd := &cobra.Command{
		Use: "account [ACCOUNT_ID]", Short: "Open a budget account, change its limit, or close it", Args: cobra.MaximumNArgs(1),
		Long: `Open the budget account of the token's owner, or change its limit. An account
spends what an administrator has funded it with, and never more than its limit,
over all its time: reserved and spent together. When that is used up no job is
dispatched (insufficient_budget) until the limit is raised. A limit cannot go
below what is reserved and spent.

Fundings stay in the books. What was funded by mistake a lower limit keeps from
being spent. With --close an account takes no more transfers, for good; that needs
an administrator's token, and nothing may be reserved.`,
		Example: `  remit treasury account --limit 500000
  remit treasury account acc_… --limit 1000000
  remit treasury account acc_… --close`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			switch {
			case end && (id == "" || cmd.Flags().Changed("limit")):
				return usagef("--close takes the id of an account, and no --limit")
			case !end && limit < 1:
				return usagef("give --limit, in whole msats")
			}
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			account, err := changeAccount(cmd.Context(), c, id, limit, end)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), account)
			}
			return printAccounts(cmd.OutOrStdout(), []api.Account{account})
		},
	}
	nexus.add(cmd)
	cmd.Flags().Int64Var(&limit, "limit", 0, "what may be reserved and spent in all, in msats")
	cmd.Flags().BoolVar(&end, "close", false, "let the account take no more transfers, for good")
	return cmd
}

// changeAccount opens the owner's account where none is named, and leaves an
// account with the limit that is wanted, or closed.
func changeAccount(ctx context.Context, c *api.Client, id string, limit int64, end bool) (api.Account, error) {
	if end {
		return api.CloseAccount.Do(ctx, c, api.NewKey(), id, api.None{})
	}
	if id == "" {
		opened, err := api.OpenAccount.Do(ctx, c, api.NewKey(), api.None{}, api.AccountRequest{Limit: limit})
		if err != nil || opened.Created {
			return opened.Value, err
		}
		id = opened.Value.AccountID // it was open, with the limit that it has
	}
	return api.SetAccountLimit.Do(ctx, c, api.NewKey(), id, api.LimitRequest{Limit: limit})
}

func (a *app) treasuryAccountsCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	cmd := &cobra.Command{
		Use: "accounts", Short: "List the accounts of an owner", Args: cobra.NoArgs,
		Long: `List the accounts of an owner: the budgets that jobs are paid from, and what its
providers have earned.`,
		Example: `  remit treasury accounts
  remit treasury accounts --owner alice --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			list, err := accountsOf(cmd.Context(), c, owner)
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), list, func(w io.Writer) error {
				if len(list) == 0 {
					return empty(w, "accounts")
				}
				return printAccounts(w, list)
			})
		},
	}
	nexus.add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "whose, with an administrator's token (default the token's owner)")
	return cmd
}

func accountsOf(ctx context.Context, c *api.Client, owner string) ([]api.Account, error) {
	got, err := api.GetTreasurySummary.Get(ctx, c, api.GetTreasurySummaryParams{Owner: api.Optional(owner)})
	if err != nil {
		return nil, err
	}
	return slices.Concat([]api.Account{}, got.Accounts), nil
}

func (a *app) treasuryFundCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	var amount, limit int64
	cmd := &cobra.Command{
		Use: "fund [ACCOUNT_ID] --amount MSATS", Short: "Put money into a budget account", Args: cobra.MaximumNArgs(1),
		Long: `Put money into an account, in whole millisatoshis. It needs an administrator's
token, and stays in the books for good; one funding is at most 10,000,000,000,000.
Each call funds once more.

Without an id it is the budget account of --owner, or of the token's owner, for whom
--limit opens one where there is none.`,
		Example: `  remit treasury fund --amount 50000 --limit 100000
  remit treasury fund --owner alice --amount 50000
  remit treasury fund acc_… --amount 50000 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case amount < 1:
				return usagef("give --amount, in whole msats")
			case len(args) == 1 && (owner != "" || limit != 0), owner != "" && limit != 0:
				return usagef("--limit opens an account of one's own: it goes neither with an id nor with --owner")
			case amount > treasury.MaxFunding:
				return usagef("--amount is %d, must be at most %d", amount, treasury.MaxFunding)
			case limit < 0:
				return usagef("--limit is %d, must be at least 1", limit)
			}
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			id := strings.Join(args, "")
			if id == "" {
				if id, err = budgetAccount(cmd.Context(), c, owner, limit); err != nil {
					return err
				}
			}
			got, err := api.FundAccount.Do(cmd.Context(), c, api.NewKey(), api.None{}, api.FundRequest{AccountID: id, Amount: amount})
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error { return printAccounts(w, []api.Account{got}) })
		},
	}
	nexus.add(cmd)
	fl := cmd.Flags()
	fl.Int64Var(&amount, "amount", 0, "how much, in msats")
	fl.StringVar(&owner, "owner", "", "whose budget account (default that of the token's owner)")
	fl.Int64Var(&limit, "limit", 0, "open one's own account with this limit, if there is none")
	cmd.ValidArgsFunction = completion(&nexus, func(ctx context.Context, c *api.Client) ([]string, error) {
		list, err := accountsOf(ctx, c, owner)
		var words []string
		for _, account := range list {
			words = append(words, account.AccountID+"\t"+plain(account.Kind+" of "+account.Owner))
		}
		return words, err
	})
	return cmd
}

// Words of the books.
const (
	budgetKind = "budget"
	unitMsat   = "msat"
)

// budgetAccount is the account that the jobs of an owner are paid from.
func budgetAccount(ctx context.Context, c *api.Client, owner string, limit int64) (string, error) {
	list, err := accountsOf(ctx, c, owner)
	if err != nil {
		return "", err
	}
	for _, account := range list {
		if account.Kind == budgetKind && account.Unit == unitMsat && !account.Closed {
			return account.AccountID, nil
		}
	}
	if limit == 0 {
		return "", reason.Errorf(reason.NotFound, "%s has no budget account", cmp.Or(owner, "the token's owner")).
			WithHint("its owner opens one with 'remit treasury account --limit MSATS'; for oneself give --limit here")
	}
	me, err := api.GetWhoami.Get(ctx, c, api.None{})
	if err != nil {
		return "", err
	}
	if !slices.Contains(me.Scopes, authority.ScopeAdmin) { // before an account is there that has no money
		return "", reason.Errorf(reason.ScopeMissing, "funding an account needs the scope %s, which this token lacks; no account was opened",
			authority.ScopeAdmin)
	}
	opened, err := changeAccount(ctx, c, "", limit, false)
	return opened.AccountID, err
}
