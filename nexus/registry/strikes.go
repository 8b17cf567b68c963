package registry

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/reason"
	"remit/proof/record"
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

// When strikes fade: a strike that is as old as that counts no more. A quarantine
// does not end by that.
const (
	FailureFade   = 7 * 24 * time.Hour
	ViolationFade = 30 * 24 * time.Hour
)

// outages are the reasons of a failure that one crash of a machine gives to all
// jobs that it has.
var outages = []string{string(reason.OfflineMidRun), string(reason.ProviderUnavailable)}

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
// makes up for it ([Provider.penalty]), but takes no provider out of service, or
// a requester could do that with jobs that are made to fail.
func Mark(tx *store.Tx, id, jobID string, kind Kind, why reason.Code) (Marked, error) {
	if _, err := tx.LockProvider(id); err != nil {
		return Marked{}, fmt.Errorf("mark provider %s: %w", id, err)
	}
	return mark(tx, store.Mark{ProviderID: id, JobID: jobID, Kind: string(kind), Reason: string(why)})
}

// MarkLost is Mark for a job that was lost. One outage of a machine is one
// strike, however many jobs it had: a job belongs to the outage of the last strike
// if nothing shows that the machine has worked since. alive is when this job
// shows it last, in unix milliseconds: when its lease was renewed, or the offer
// made.
func MarkLost(tx *store.Tx, id, jobID string, why reason.Code, alive int64) (Marked, error) {
	if _, err := tx.LockProvider(id); err != nil {
		return Marked{}, fmt.Errorf("mark provider %s: %w", id, err)
	}
	m := store.Mark{ProviderID: id, JobID: jobID, Kind: string(Failure), Reason: string(why)}
	if slices.Contains(outages, m.Reason) {
		first, at, err := tx.LastOutage(id, outages)
		if err != nil {
			return Marked{}, err
		}
		if first != "" && first != jobID && alive < at {
			m.Outage = first
		}
	}
	return mark(tx, m)
}

func mark(tx *store.Tx, m store.Mark) (Marked, error) {
	isNew, err := tx.MarkProvider(m)
	if err != nil {
		return Marked{}, err
	}
	p, err := provider(tx.Provider(m.ProviderID))
	if err != nil || !isNew {
		return Marked{Provider: p}, err
	}
	if Kind(m.Kind) == Success {
		return Marked{New: true, Provider: p}, announce(tx, p)
	}
	payload := map[string]any{
		"provider_id": p.ID, "job_id": m.JobID, "kind": m.Kind, "reason": m.Reason,
		"failure_strikes": p.Failures, "violation_strikes": p.Violations, "unverified": p.Unverified,
	}
	if m.Outage != "" {
		payload["counted"], payload["outage_of"] = false, m.Outage
	}
	if _, _, err := authority.Write(tx, authority.ProviderStream(p.ID), authority.Sweeper(), record.ProviderPenalized,
		PenaltyKey(m.JobID, Kind(m.Kind)), payload); err != nil {
		return Marked{}, err
	}
	quarantined, err := quarantine(tx, p, m.JobID)
	if err != nil {
		return Marked{}, err
	}
	if p, err = provider(tx.Provider(p.ID)); err != nil {
		return Marked{}, err
	}
	return Marked{New: true, Quarantined: quarantined, Provider: p}, announce(tx, p)
}

// Fade lets strikes count no longer that are older than their time (0: [FailureFade]
// and [ViolationFade]), of at most limit providers. It returns how many strikes
// those were. Any replica may call it at any time.
func Fade(tx *store.Tx, failure, violation time.Duration, limit int) (int, error) {
	faded := 0
	for _, k := range []struct {
		kind  Kind
		after time.Duration
	}{{Failure, cmp.Or(failure, FailureFade)}, {Violation, cmp.Or(violation, ViolationFade)}} {
		before := tx.Now() - k.after.Milliseconds()
		ids, err := tx.FadedStrikes(string(k.kind), before, limit)
		if err != nil {
			return faded, err
		}
		for _, id := range ids {
			if _, err := Lock(tx, id); err != nil {
				return faded, err
			}
			n, err := tx.FadeStrikes(id, string(k.kind), before)
			if err != nil {
				return faded, err
			}
			faded += int(n)
			p, err := provider(tx.Provider(id))
			if err == nil {
				err = announce(tx, p)
			}
			if err != nil {
				return faded, err
			}
		}
	}
	return faded, nil
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
	_, _, err = authority.Write(tx, authority.ProviderStream(p.ID), authority.Sweeper(), record.ProviderQuarantined,
		QuarantineKey(jobID), map[string]any{
			"provider_id": p.ID, "job_id": jobID, "reason": string(why),
			"failure_strikes": p.Failures, "violation_strikes": p.Violations,
		})
	return true, err
}

// Lift ends a quarantine and clears the strikes that led to it, with the receipt
// QuarantineLifted, which says who did it and why. The owner of a machine can,
// and an administrator; of one that works for others too, only an administrator.
// A provider's own credential cannot. The provider stays off until it is enabled.
func Lift(tx *store.Tx, p authority.Principal, id, why string) (Provider, error) {
	if err := p.Require(authority.ScopeProviders); err != nil {
		return Provider{}, err
	}
	if !printable(why, 1000) {
		return Provider{}, invalid("reason", "must be 1 to 1000 printable ASCII characters")
	}
	has, err := change(tx, p, id, nil)
	if err != nil {
		return Provider{}, err
	}
	if has.InPool() && has.Quarantined() && !p.Admin() {
		return Provider{}, reason.Errorf(reason.ScopeMissing,
			"provider %q is in the reserve pool and works for others: lifting its quarantine needs the scope %s", id, authority.ScopeAdmin)
	}
	changed, err := tx.LiftQuarantine(id)
	if err != nil {
		return Provider{}, err
	}
	found, err := provider(tx.Provider(id))
	if err != nil || !changed {
		return found, err
	}
	if _, _, err := authority.Write(tx, authority.ProviderStream(id), p, record.QuarantineLifted,
		fmt.Sprintf("quarantine-lifted:%d", found.Revision), map[string]any{"provider_id": id, "reason": why}); err != nil {
		return Provider{}, err
	}
	return found, announce(tx, found)
}
