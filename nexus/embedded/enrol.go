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
	admin, err := m.client(ctx, &token, grant)
	if err != nil {
		return "", err
	}
	return enrol(ctx, admin, version)
}

// enrol makes the provider and the account. It may be cut off at any point and
// is then done again; the provider is switched on last.
func enrol(ctx context.Context, admin *api.ClientWithResponses, version string) (string, error) {
	account, err := admin.OpenAccountWithResponse(ctx, &api.OpenAccountParams{IdempotencyKey: "account"}, api.AccountRequest{Limit: budget})
	if err != nil {
		return "", err
	}
	if account.JSON201 == nil {
		return "", reason.Errorf(reason.StoreUnavailable, "the account of this machine was not opened")
	}
	if _, err := admin.FundAccountWithResponse(ctx, &api.FundAccountParams{IdempotencyKey: "fund"},
		api.FundRequest{AccountID: account.JSON201.AccountID, Amount: budget}); err != nil {
		return "", err
	}
	made, err := admin.RegisterProviderWithResponse(ctx, &api.RegisterProviderParams{IdempotencyKey: api.NewKey()}, api.ProviderRequest{
		Name: providerName, Version: version, Capabilities: []string{job.SandboxRun}, PriceMsats: jobPrice})
	if err != nil {
		return "", err
	}
	id := made.JSON201.Provider.ProviderID
	if _, err := admin.SetCapsWithResponse(ctx, id, &api.SetCapsParams{IdempotencyKey: api.NewKey()}, caps); err != nil {
		return "", err
	}
	_, err = admin.EnableProviderWithResponse(ctx, id, &api.EnableProviderParams{IdempotencyKey: api.NewKey()})
	return id, err
}
