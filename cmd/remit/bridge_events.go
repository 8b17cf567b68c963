package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/nexus/api"
)

func (a *app) bridgeEventsCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	most := 50
	cmd := &cobra.Command{
		Use: "events", Short: "List what is mirrored, and how far it has come with the relays", Args: cobra.NoArgs,
		Long: `List the events of the mirror, the newest first: ads of one's providers and pointers
to the receipts of one's jobs; with an administrator's token those of everybody.
--json has the signed events.`,
		Example: `  remit bridge events
  remit bridge events --owner alice --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkMost(most); err != nil {
				return err
			}
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			list, err := listAll(most, func(cursor *string) ([]api.BridgeEvent, *string, error) {
				got, err := api.ListBridgeEvents.Get(cmd.Context(), c, api.ListBridgeEventsParams{Owner: api.Optional(owner), Cursor: cursor})
				if err != nil {
					return nil, nil, err
				}
				return got.Items, got.NextCursor, nil
			})
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), api.BridgeEventPage{Items: list}, func(w io.Writer) error { return printBridgeEvents(w, list) })
		},
	}
	nexus.add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "whose, with an administrator's token (default everybody's that the token may see)")
	cmd.Flags().IntVar(&most, "limit", most, "list at most this many")
	return cmd
}

func printBridgeEvents(w io.Writer, list []api.BridgeEvent) error {
	if len(list) == 0 {
		return empty(w, "events")
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "RECORDED\tCLASS\tPROVIDER\tRUN\tSTATE\tRELAYS\tERROR")
	for _, e := range list {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.RecordedAt, e.Class, e.ProviderID, api.Value(e.RunID), e.State, len(e.Relays), plain(api.Value(e.Error)))
	}
	return tab.Flush()
}
