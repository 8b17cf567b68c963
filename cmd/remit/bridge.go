package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"remit/forge/nip34"
	"remit/nexus/api"
	"remit/nexus/bridge"
)

func (a *app) bridgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bridge", Short: "Mirror provider ads and receipt pointers to Nostr relays, and check them",
		Long: `The bridge mirrors two facts of a nexus to Nostr relays, so that strangers can
find them: that a provider offers work (kind 31990), and that a receipt of a
settled job exists (kind 30078). Nothing else can be published, by anybody.
Nothing that comes from a relay changes anything at the nexus.`,
		Example: `  remit bridge relay --listen 127.0.0.1:7777
  remit serve --relay ws://127.0.0.1:7777
  remit bridge publish
  remit bridge verify --relay ws://127.0.0.1:7777 --nexus http://127.0.0.1:7340`,
	}
	cmd.AddCommand(a.bridgePublishCommand(), a.bridgeEventsCommand(), a.bridgeVerifyCommand(), a.bridgeRelayCommand())
	return cmd
}

func (a *app) bridgePublishCommand() *cobra.Command {
	var nexus nexusFlags
	var again bool
	cmd := &cobra.Command{
		Use: "publish", Short: "Hand what waits to the relays of the nexus now", Args: cobra.NoArgs,
		Long: `Publish asks the nexus to hand what waits to its relays now, and prints what each
took. The nexus does this by itself; after a failure it leaves a relay alone for a
while, and publish does not wait for that. It is about one's own providers and
jobs; with an administrator's token about everybody's.

Exit code 3 when something still waits for a relay, 2 when a relay refused
something for good.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			got, err := api.PublishBridge.Do(cmd.Context(), c, api.NewKey(), api.None{}, api.BridgePublishRequest{Again: api.Optional(again)})
			if err != nil {
				return err
			}
			return a.showPublished(cmd.OutOrStdout(), got)
		},
	}
	nexus.add(cmd)
	cmd.Flags().BoolVar(&again, "again", false, "also send what the relays have had or refused: the same events, byte for byte")
	return cmd
}

func (a *app) showPublished(w io.Writer, p api.BridgePublished) error {
	var err error
	if a.json {
		err = printJSON(w, p)
	} else {
		err = printTable(w, "", "RELAY\tTOOK\tREFUSED\tHAS\tWAITING\t", p.Relays, func(r api.BridgeRelayReport) string {
			return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s", plain(r.Relay), r.Took, r.Refused, r.Has, r.Waiting, plain(api.Value(r.Error)))
		})
	}
	if err != nil {
		return err
	}
	code := exitCode(0)
	for _, r := range p.Relays {
		switch {
		case r.Waiting > 0 || r.Error != nil:
			code = 3
		case r.Refused > 0:
			code = max(code, 2)
		}
	}
	if code != 0 {
		return code
	}
	return nil
}

func (a *app) bridgeRelayCommand() *cobra.Command {
	var listen string
	var changes bool
	cmd := &cobra.Command{
		Use: "relay", Short: "Run a small relay for tests and a local network", Args: cobra.NoArgs,
		Long: `Relay runs a Nostr relay that keeps, in memory, provider ads and receipt pointers
with a valid signature and refuses everything else. It is for tests and a local
network: it forgets everything when it ends, and asks for no credentials.

With --changes it keeps what ` + "`remit export --to nip34`" + ` publishes instead (kinds 30617,
1617 to 1619 and 1630 to 1633 of NIP-34), and neither ads nor pointers.`,
		Example: `  remit bridge relay --listen 127.0.0.1:7777
  remit bridge relay --changes --listen 127.0.0.1:0 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			relay := new(bridge.Relay)
			if changes {
				relay.Accept, relay.MaxMessage = nip34.Check, nip34.MaxMessage
			}
			return a.relay(cmd, listen, relay)
		},
	}
	cmd.Flags().BoolVar(&changes, "changes", false, "keep changes of repositories (NIP-34) instead of ads and pointers")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7777", "address to listen on; port 0 takes a free one")
	return cmd
}

// relay serves until it is interrupted.
func (a *app) relay(cmd *cobra.Command, listen string, relay *bridge.Relay) error {
	ctx := cmd.Context()
	listener, err := listenAt(ctx, listen)
	if err != nil {
		return err
	}
	h := &http.Server{Handler: relay, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	url := "ws://" + listener.Addr().String()
	if a.json {
		err = printJSON(cmd.OutOrStdout(), map[string]string{"url": url})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "relay at %s\n", url)
	}
	if err == nil {
		select {
		case err = <-ended:
			return fmt.Errorf("serve: %w", err)
		case <-ctx.Done():
		}
	}
	err = errors.Join(err, h.Close()) // connections that were upgraded end with the process
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (a *app) bridgeEventsCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	cmd := listCommand(a, &nexus, &cobra.Command{
		Use: "events", Short: "List what is mirrored, and how far it has come with the relays", Args: cobra.NoArgs,
		Long: `List the events of the mirror, the newest first: ads of one's providers and pointers
to the receipts of one's jobs; with an administrator's token those of everybody.
--json has the signed events.`,
		Example: `  remit bridge events
  remit bridge events --owner alice --json`,
	}, 50, func(cmd *cobra.Command, c *api.Client, _ []string, most int) ([]api.BridgeEvent, error) {
		return listAll(most, func(cursor *string) ([]api.BridgeEvent, *string, error) {
			got, err := api.ListBridgeEvents.Get(cmd.Context(), c, api.ListBridgeEventsParams{Owner: api.Optional(owner), Cursor: cursor})
			if err != nil {
				return nil, nil, err
			}
			return got.Items, got.NextCursor, nil
		})
	}, printBridgeEvents)
	nexus.add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "whose, with an administrator's token (default everybody's that the token may see)")
	return cmd
}

func printBridgeEvents(w io.Writer, list []api.BridgeEvent) error {
	return printTable(w, "events", "RECORDED\tCLASS\tPROVIDER\tRUN\tSTATE\tRELAYS\tERROR", list, func(e api.BridgeEvent) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%s", e.RecordedAt, e.Class, e.ProviderID, api.Value(e.RunID), e.State, len(e.Relays),
			plain(api.Value(e.Error)))
	})
}
