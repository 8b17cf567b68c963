package store

import (
	"encoding/json"
	"strings"
)

// The rows of devices and providers. What may be written, and when, is decided
// in remit/nexus/registry.

// DeviceRow is a machine of an owner.
type DeviceRow struct {
	ID, Owner, Name      string
	Roles                []string
	Fingerprint          string // of the device's public key, "" when it has none
	CreatedAt, UpdatedAt int64
}

// ProviderRow is a provider: what its owner says, then what the authority says.
type ProviderRow struct {
	ID, DeviceID, Owner  string
	Name, Version, Class string
	Capabilities         []string
	PriceMsats           int64
	Caps                 json.RawMessage
	CapsRevision         int64
	Status               string
	Enabled              bool
	HeartbeatAt          int64           // 0: never heard of
	Observed             json.RawMessage // what the daemon reports about itself

	Successes, Unverified, Failures, Violations int64
	QuarantinedAt                               int64
	QuarantineReason                            string
	RetiredAt, DeletedAt                        int64 // 0: never. DeviceID is then the device that it was on
	Revision                                    int64 // grows with every change
	CreatedAt, UpdatedAt                        int64

	Leased, Queued int64 // jobs it holds, and jobs it was offered; filled by the readers
}

const deviceColumns = `id, owner, name, roles, fingerprint, created_at, updated_at`

func scanDevice(s scanner) (d DeviceRow, err error) {
	var roles string
	err = s.Scan(&d.ID, &d.Owner, &d.Name, &roles, &d.Fingerprint, &d.CreatedAt, &d.UpdatedAt)
	d.Roles = splitWords(roles)
	return d, err
}

// Device reads a device; ErrNotFound when there is none.
func (tx *Tx) Device(id string) (DeviceRow, error) {
	var found *DeviceRow
	return present(&found, tx.send(deviceRow(&found, id)))
}

func deviceRow(dst **DeviceRow, id string) *statement {
	return optional(dst, scanDevice, `SELECT `+deviceColumns+` FROM device WHERE id = ?`, id)
}

// DeviceOf finds the device of an owner by its name or its fingerprint, and
// locks it.
func (tx *Tx) DeviceOf(owner, name, fingerprint string) (DeviceRow, error) {
	return scanDevice(tx.row(`SELECT `+deviceColumns+` FROM device
		WHERE owner = ? AND (name = ? OR (fingerprint <> '' AND fingerprint = ?))
		ORDER BY CASE WHEN fingerprint = ? THEN 0 ELSE 1 END LIMIT 1`+tx.lock(), owner, name, fingerprint, fingerprint))
}

// DevicesOf lists the devices of an owner by id, after the given one.
func (tx *Tx) DevicesOf(owner, after string, limit int) ([]DeviceRow, error) {
	var list []DeviceRow
	err := tx.rows(`SELECT `+deviceColumns+` FROM device WHERE owner = ? AND id > ? AND roles <> '`+RoleRetired+`' ORDER BY id LIMIT ?`, func(s scanner) error {
		d, err := scanDevice(s)
		list = append(list, d)
		return err
	}, owner, after, limit)
	return list, err
}

