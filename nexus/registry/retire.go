package registry

import (
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
)

// Retire takes a provider out of service for good, with the receipt
// ProviderRetired. What it runs is the business of jobs.Retire, which calls this,
// and its credential that of the caller. Receipts, jobs and the ledger go on naming
// it; its name and its device are free for another. changed is false when it was
// retired already.
func Retire(tx *store.Tx, p authority.Principal, id, why string) (_ Provider, changed bool, err error) {
	if err := p.Require(authority.ScopeProviders); err != nil {
		return Provider{}, false, err
	}
	if len(why) > 1000 {
		return Provider{}, false, invalid("reason", "is longer than 1000 bytes")
	}
	found, err := Own(tx, p, id)
	if err != nil || found.Retired() {
		return found, false, err
	}
	if found.Enabled {
		if found, err = switchOffLocked(tx, p, found, why); err != nil {
			return Provider{}, false, err
		}
	}
	nowhere := Device{ID: newID("dev_"), Owner: found.Owner, Roles: []string{store.RoleRetired}}
	nowhere.Name = nowhere.ID
	if err := tx.PutDevice(nowhere); err != nil {
		return Provider{}, false, err
	}
	if err := tx.RetireProvider(id, nowhere.ID); err != nil {
		return Provider{}, false, err
	}
	if found, err = provider(tx.Provider(id)); err != nil {
		return Provider{}, false, err
	}
	if err := switched(tx, p, found, record.ProviderRetired, "provider-retired", why); err != nil {
		return Provider{}, false, err
	}
	return found, true, announce(tx, found)
}

// Delete removes a retired provider from all lists, with the receipt
// ProviderDeleted, and forgets what its owner and its daemon said about it: name,
// version, caps. Its id stays wherever it was named. A response of it that waits
// to be judged is judged first.
func Delete(tx *store.Tx, p authority.Principal, id string) (Provider, error) {
	if err := p.Require(authority.ScopeProviders); err != nil {
		return Provider{}, err
	}
	found, err := Own(tx, p, id)
	if err != nil {
		return Provider{}, err
	}
	if !found.Retired() {
		return Provider{}, reason.Errorf(reason.Conflict, "provider %q is not retired", id).WithHint("retire it first: 'remit provider retire'")
	}
	waits, err := tx.HasSubmitted(id)
	if err != nil {
		return Provider{}, err
	}
	if waits {
		return Provider{}, reason.Errorf(reason.Conflict, "a response of provider %q waits to be settled", id).
			WithHint("settle its jobs, or wait until the nexus does")
	}
	if err := tx.DeleteProvider(id); err != nil {
		return Provider{}, err
	}
	gone, err := provider(tx.Provider(id))
	if err != nil {
		return Provider{}, err
	}
	return gone, switched(tx, p, gone, record.ProviderDeleted, "provider-deleted", "")
}
