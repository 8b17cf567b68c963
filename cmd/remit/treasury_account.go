package main

import (
	"context"

	"github.com/spf13/cobra"

	"remit/nexus/api"
)

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
