package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Limits of streams.
const (
	MaxStreamName   = 255     // bytes
	MaxEventPayload = 1 << 20 // bytes of canonical JSON
	MaxEvents       = 1000    // that Events returns at once
)

// Event is one entry of a stream.
type Event struct {
	Stream         string          // e.g. "run:<id>:events"; visible ASCII
	Seq            int64           // 1, 2, 3 … without a gap
	ID             string          // "evt_" and 32 hex digits
	Type           string          // e.g. "receipt"
	IdempotencyKey string          // unique in the stream; "" is never a repetition
	Payload        json.RawMessage // canonical JSON (remit/proof/canon)
	PayloadSHA256  string          // "sha256:…" of Payload
	RecordedAt     int64           // unix milliseconds
	Principal      string          // who caused it
}

// Append adds an event at the end of its stream and returns it with Seq, ID,
// digest and time. The payload is stored in canonical form; none means {}. An
// event with the idempotency key of an earlier one returns that one and adds
// nothing, or ErrConflict if type or payload differ.
//
// On PostgreSQL the stream stays locked until the command commits, so append
// late, and to several streams in the order of their names.
func (tx *Tx) Append(e Event) (Event, error) {
	if err := e.normalize(); err != nil {
		return Event{}, err
	}
	if e.IdempotencyKey != "" && tx.dialect == "sqlite" {
		if first, err := tx.first(e); !errors.Is(err, ErrNotFound) {
			return first, err
		}
	}
	e.RecordedAt = tx.Now()
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Event{}, fmt.Errorf("append an event: %w", err)
		}
		e.ID = fmt.Sprintf("evt_%x", id[:])
	}
	added, err := tx.insertEvent(&e)
	if err != nil {
		return Event{}, fmt.Errorf("append to %q: %w", e.Stream, err)
	}
	if !added {
		return tx.first(e)
	}
	tx.changed = append(tx.changed, e.Stream)
	return e, nil
}

func (e *Event) normalize() error {
	if !streamName(e.Stream) {
		return reason.Errorf(reason.RequestInvalid, "stream name %.80q is not 1 to %d visible ASCII characters", e.Stream, MaxStreamName)
	}
	if len(e.Payload) == 0 {
		e.Payload = json.RawMessage("{}")
	}
	if len(e.Payload) > MaxEventPayload {
		return reason.Errorf(reason.RequestTooLarge, "event payload of %d bytes, at most %d", len(e.Payload), MaxEventPayload)
	}
	payload, err := canon.Canonicalize(e.Payload)
	if err != nil {
		return fmt.Errorf("event payload: %w", err)
	}
	e.Payload, e.PayloadSHA256 = payload, canon.Digest(payload)
	return nil
}

func streamName(s string) bool {
	if len(s) == 0 || len(s) > MaxStreamName {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// nextSeq gives out the next number, and locks the stream on PostgreSQL.
const nextSeq = `INSERT INTO stream (name, head, floor) VALUES (?, 1, 0)
	ON CONFLICT (name) DO UPDATE SET head = stream.head + 1 RETURNING head`

// insertEvent gives e its number and stores it. On PostgreSQL a concurrent
// command may have used the key meanwhile, which only the unique index sees;
// then the number is given back under the same lock, and added is false.
func (tx *Tx) insertEvent(e *Event) (added bool, err error) {
	if tx.dialect == "sqlite" {
		if err := tx.row(nextSeq, e.Stream).Scan(&e.Seq); err != nil {
			return false, err
		}
		_, err := tx.exec(`INSERT INTO event (stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			e.Stream, e.Seq, e.ID, e.Type, e.IdempotencyKey, e.Payload, e.PayloadSHA256, e.RecordedAt, e.Principal)
		return err == nil, err
	}
	err = tx.row(`WITH place AS (`+nextSeq+`), added AS (
		INSERT INTO event (stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal)
		SELECT ?, head, ?, ?, ?, ?, ?, ?, ? FROM place
		ON CONFLICT (stream, idempotency_key) WHERE idempotency_key <> '' DO NOTHING RETURNING seq)
		SELECT place.head, (SELECT COUNT(*) FROM added) = 1 FROM place`,
		e.Stream, e.Stream, e.ID, e.Type, e.IdempotencyKey, e.Payload, e.PayloadSHA256, e.RecordedAt, e.Principal).Scan(&e.Seq, &added)
	if err != nil || added {
		return added, err
	}
	_, err = tx.exec("UPDATE stream SET head = head - 1 WHERE name = ?", e.Stream)
	return false, err
}

const eventColumns = "stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal"

func scanEvent(row scanner) (Event, error) {
	var e Event
	var payload string
	err := row.Scan(&e.Stream, &e.Seq, &e.ID, &e.Type, &e.IdempotencyKey, &payload, &e.PayloadSHA256, &e.RecordedAt, &e.Principal)
	e.Payload = json.RawMessage(payload)
	return e, err
}

// first finds the event that has the key of e.
func (tx *Tx) first(e Event) (Event, error) {
	found, err := tx.EventByKey(e.Stream, e.IdempotencyKey)
	if err != nil {
		return Event{}, err
	}
	if found.Type != e.Type || found.PayloadSHA256 != e.PayloadSHA256 {
		return Event{}, fmt.Errorf("%w: event %d of %q has the idempotency key %q and other content",
			ErrConflict, found.Seq, e.Stream, e.IdempotencyKey)
	}
	return found, nil
}

// EventByKey returns the event with an idempotency key, or ErrNotFound.
func (tx *Tx) EventByKey(stream, key string) (Event, error) {
	if key == "" {
		return Event{}, ErrNotFound
	}
	// The condition on '' lets both databases use the partial index.
	return scanEvent(tx.row("SELECT "+eventColumns+" FROM event WHERE stream = ? AND idempotency_key = ? AND idempotency_key <> ''", stream, key))
}

// Events returns up to limit events after the seq, in order. Whether events
// between have been removed is for the caller to see: they have if after is
// below the floor of Head.
func (tx *Tx) Events(stream string, after int64, limit int) ([]Event, error) {
	var out []Event
	err := tx.rows("SELECT "+eventColumns+" FROM event WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?",
		func(row scanner) error {
			e, err := scanEvent(row)
			out = append(out, e)
			return err
		}, stream, after, min(max(limit, 0), MaxEvents))
	return out, err
}

// Head returns the last seq of a stream, and the last one that retention has
// removed. Both are 0 for a stream without events.
func (tx *Tx) Head(stream string) (seq, floor int64, err error) {
	err = tx.row("SELECT head, floor FROM stream WHERE name = ?", stream).Scan(&seq, &floor)
	if errors.Is(err, ErrNotFound) {
		return 0, 0, nil
	}
	return seq, floor, err
}

// Trim removes the events up to a seq, and their idempotency keys. Streams that a bundle is made of are
// never trimmed; presence is.
func (tx *Tx) Trim(stream string, upTo int64) error {
	n, err := tx.exec("UPDATE stream SET floor = ? WHERE name = ? AND floor < ? AND head >= ?", upTo, stream, upTo, upTo)
	if err != nil || n == 0 {
		return err
	}
	_, err = tx.exec("DELETE FROM event WHERE stream = ? AND seq <= ?", stream, upTo)
	return err
}
