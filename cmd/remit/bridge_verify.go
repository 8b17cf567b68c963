package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/bridge"
	"remit/nexus/nip01"
	"remit/proof/reason"
	"remit/proof/record"
)

// bridgeReport is what remit bridge verify --json prints.
type bridgeReport struct {
	Relay  string `json:"relay"`
	PubKey string `json:"pubkey,omitempty"`
	Nexus  string `json:"nexus,omitempty"`
	Passed bool   `json:"passed"`
	bridge.Verdict
}

func (a *app) bridgeVerifyCommand() *cobra.Command {
	var nexus nexusFlags
	var relay, pubkey string
	cmd := &cobra.Command{
		Use: "verify --relay URL", Short: "Fetch and check everything that a relay has", Args: cobra.NoArgs,
		Long: `Verify fetches everything that a relay has and checks it: ids, signatures, and
that there are provider ads and receipt pointers and nothing else. With --pubkey it
asks for, and accepts, only what this key has signed; without, the relay must not
hold events of other kinds by anybody.

With --nexus the key is that of the nexus, everything that the relay took from it
must still be there, and each pointer must name a receipt of the nexus, whose
digest is computed again. Runs that the token cannot see are counted as unchecked.

Exit code 0 when all holds, 2 when something does not, 3 when the relay or the
nexus cannot be reached.`,
		Example: `  remit bridge verify --relay ws://127.0.0.1:7777
  remit bridge verify --relay wss://relay.example.org --pubkey 9f3c… --json
  remit bridge verify --relay ws://127.0.0.1:7777 --nexus http://127.0.0.1:7340 --token-file admin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := nip01.CheckURL(relay); err != nil {
				return usagef("--relay: %w", err)
			}
			if key, err := hex.DecodeString(pubkey); err != nil || pubkey != "" && len(key) != 32 || hex.EncodeToString(key) != pubkey {
				return usagef("--pubkey is not 64 lowercase hexadecimal digits")
			}
			check := bridge.Check{PubKey: pubkey}
			if nexus.url != "" {
				if err := nexus.hold(cmd, relay, &check); err != nil {
					return err
				}
			}
			verdict, err := bridge.Verify(cmd.Context(), relay, check)
			if err != nil {
				return err
			}
			return a.showVerdict(cmd.OutOrStdout(), bridgeReport{Relay: relay, PubKey: check.PubKey, Nexus: nexus.url, Passed: verdict.Passed(),
				Verdict: verdict})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&relay, "relay", "", "ws:// or wss:// URL of the relay")
	flags.StringVar(&pubkey, "pubkey", "", "the only author that counts, 64 hexadecimal digits (default with --nexus: its key)")
	flags.StringVar(&nexus.url, "nexus", "", "URL of the nexus whose receipts the pointers name (default: receipts are not looked at)")
	flags.StringVar(&nexus.tokenFile, "token-file", "", "file that holds the token for --nexus, - is stdin (default $"+envToken+")")
	flags.BoolVar(&nexus.plaintext, "plaintext", false, "send the token to another machine without TLS")
	_ = cmd.MarkFlagRequired("relay")
	return cmd
}

func (a *app) showVerdict(w io.Writer, r bridgeReport) error {
	if a.json {
		if err := printJSON(w, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "%d events: %d provider ads, %d receipt pointers (%d receipts checked, %d of others' runs)\n",
			r.Events, r.Ads, r.Pointers, r.Receipts, r.Unchecked)
		for _, f := range r.Findings {
			fmt.Fprintf(w, "FAIL %s %s: %s\n", plain(f.EventID), f.Code, plain(f.Detail))
		}
	}
	if !r.Passed {
		return exitCode(codeOf(reason.BridgeInvalid))
	}
	return nil
}

// hold fills in what a nexus knows of its own events.
func (f *nexusFlags) hold(cmd *cobra.Command, relay string, check *bridge.Check) error {
	c, err := f.client(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	who, err := api.GetWhoami.Get(ctx, c, api.None{})
	if err != nil {
		return err
	}
	principal := authority.Principal{Scopes: who.Scopes}
	for cursor := (*string)(nil); ; {
		page, err := api.ListBridgeEvents.Get(ctx, c, api.ListBridgeEventsParams{Cursor: cursor})
		if err != nil {
			return err
		}
		if err := mirrored(page, relay, check); err != nil {
			return err
		}
		if cursor = page.NextCursor; cursor == nil {
			break
		}
	}
	check.Receipts = func(ctx context.Context, runID string) ([]record.Receipt, bool, error) {
		list, err := receiptsOf(ctx, c, runID)
		if reason.CodeOf(err) == reason.NotFound {
			// To an administrator every run is visible: one that is not there is a lie.
			return nil, principal.Admin(), nil
		}
		return list, err == nil, err
	}
	return nil
}

// mirrored takes the key and what the relay has taken from a page of the nexus.
func mirrored(page api.BridgeEventPage, relay string, check *bridge.Check) error {
	key := api.Value(page.Pubkey)
	switch {
	case key == "":
		return reason.Errorf(reason.NotFound, "this nexus has never published anything").WithHint("start it with `remit serve --relay URL`")
	case check.PubKey == "":
		check.PubKey = key
	case check.PubKey != key:
		return reason.Errorf(reason.BridgeKeyMismatch, "the nexus signs with %s, and --pubkey is another", plain(key))
	}
	for _, item := range page.Items {
		for _, r := range item.Relays {
			if !bridge.SameRelay(r.Relay, relay) || r.State != api.BridgeRelayStateStateSent || item.Event == nil {
				continue
			}
			var e bridge.Event
			if err := json.Unmarshal(*item.Event, &e); err != nil {
				return fmt.Errorf("read an event of the nexus: %w", err)
			}
			check.Taken = append(check.Taken, e)
		}
	}
	return nil
}

// receiptsOf reads the receipts of a run.
func receiptsOf(ctx context.Context, c *api.Client, runID string) (list []record.Receipt, err error) {
	for cursor := (*string)(nil); ; {
		page, err := api.ListReceipts.Get(ctx, c, api.ListReceiptsParams{RunID: runID, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			list = append(list, record.Receipt{Type: r.ReceiptType, Payload: r.Payload, Principal: r.Principal, Key: r.IdempotencyKey,
				SHA256: r.ReceiptSha256})
		}
		if cursor = page.NextCursor; cursor == nil {
			return list, nil
		}
	}
}
