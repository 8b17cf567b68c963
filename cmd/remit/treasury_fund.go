package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

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
		return "", reason.Errorf(reason.ScopeMissing, "funding an account needs the scope %s, which this token lacks; no account was opened", authority.ScopeAdmin)
	}
	opened, err := changeAccount(ctx, c, "", limit, false)
	return opened.AccountID, err
}
