package provider

import (
	"context"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// Registration is what a provider says of itself when it joins.
type Registration struct {
	Nexus      string // URL of the authority
	Token      string // one-time registration token
	Name       string
	Version    string
	PriceMsats int64
	Reserve    bool   // serve other owners too
	Engines    bool   // run engines too, and not only commands
	Replace    string // id of a provider whose place this machine takes, even if it lives
	Client     api.Options
}

// Join registers this machine and keeps the credential that the authority
// gives. Provider mode is off until the owner enables it. A machine that is
// registered already keeps its registration, unless its authority says that this
// has ended: the provider was retired or deleted, or its credential revoked.
func (s State) Join(ctx context.Context, r Registration) (api.Provider, error) {
	if id, _, err := s.Load(); err == nil {
		if _, err := s.Status(ctx, r.Client); !refusedCredential(err) {
			return api.Provider{}, reason.Errorf(reason.Conflict, "this machine is registered already, as %s", id.ProviderID).
				WithHint("use another --state directory for a second provider; " +
					"a provider that was retired at its nexus joins again here, once that can be reached")
		}
	} else if reason.CodeOf(err) != reason.NotFound {
		return api.Provider{}, err
	}
	c, err := api.Connect(r.Nexus, r.Token, r.Client)
	if err != nil {
		return api.Provider{}, err
	}
	// The token works once: it is not spent on a registration that cannot be kept.
	if err := s.writable(); err != nil {
		return api.Provider{}, err
	}
	capabilities := []string{job.SandboxRun}
	if r.Engines {
		capabilities = append(capabilities, job.EngineRun)
	}
	answer, err := api.RegisterProvider.Do(ctx, c, api.NewKey(), api.None{}, api.ProviderRequest{
		Name: r.Name, Version: r.Version, Capabilities: capabilities, PriceMsats: r.PriceMsats, ReservePool: &r.Reserve,
		ProviderID: api.Optional(r.Replace)})
	if err != nil {
		return api.Provider{}, err
	}
	p := answer.Provider
	return p, s.Save(Identity{Nexus: r.Nexus, ProviderID: p.ProviderID, Name: p.Name}, answer.Token)
}

// Status is the provider as the authority sees it.
func (s State) Status(ctx context.Context, opt api.Options) (api.Provider, error) {
	id, c, err := s.connect(opt)
	if err != nil {
		return api.Provider{}, err
	}
	return api.GetProvider.Get(ctx, c, id.ProviderID)
}

// Disable switches provider mode off. The credential of a provider allows that
// much: a machine may always withdraw itself.
func (s State) Disable(ctx context.Context, opt api.Options) (api.Provider, error) {
	id, c, err := s.connect(opt)
	if err != nil {
		return api.Provider{}, err
	}
	return api.DisableProvider.Do(ctx, c, api.NewKey(), id.ProviderID, api.ReasonRequest{})
}

// connect reads the registration and makes a client with its credential.
func (s State) connect(opt api.Options) (Identity, *api.Client, error) {
	id, token, err := s.Load()
	if err != nil {
		return id, nil, err
	}
	c, err := api.Connect(id.Nexus, token, opt)
	return id, c, err
}
