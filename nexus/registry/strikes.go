package registry

import (
	"fmt"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Kind is what a job says about the provider that ran it.
type Kind string

// The marks.
const (
	Success    Kind = "success"    // the result was verified
	Unverified Kind = "unverified" // the job failed its verification: ranked lower, no more
	Failure    Kind = "failure"    // lost, gave up, or did not answer
	Violation  Kind = "violation"  // the response contradicts the request or itself
)

// When marks add up.
const (
	ViolationLimit     = 3 // strikes until quarantine
	FailureLimit       = 5
	provisionalStrikes = 2
	preferredSuccesses = 5
)

// Marked is what a mark has done.
type Marked struct {
	New         bool // false: this job has marked the provider so before
	Quarantined bool // by this mark
	Provider    Provider
}

// Mark counts a job for or against a provider, once for each kind. A mark
// against it has the receipt ProviderPenalized; the one that reaches a limit
// also takes the provider out of service, with the receipt ProviderQuarantined.
//
// An honest failing test is no strike: it lowers the rank until verified work
// makes up for it ([Provider.penalty]), but takes nobody out of service, or a
// requester could do that with jobs that are made to fail.
func Mark(tx *store.Tx, id, jobID string, kind Kind, why reason.Code) (Marked, error) {
	if _, err := tx.LockProvider(id); err != nil {
		return Marked{}, fmt.Errorf("mark provider %s: %w", id, err)
	}
	isNew, err := tx.MarkProvider(id, jobID, string(kind), string(why))
	if err != nil {
		return Marked{}, err
	}
	p, err := provider(tx.Provider(id))
	if err != nil || !isNew {
		return Marked{Provider: p}, err
	}
	if kind == Success {
		return Marked{New: true, Provider: p}, announce(tx, p)
	}
	if _, _, err := authority.Write(tx, authority.ProviderStream(id), authority.Sweeper(), authority.ProviderPenalized,
		PenaltyKey(jobID, kind), map[string]any{
			"provider_id": id, "job_id": jobID, "kind": string(kind), "reason": string(why),
			"failure_strikes": p.Failures, "violation_strikes": p.Violations, "unverified": p.Unverified,
		}); err != nil {
		return Marked{}, err
	}
	quarantined, err := quarantine(tx, p, jobID)
	if err != nil {
		return Marked{}, err
	}
	if p, err = provider(tx.Provider(id)); err != nil {
		return Marked{}, err
	}
	return Marked{New: true, Quarantined: quarantined, Provider: p}, announce(tx, p)
}

// PenaltyKey is the receipt key of a penalty in the provider's journal.
func PenaltyKey(jobID string, kind Kind) string {
	return "provider-penalized:" + jobID + ":" + string(kind)
}

// QuarantineKey is the receipt key of a quarantine in the provider's journal.
func QuarantineKey(jobID string) string { return "provider-quarantined:" + jobID }

// quarantine takes a provider out of service when it is at a limit.
func quarantine(tx *store.Tx, p Provider, jobID string) (bool, error) {
	var why reason.Code
	switch {
	case p.Violations >= ViolationLimit:
		why = reason.ProviderViolations
	case p.Failures >= FailureLimit:
		why = reason.ProviderFailures
	default:
		return false, nil
	}
	changed, err := tx.QuarantineProvider(p.ID, string(why))
	if err != nil || !changed {
		return false, err
	}
	_, _, err = authority.Write(tx, authority.ProviderStream(p.ID), authority.Sweeper(), authority.ProviderQuarantined,
		QuarantineKey(jobID), map[string]any{
			"provider_id": p.ID, "job_id": jobID, "reason": string(why),
			"failure_strikes": p.Failures, "violation_strikes": p.Violations,
		})
	return true, err
}

// Lift ends a quarantine and clears the strikes that led to it. Only an
// administrator can; the provider stays off until its owner enables it.
func Lift(tx *store.Tx, p authority.Principal, id, why string) (Provider, error) {
	if err := p.Require(authority.ScopeAdmin); err != nil {
		return Provider{}, err
	}
	if !printable(why, 1000) {
		return Provider{}, invalid("reason", "must be 1 to 1000 printable ASCII characters")
	}
	if _, err := Own(tx, p, id); err != nil {
		return Provider{}, err
	}
	changed, err := tx.LiftQuarantine(id)
	if err != nil {
		return Provider{}, err
	}
	found, err := provider(tx.Provider(id))
	if err != nil || !changed {
		return found, err
	}
	if _, _, err := authority.Write(tx, authority.ProviderStream(id), p, authority.QuarantineLifted,
		fmt.Sprintf("quarantine-lifted:%d", found.Revision), map[string]any{"provider_id": id, "reason": why}); err != nil {
		return Provider{}, err
	}
	return found, announce(tx, found)
}
