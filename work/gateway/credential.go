package gateway

import (
	"context"
	"os"
	"strings"

	"remit/proof/reason"
	"remit/work/edge"
)

// Credential says where the provider's key is. At most one source is given;
// none means that the provider wants no key.
type Credential struct {
	Env     string   // name of an environment variable
	File    string   // path of a file
	Command []string // program and arguments that print it
	Style   Style
}

// Style is how a credential is presented.
type Style string

// The styles. [ByProtocol] is x-api-key for [Messages] and bearer for the
// others, as the providers of those protocols want it.
const (
	ByProtocol Style = ""
	Bearer     Style = "bearer"    // Authorization: Bearer …
	APIKey     Style = "x-api-key" // x-api-key: …
)

// maxCredential bounds what is read from a file or a command.
const maxCredential = 16 << 10

// read gets the credential. No error holds any part of it, or the output of
// the command that should print it.
func (c Credential) read(ctx context.Context, o Options) (string, error) {
	if c.Style != ByProtocol && c.Style != Bearer && c.Style != APIKey {
		return "", misconfigured("the credential's style is neither %s nor %s", Bearer, APIKey)
	}
	var sources []string
	if c.Env != "" {
		sources = append(sources, "variable "+c.Env)
	}
	if c.File != "" {
		sources = append(sources, "file")
	}
	if len(c.Command) > 0 {
		sources = append(sources, "command")
	}
	switch len(sources) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", misconfigured("the credential of provider %q has more than one source: %s", o.Upstream.Provider, strings.Join(sources, ", "))
	}
	text, err := c.fetch(ctx, o)
	if err != nil {
		return "", err
	}
	text = compacted(strings.TrimSpace(text))
	if strings.HasPrefix(text, "sk-ant-oat") || strings.HasPrefix(text, "{") && strings.Contains(text, `"access_token"`) {
		return "", reason.Errorf(reason.AuthUnavailable, "the credential of provider %q, from a %s, is that of a person's plan and no key",
			o.Upstream.Provider, sources[0]).
			WithHint("a plan is for its own agent, signed in by its own login; make an API key at the provider, and name it with --key-env, --key-file or --key-command")
	}
	if why := unusable(text); why != "" {
		return "", reason.Errorf(reason.AuthUnavailable, "the credential of provider %q, from a %s, %s", o.Upstream.Provider, sources[0], why)
	}
	return text, nil
}

// fetch reads the one source that is given.
func (c Credential) fetch(ctx context.Context, o Options) (string, error) {
	unavailable := func(format string, args ...any) (string, error) {
		return "", reason.Errorf(reason.AuthUnavailable, format, args...)
	}
	switch {
	case c.Env != "":
		lookup := o.LookupEnv
		if lookup == nil {
			lookup = os.LookupEnv
		}
		text, ok := lookup(c.Env)
		if !ok {
			return unavailable("the environment variable %s for the credential of provider %q is not set", c.Env, o.Upstream.Provider)
		}
		return text, nil
	case c.File != "":
		b, err := edge.ReadFile(c.File, maxCredential)
		if err != nil {
			return unavailable("reading the credential file of provider %q: %w", o.Upstream.Provider, err)
		}
		return string(b), nil
	default:
		if o.RunCommand == nil {
			return unavailable("the credential of provider %q comes from a command, and nothing here may start one", o.Upstream.Provider)
		}
		b, err := o.RunCommand(ctx, c.Command)
		if err != nil {
			// The cause is left out: commands print what they were about to say.
			return unavailable("the command for the credential of provider %q failed", o.Upstream.Provider)
		}
		return string(b), nil
	}
}

// unusable says why a text cannot be sent as a credential.
func unusable(text string) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > maxCredential:
		return "is too long"
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "has a byte in it that no header can carry"
		}
	}
	return ""
}
