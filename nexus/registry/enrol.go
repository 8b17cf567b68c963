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
	"remit/proof/reason"
)

// Limits of what is enrolled.
const (
	maxName  = 200
	maxWord  = 128
	maxRoles = 16
	maxPrice = 1<<53 - 1
)

// ProviderRequest enrols a provider. A device has one provider: enrolling again
// changes what the owner says about it and nothing that the authority knows.
type ProviderRequest struct {
	ProviderID   string // of an earlier enrolment; "" finds or makes one
	DeviceID     string // "" is the device of the provider's name
	Name         string
	Version      string
	Class        string // "" is single_node, or reserve_pool with ReservePool
	Capabilities []string
	PriceMsats   int64
	ReservePool  bool // serve others as well
}

// EnrolProvider writes a provider, switched off and without caps, and with it
// the receipt DeviceEnrolled of its device. Its own credential is made by the
// caller, in the same command.
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
	old.Name, old.Version, old.Class = r.Name, r.Version, r.Class
	old.Capabilities, old.PriceMsats = r.Capabilities, r.PriceMsats
	return save(tx, old)
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
		// A job type that nobody can check would only be a word in an ad.
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
func Standing(tx *store.Tx, p Provider) ([]authority.Receipt, error) {
	d, err := tx.Device(p.DeviceID)
	if err != nil {
		return nil, fmt.Errorf("read the device of provider %s: %w", p.ID, err)
	}
	var list []authority.Receipt
	for _, key := range []string{deviceKey(d), capsKey(p)} {
		e, err := tx.EventByKey(authority.AccountStream(p.Owner), key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r, ok := authority.ReadReceipt(e); ok {
			list = append(list, r)
		}
	}
	return list, nil
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
