package bridge

import (
	"encoding/json"
	"errors"
	"fmt"

	"remit/nexus/store"
	"remit/proof/canon"
)

// Classes of events, as the outbox and the API name them.
const (
	ClassAd      = "provider_ad"
	ClassPointer = "receipt_pointer"
)

// maxAds bounds the ads of one provider in a minute: a daemon that goes up and
// down must not be chatter. What is left out, [Advertised] tells.
const maxAds = 10

// Advertise puts the ad of a provider into the outbox, in the transaction of
// what has changed the provider. The same ad again is no new one.
//
// Relays keep the ad with the greatest created_at, in whole seconds, so each ad
// is at least a second later than the one before it.
func Advertise(tx *store.Tx, owner string, p Provider) error {
	row, err := adRow(owner, p)
	if err != nil {
		return err
	}
	now := tx.Now() / 1000
	row.CreatedAt = now
	last, err := tx.LatestBridgeEvent(row.D)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return tx.AddBridgeEvent(row)
	case err != nil || last.SHA256 == row.SHA256:
		return err
	case last.State == store.BridgeNew:
		row.ID, row.CreatedAt = last.ID, max(now, last.CreatedAt)
		return tx.ReplaceBridgeEvent(row)
	}
	recent, err := tx.CountBridgeEvents(row.D, now-60)
	if err != nil || recent >= maxAds {
		return err
	}
	row.CreatedAt = max(now, last.CreatedAt+1)
	return tx.AddBridgeEvent(row)
}

// Advertised reports whether the latest ad of a provider says this of it.
func Advertised(tx *store.Tx, p Provider) (bool, error) {
	row, err := adRow("", p)
	if err != nil {
		return false, err
	}
	last, err := tx.LatestBridgeEvent(row.D)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return last.SHA256 == row.SHA256, err
}

func adRow(owner string, p Provider) (store.BridgeRow, error) {
	e, err := p.event(0)
	if err != nil {
		return store.BridgeRow{}, err
	}
	row, err := rowOf(e)
	row.Owner, row.Class, row.ProviderID = owner, ClassAd, p.ID
	return row, err
}

// Point puts the pointer to a receipt into the outbox, in the transaction that
// writes the receipt.
func Point(tx *store.Tx, owner string, p Pointer) error {
	e, err := p.event(tx.Now() / 1000)
	if err != nil {
		return err
	}
	row, err := rowOf(e)
	if err != nil {
		return err
	}
	row.Owner, row.Class, row.ProviderID, row.RunID, row.ReceiptSHA256 = owner, ClassPointer, p.ProviderID, p.RunID, p.ReceiptSHA256
	return tx.AddBridgeEvent(row)
}

// rowOf writes an event that is not signed. Its digest leaves created_at out:
// it is what the event says.
func rowOf(e Event) (store.BridgeRow, error) {
	tags, err := json.Marshal(e.Tags)
	if err != nil {
		return store.BridgeRow{}, fmt.Errorf("write an event into the outbox: %w", err)
	}
	digest, err := canon.DigestOf(map[string]any{"kind": e.Kind, "tags": e.Tags, "content": e.Content})
	if err != nil {
		return store.BridgeRow{}, fmt.Errorf("write an event into the outbox: %w", err)
	}
	return store.BridgeRow{Kind: int64(e.Kind), D: e.Tag("d"), CreatedAt: e.CreatedAt, Tags: tags, Content: e.Content, SHA256: digest}, nil
}

// EventOf reads the event of a row: without an id, key and signature until it
// is signed.
func EventOf(row store.BridgeRow, pubkey string) (Event, error) {
	e := Event{ID: row.EventID, CreatedAt: row.CreatedAt, Kind: int(row.Kind), Content: row.Content, Sig: row.Sig}
	if row.State == store.BridgeSigned {
		e.PubKey = pubkey
	}
	if err := json.Unmarshal(row.Tags, &e.Tags); err != nil {
		return Event{}, refuse("tags that are no list of lists of texts")
	}
	return e, nil
}
