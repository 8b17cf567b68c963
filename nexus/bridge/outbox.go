package bridge

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// Band is a price band of an ad, in msats for one job.
type Band struct {
	Capability    string `json:"capability"`
	MinPriceMsats int64  `json:"min_price_msats"`
	MaxPriceMsats int64  `json:"max_price_msats"`
	StepMsats     int64  `json:"step_msats,omitempty"`
}

// Provider is what an ad says of a provider: its live state, never what it
// would like to be.
type Provider struct {
	ID, Name, Description string
	Website, Icon         string
	Capabilities          []string
	PriceMsats            int64 // 0: not said
	PricingStage          string
	Available             bool   // running, fresh and not quarantined
	Status                string // running, stopped, …
	Heartbeat             string // fresh, stale, missing
	Caps                  json.RawMessage
	Bands                 []Band
}

// event makes the ad of a provider, unsigned.
func (p Provider) event(createdAt int64) (Event, error) {
	content, err := canonicalContent(map[string]string{"name": p.Name, "description": p.Description, "website": p.Website, "icon": p.Icon})
	if err != nil {
		return Event{}, err
	}
	availability := "unavailable"
	if p.Available {
		availability = "available"
	}
	tags := [][]string{{"d", prefixProviderAd + p.ID}, {"oa_schema", SchemaProviderAd}, {"handler", "compute_provider"}}
	for _, c := range slices.Sorted(slices.Values(p.Capabilities)) {
		tags = append(tags, []string{"capability", c})
	}
	tags = append(tags, []string{"oa_provider_id", p.ID})
	if p.PriceMsats > 0 {
		tags = append(tags, []string{"price", strconv.FormatInt(p.PriceMsats, 10), "per-job", "msats"})
	}
	tags = optional(tags, "oa_pricing_stage", p.PricingStage)
	tags = append(tags, []string{"oa_availability", availability})
	tags = optional(tags, "oa_worker_status", p.Status)
	tags = optional(tags, "oa_heartbeat_state", p.Heartbeat)
	if len(p.Caps) > 0 {
		caps, err := canon.Canonicalize(p.Caps)
		if err != nil {
			return Event{}, fmt.Errorf("the caps of provider %s: %w", p.ID, err)
		}
		tags = append(tags, []string{"oa_caps", string(caps)})
	}
	for _, b := range p.Bands {
		text, err := canon.Marshal(b)
		if err != nil {
			return Event{}, fmt.Errorf("a price band of provider %s: %w", p.ID, err)
		}
		tags = append(tags, []string{"oa_pricing_band", string(text)})
	}
	return Event{CreatedAt: createdAt, Kind: KindProviderAd, Tags: tags, Content: content}, nil
}

// Pointer says that a receipt exists and what was settled by it.
type Pointer struct {
	ProviderID, RunID, JobHash string
	ReceiptSHA256              string // of a receipt in the run's log; its prefix sha256: is dropped
	Settlement                 string // released or withheld
	ReceiptURL                 string // "" if it is published nowhere
}

// event makes the pointer to a receipt, unsigned.
func (p Pointer) event(createdAt int64) (Event, error) {
	sum := strings.TrimPrefix(p.ReceiptSHA256, "sha256:")
	if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
		return Event{}, refuse("a receipt digest that is not 64 hexadecimal digits")
	}
	content, err := canonicalContent(map[string]string{"provider_id": p.ProviderID, "run_id": p.RunID, "job_hash": p.JobHash,
		"receipt_sha256": sum, "settlement_status": p.Settlement, "receipt_url": p.ReceiptURL})
	if err != nil {
		return Event{}, err
	}
	return Event{CreatedAt: createdAt, Kind: KindReceiptPointer, Content: content, Tags: [][]string{
		{"d", prefixReceiptPointer + sum}, {"oa_schema", SchemaReceiptPointer}, {"oa_provider_id", p.ProviderID},
		{"oa_run_id", p.RunID}, {"oa_job_hash", p.JobHash}, {"oa_settlement", p.Settlement}, {"oa_receipt_sha256", sum},
	}}, nil
}

// canonicalContent is the canonical content without the keys that have no value.
func canonicalContent(fields map[string]string) (string, error) {
	for key, value := range fields {
		if value == "" {
			delete(fields, key)
		}
	}
	b, err := canon.Marshal(fields)
	if err != nil {
		return "", refuse("content that has no canonical form")
	}
	return string(b), nil
}

func optional(tags [][]string, name, value string) [][]string {
	if value == "" {
		return tags
	}
	return append(tags, []string{name, value})
}
