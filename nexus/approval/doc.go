// Package approval records which person has approved the work on a contract.
//
// # The way of an approval
//
//	requested ──► granted ──► consumed by one run
//	    │            └──────► denied
//	    └──────► denied, which is final for the contract
//
// The client of a run asks ([Request]) with the contract itself, in its
// canonical form: what is decided about is read from there and not from a
// description. A person decides ([Decide]), with a credential that has the
// scope for it; runs, providers and services have none, and neither has an
// engine, which has no credential at all. One run uses the approval up
// ([Consume]): it is bound to the digest of the contract and to the repository,
// and no second run gets it. A contract whose mode touches a repository is approved
// for one build of an engine, one model, one commit and one target besides
// ([remit/law/job.Binding]): a run that works with anything else is refused.
//
// An approval ends with its time, by the store's clock, until it is used. A grant
// can be taken back by a denial before that. Once denied, a contract is never
// approved: another contract is needed.
//
// # Receipts
//
// ApprovalRequested, ApprovalGranted and ApprovalDenied stand in the journal of
// the account, with actor, scope, mode and times. The log of the run that uses an
// approval has the copy of its grant, and ApprovalConsumed.
package approval
