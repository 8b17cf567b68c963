// Package journal keeps the record of a run: an append-only file of entries in
// which each entry commits to everything before it.
//
// # Format
//
// A journal is a sequence of lines. Each line is the canonical JSON (package
// canon) of one entry, followed by one LF. An entry has exactly these keys:
//
//	v             1, the version of this format
//	seq           0, 1, 2, … without gaps
//	session_id    the same in all entries; letters, digits, ".", "_" and "-",
//	              a letter or digit first
//	step_id       names the step; entries about one step share it
//	name          what the step does, e.g. "patch.captured"
//	status        started | completed | failed | skipped | denied
//	started_at    when the step began
//	completed_at  when it ended, not before started_at; or null
//	inputs        object: what went in, or digests of it
//	outputs       object: what came out, or digests of it
//	prev_hash     entry_hash of the entry before, null in entry 0
//	entry_hash    "sha256:<hex>" over the canonical JSON of this entry
//	              without the key entry_hash
//
// The three names are 1 to [MaxName] printable ASCII characters long: names that
// come from an agent are mapped to such a name by the caller that appends.
//
// Times are UTC with milliseconds, 2006-01-02T15:04:05.000Z and nothing else.
// A step that takes time is two entries with one step_id, started and then one
// of the others; nothing is ever rewritten. What the steps are called and in
// which order they come is not this package's business.
//
// Because every line is its canonical bytes, the chain can be checked with
// SHA-256 alone: cut the first `"entry_hash":"…",` out of the line, hash the
// rest.
//
// A [Head] names a whole journal in two ways: the entry_hash of the last entry,
// and the root of the Merkle tree of RFC 6962 whose leaves are the lines
// without LF. The second allows short proofs that an entry is in the journal.
//
// # What it proves
//
// [Read] accepts a file only if every byte of it is as a [Writer] would have
// written it. Given a head that was kept elsewhere, a journal with that head
// is the one that was written, entry by entry. Without such a head the chain
// proves only that the entries belong together: the holder of the disk could
// have written a different journal from the start, or dropped entries from the
// end. Times are inside the hashes, so two runs of the same task have
// different journals: integrity, not replay determinism.
//
// # Writing and failing
//
// A Writer holds an exclusive flock(2) on the file, appends each line with one
// write(2), and makes lines durable with [Writer.Sync]. After a failed write
// or fsync the Writer refuses everything that follows, since it is not known what
// the disk holds; the way on is to close it and to call [Continue].
//
// A crash can leave a last line without LF. Such a torn line is never an entry
// and never ignored: [Read] reports its length, [Continue] fails with
// [ErrTorn], and [CloseTorn] replaces it by an entry that says how many bytes
// were lost and what their digest was. A broken line that does end in LF was
// not made by a crash and is an error everywhere.
//
// # Errors
//
// What is wrong with a journal is a [*reason.Error] with the line number and
// the code journal_syntax (the line is not an entry), journal_chain_broken (it
// is one, but not the one that belongs here) or journal_torn. A journal that
// another writer holds is session_busy. Errors of the file system are wrapped
// as they are.
package journal
