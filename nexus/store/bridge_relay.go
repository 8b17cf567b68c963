package store

import (
	"errors"
	"fmt"
	"strings"
)

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
	if _, err := tx.exec(`INSERT INTO bridge_relay (url, holder, lease_until, failures, next_at, seen_at, created_at) VALUES (?, '', 0, 0, 0, ?, ?)
		ON CONFLICT (url) DO UPDATE SET seen_at = excluded.seen_at`, url, tx.Now(), tx.Now()); err != nil {
		return err
	}
	if !isNew && r.SeenAt >= since {
		return nil
	}
	_, err = tx.exec(`INSERT INTO bridge_delivery (event, relay, state, attempts, error, updated_at)
		SELECT e.id, ?, 'pending', 0, '', ? FROM bridge_event e WHERE e.state = 'signed' AND NOT `+bridgeLater+` ON CONFLICT DO NOTHING`, url, tx.Now())
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
	var list []PendingRow
	err := tx.rows(query+` ORDER BY p.attempts, p.event LIMIT ?`, func(s scanner) error {
		var p PendingRow
		err := s.Scan(p.targets(&p.Attempts)...)
		list = append(list, p)
		return err
	}, append(args, limit)...)
	return list, err
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
	_, err := tx.exec(`UPDATE bridge_delivery SET state = ?, attempts = ?, error = ?, updated_at = ? WHERE event = ? AND relay = ? AND state <> 'sent'`,
		d.State, d.Attempts, d.Error, tx.Now(), d.Event, d.Relay)
	return err
}

// Resend makes what a relay has taken or refused wait again, of an owner or
// ("") of all.
func (tx *Tx) Resend(relay, owner string) error {
	query, args := `UPDATE bridge_delivery SET state = 'pending', attempts = 0, error = '', updated_at = ? WHERE relay = ? AND state IN ('sent', 'refused')
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
	var list []DeliveryRow
	err := tx.rows(`SELECT event, relay, state, attempts, error, updated_at FROM bridge_delivery WHERE event = ? ORDER BY relay`, func(s scanner) error {
		var d DeliveryRow
		err := s.Scan(&d.Event, &d.Relay, &d.State, &d.Attempts, &d.Error, &d.UpdatedAt)
		list = append(list, d)
		return err
	}, event)
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of %s: %w", event, err)
	}
	return list, nil
}
