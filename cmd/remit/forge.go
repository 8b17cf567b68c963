package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/forge/pull"
	"remit/forge/push"
	"remit/law/secret"
	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/workspace"
)

// forgeFlags say which repository of which forge is meant, and which token is for it.
type forgeFlags struct{ forge, kind, tokenEnv, tokenFile string }

func (p *forgeFlags) addForge(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&p.forge, "forge", "", "the repository at the forge: https://HOST/OWNER/NAME (default: the remote origin, where that is at github.com)")
	p.addToken(cmd)
}

func (p *forgeFlags) addToken(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&p.tokenEnv, "forge-token-env", "", "variable that holds the token for the forge (default GITHUB_TOKEN, then GH_TOKEN, for github.com alone)")
	fl.StringVar(&p.tokenFile, "forge-token-file", "", "file that holds the token for the forge, - is stdin")
}

func (p *forgeFlags) addKind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.kind, "forge-kind", "", "which interface the forge has, github or gitea (default github)")
	choose(cmd, "forge-kind", []string{string(pull.GitHub), string(pull.Gitea)})
}

// repository is the one that is named, or the remote of the repository. A remote that
// only the repository names is asked for nothing, unless it is at github.com.
func (p *forgeFlags) repository(source *workspace.Source) (pull.Address, error) {
	text := cmp.Or(p.forge, source.Remote("origin"))
	if text == "" {
		return pull.Address{}, reason.Errorf(reason.ForgeUnknown, "the repository has no remote named origin").
			WithHint("give --forge https://HOST/OWNER/NAME")
	}
	address, err := pull.ParseAddress(cmp.Or(pull.Kind(p.kind), pull.GitHub), text)
	if err == nil && p.forge == "" && !address.Public() {
		err = reason.Errorf(reason.ForgeUnknown, "the remote origin is at %s, and a forge that only the repository names is neither asked nor given a token", plain(address.Web)).
			WithHint("if that is your forge: --forge %s", plain(address.String()))
	}
	return address, err
}

// client is the way to the forge, with a token.
func (p *forgeFlags) client(cmd *cobra.Command, source *workspace.Source) (*pull.Client, error) {
	address, err := p.repository(source)
	if err != nil {
		return nil, err
	}
	return p.writer(cmd, address)
}

func (p *forgeFlags) writer(cmd *cobra.Command, address pull.Address) (*pull.Client, error) {
	token, err := p.token(cmd.InOrStdin(), address)
	if err != nil {
		return nil, err
	}
	return &pull.Client{Address: address, Token: token, HTTP: &http.Client{Timeout: forgeTime}, Wait: waitFor}, nil
}

// reader is a client for questions alone: what is public needs no token.
func (p *forgeFlags) reader(cmd *cobra.Command, address pull.Address) (*pull.Client, error) {
	client, err := p.writer(cmd, address)
	if err != nil && p.tokenEnv == "" && p.tokenFile == "" {
		return &pull.Client{Address: address, HTTP: &http.Client{Timeout: forgeTime}, Wait: waitFor}, nil
	}
	return client, err
}

func (p *forgeFlags) token(stdin io.Reader, address pull.Address) (string, error) {
	if p.tokenFile != "" {
		return readToken(p.tokenFile, stdin)
	}
	names := []string{p.tokenEnv}
	if p.tokenEnv == "" && address.Public() {
		names = []string{"GITHUB_TOKEN", "GH_TOKEN"}
	}
	for _, name := range names {
		if token := strings.TrimSpace(os.Getenv(name)); name != "" && token != "" {
			return token, nil
		}
	}
	return "", reason.Errorf(reason.ForgeUnknown, "no token for %s", address.Web).
		WithHint("give --forge-token-file FILE or --forge-token-env NAME")
}

// credentials are what evidence is searched for beside the environment. A token that
// comes from stdin is for the forge alone.
func (p *forgeFlags) credentials() []secret.Value {
	token := strings.TrimSpace(os.Getenv(p.tokenEnv))
	if p.tokenFile != "" && p.tokenFile != "-" {
		token, _ = readToken(p.tokenFile, nil) // what cannot be read is said when it is needed
	}
	if token == "" {
		return nil
	}
	return []secret.Value{{Name: "FORGE_TOKEN", Value: token}}
}

// forgeTime bounds one request to a forge. A push sends the change, which can be large.
const forgeTime = 10 * time.Minute

// pushUser goes with a token of the forge, as git's own helpers send it.
const pushUser = "x-access-token"

// remoteOf is the repository of a client for git's protocol.
func remoteOf(client *pull.Client) push.Remote {
	return push.Remote{URL: client.Git(), User: pushUser, Token: client.Token, Client: client.HTTP}
}

func waitFor(ctx context.Context, d time.Duration) error {
	fmt.Fprintf(os.Stderr, "remit: the forge has not answered the request: next try in %s\n", d.Round(time.Second))
	return api.Pause(ctx, d)
}
