package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"remit/nexus/api"
)

func (a *app) providerRetire(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var why string
	cmd := &cobra.Command{
		Use: "retire PROVIDER", Short: "Take a provider out of service for good", Args: cobra.ExactArgs(1),
		Long: `Take a provider out of service for good, by its id or its name: its running jobs are
cancelled, and its credential ends. What it has handed in is judged and paid. Receipts,
jobs and the books go on naming it. Its name is free: a machine that joins under it
becomes another provider, with a history of its own.

'remit provider disable' is for a while.`,
		Example: `  remit provider retire rack-1 --reason 'sold'
  remit provider list --retired`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := f.find(cmd, group, args[0])
			if err != nil {
				return err
			}
			got, err := api.RetireProvider.Do(cmd.Context(), c, api.NewKey(), id, api.ReasonRequest{Reason: api.Optional(why)})
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), got)
		},
	}
	f.add(cmd, group)
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	return cmd
}

func (a *app) providerDelete(group *providerFlags) *cobra.Command {
	var f fleetFlags
	cmd := &cobra.Command{
		Use: "delete PROVIDER", Short: "Remove a retired provider from all lists", Args: cobra.ExactArgs(1),
		Long: `Remove a retired provider from all lists, by its id or its name, and have the nexus
forget its name, version and caps. Its id stays in receipts, jobs and books.`,
		Example: `  remit provider delete rack-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := f.among(cmd, group, args[0], true)
			if err != nil {
				return err
			}
			got, err := api.DeleteProvider.Do(cmd.Context(), c, api.NewKey(), id, api.None{})
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "Provider %s is deleted.\n", got.ProviderID)
				return err
			})
		},
	}
	f.add(cmd, group)
	return cmd
}
