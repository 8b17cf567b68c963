package registry

import (
	"errors"
	"slices"
	"strings"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

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
