package authority

import (
	"encoding/json"
	"fmt"

	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/record"
)

// EventReceipt is the type of an event that holds a receipt.
const EventReceipt = "receipt"

// Write appends a receipt to a stream. The payload is any value of the hashed
// subset of JSON. If a receipt with this key stands there already it is
// returned, and another payload under the same key is store.ErrConflict.
func Write(tx *store.Tx, stream string, p Principal, receiptType, key string, payload any) (record.Receipt, store.Event, error) {
	r, err := record.NewReceipt(receiptType, p.ID, key, payload)
	if err != nil {
		return record.Receipt{}, store.Event{}, err
	}
	e, err := Event(tx, stream, p, EventReceipt, key, r)
	return r, e, err
}

// Post is Write without the event as a result, see [store.Tx.Post].
func Post(tx *store.Tx, stream string, p Principal, receiptType, key string, payload any) (record.Receipt, error) {
	r, err := record.NewReceipt(receiptType, p.ID, key, payload)
	if err != nil {
		return record.Receipt{}, err
	}
	return r, PostEvent(tx, stream, p, EventReceipt, key, r, 0)
}

// Copy repeats a receipt in another stream, unchanged: its digest says where it
// came from.
func Copy(tx *store.Tx, stream string, r record.Receipt) error {
	return PostEvent(tx, stream, Principal{ID: r.Principal}, EventReceipt, r.Key, r, 0)
}

// Event appends an event that is no receipt.
func Event(tx *store.Tx, stream string, p Principal, eventType, key string, payload any) (store.Event, error) {
	e, err := eventOf(stream, p, eventType, key, payload)
	if err == nil {
		e, err = tx.Append(e)
	}
	if err != nil {
		return store.Event{}, fmt.Errorf("append %s to %s: %w", eventType, stream, err)
	}
	return e, nil
}

// PostEvent is Event without the event as a result, see [store.Tx.Post].
func PostEvent(tx *store.Tx, stream string, p Principal, eventType, key string, payload any, keep int64) error {
	e, err := eventOf(stream, p, eventType, key, payload)
	if err == nil {
		err = tx.Post(e, keep)
	}
	if err != nil {
		return fmt.Errorf("append %s to %s: %w", eventType, stream, err)
	}
	return nil
}

func eventOf(stream string, p Principal, eventType, key string, payload any) (store.Event, error) {
	body, err := canon.Marshal(payload)
	return store.Event{Stream: stream, Type: eventType, IdempotencyKey: key, Payload: body, Principal: p.ID}, err
}

// ReadReceipt returns the receipt that an event holds; false when it holds none.
func ReadReceipt(e store.Event) (record.Receipt, bool) {
	var r record.Receipt
	if e.Type != EventReceipt || json.Unmarshal(e.Payload, &r) != nil {
		return record.Receipt{}, false
	}
	return r, true
}
