package jobs

import (
	"remit/nexus/bridge"
	"remit/nexus/store"
)

// mirror points to the two receipts of a settlement, of the verdict and of the
// payment. A job that ended without a verdict has nothing that the world could
// rely on.
func mirror(tx *store.Tx, j Job, verification, payment, status string) error {
	for _, digest := range []string{verification, payment} {
		if err := bridge.Point(tx, j.Owner, bridge.Pointer{
			ProviderID: j.ProviderID, RunID: j.RunID, JobHash: j.Hash, ReceiptSHA256: digest, Settlement: status,
		}); err != nil {
			return err
		}
	}
	return nil
}
