package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// Limits of what is enrolled.
const (
	maxName  = 200
	maxWord  = 128
	maxRoles = 16
	maxPrice = 1<<53 - 1
)

// ProviderRequest enrols a provider. A device has one provider: enrolling again
// changes what the owner says about it and nothing that the authority knows, and
// switches it off, since another machine may be behind it now.
type ProviderRequest struct {
	ProviderID   string // of an earlier enrolment, which is to be replaced even while it lives; "" finds or makes one
	DeviceID     string // "" is the device of the provider's name
	Name         string
	Version      string
	Class        string // "" is single_node, or reserve_pool with ReservePool
	Capabilities []string
	PriceMsats   int64
	ReservePool  bool // serve others as well
}

// EnrolProvider writes a provider, switched off, and with it the receipt
// DeviceEnrolled of its device. A new one has no caps. One that lives is replaced
// only if the request names its id: a name is easily taken by mistake, or on
// purpose with a registration token that was found. The caller makes the
// credential, in the same command; jobs.Enrol, which calls this, ends the work of
// the replaced provider.
func EnrolProvider(tx *store.Tx, p authority.Principal, r ProviderRequest) (Provider, error) {
	if err := p.Require(authority.ScopeEnrol); err != nil {
		return Provider{}, err
	}
	if err := r.complete(); err != nil {
		return Provider{}, err
	}
	if r.Class == ReservePool {
		if err := p.Require(authority.ScopePool); err != nil {
			return Provider{}, err
		}
	}
	old, known, err := r.known(tx, p)
	if err != nil {
		return Provider{}, err
	}
	if known {
		r.DeviceID = old.DeviceID
	}
	d, err := r.device(tx, p)
	if err != nil {
		return Provider{}, err
	}
	if !known {
		if old, err = provider(tx.ProviderOfDevice(d.ID)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Provider{}, err
		}
		known = err == nil
	}
	if !known {
		return r.insert(tx, d)
	}
	if r.ProviderID == "" && old.isLive(tx.Now()) {
		return Provider{}, reason.Errorf(reason.Conflict, "provider %s lives under the name %q", old.ID, old.Name).
			WithHint("choose another name; or replace it: stop it and wait %s, or give its id (--replace %s), and its owner has to enable it again",
				StaleAfter, old.ID)
	}
	return r.replace(tx, p, old)
}

// isLive reports whether a daemon works under a registration, or did so a moment
// ago. One that has said goodbye does not.
func (p Provider) isLive(now int64) bool {
	return p.Liveness(now) == Fresh && (!p.Enabled || Status(p.Status) != Stopped)
}

// replace changes what the owner says about a provider. The owner enabled what
// was there before, at its price: what is there now needs to be enabled anew.
func (r ProviderRequest) replace(tx *store.Tx, p authority.Principal, old Provider) (Provider, error) {
	old.Name, old.Version, old.Class = r.Name, r.Version, r.Class
	old.Capabilities, old.PriceMsats = r.Capabilities, r.PriceMsats
	if !old.Enabled {
		return save(tx, old)
	}
	return switchOffLocked(tx, p, old, "enrolled again")
}

// known finds the provider that the request names.
func (r ProviderRequest) known(tx *store.Tx, p authority.Principal) (Provider, bool, error) {
	if r.ProviderID == "" {
		return Provider{}, false, nil
	}
	old, err := Own(tx, p, r.ProviderID)
	if err != nil {
		return Provider{}, false, err
	}
	if old.Retired() {
		return Provider{}, false, reason.Errorf(reason.Conflict, "provider %q is retired, for good", old.ID).
			WithHint("join without its id: the machine becomes another provider")
	}
	if r.DeviceID != "" && r.DeviceID != old.DeviceID {
		return Provider{}, false, reason.Errorf(reason.Conflict, "provider %q is on another device", old.ID).
			WithHint("a provider stays on its device: enrol a new provider for a new device")
	}
	return old, true, nil
}

