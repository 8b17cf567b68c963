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
		if first, err := tx.appendedBefore(e); !errors.Is(err, ErrNotFound) {
			return first, err
		}
	}
	if err := e.complete(tx.Now()); err != nil {
		return Event{}, err
	}
	added, err := tx.insertEvent(&e)
	if err != nil {
		return Event{}, fmt.Errorf("append to %q: %w", e.Stream, err)
	}
	if !added {
		return tx.appendedBefore(e)
	}
	tx.changed = append(tx.changed, e.Stream)
	return e, nil
}

// Post is Append without the place that the event got, as a deferred write. If
// there is another event with its key the command ends with ErrConflict. With keep > 0 the stream is trimmed to so many events, in batches
// of as many.
func (tx *Tx) Post(e Event, keep int64) error {
	if tx.dialect == "sqlite" {
		added, err := tx.Append(e)
		if err != nil || keep <= 0 || added.Seq%keep != 0 || added.Seq <= keep {
			return err
		}
		return tx.Trim(e.Stream, added.Seq-keep)
	}
	if err := e.normalize(); err != nil {
		return err
	}
	if err := e.complete(tx.Now()); err != nil {
		return err
	}
	tx.changed = append(tx.changed, e.Stream) // or a hint for nothing, if it was there
	return tx.postEvent(e, keep)
}

// complete fills in what the store knows.
func (e *Event) complete(now int64) error {
	e.RecordedAt = now
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("append an event: %w", err)
		}
		e.ID = fmt.Sprintf("evt_%x", id[:])
	}
	return nil
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

// The statements of Post, without and with keep. Nothing is added when there is
// an event with the key, and a division by zero ends the command when that is
// another one.
const (
	postOld = `WITH old AS (
		SELECT type, payload_sha256 FROM event WHERE stream = ? AND idempotency_key = ? AND idempotency_key <> ''),
	place AS (
		INSERT INTO stream (name, head, floor) SELECT ?, 1, 0 WHERE NOT EXISTS (SELECT 1 FROM old)
		ON CONFLICT (name) DO UPDATE SET head = stream.head + 1`
	postNew = ` RETURNING head, floor),
	added AS (
		INSERT INTO event (stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal)
		SELECT ?, head, ?, ?, ?, ?, ?, ?, ? FROM place)`
	postEnd = ` SELECT 1 / COUNT(*) FROM (SELECT 1 FROM place
		UNION ALL SELECT 1 FROM old WHERE type = ? AND payload_sha256 = ?) AS done`

	postAll     = postOld + postNew + postEnd
	postKeeping = postOld + `, floor = CASE WHEN (stream.head + 1) % ? = 0 THEN GREATEST(stream.floor, stream.head + 1 - ?)
		ELSE stream.floor END` +
		postNew + `, trimmed AS (
		DELETE FROM event WHERE stream = ? AND seq <= (SELECT floor FROM place WHERE head % ? = 0))` + postEnd
)

// postEvent adds an event on PostgreSQL. If a concurrent command has used its key
// since the statement began, which only the unique index sees, the command runs
// again.
func (tx *Tx) postEvent(e Event, keep int64) error {
	query, args := postAll, []any{e.Stream, e.IdempotencyKey, e.Stream}
	if keep > 0 {
		query, args = postKeeping, append(args, keep, keep)
	}
	args = append(args, e.Stream, e.ID, e.Type, e.IdempotencyKey, e.Payload, e.PayloadSHA256, e.RecordedAt, e.Principal)
	if keep > 0 {
		args = append(args, e.Stream, keep)
	}
	args = append(args, e.Type, e.PayloadSHA256)
	return tx.deferStatement(&statement{query: query, args: args, changed: func(_ int64, err error) error {
		switch {
		case err == nil:
			return nil
		case hasCode(err, divisionByZero):
			err = fmt.Errorf("%w: %q has another event with the idempotency key %q", ErrConflict, e.Stream, e.IdempotencyKey)
		case hasCode(err, uniqueViolation):
			err = again{classify(err)}
		default:
			err = classify(err)
		}
		return fmt.Errorf("append to %q: %w", e.Stream, err)
	}})
}

const eventColumns = "stream, seq, id, type, idempotency_key, payload, payload_sha256, recorded_at, principal"

func scanEvent(row scanner) (Event, error) {
	var e Event
	var payload string
	err := row.Scan(&e.Stream, &e.Seq, &e.ID, &e.Type, &e.IdempotencyKey, &payload, &e.PayloadSHA256, &e.RecordedAt, &e.Principal)
	e.Payload = json.RawMessage(payload)
	return e, err
}

// appendedBefore finds the event that has the key of e.
func (tx *Tx) appendedBefore(e Event) (Event, error) {
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
	var found *Event
	return present(&found, tx.send(eventByKey(&found, stream, key)))
}

func eventByKey(dst **Event, stream, key string) *statement {
	// The condition on '' lets both databases use the partial index.
	return optional(dst, scanEvent,
		"SELECT "+eventColumns+" FROM event WHERE stream = ? AND idempotency_key = ? AND idempotency_key <> ''", stream, key)
}

// EventsByKeys returns the first events of a stream, in the order of their keys,
// whose keys begin with a prefix of visible ASCII.
func (tx *Tx) EventsByKeys(stream, prefix string, limit int) (found []Event, err error) {
	err = tx.send(eventsByKeys(&found, stream, prefix, limit))
	return found, err
}

func eventsByKeys(dst *[]Event, stream, prefix string, limit int) *statement {
	return all(dst, scanEvent, "SELECT "+eventColumns+` FROM event
		WHERE stream = ? AND idempotency_key >= ? AND idempotency_key < ? AND idempotency_key <> '' ORDER BY idempotency_key LIMIT ?`,
		stream, prefix, prefix+"\x7f", min(max(limit, 0), MaxEvents))
}

// Events returns up to limit events after the seq, in order. Whether events
// between have been removed is for the caller to see: they have if after is
// below the floor of Head.
func (tx *Tx) Events(stream string, after int64, limit int) ([]Event, error) {
	return list(tx, scanEvent, "SELECT "+eventColumns+" FROM event WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?",
		stream, after, min(max(limit, 0), MaxEvents))
}

// EventsBut is Events without those of a type.
func (tx *Tx) EventsBut(eventType, stream string, after int64, limit int) ([]Event, error) {
	return list(tx, scanEvent, "SELECT "+eventColumns+" FROM event WHERE stream = ? AND seq > ? AND type <> ? ORDER BY seq LIMIT ?",
		stream, after, eventType, min(max(limit, 0), MaxEvents))
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
