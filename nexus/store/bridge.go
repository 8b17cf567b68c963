package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The rows of the outbox of the mirror. What may be in them is decided in
// remit/nexus/bridge.

// BridgeOutbox is the name under which [Store.Changed] tells of new rows, and of
// new signatures.
const BridgeOutbox = "bridge:outbox"

// States of a row of the outbox.
const (
	BridgeNew     = "new"     // not signed yet
	BridgeSigned  = "signed"  // for the relays
	BridgeRefused = "refused" // never leaves
)

// BridgeRow is an event of the mirror, before and after it is signed.
type BridgeRow struct {
	ID, Owner, Class string
	Kind             int64
	D                string // the d tag
	ProviderID       string
	RunID            string // "" for an ad
	ReceiptSHA256    string // "sha256:…", "" for an ad
	CreatedAt        int64  // of the event, in Unix seconds
	Tags             json.RawMessage
	Content          string
	SHA256           string // of kind, tags and content
	State, Reason    string
	EventID, Sig     string // once it is signed
	RecordedAt       int64

	Superseded bool // there is a later one with the same d; filled by the readers
}

const bridgeColumns = `id, owner, class, kind, d, provider_id, run_id, receipt_sha256, created_at, tags, content, sha256,
	state, reason, event_id, sig, recorded_at`

// bridgeLater tells of a row e whether another one counts in its place.
const bridgeLater = `EXISTS (SELECT 1 FROM bridge_event later WHERE later.d = e.d AND later.created_at > e.created_at
	AND later.state <> 'refused')`

const bridgeSelect = `SELECT ` + bridgeColumns + `, CASE WHEN ` + bridgeLater + ` THEN 1 ELSE 0 END FROM bridge_event e `

func (b *BridgeRow) targets(more ...any) []any {
	return append([]any{&b.ID, &b.Owner, &b.Class, &b.Kind, &b.D, &b.ProviderID, &b.RunID, &b.ReceiptSHA256, &b.CreatedAt,
		(*textJSON)(&b.Tags),
		&b.Content, &b.SHA256, &b.State, &b.Reason, &b.EventID, &b.Sig, &b.RecordedAt, (*intBool)(&b.Superseded)}, more...)
}

// textJSON and intBool read columns of text and of 0 or 1.
type (
	textJSON json.RawMessage
	intBool  bool
)

// Scan implements sql.Scanner.
func (t *textJSON) Scan(v any) error {
	switch v := v.(type) {
	case string:
		*t = textJSON(v)
	case []byte:
		*t = slices.Clone(v)
	default:
		return fmt.Errorf("a column of JSON text holds %T", v)
	}
	return nil
}

// Scan implements sql.Scanner.
func (t *intBool) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a column of 0 or 1 holds %T", v)
	}
	*t = n == 1
	return nil
}

func (tx *Tx) bridgeRow(where string, args ...any) (b BridgeRow, err error) {
	err = tx.row(bridgeSelect+where, args...).Scan(b.targets()...)
	return b, err
}

func (tx *Tx) bridgeRows(where string, args ...any) ([]BridgeRow, error) {
	return list(tx, func(s scanner) (b BridgeRow, err error) {
		err = s.Scan(b.targets()...)
		return b, err
	}, bridgeSelect+where, args...)
}

