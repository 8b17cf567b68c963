//go:build !race

package jobs_test

import (
	"errors"
	"slices"
	"testing"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/bridge"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/record"
)

// pointers are the digests of receipts that the outbox of the mirror points to.
func (h *house) pointers() (list []string) {
	h.t.Helper()
	for _, row := range get(h, func(tx *store.Tx) ([]store.BridgeRow, error) { return tx.BridgeEvents("", "", 1000) }) {
		if row.Class == bridge.ClassPointer {
			list = append(list, row.ReceiptSHA256)
		}
	}
	slices.Sort(list)
	return list
}

// settled are the digests of the receipts of a run that say how it was judged
// and paid.
func (h *house) settled(run string) (list []string) {
	h.t.Helper()
	for _, e := range h.events(authority.RunStream(run)) {
		r, ok := authority.ReadReceipt(e)
		if ok && slices.Contains([]string{record.VerificationPassed, record.VerificationFailed, record.PaymentReleased,
			record.PaymentWithheld}, r.Type) {
			list = append(list, r.SHA256)
		}
	}
	slices.Sort(list)
	return list
}

// TestPointersStandAndFallWithTheSettlement: both receipts are pointed to if the
// settlement was committed, and only then.
func TestPointersStandAndFallWithTheSettlement(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		p := h.provider("alice", "one", 1000, false, wide)
		for exit, want := range map[int]string{0: "released", 1: "withheld"} {
			before := len(h.pointers())
			run := h.run()
			j := h.queued(run, "test")
			status := job.Success
			if exit != 0 {
				status = job.Failed
			}
			h.complete(p, h.lease(p), reply(j, status, exit))
			undo := errors.New("undo")
			err := h.try(func(tx *store.Tx) error {
				if _, _, err := jobs.Settle(tx, alice, j.ID); err != nil {
					return err
				}
				return undo
			})
			if !errors.Is(err, undo) || len(h.pointers()) != before {
				t.Fatalf("a settlement that was rolled back left pointers: %v %v", err, h.pointers())
			}
			if s := h.settle(j.ID); s.Status != want {
				t.Fatalf("settled as %s", s.Status)
			}
			h.settle(j.ID) // changes nothing
			own := h.settled(run.ID)
			if got := h.pointers(); len(own) != 2 || len(got) != before+2 || !slices.Contains(got, own[0]) || !slices.Contains(got, own[1]) {
				t.Errorf("exit %d: pointers %v, receipts %v", exit, got, own)
			}
		}
		// What was never judged is not mirrored.
		before := len(h.pointers())
		j := h.queued(h.run(), "test")
		h.do(func(tx *store.Tx) error { _, err := jobs.Cancel(tx, alice, j.ID); return err })
		if got := h.pointers(); len(got) != before {
			t.Errorf("a canceled job is mirrored: %v", got)
		}
	})
}
