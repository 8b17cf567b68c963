// Package treasury keeps the money of the authority: it holds the price of a job
// before the job is dispatched, and pays it or gives it back after the verdict.
//
// # The books
//
// Double entry in the shape of TigerBeetle. An account has four balances:
// debits and credits, each pending and posted. A transfer moves whole units of
// one money from a debit to a credit account and is never changed. A pending
// transfer holds the amount; at most one other transfer resolves it:
//
//	post    release   the money goes to the payee
//	void    withhold  back to the payer, with a reason
//	expire  timeout   back to the payer, reservation_expired
//
// Budget accounts pay. They spend what [Fund] gave them, and no more than their
// Limit: reserved + spent ≤ min(limit, funded). Earnings accounts are paid. One
// issuance account a unit is the other side of funding. No rail is involved:
// a release is a figure in these books and nothing else.
//
// # Rules
//
//   - [Reserve] before dispatch, [Resolve] with the verdict. Both are decided
//     before anything is written, in the transaction of the command, so they
//     commit together with the job row and its receipts.
//   - Repeating a call is harmless: the same reservation again, or the same
//     verdict again, returns what is stored and changes nothing. A call that
//     differs gets amount_mismatch, owner_mismatch or settlement_conflict.
//   - A job of a run holds, or has earned, money once. After a withheld
//     reservation the same job may reserve again under a new transfer id.
//   - A transfer id that was refused stays refused, also when there is money
//     again: a new intent takes a new id. See [Refused].
//   - Time is the command's ([store.Tx.Now]). Expiry is tested by the command
//     that resolves, so a late verdict gets reservation_expired even if no
//     sweeper ran. [Reconcile] gives back what is overdue; [Cancel] gives back
//     early, and never fails because of the clock.
//   - Amounts, balances and limits stay within 2^53-1, the largest number that
//     a receipt can carry.
//
// # When the books are wrong
//
// [Invariants] folds all transfers again, in SQL that shares nothing with the
// writers. [Audit] runs it, [Check] only for what is behind a checkpoint, and, when the books do not balance, switches the
// authority to read-only; every mutation, not only those here, asks [Writable]
// first. [Reopen] switches back, and only for books that balance.
//
// # Locks
//
// On PostgreSQL: reservations by age, then accounts, budgets before earnings.
// A command that calls the treasury does so last, and at most once if it can;
// commands that break this meet a deadlock, which the store repeats.
package treasury
