// Package jobs is the life of a run: who claims an issue, which jobs are
// dispatched for it, who runs them, what the result is worth and who is paid.
//
// # One command, one transaction
//
// Every function here works on a [store.Tx] and writes everything that belongs
// together: rows, ledger transfers, receipts, offers. There is no state in
// memory, so any replica may do anything at any time, and a sweep that runs
// twice has run once.
//
// # Runs
//
// A run is a log (stream run:<id>:events) and a state that the log moves
// ([runMoves]). A key is looked up before the state is asked, so a repeated
// append gets its first answer even after the end. A run that has ended is
// sealed: nothing is appended to it any more. Clients may append few things
// ([AppendEvent]); receipts of the authority are written by the part of the
// authority that acted, and the keys it uses are closed to clients.
//
// # Jobs
//
//	queued ──► leased ──► submitted ──► verified ──► settled
//	   │          │            │            └──────► failed
//	   └──────────┴────────────┴──► queued again (fallback, once) | failed | canceled | expired
//
// [Dispatch] is keyed by (run, job hash): the money is reserved before the job is
// offered, and a repeated dispatch returns the same job. A provider
// takes an offer with [Lease], which gives it a fence: a number that grows
// whenever the right to work on the job moves. [Renew], [AppendLog],
// [PutArtifact] and [Complete] carry the fence. An old one is stale_fence, a
// lease that ran out is lease_expired whether or not a sweep has noticed, a job
// that has ended is job_closed: on each of these the daemon kills its work.
//
// [Settle] judges the stored response with remit/law/job, moves the money and
// writes exactly four events: verify, verification, payment, receipt-payment.
// A response that its requester does not settle is settled by [SettleOverdue], so
// that work which was done is paid.
//
// # When a provider is lost
//
// [Expire] ends offers and leases whose time is up. The provider gets a strike
// and no money; the job is offered once more, to the next best provider, under
// a reservation of its own; without one it fails. [Disable] is an emergency
// switch: the provider's jobs are canceled in the same transaction, their
// fences move, and whatever the daemon still delivers is refused. An outcome
// therefore depends on the order of commits and on nothing else.
//
// A provider that ends by itself hands back what it runs ([Release]) and is taken
// out of the selection ([Heartbeat]): no strike. Neither is there one for what
// could not be renewed while the authority itself was away ([Watch]).
//
// # Locks
//
// On PostgreSQL: provider, run, job, ledger, streams, in this order. Where two
// providers are involved (fallback) the store repeats what deadlocks.
package jobs