// device finds or enrols the device of the provider.
func (r ProviderRequest) device(tx *store.Tx, p authority.Principal) (Device, error) {
	d, err := tx.Device(r.DeviceID)
	if r.DeviceID == "" {
		if d, err = tx.DeviceOf(p.Owner, r.Name, ""); errors.Is(err, store.ErrNotFound) {
			return enrolDevice(tx, p, DeviceRequest{Name: r.Name, Roles: []string{RoleProvider}})
		}
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && !p.Owns(d.Owner) {
		return Device{}, reason.Errorf(reason.NotFound, "no device %.128q", r.DeviceID)
	}
	if err != nil || slices.Contains(d.Roles, RoleProvider) {
		return d, err
	}
	return enrolDevice(tx, p, DeviceRequest{DeviceID: d.ID, Name: d.Name, Fingerprint: d.Fingerprint, Roles: append(d.Roles, RoleProvider)})
}

func (r ProviderRequest) insert(tx *store.Tx, d Device) (Provider, error) {
	row := store.ProviderRow{
		ID: newID("prv_"), DeviceID: d.ID, Owner: d.Owner, Name: r.Name, Version: r.Version, Class: r.Class,
		Capabilities: r.Capabilities, PriceMsats: r.PriceMsats, Caps: []byte("{}"),
	}
	if err := tx.InsertProvider(row); err != nil {
		return Provider{}, conflict(err, "device %q got a provider meanwhile", d.ID)
	}
	made, err := provider(tx.Provider(row.ID))
	if err != nil {
		return Provider{}, err
	}
	return made, announce(tx, made)
}

func (r *ProviderRequest) complete() error {
	if r.Class == "" {
		r.Class = SingleNode
	}
	if r.ReservePool {
		r.Class = ReservePool
	}
	r.Capabilities = slices.Compact(slices.Sorted(slices.Values(r.Capabilities)))
	switch {
	case !printable(r.Name, maxName):
		return invalid("name", "must be 1 to %d printable ASCII characters", maxName)
	case !printable(r.Version, maxWord):
		return invalid("version", "must be 1 to %d printable ASCII characters", maxWord)
	case topologyRank[r.Class] == 0:
		return invalid("class", "%.80q is not a class of provider", r.Class)
	case r.PriceMsats < 1 || r.PriceMsats > maxPrice:
		return invalid("price_msats", "is %d, must be 1 to %d", r.PriceMsats, int64(maxPrice))
	case len(r.Capabilities) == 0:
		return invalid("capabilities", "must name a job type")
	}
	for _, c := range r.Capabilities {
		// A job type that cannot be checked would only be a word in an ad.
		if !slices.Contains(job.Types(), c) {
			e := reason.Errorf(reason.JobUnknownType, "%.80q is no job type here", c)
			e.Field = "capabilities"
			return e
		}
	}
	return nil
}

// Standing returns the receipts by which a provider stands in the registry: of
// its device and of its caps.
func Standing(tx *store.Tx, p Provider) ([]record.Receipt, error) {
	rows, err := tx.Standing(StandingKeys(p))
	if err != nil {
		return nil, err
	}
	return StandingOf(tx, p, p.CapsRevision, rows)
}

// StandingKeys names the rows that [StandingOf] needs.
func StandingKeys(p Provider) store.StandingKeys {
	return store.StandingKeys{DeviceID: p.DeviceID, Stream: authority.AccountStream(p.Owner),
		Enrolments: deviceKeys(p.DeviceID), Limit: maxEnrolments, Caps: capsKey(p)}
}

// StandingOf is [Standing] for a provider whose rows were read with the keys of
// an earlier revision of its caps.
func StandingOf(tx *store.Tx, p Provider, capsRevision int64, rows store.StandingRows) ([]record.Receipt, error) {
	if rows.Device == nil {
		return nil, fmt.Errorf("read the device of provider %s: %w", p.ID, store.ErrNotFound)
	}
	stream, key := authority.AccountStream(p.Owner), deviceKey(*rows.Device)
	enrolled, err := eventWithKey(rows.Enrolments, key)
	if err != nil && len(rows.Enrolments) == maxEnrolments {
		enrolled, err = tx.EventByKey(stream, key)
	}
	found := []store.Event{enrolled}
	if errors.Is(err, store.ErrNotFound) {
		found, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case capsRevision != p.CapsRevision:
		caps, err := tx.EventByKey(stream, capsKey(p))
		if err == nil {
			found = append(found, caps)
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	case rows.Caps != nil:
		found = append(found, *rows.Caps)
	}
	var list []record.Receipt
	for _, e := range found {
		if r, ok := authority.ReadReceipt(e); ok {
			list = append(list, r)
		}
	}
	return list, nil
}

// maxEnrolments is how many enrolments of one device are read at once.
const maxEnrolments = 20

// eventWithKey finds an event by its key.
func eventWithKey(list []store.Event, key string) (store.Event, error) {
	for _, e := range list {
		if e.IdempotencyKey == key {
			return e, nil
		}
	}
	return store.Event{}, store.ErrNotFound
}

func conflict(err error, format string, args ...any) error {
	if errors.Is(err, store.ErrConflict) {
		return reason.Errorf(reason.Conflict, format, args...)
	}
	return err
}

// newID makes an id that grows with time.
func newID(prefix string) string {
	id := uuid.Must(uuid.NewV7())
	return prefix + fmt.Sprintf("%x", id[:])
}

func word(s string) bool { return printable(s, maxWord) && !strings.Contains(s, " ") }

func printable(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// RoleProvider is the role of a device that runs jobs.
const RoleProvider = "provider"

// DeviceRequest enrols a device. An owner's device is known by its name or by
// the fingerprint of its key: either again is the same device again.
type DeviceRequest struct {
	DeviceID    string // of an earlier enrolment; "" finds or makes one
	Name        string
	Roles       []string
	Fingerprint string
}

// EnrolDevice writes a device and its receipt DeviceEnrolled.
func EnrolDevice(tx *store.Tx, p authority.Principal, r DeviceRequest) (Device, error) {
	if err := p.Require(authority.ScopeEnrol); err != nil {
		return Device{}, err
	}
	return enrolDevice(tx, p, r)
}

func enrolDevice(tx *store.Tx, p authority.Principal, r DeviceRequest) (Device, error) {
	if err := r.validate(); err != nil {
		return Device{}, err
	}
	d, err := tx.DeviceOf(p.Owner, r.Name, r.Fingerprint)
	if r.DeviceID != "" {
		// The name is unique for an owner, so this cannot take another's place.
		if d, err = tx.Device(r.DeviceID); errors.Is(err, store.ErrNotFound) || err == nil && d.Owner != p.Owner {
			return Device{}, reason.Errorf(reason.NotFound, "no device %.128q", r.DeviceID)
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		d = Device{ID: newID("dev_"), Owner: p.Owner}
	case err != nil:
		return Device{}, err
	}
	d.Name, d.Fingerprint = r.Name, r.Fingerprint
	d.Roles = slices.Compact(slices.Sorted(slices.Values(r.Roles)))
	if err := tx.PutDevice(d); err != nil {
		return Device{}, conflict(err, "another device of yours has the name %q or this key", r.Name)
	}
	if _, _, err := authority.Write(tx, authority.AccountStream(d.Owner), p, record.DeviceEnrolled, deviceKey(d), enrolled(d)); err != nil {
		return Device{}, err
	}
	return tx.Device(d.ID)
}

func enrolled(d Device) map[string]any {
	payload := map[string]any{"device_id": d.ID, "name": d.Name, "owner": d.Owner, "roles": d.Roles}
	if d.Fingerprint != "" {
		payload["fingerprint"] = d.Fingerprint
	}
	return payload
}

// deviceKey is the receipt key of a device as it is now: enrolling again
// without a change is the same receipt again.
func deviceKey(d Device) string {
	digest, err := canon.DigestOf(enrolled(d))
	if err != nil {
		panic("registry: a validated device has a canonical form: " + err.Error())
	}
	return deviceKeys(d.ID) + strings.TrimPrefix(digest, "sha256:")[:16]
}

// deviceKeys begin the receipt keys of a device.
func deviceKeys(id string) string { return "device-enrolled:" + id + ":" }

func (r DeviceRequest) validate() error {
	if !printable(r.Name, maxName) {
		return invalid("name", "must be 1 to %d printable ASCII characters", maxName)
	}
	if r.Fingerprint != "" && !printable(r.Fingerprint, maxName) {
		return invalid("fingerprint", "must be at most %d printable ASCII characters", maxName)
	}
	if len(r.Roles) > maxRoles {
		return invalid("roles", "has %d entries, may have %d", len(r.Roles), maxRoles)
	}
	for _, role := range r.Roles {
		if !word(role) {
			return invalid("roles", "%.80q is not a word", role)
		}
	}
	return nil
}
