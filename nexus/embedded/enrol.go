package embedded

import (
	"context"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/registry"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/proof/reason"
)

// caps let a verification run as its contract says: what confines it is the
// sandbox, by the contract's own limits.
var caps = api.Caps{CPUMillis: 1 << 20, MemoryMb: 1 << 24, DiskMb: job.MaxDiskMB, Pids: 1 << 20, TimeoutSecs: 7 * 24 * 3600, Concurrency: 20, Network: "none"}

// enrolled returns the machine's provider. The first time it makes it, with the
// rights of an administrator, which last no longer than that.
func enrolled(ctx context.Context, m *opened, version string) (string, error) {
	var list []store.ProviderRow
	if err := m.store.View(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.ProvidersOf(Owner, "", registry.MaxCandidates)
		return err
	}); err != nil {
		return "", err
	}
	for _, p := range list {
		if p.Name == providerName && p.Enabled {
			return p.ID, nil
		}
	}
	token := ""
	grant := server.AdminGrant()
	grant.Owner, grant.TTL = Owner, time.Minute
	admin, err := m.clients(ctx, credential{&token, grant})
	if err != nil {
		return "", err
	}
	return enrol(ctx, admin[0], version)
}

// enrol makes the provider and the account. It may be cut off at any point and
// is then done again; the provider is switched on last.
func enrol(ctx context.Context, admin *api.Client, version string) (string, error) {
	account, err := api.OpenAccount.Do(ctx, admin, "account", api.None{}, api.AccountRequest{Limit: budget})
	if err != nil {
		return "", err
	}
	if !account.Created {
		return "", reason.Errorf(reason.StoreUnavailable, "the account of this machine was not opened")
	}
	if _, err := api.FundAccount.Do(ctx, admin, "fund", api.None{},
		api.FundRequest{AccountID: account.Value.AccountID, Amount: budget}); err != nil {
		return "", err
	}
	made, err := api.RegisterProvider.Do(ctx, admin, api.NewKey(), api.None{}, api.ProviderRequest{
		Name: providerName, Version: version, Capabilities: []string{job.SandboxRun}, PriceMsats: jobPrice})
	if err != nil {
		return "", err
	}
	id := made.Provider.ProviderID
	if _, err := api.SetCaps.Do(ctx, admin, api.NewKey(), api.SetCapsParams{ProviderID: id}, caps); err != nil {
		return "", err
	}
	_, err = api.EnableProvider.Do(ctx, admin, api.NewKey(), api.EnableProviderParams{ProviderID: id}, api.None{})
	return id, err
}
