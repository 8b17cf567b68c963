// Package authority holds the two things that every mutation of the nexus has
// in common: who acts, and the receipt that acting leaves behind.
//
// Only the API makes a [Principal], from a credential; its Owner is the account
// that the mutation counts for. No request names an owner, so no caller can act
// for another account by writing its name.
//
// A receipt is an event of type "receipt" whose payload is a [Receipt]. Its
// receipt_sha256 is the digest of the canonical JSON of
//
//	{"idempotency_key":…,"payload":{…},"principal":…,"receipt_type":…}
//
// so that every holder of the event can recompute it. A receipt that belongs
// to a run stands in the run's journal ([RunStream]); others stand in the
// journal of the account ([AccountStream]), and receipts about a provider's
// conduct in the provider's ([ProviderStream]). All receipts have a key that
// says what they are about, so that writing one twice is writing it once.
package authority

import (
	"slices"
	"strings"

	"remit/proof/reason"
)

// Kind is what sort of credential a principal has.
type Kind string

// The kinds of principal.
const (
	User         Kind = "user"         // a person, or a program that acts for one
	Panel        Kind = "panel"        // a browser session of a person
	Service      Kind = "service"      // a sweeper or another part of the nexus
	Provider     Kind = "provider"     // a daemon; its ID is the provider's id
	Registration Kind = "registration" // a one-time token: may enrol, nothing else
)

// Scopes that a credential can have.
const (
	ScopeAdmin     = "admin"            // everything, for every owner
	ScopeRuns      = "runs:write"       // claim issues; create, change, finish runs
	ScopeJobs      = "jobs:write"       // dispatch, cancel, settle
	ScopeProviders = "providers:write"  // caps, enable, disable
	ScopeEnrol     = "providers:enrol"  // enrol a device with a provider
	ScopePool      = "providers:pool"   // enrol into the reserve pool
	ScopeWork      = "jobs:work"        // lease and complete jobs: a provider's own credential
	ScopeTreasury  = "treasury:write"   // accounts, funding, reconcile
	ScopeApprove   = "approvals:decide" // grant and deny approvals
	ScopeRead      = "read"             // reads of what the owner has
	ScopeHome      = "home:read"        // see the sessions of who runs the nexus, in the panel
)

// Principal is who asks, as the credential says.
type Principal struct {
	ID     string // recorded in every receipt
	Owner  string // the account that owns what is made
	Kind   Kind
	Scopes []string
}

// Sweeper is the principal of what the nexus does by itself when time is up.
func Sweeper() Principal {
	return Principal{ID: "service:sweeper", Owner: "service", Kind: Service, Scopes: []string{ScopeAdmin}}
}

// Has reports whether the principal has the scope, or is an administrator.
func (p Principal) Has(scope string) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, ScopeAdmin)
}

// Admin reports whether the principal may act for every owner.
func (p Principal) Admin() bool { return slices.Contains(p.Scopes, ScopeAdmin) }

// Require returns nil when the principal has the scope.
func (p Principal) Require(scope string) error {
	if p.ID == "" || p.Owner == "" {
		return reason.Errorf(reason.Unauthenticated, "the request has no principal")
	}
	if !p.Has(scope) {
		return reason.Errorf(reason.ScopeMissing, "the credential lacks the scope %s", scope)
	}
	return nil
}

// Owns reports whether what belongs to owner is the principal's to see and change.
func (p Principal) Owns(owner string) bool { return owner != "" && p.Owner == owner || p.Admin() }

// RunStream is the journal of a run.
func RunStream(runID string) string { return "run:" + runID + ":events" }

// FleetStream carries the presence of an owner's providers.
func FleetStream(owner string) string { return "fleet:user:" + owner + ":workers" }

// OfferStream carries offers and cancels to a provider.
func OfferStream(providerID string) string { return "jobs:" + providerID }

// AccountStream is the journal of an account: receipts that belong to no run.
func AccountStream(owner string) string { return "user:" + owner + ":receipts" }

// ProviderStream is the journal of a provider's conduct.
func ProviderStream(providerID string) string { return "provider:" + providerID + ":receipts" }

// ProviderPrincipal is the principal ID of a provider's own credential.
func ProviderPrincipal(providerID string) string { return "provider:" + providerID }

// ProviderID is the provider that the principal is, "" when it is none.
func (p Principal) ProviderID() string {
	if p.Kind != Provider {
		return ""
	}
	return strings.TrimPrefix(p.ID, "provider:")
}
