// Package registry knows the machines that may run jobs: which devices there
// are, what their owners let them do, whether they are there, and how they
// have behaved.
//
// # Who writes what
//
// Three parties speak about a provider, and each has its own columns. The owner
// enrols it, sets its caps and switches it on and off ([EnrolProvider],
// [SetCaps], [Enable], [SwitchOff]). The daemon says that it lives
// ([Heartbeat]). Everything that speaks for or against it is the authority's:
// [Mark] counts successes and strikes, one for each job and kind, and takes the
// provider out of service when there are too many. No request reaches these
// columns, a strike does not make a dead provider look alive, and enrolling
// again changes nothing about them.
//
// # Off until switched on
//
// A new provider has no caps and is off. It is eligible for a job ([Eligible])
// when it is enabled, running, heard of within [StaleAfter], not quarantined,
// able to do the job type, and capped at no less than the job needs. A cap that
// was never set is zero, and zero allows nothing.
//
// # Selection
//
// [Select] is a pure function. The requester's own providers come first; only
// when none of them is eligible does the reserve pool; providers of others
// never. Within a tier the order is by effective price (all-in price plus
// penalties), then conduct, class, strikes and id, so that equal inputs give
// equal choices on every replica.
//
// # Presence
//
// Every change of a provider is an event with a full snapshot on the lane
// fleet:user:<owner>:workers, numbered without gaps. Receipts of the owner's
// acts stand in the journal of the account, those about conduct in the journal
// of the provider.
package registry