// PutDevice writes a device; an existing one keeps its id, owner and age.
func (tx *Tx) PutDevice(d DeviceRow) error {
	_, err := tx.exec(`INSERT INTO device (`+deviceColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, roles = excluded.roles,
			fingerprint = excluded.fingerprint, updated_at = excluded.updated_at`,
		d.ID, d.Owner, d.Name, strings.Join(d.Roles, " "), d.Fingerprint, tx.Now(), tx.Now())
	return err
}

const providerColumns = `id, device_id, owner, name, version, class, capabilities, price_msats, caps, caps_revision,
	status, enabled, heartbeat_at, observed, successes, unverified, failures, violations,
	quarantined_at, quarantine_reason, revision, created_at, updated_at`

// providerEnd says how a provider ended.
const providerEnd = `retired_at, deleted_at, retired_device`

// providerLoad counts the jobs of a provider beside its row.
const providerLoad = `(SELECT COUNT(*) FROM job WHERE job.provider_id = provider.id AND job.state = 'leased'),
	(SELECT COUNT(*) FROM job WHERE job.provider_id = provider.id AND job.state = 'queued')`

const providerAll = providerColumns + `, ` + providerEnd + `, ` + providerLoad

func scanProvider(s scanner) (p ProviderRow, err error) {
	var capabilities, caps, observed, device string
	var enabled int64
	err = s.Scan(&p.ID, &p.DeviceID, &p.Owner, &p.Name, &p.Version, &p.Class, &capabilities, &p.PriceMsats, &caps, &p.CapsRevision,
		&p.Status, &enabled, &p.HeartbeatAt, &observed, &p.Successes, &p.Unverified, &p.Failures, &p.Violations,
		&p.QuarantinedAt, &p.QuarantineReason, &p.Revision, &p.CreatedAt, &p.UpdatedAt,
		&p.RetiredAt, &p.DeletedAt, &device, &p.Leased, &p.Queued)
	if device != "" {
		p.DeviceID = device
	}
	p.Capabilities, p.Enabled = splitWords(capabilities), enabled == 1
	p.Caps, p.Observed = json.RawMessage(caps), json.RawMessage(observed)
	return p, err
}

// Provider reads a provider; ErrNotFound when there is none.
func (tx *Tx) Provider(id string) (ProviderRow, error) {
	var found *ProviderRow
	return present(&found, tx.send(providerRow(&found, id)))
}

func providerRow(dst **ProviderRow, id string) *statement {
	return optional(dst, scanProvider, `SELECT `+providerAll+` FROM provider WHERE id = ?`, id)
}

// LockProvider reads a provider for writing. A command that leases, switches or
// marks a provider takes this lock first.
func (tx *Tx) LockProvider(id string) (ProviderRow, error) {
	var found *ProviderRow
	return present(&found, tx.send(tx.lockedProvider(&found, id)...))
}

func (tx *Tx) lockedProvider(dst **ProviderRow, id string) []*statement {
	if tx.lock() == "" {
		return []*statement{providerRow(dst, id)}
	}
	// Counting under the lock needs a statement of its own: the snapshot of the
	// one that waits for the lock is older than the lock.
	var locked *string
	return []*statement{optional(&locked, scanText, `SELECT id FROM provider WHERE id = ?`+tx.lock(), id), providerRow(dst, id)}
}

func scanText(s scanner) (text string, err error) {
	err = s.Scan(&text)
	return text, err
}

// ProviderOfDevice finds the provider on a device and locks it.
func (tx *Tx) ProviderOfDevice(deviceID string) (ProviderRow, error) {
	var id string
	if err := tx.row(`SELECT id FROM provider WHERE device_id = ?`, deviceID).Scan(&id); err != nil {
		return ProviderRow{}, err
	}
	return tx.LockProvider(id)
}

// ProvidersOf lists the providers of an owner by id, after the given one, without
// those that are retired.
func (tx *Tx) ProvidersOf(owner, after string, limit int) ([]ProviderRow, error) {
	return tx.listProviders(`owner = ? AND id > ? AND retired_at = 0 ORDER BY id LIMIT ?`, owner, after, limit)
}

// Providers lists all providers by id, after the given one, without those that
// are retired.
func (tx *Tx) Providers(after string, limit int) ([]ProviderRow, error) {
	return tx.listProviders(`id > ? AND retired_at = 0 ORDER BY id LIMIT ?`, after, limit)
}

// LiveProviders selects what a dispatch of an owner may choose from: the
// providers that are on and had a heartbeat since a time, the owner's own first,
// then those of a class that is shared by all owners, the cheapest first. Skip
// passes over so many.
type LiveProviders struct {
	Owner, SharedClass string
	Since              int64
	Limit, Skip        int
}

// LiveProviders lists the providers of a selection.
func (tx *Tx) LiveProviders(q LiveProviders) (found []ProviderRow, err error) {
	err = tx.send(liveProviders(&found, q))
	return found, err
}

func liveProviders(dst *[]ProviderRow, q LiveProviders) *statement {
	// Each half has an index of its own, which leaves silent providers out.
	return all(dst, scanProvider, `SELECT `+providerAll+` FROM (
		SELECT 0 AS tier, `+providerColumns+`, `+providerEnd+` FROM provider WHERE enabled = 1 AND owner = ? AND heartbeat_at >= ?
		UNION ALL SELECT 1, `+providerColumns+`, `+providerEnd+` FROM provider WHERE enabled = 1 AND class = ? AND heartbeat_at >= ? AND owner <> ?) AS provider
		ORDER BY tier, price_msats, id LIMIT ? OFFSET ?`, q.Owner, q.Since, q.SharedClass, q.Since, q.Owner, q.Limit, q.Skip)
}

// SilentProviders lists some of those that are on and were not heard of since a
// time, to explain why there is no choice.
func (tx *Tx) SilentProviders(owner, sharedClass string, since int64, limit int) ([]ProviderRow, error) {
	return tx.listProviders(`id IN (
		SELECT id FROM provider WHERE enabled = 1 AND owner = ? AND heartbeat_at < ?
		UNION ALL SELECT id FROM provider WHERE enabled = 1 AND class = ? AND heartbeat_at < ? AND owner <> ?)
		ORDER BY CASE WHEN owner = ? THEN 0 ELSE 1 END, heartbeat_at DESC, id LIMIT ?`, owner, since, sharedClass, since, owner, owner, limit)
}

func (tx *Tx) listProviders(where string, args ...any) ([]ProviderRow, error) {
	return list(tx, scanProvider, `SELECT `+providerAll+` FROM provider WHERE `+where, args...)
}

// InsertProvider writes a new provider, switched off and without a history.
func (tx *Tx) InsertProvider(p ProviderRow) error {
	_, err := tx.exec(`INSERT INTO provider (`+providerColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'stopped', 0, 0, '{}', 0, 0, 0, 0, 0, '', 1, ?, ?)`,
		p.ID, p.DeviceID, p.Owner, p.Name, p.Version, p.Class, strings.Join(p.Capabilities, " "), p.PriceMsats,
		p.Caps, p.CapsRevision, tx.Now(), tx.Now())
	return err
}

// UpdateProvider writes the columns that the owner and the daemon decide. What
// the authority knows against a provider is not among them.
func (tx *Tx) UpdateProvider(p ProviderRow) error {
	return tx.write(missing("save provider", p.ID), `UPDATE provider SET name = ?, version = ?, class = ?, capabilities = ?, price_msats = ?,
		caps = ?, caps_revision = ?, status = ?, enabled = ?, heartbeat_at = ?, observed = ?,
		revision = revision + 1, updated_at = ? WHERE id = ?`,
		p.Name, p.Version, p.Class, strings.Join(p.Capabilities, " "), p.PriceMsats,
		p.Caps, p.CapsRevision, p.Status, p.Enabled, p.HeartbeatAt, p.Observed, tx.Now(), p.ID)
}

// changeOne runs a statement that must change exactly one row.
func (tx *Tx) changeOne(query string, args ...any) error {
	n, err := tx.exec(query, args...)
	if err == nil && n != 1 {
		err = ErrNotFound
	}
	return err
}

func splitWords(s string) []string { return strings.Fields(s) }
