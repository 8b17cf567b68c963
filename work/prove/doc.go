// Package prove makes the proofs of the ladder, keeps them, and reads them
// again. What a proof has to show is data of [remit/law/ladder], which also
// judges it; this package runs the engine and looks at what the runs left.
//
// # On disk
//
// Below REMIT_HOME, ladder/ENGINE/KEY/ has the proofs of one key, where KEY is
// the first 16 hex digits of the key's digest: two versions of an engine, or two
// models, never share a directory. Beside a proof lie its signature (NAME.sig,
// SSHSIG, namespace remit-record), its attachments, and below bundles/SESSION/
// the sealed sessions that it names.
//
// # Reading
//
// [Load] reads every proof of an engine and holds it against its sessions: the
// manifest, the report and the journal of each have the digests that the proof
// states, and the report says of engine, model, status and code what the proof
// says. A record that fails any of this is returned with its fault, so that
// status can say why it counts for nothing. [Audit] looks further: it makes the
// audit of each session that anybody can make.
package prove
