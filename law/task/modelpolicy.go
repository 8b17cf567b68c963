package task

import (
	"net/url"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/form"
	"remit/proof/reason"
)

// ModelPolicy is what the owners of a repository say about models. A repository
// is hostile until a person has read it: if its policy could say where a model
// is, or which variable holds the key, a clone of it could have the user's key
// sent anywhere. So a policy only restricts. The address, the key's place and
// the authority for a certificate come from the user.
type ModelPolicy struct {
	// KeepBodies has the bodies of requests and answers kept in the session, with
	// the credential taken out. They hold all that the agent read.
	KeepBodies bool `json:"keep_bodies,omitempty"`
	// Providers are the only ones that an engine may ask, with what must be true
	// of the way to each; nil is any.
	Providers map[string]ProviderPolicy `json:"providers,omitzero"`
}

// ProviderPolicy is what must be true of the way to a provider. "" is anything.
type ProviderPolicy struct {
	Class      string `json:"class,omitempty"` // hosted or local
	BaseURL    string `json:"base_url,omitempty"`
	Credential string `json:"credential,omitempty"` // where the key is read: one of the credential sources
}

// ModelAsk is the way to a model that the user asks for.
type ModelAsk struct{ Provider, Class, BaseURL, Credential string }

var (
	providerForm      = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	providerClasses   = []string{"hosted", "local"}
	credentialSources = []string{"none", "environment", "file", "command"}
)

func modelKeys(m *ModelPolicy) []key {
	return []key{
		{"keep_bodies", boolean(&m.KeepBodies)},
		{"providers", byName(&m.Providers, "provider", providerForm, "letters, digits, dots, dashes and underscores", provider)},
	}
}

// provider reads {class, base_url, credential}.
func provider(to *ProviderPolicy) reader {
	return func(r *report, field string, n ast.Node) {
		object([]key{{"class", text(&to.Class)}, {"base_url", text(&to.BaseURL)}, {"credential", text(&to.Credential)}})(r, field, n)
		if to.Class != "" {
			oneOf(r, join(field, "class"), to.Class, providerClasses)
		}
		if to.Credential != "" {
			oneOf(r, join(field, "credential"), to.Credential, credentialSources)
		}
		if to.BaseURL != "" && !plainAddress(to.BaseURL) {
			r.field(join(field, "base_url"), reason.ContractValue, "an http or https address without user name and query", "not the address of a provider")
		}
	}
}

func plainAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// CheckModel holds the way that the user asks for against the policy. No error
// repeats the user's address. A nil policy allows any.
func (p *Policy) CheckModel(ask ModelAsk) error {
	if p == nil || p.Model.Providers == nil {
		return nil
	}
	r := newReport(PolicyFile)
	field := join("model.providers", ask.Provider)
	refuse := func(key, format string, args ...any) {
		r.add(place{}, join(field, key), reason.ContractNarrowing, "flags can only narrow what remit.yaml allows", format, args...)
	}
	must, listed := p.Model.Providers[ask.Provider]
	switch {
	case !listed:
		r.add(place{}, "model.providers", reason.ContractNarrowing, "flags can only narrow what remit.yaml allows", "the policy lists the providers that may be asked, and %q is none of them", ask.Provider)
		return r.err()
	case must.Class != "" && must.Class != ask.Class:
		refuse("class", "the provider is to be %s, and the run would ask it as %s", must.Class, ask.Class)
	}
	if must.BaseURL != "" && strings.TrimRight(must.BaseURL, "/") != strings.TrimRight(ask.BaseURL, "/") {
		refuse("base_url", "the provider is to be asked at %s, and the run would ask it elsewhere", must.BaseURL)
	}
	if must.Credential != "" && must.Credential != ask.Credential {
		refuse("credential", "the key is to come from: %s, and the run would take it from: %s", must.Credential, ask.Credential)
	}
	return r.err()
}
