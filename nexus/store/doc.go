// Package store keeps the state of the authority: one SQLite file on one
// machine, or one PostgreSQL schema that any number of replicas share. It is
// the only package that speaks SQL.
//
// # The idea
//
// A command is one transaction. [Store.Update] runs it, and with it commit its
// idempotency row, its effect, its ledger rows, its job row and its outbox
// events, or none of them. Nothing is ever half done, so a crash needs no
// repair: a client without an answer repeats the same Idempotency-Key.
//
//	err := s.Update(ctx, func(tx *store.Tx) error {
//		e, err := tx.Append(store.Event{Stream: "run:1:events", Type: "receipt", Payload: p})
//		…
//		return err
//	})
//
// [Store.View] shows one snapshot and changes nothing.
//
// # Streams
//
// An event has a place in one stream: (stream, seq) with seq counting from 1
// without a gap, assigned in the transaction that appends it. A reader that
// keeps the last seq it has seen misses nothing and sees nothing twice.
// [Store.Changed] only says when it is worth looking.
//
// # The two databases
//
// SQLite has one writer, so commands queue and commit in groups: a savepoint
// each, one fsync for all (see writer.go). A second process is refused by a
// file lock. PostgreSQL runs each command in its own READ COMMITTED transaction
// and repeats it after a serialization failure or a deadlock. A command may
// therefore run more than once and must have no effect outside its [Tx].
//
// On PostgreSQL the reads of one method go to the server in one round trip, and
// a write whose answer the command does not need is deferred: it goes with the
// next read, or with COMMIT. A dispatch has five round trips for its 33
// statements. Statements keep their order (see statement.go).
//
// Both behave alike where it matters: times are integers, unix milliseconds
// from one clock (the server's own on PostgreSQL); text is UTF-8 without NUL
// and ordered by its bytes; and a statement that fails ends its command, as
// PostgreSQL always does: later statements of the same [Tx] return the same
// error and Update returns it even if the command hides it, also that of a
// deferred write. A command that expects a conflict says so in the statement
// (ON CONFLICT).
//
// # Failure modes
//
// [ErrNotFound] and [ErrConflict] are answers. A *reason.Error with the code
// store_unavailable means that the database could not be used; unless COMMIT
// itself failed, the command had no effect. Passwords of a DSN appear in no
// error.
package store
