// Package record is the one home of the facts that several rooms write and
// read: the receipts of an authority with their payloads, how a proof was
// settled, and what a request for a model cost. A writer fills the type, the
// canonical form of it is what is hashed, and a reader decodes the same type.
//
// A field that is added here is written by its writer and found by every
// reader. A field that an old record does not have decodes to its zero value;
// where old bytes must stay what they are, the field has omitempty. Nothing is
// renamed or removed: digests of old records would change.
package record
