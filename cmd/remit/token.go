package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/proof/reason"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Make, list and revoke the credentials of a nexus",
		Long: `A credential of the nexus is a token. Its text is shown once, by the command that
makes it; the nexus keeps a digest. An administrator makes tokens for all owners;
a token with the scope providers:enrol makes registration tokens for machines.`,
	}
	cmd.AddCommand(a.tokenNewCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return cmd
}

// The words of remit token new.
var (
	tokenKinds  = []string{"user", "registration", "service", "panel"}
	tokenScopes = []string{"runs:write", "jobs:write", "providers:write", "providers:enrol", "providers:pool", "treasury:write",
		"approvals:decide", "read", "home:read", "admin"}
)

// tokenFlags say what a new token is for, and where it goes.
type tokenFlags struct {
	nexus       nexusFlags
	kind, owner string
	scopes      []string
	ttl         time.Duration
	out         string
}

func (a *app) tokenNewCommand() *cobra.Command {
	f := new(tokenFlags)
	cmd := &cobra.Command{
		Use: "new", Short: "Make a token; its text is shown once", Args: cobra.NoArgs,
		Long: `Make a token. Its text is printed on standard output and nothing else is, so that
it can be piped to where secrets are kept; what it is good for is on standard
error. With --out it goes to a new file of mode 0600 instead.

A user's token may do everything with what is its owner's, but for approving
(approvals:decide), for seeing the sessions that remit serve --show-home shows
(home:read), and for what --scope leaves out. A registration token is good for one
'remit provider join', for an hour. A token for another owner, and one that is not
for registration, needs an administrator's.`,
		Example: `  remit token new --owner alice --out alice.token
  remit token new --owner alice --scope approvals:decide --scope read --ttl 720h
  remit token new --kind registration --owner alice --out rack-1.token
  remit token new --kind registration |
    ssh rack-1 remit provider join --nexus https://nexus.example --token-file -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask, err := f.request()
			if err != nil {
				return err
			}
			c, err := f.nexus.client(cmd)
			if err != nil {
				return err
			}
			return a.newToken(cmd, c, ask, f.out)
		},
	}
	f.nexus.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", "user", "user, registration, service or panel")
	fl.StringVar(&f.owner, "owner", "", "whose it is (default the owner of the token that asks)")
	fl.StringArrayVar(&f.scopes, "scope", nil, "what it may do (repeatable; default everything of a person but approving)")
	fl.DurationVar(&f.ttl, "ttl", 0, "how long it is good (default 2160h, of a registration 1h; at most 8760h)")
	fl.StringVar(&f.out, "out", "", "write it to this new file, mode 0600, instead of printing it")
	choose(cmd, "kind", tokenKinds)
	choose(cmd, "scope", tokenScopes)
	return cmd
}

// request is the request of the flags.
func (f *tokenFlags) request() (api.TokenRequest, error) {
	ask := api.TokenRequest{Kind: api.TokenRequestKind(f.kind), Owner: api.Optional(f.owner)}
	var scopes []api.Scope
	for _, s := range f.scopes {
		scopes = append(scopes, api.Scope(s))
	}
	if scopes != nil {
		ask.Scopes = &scopes
	}
	if f.ttl != 0 {
		seconds := int64(f.ttl / time.Second)
		if f.ttl < time.Second || f.ttl > 365*24*time.Hour {
			return ask, usagef("--ttl is %s, must be 1s to 8760h", f.ttl)
		}
		ask.ExpiresInSeconds = &seconds
	}
	return ask, nil
}

// newToken makes a token and tells it to one place. The file is there before the
// token is, and a token that could not be handed over is revoked.
func (a *app) newToken(cmd *cobra.Command, c *api.Client, ask api.TokenRequest, path string) (err error) {
	to := secretTo{path: path, stdout: cmd.OutOrStdout()}
	if err := to.open(); err != nil {
		return err
	}
	made, err := api.CreateToken.Do(cmd.Context(), c, api.NewKey(), api.None{}, ask)
	if err != nil {
		return errors.Join(err, to.giveUp())
	}
	t := made
	if err := a.tellToken(cmd, t, &to); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Minute)
		defer cancel()
		_, revoked := api.RevokeToken.Do(ctx, c, api.NewKey(), t.TokenID, api.None{})
		return errors.Join(fmt.Errorf("hand over token %s: %w", t.TokenID, err), revoked, to.giveUp())
	}
	return nil
}

// tokenMade is what --json says of a new token. Its text is there, or in the file.
type tokenMade struct {
	ID        string   `json:"token_id"`
	Kind      string   `json:"kind"`
	Principal string   `json:"principal"`
	Owner     string   `json:"owner"`
	Scopes    []string `json:"scopes"`
	OneTime   bool     `json:"one_time"`
	ExpiresAt string   `json:"expires_at"`
	Text      string   `json:"token,omitempty"`
	File      string   `json:"token_file,omitempty"`
}

func (a *app) tellToken(cmd *cobra.Command, t api.TokenIssued, to *secretTo) error {
	doc := tokenMade{t.TokenID, t.Kind, t.Principal, t.Owner, t.Scopes, t.OneTime, t.ExpiresAt, t.Token, to.path}
	about := fmt.Sprintf("token %s of %s (%s), good until %s: %s\n", t.TokenID, plain(t.Owner), t.Kind, t.ExpiresAt,
		plain(strings.Join(t.Scopes, " ")))
	switch {
	case to.path != "":
		if err := to.write(t.Token); err != nil {
			return err
		}
		doc.Text = ""
		return a.present(to.stdout, doc, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%sIts text is in %s, and nowhere else.\n", about, plain(to.path))
			return err
		})
	case a.json:
		return printJSON(to.stdout, doc)
	}
	if err := to.write(t.Token); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%sThe line on standard output is its text. It is shown once.\n", about)
	return err
}

// secretTo is where the text of a token goes: a new file that only its owner
// reads, or standard output.
type secretTo struct {
	path   string // "" is standard output
	stdout io.Writer
	file   *os.File
}

// open makes the file. One that is there is left alone.
func (s *secretTo) open() (err error) {
	if s.path == "" {
		return nil
	}
	s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return reason.Errorf(reason.OutputExists, "the file for the token: %w", err)
	}
	return err
}

func (s *secretTo) write(text string) error {
	if s.file == nil {
		_, err := fmt.Fprintln(s.stdout, text)
		return err
	}
	_, err := fmt.Fprintln(s.file, text)
	return errors.Join(err, s.file.Sync(), s.file.Close())
}

// giveUp removes a file that holds no token, or one that is good for nothing.
func (s *secretTo) giveUp() error {
	if s.file == nil {
		return nil
	}
	_ = s.file.Close() // it may be closed already
	return os.Remove(s.path)
}

func (a *app) tokenListCommand() *cobra.Command {
	var nexus nexusFlags
	var owner string
	var all bool
	cmd := listCommand(a, &nexus, &cobra.Command{
		Use: "list", Short: "List credentials, the newest first", Args: cobra.NoArgs,
		Long: `List the credentials of an owner: who may do what until when. Their texts are
nowhere to be had. What has ended is shown with --all until the nexus forgets it.`,
		Example: `  remit token list
  remit token list --owner alice --all
  remit token list --json`,
	}, 100, func(cmd *cobra.Command, c *api.Client, _ []string, most int) ([]api.TokenInfo, error) {
		return listedTokens(cmd.Context(), c, owner, all, most)
	}, printTokens)
	nexus.add(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "whose, with an administrator's token (default the token's owner)")
	cmd.Flags().BoolVar(&all, "all", false, "also those that ended")
	return cmd
}

func listedTokens(ctx context.Context, c *api.Client, owner string, all bool, most int) ([]api.TokenInfo, error) {
	return listAll(most, func(cursor *string) ([]api.TokenInfo, *string, error) {
		got, err := api.ListTokens.Get(ctx, c, api.ListTokensParams{Owner: api.Optional(owner), Cursor: cursor})
		if err != nil {
			return nil, nil, err
		}
		items := slices.DeleteFunc(got.Items, func(t api.TokenInfo) bool { return !all && t.Status != "live" })
		return items, got.NextCursor, nil
	})
}

func printTokens(w io.Writer, list []api.TokenInfo) error {
	return printTable(w, "tokens", "TOKEN\tKIND\tPRINCIPAL\tSTATUS\tMADE\tEXPIRES\tSCOPES", list, func(t api.TokenInfo) string {
		until := "never"
		if t.ExpiresAt != nil {
			until = *t.ExpiresAt
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", t.TokenID, t.Kind, plain(t.Principal), t.Status, t.CreatedAt, until,
			plain(strings.Join(t.Scopes, " ")))
	})
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var nexus nexusFlags
	cmd := &cobra.Command{
		Use: "revoke TOKEN_ID", Short: "End a credential at once", Args: cobra.ExactArgs(1),
		Long: `End a credential at once, by its id. Each can end itself; a person's also those of
the same owner that can do no more; an administrator's all.`,
		Example: `  remit token revoke 0123456789abcdef01234567`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseSecret("the id of a token", args[0]); err != nil {
				return err
			}
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			got, err := api.RevokeToken.Do(cmd.Context(), c, api.NewKey(), args[0], api.None{})
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "Token %s has ended at %s.\n", got.TokenID, got.RevokedAt)
				return err
			})
		},
	}
	nexus.add(cmd)
	cmd.ValidArgsFunction = completion(&nexus, func(ctx context.Context, c *api.Client) ([]string, error) {
		list, err := listedTokens(ctx, c, "", false, completed)
		var words []string
		for _, t := range list {
			words = append(words, t.TokenID+"\t"+plain(t.Kind+" "+t.Principal))
		}
		return words, err
	})
	return cmd
}
