package bridge

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remit/proof/canon"
)

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
