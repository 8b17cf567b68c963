package registry

import (
	"encoding/json"
	"errors"
	"fmt"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// Expected is the revision that the caller saw, nil when it does not matter.
type Expected *int64

func (p Provider) expect(revision Expected) error {
	if revision != nil && *revision != p.Revision {
		return reason.Errorf(reason.PreconditionFailed, "provider %q is at revision %d, not %d", p.ID, p.Revision, *revision)
	}
	return nil
}

// change reads a provider that the principal may change, as it expects it to be.
func change(tx *store.Tx, p authority.Principal, id string, expected Expected) (Provider, error) {
	if err := p.Require(authority.ScopeProviders); err != nil {
		return Provider{}, err
	}
	found, err := Own(tx, p, id)
	if err != nil {
		return Provider{}, err
	}
	if found.Retired() {
		return Provider{}, reason.Errorf(reason.Conflict, "provider %q is retired, for good", id).
			WithHint("join the machine anew: it becomes another provider")
	}
	return found, found.expect(expected)
}

// SetCaps sets the caps of a provider. They count from this commit on for what
// is leased; a job that runs keeps the limits it was leased with.
func SetCaps(tx *store.Tx, p authority.Principal, id string, caps Caps, expected Expected) (Provider, error) {
	found, err := change(tx, p, id, expected)
	if err != nil {
		return Provider{}, err
	}
	if err := caps.Validate(); err != nil {
		return Provider{}, err
	}
	if found.Caps == caps {
		return found, nil
	}
	text, err := canon.Marshal(caps)
	if err != nil {
		return Provider{}, fmt.Errorf("set caps: %w", err)
	}
	found.Caps, found.ProviderRow.Caps = caps, text
	found.CapsRevision++
	if found, err = save(tx, found); err != nil {
		return Provider{}, err
	}
	_, _, err = authority.Write(tx, authority.AccountStream(found.Owner), p, record.CapsSet, capsKey(found), map[string]any{
		"provider_id": found.ID, "device_id": found.DeviceID, "caps": caps, "caps_revision": found.CapsRevision,
		"provider_mode": mode(found),
	})
	return found, err
}

func capsKey(p Provider) string { return fmt.Sprintf("caps-set:%s:%d", p.ID, p.CapsRevision) }

func mode(p Provider) string {
	if p.Enabled {
		return "on"
	}
	return "off"
}

// Enable switches provider mode on. It needs caps, and no quarantine.
func Enable(tx *store.Tx, p authority.Principal, id string, expected Expected) (Provider, error) {
	found, err := change(tx, p, id, expected)
	if err != nil {
		return Provider{}, err
	}
	switch {
	case found.Quarantined():
		return Provider{}, reason.Errorf(reason.ProviderQuarantined, "provider %q is quarantined: %s", id, found.QuarantineReason)
	case !found.Caps.Set():
		return Provider{}, reason.Errorf(reason.Conflict, "provider %q has no caps", id).
			WithHint("set them first: `remit provider caps %s`", id)
	case found.Enabled:
		return found, nil
	}
	status := Starting
	if found.Liveness(tx.Now()) == Fresh {
		status = Running
	}
	found.Enabled = true
	if err := tx.NoteSwitch(found.ID, p.ID, ""); err != nil {
		return Provider{}, err
	}
	if found, err = move(tx, found, status); err != nil {
		return Provider{}, err
	}
	return found, switched(tx, p, found, record.ProviderEnabled, "provider-enabled", "")
}

// SwitchOff switches provider mode off: from this commit on the provider gets
// no lease. What it runs is the business of jobs.Disable, which calls this. A
// provider may always withdraw itself, and cannot come back by itself. changed is
// false when it was off already.
func SwitchOff(tx *store.Tx, p authority.Principal, id, why string) (_ Provider, changed bool, err error) {
	itself := id != "" && p.ProviderID() == id
	if err := p.Require(authority.ScopeProviders); err != nil && !itself {
		return Provider{}, false, err
	}
	if len(why) > 1000 {
		return Provider{}, false, invalid("reason", "is longer than 1000 bytes")
	}
	found, err := Own(tx, p, id)
	if err != nil || !found.Enabled {
		return found, false, err
	}
	found, err = switchOffLocked(tx, p, found, why)
	return found, err == nil, err
}

// switchOffLocked switches a locked provider off.
func switchOffLocked(tx *store.Tx, p authority.Principal, found Provider, why string) (Provider, error) {
	found.Enabled = false
	if err := tx.NoteSwitch(found.ID, p.ID, why); err != nil {
		return Provider{}, err
	}
	found, err := move(tx, found, Stopped)
	if err != nil {
		return Provider{}, err
	}
	return found, switched(tx, p, found, record.ProviderDisabled, "provider-disabled", why)
}

func switched(tx *store.Tx, p authority.Principal, found Provider, receiptType, key, why string) error {
	payload := map[string]any{"provider_id": found.ID, "device_id": found.DeviceID, "caps_revision": found.CapsRevision}
	if why != "" {
		payload["reason"] = why
	}
	_, _, err := authority.Write(tx, authority.AccountStream(found.Owner), p, receiptType,
		fmt.Sprintf("%s:%s:%d", key, found.ID, found.Revision), payload)
	return err
}

// HeartbeatRequest is what a daemon says about itself.
type HeartbeatRequest struct {
	Version string
	Status  Status // Stopping and Stopped when it is about to end; "" otherwise
	// Observed is a small JSON object for people to look at. Nothing is decided
	// by it.
	Observed json.RawMessage
}

// maxObserved bounds what a daemon tells about itself.
const maxObserved = 8 << 10

// Heartbeat records that a provider lives, by the store's clock. Only the
// provider itself can send it. It neither enables nor clears anything.
func Heartbeat(tx *store.Tx, p authority.Principal, id string, r HeartbeatRequest) (Provider, error) {
	if p.ProviderID() != id || id == "" {
		return Provider{}, reason.Errorf(reason.Forbidden, "only the provider itself says that it lives")
	}
	if !printable(r.Version, maxWord) {
		return Provider{}, invalid("version", "must be 1 to %d printable ASCII characters", maxWord)
	}
	observed, err := r.observed()
	if err != nil {
		return Provider{}, err
	}
	found, err := Lock(tx, id)
	if err != nil {
		return visible(found, err, id, nil)
	}
	found.Version, found.Observed, found.HeartbeatAt = r.Version, observed, tx.Now()
	status := Status(found.Status)
	switch {
	case r.Status != "" && r.Status != Stopping && r.Status != Stopped && r.Status != Running:
		return Provider{}, invalid("status", "%.32q is not running, stopping or stopped", r.Status)
	case !found.Enabled: // stays as the authority has it
	case r.Status == Stopping || r.Status == Stopped:
		status = r.Status
	default:
		status = Running
	}
	// Going from stopped to stopping says nothing new.
	if !CanMove(Status(found.Status), status) {
		status = Status(found.Status)
	}
	return move(tx, found, status)
}

// Silence makes a provider stale at once: its credential has ended, so that it
// answers no offer. The next heartbeat ends that. A provider that is not there, was
// never heard of or is stale is left alone.
func Silence(tx *store.Tx, id string) error {
	found, err := Lock(tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || found.Retired() || found.Liveness(tx.Now()) != Fresh {
		return err
	}
	found.HeartbeatAt = max(1, tx.Now()-StaleAfter.Milliseconds()-1)
	_, err = save(tx, found)
	return err
}

func (r HeartbeatRequest) observed() (json.RawMessage, error) {
	if len(r.Observed) == 0 {
		return json.RawMessage("{}"), nil
	}
	text, err := canon.Canonicalize(r.Observed)
	if err != nil || len(text) > maxObserved || text[0] != '{' {
		return nil, invalid("observed", "must be a JSON object of the hashed subset of at most %d bytes", maxObserved)
	}
	return text, nil
}

// move changes the status and saves.
func move(tx *store.Tx, p Provider, to Status) (Provider, error) {
	if !CanMove(Status(p.Status), to) {
		return Provider{}, reason.Errorf(reason.Conflict, "provider %q is %s and cannot become %s", p.ID, p.Status, to)
	}
	p.Status = string(to)
	return save(tx, p)
}

// save writes a provider and tells the owner's lane.
func save(tx *store.Tx, p Provider) (Provider, error) {
	if err := tx.UpdateProvider(p.ProviderRow); err != nil {
		return Provider{}, err
	}
	saved, err := provider(tx.Provider(p.ID))
	if err != nil {
		return Provider{}, err
	}
	return saved, announce(tx, saved)
}

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
		return Provider{}, reason.Errorf(reason.Conflict, "provider %q is not retired", id).
			WithHint("retire it first: `remit provider retire %s`", id)
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
