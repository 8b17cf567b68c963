package store

// RoleRetired is the role of a device that stands for none: it is where a retired
// provider is, so that its device can have another.
const RoleRetired = "retired"

// RetireProvider marks a locked provider as retired and moves it to another
// device.
func (tx *Tx) RetireProvider(id, device string) error {
	return tx.changeOne(`UPDATE provider SET retired_at = ?, retired_device = device_id, device_id = ?, enabled = 0,
		revision = revision + 1, updated_at = ? WHERE id = ? AND retired_at = 0`, tx.Now(), device, tx.Now(), id)
}

// DeleteProvider marks a retired provider as deleted and forgets what its owner
// and its daemon have said. The row stays: jobs, marks and the ledger name it.
func (tx *Tx) DeleteProvider(id string) error {
	return tx.changeOne(`UPDATE provider SET deleted_at = ?, name = '', version = '', observed = '{}', caps = '{}', capabilities = '',
		revision = revision + 1, updated_at = ? WHERE id = ? AND retired_at > 0 AND deleted_at = 0`, tx.Now(), tx.Now(), id)
}

// RetiredProviders lists the retired providers of an owner by id, after the given
// one, without those that were deleted.
func (tx *Tx) RetiredProviders(owner, after string, limit int) ([]ProviderRow, error) {
	return tx.listProviders(`owner = ? AND id > ? AND retired_at > 0 AND deleted_at = 0 ORDER BY id LIMIT ?`, owner, after, limit)
}

// HasSubmitted reports whether a response of a provider waits to be judged.
func (tx *Tx) HasSubmitted(providerID string) (bool, error) {
	var n int64
	err := tx.row(`SELECT COUNT(*) FROM job WHERE state = 'submitted' AND provider_id = ?`, providerID).Scan(&n)
	return n > 0, err
}