// AddBridgeEvent writes a new row, and gives it an id. One with this d and
// created_at stays as it is.
func (tx *Tx) AddBridgeEvent(b BridgeRow) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("add an event to the mirror: %w", err)
	}
	tx.changed = append(tx.changed, BridgeOutbox)
	return tx.write(deferredWrite{doing: "add an event to the mirror"}, `INSERT INTO bridge_event (`+bridgeColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'new', '', '', '', ?)
		ON CONFLICT (d, created_at) DO NOTHING`, fmt.Sprintf("bev_%x", id[:]), b.Owner, b.Class, b.Kind, b.D, b.ProviderID, b.RunID,
		b.ReceiptSHA256, b.CreatedAt, b.Tags, b.Content, b.SHA256, tx.Now())
}

// ReplaceBridgeEvent puts other content into a row that is not signed yet, and
// so was not published.
func (tx *Tx) ReplaceBridgeEvent(b BridgeRow) error {
	err := tx.changeOne(`UPDATE bridge_event SET owner = ?, created_at = ?, tags = ?, content = ?, sha256 = ?, recorded_at = ?
		WHERE id = ? AND state = 'new'`, b.Owner, b.CreatedAt, b.Tags, b.Content, b.SHA256, tx.Now(), b.ID)
	if err == nil {
		tx.changed = append(tx.changed, BridgeOutbox)
	}
	return err
}

// LatestBridgeEvent reads the row that counts for a d, and locks it.
func (tx *Tx) LatestBridgeEvent(d string) (BridgeRow, error) {
	return tx.bridgeRow(`WHERE d = ? ORDER BY created_at DESC LIMIT 1`+tx.lock(), d)
}

// CountBridgeEvents counts the rows of a d from a second on.
func (tx *Tx) CountBridgeEvents(d string, since int64) (n int64, err error) {
	err = tx.row(`SELECT COUNT(*) FROM bridge_event WHERE d = ? AND created_at >= ?`, d, since).Scan(&n)
	return n, err
}

// UnsignedBridgeEvents reads rows that wait for a signature, the oldest first,
// and locks those that no command is changing.
func (tx *Tx) UnsignedBridgeEvents(limit int) ([]BridgeRow, error) {
	skip := ""
	if tx.lock() != "" {
		skip = tx.lock() + " OF e SKIP LOCKED"
	}
	return tx.bridgeRows(`WHERE state = 'new' ORDER BY id LIMIT ?`+skip, limit)
}

// SignBridgeEvent records the signature of a row, and tells who sends it.
func (tx *Tx) SignBridgeEvent(id, eventID, sig string) error {
	tx.changed = append(tx.changed, BridgeOutbox)
	return tx.changeOne(`UPDATE bridge_event SET state = 'signed', event_id = ?, sig = ? WHERE id = ? AND state = 'new'`, eventID, sig, id)
}

// RefuseBridgeEvent records that a row never leaves.
func (tx *Tx) RefuseBridgeEvent(id, why string) error {
	return tx.changeOne(`UPDATE bridge_event SET state = 'refused', reason = ? WHERE id = ? AND state = 'new'`, why, id)
}

// BridgeEvents lists the rows of an owner, "" for all, the newest first, before
// the given id.
func (tx *Tx) BridgeEvents(owner, before string, limit int) ([]BridgeRow, error) {
	where, args := []string{"1 = 1"}, []any{}
	if owner != "" {
		where, args = append(where, "owner = ?"), append(args, owner)
	}
	if before != "" {
		where, args = append(where, "id < ?"), append(args, before)
	}
	return tx.bridgeRows(`WHERE `+strings.Join(where, " AND ")+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

// PruneBridgeEvents forgets rows recorded before a time in whose place later
// ones count, at most limit.
func (tx *Tx) PruneBridgeEvents(before int64, limit int) (int, error) {
	ids, err := tx.listIDs(`SELECT id FROM bridge_event e WHERE class = 'provider_ad' AND recorded_at < ? AND `+bridgeLater+` ORDER BY id
		LIMIT ?`, before, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		for _, query := range []string{`DELETE FROM bridge_delivery WHERE event = ?`, `DELETE FROM bridge_event WHERE id = ?`} {
			if _, err := tx.exec(query, id); err != nil {
				return 0, err
			}
		}
	}
	return len(ids), nil
}

// BridgeKey is the public key that signs, ErrNotFound before there is one. A
// command that reads it keeps other publishers out until it commits.
func (tx *Tx) BridgeKey() (pubkey string, err error) {
	err = tx.row(`SELECT pubkey FROM bridge_key WHERE id = 1` + tx.lock()).Scan(&pubkey)
	return pubkey, err
}

// SetBridgeKey records the public key, unless there is one.
func (tx *Tx) SetBridgeKey(pubkey string) error {
	_, err := tx.exec(`INSERT INTO bridge_key (id, pubkey, created_at) VALUES (1, ?, ?) ON CONFLICT (id) DO NOTHING`, pubkey, tx.Now())
	return err
}

// The rows of relays, and of what each has taken.

// States of a delivery.
const (
	DeliveryPending    = "pending"
	DeliverySent       = "sent"
	DeliveryRefused    = "refused"    // by the relay, for good
	DeliverySuperseded = "superseded" // a later event was there before it was sent
)

// RelayRow is a relay, and who talks to it.
type RelayRow struct {
	URL, Holder string
	LeaseUntil  int64
	Failures    int64 // since it took something
	NextAt      int64 // not before
	SeenAt      int64 // when a publisher named it
}

// DeliveryRow is how far an event has come with a relay.
type DeliveryRow struct {
	Event, Relay, State string
	Attempts            int64
	Error               string
	UpdatedAt           int64
}

// PendingRow is an event that waits for a relay.
type PendingRow struct {
	BridgeRow
	Attempts int64
}

// Relay reads a relay; ErrNotFound when it was never named.
func (tx *Tx) Relay(url string) (r RelayRow, err error) {
	err = tx.row(`SELECT url, holder, lease_until, failures, next_at, seen_at FROM bridge_relay WHERE url = ?`+tx.lock(), url).
		Scan(&r.URL, &r.Holder, &r.LeaseUntil, &r.Failures, &r.NextAt, &r.SeenAt)
	return r, err
}

// NameRelay records that a publisher serves a relay. A relay that is new, or that
// was not served since a time, gets every event that counts. Take the lock of
// BridgeKey before.
func (tx *Tx) NameRelay(url string, since int64) error {
	r, err := tx.Relay(url)
	isNew := errors.Is(err, ErrNotFound)
	if err != nil && !isNew {
		return err
	}
	if _, err := tx.exec(`INSERT INTO bridge_relay (url, holder, lease_until, failures, next_at, seen_at, created_at) VALUES (?, '', 0,
		0, 0, ?, ?)
		ON CONFLICT (url) DO UPDATE SET seen_at = excluded.seen_at`, url, tx.Now(), tx.Now()); err != nil {
		return err
	}
	if !isNew && r.SeenAt >= since {
		return nil
	}
	_, err = tx.exec(`INSERT INTO bridge_delivery (event, relay, state, attempts, error, updated_at)
		SELECT e.id, ?, 'pending', 0, '', ? FROM bridge_event e WHERE e.state = 'signed' AND NOT `+bridgeLater+` ON CONFLICT DO NOTHING`,
		url, tx.Now())
	return err
}

// SpreadBridgeEvent makes an event wait for every relay that was served since a
// time. Take the lock of BridgeKey before.
func (tx *Tx) SpreadBridgeEvent(id string, since int64) error {
	_, err := tx.exec(`INSERT INTO bridge_delivery (event, relay, state, attempts, error, updated_at)
		SELECT ?, url, 'pending', 0, '', ? FROM bridge_relay WHERE seen_at >= ? ON CONFLICT DO NOTHING`, id, tx.Now(), since)
	return err
}

// RelayWaits reports whether an event waits for a relay.
func (tx *Tx) RelayWaits(url string) (waits bool, err error) {
	var n int64
	err = tx.row(`SELECT COUNT(*) FROM (SELECT 1 FROM bridge_delivery WHERE relay = ? AND state = 'pending' LIMIT 1) AS one`, url).Scan(&n)
	return n > 0, err
}

// LeaseRelay gives a holder the relay until a time, unless another one has it.
func (tx *Tx) LeaseRelay(url, holder string, until int64) (bool, error) {
	n, err := tx.exec(`UPDATE bridge_relay SET holder = ?, lease_until = ? WHERE url = ? AND (holder = ? OR lease_until <= ?)`,
		holder, until, url, holder, tx.Now())
	return n == 1, err
}

// ReleaseRelay ends a lease; the next one begins at nextAt or later. The lease of
// another holder stays.
func (tx *Tx) ReleaseRelay(url, holder string, failures, nextAt int64) error {
	_, err := tx.exec(`UPDATE bridge_relay SET holder = '', lease_until = 0, failures = ?, next_at = ? WHERE url = ? AND holder = ?`,
		failures, nextAt, url, holder)
	return err
}

// BridgePending lists what waits for a relay, of an owner or ("") of all: what
// was tried least comes first, so that one event does not hold up the others.
func (tx *Tx) BridgePending(relay, owner string, limit int) ([]PendingRow, error) {
	query, args := `SELECT `+qualify("e", bridgeColumns)+`, CASE WHEN `+bridgeLater+` THEN 1 ELSE 0 END, p.attempts
		FROM bridge_delivery p JOIN bridge_event e ON e.id = p.event WHERE p.relay = ? AND p.state = 'pending'`, []any{relay}
	if owner != "" {
		query, args = query+` AND e.owner = ?`, append(args, owner)
	}
	return list(tx, func(s scanner) (p PendingRow, err error) {
		err = s.Scan(p.targets(&p.Attempts)...)
		return p, err
	}, query+` ORDER BY p.attempts, p.event LIMIT ?`, append(args, limit)...)
}

// qualify puts a table's name before each column of a list.
func qualify(table, columns string) string {
	names := strings.Split(columns, ",")
	for i, name := range names {
		names[i] = table + "." + strings.TrimSpace(name)
	}
	return strings.Join(names, ", ")
}

// SetDelivery records what became of an event at a relay. What a relay has taken
// stays taken, also after a late report of something else.
func (tx *Tx) SetDelivery(d DeliveryRow) error {
	_, err := tx.exec(`UPDATE bridge_delivery SET state = ?, attempts = ?, error = ?, updated_at = ? WHERE event = ? AND relay = ?
		AND state <> 'sent'`,
		d.State, d.Attempts, d.Error, tx.Now(), d.Event, d.Relay)
	return err
}

// Resend makes what a relay has taken or refused wait again, of an owner or
// ("") of all.
func (tx *Tx) Resend(relay, owner string) error {
	query, args := `UPDATE bridge_delivery SET state = 'pending', attempts = 0, error = '', updated_at = ? WHERE relay = ?
		AND state IN ('sent', 'refused')
		AND event IN (SELECT e.id FROM bridge_event e WHERE NOT `+bridgeLater, []any{tx.Now(), relay}
	if owner != "" {
		query, args = query+` AND e.owner = ?`, append(args, owner)
	}
	_, err := tx.exec(query+`)`, args...)
	return err
}

// RelayCounts counts the deliveries of a relay by state, of an owner or ("") of
// all. What was sent counts only while nothing later has taken its place.
func (tx *Tx) RelayCounts(relay, owner string) (map[string]int64, error) {
	query, args := `SELECT p.state, COUNT(*) FROM bridge_delivery p JOIN bridge_event e ON e.id = p.event
		WHERE p.relay = ? AND NOT (p.state = 'sent' AND `+bridgeLater+`)`, []any{relay}
	if owner != "" {
		query, args = query+` AND e.owner = ?`, append(args, owner)
	}
	counts := map[string]int64{}
	err := tx.rows(query+` GROUP BY p.state`, func(s scanner) error {
		var state string
		var n int64
		err := s.Scan(&state, &n)
		counts[state] = n
		return err
	}, args...)
	return counts, err
}

// Deliveries lists how far an event has come with each relay.
func (tx *Tx) Deliveries(event string) ([]DeliveryRow, error) {
	found, err := list(tx, func(s scanner) (d DeliveryRow, err error) {
		err = s.Scan(&d.Event, &d.Relay, &d.State, &d.Attempts, &d.Error, &d.UpdatedAt)
		return d, err
	}, `SELECT event, relay, state, attempts, error, updated_at FROM bridge_delivery WHERE event = ? ORDER BY relay`, event)
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of %s: %w", event, err)
	}
	return found, nil
}
