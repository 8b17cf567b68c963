package api

import (
	_ "embed"
	"time"

	"remit/proof/journal"
)

// Spec is the text of openapi.yaml.
//
//go:embed openapi.yaml
var Spec []byte

// TimeLayout is how times are written: RFC 3339 in UTC with milliseconds.
const TimeLayout = journal.TimeFormat

// TimeOf writes unix milliseconds.
func TimeOf(ms int64) Time { return time.UnixMilli(ms).UTC().Format(TimeLayout) }

// OptionalTime is TimeOf, and nil for 0, which means never.
func OptionalTime(ms int64) *Time {
	if ms == 0 {
		return nil
	}
	t := TimeOf(ms)
	return &t
}

// Optional is nil for the zero value.
func Optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Value is what an optional field says, or the zero value.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// The subprotocols of a live lane.
const (
	LaneProtocol = "remit.lane.v1"
	TicketPrefix = "remit.ticket."
)

// MaxBody bounds a JSON request body, MaxArtifact the body of an artifact.
const (
	MaxBody     = 2 << 20
	MaxArtifact = 256 << 20
)

// Headers of the contract.
const (
	HeaderKey       = "Idempotency-Key"
	HeaderReplayed  = "Idempotency-Replayed"
	HeaderRequestID = "X-Request-Id"
	HeaderCSRF      = "X-CSRF-Token"
)

// ProblemType is the media type of every error.
const ProblemType = "application/problem+json"
