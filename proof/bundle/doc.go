// Package bundle seals a directory of evidence into a Verified Patch Bundle
// and audits such a bundle, or any self-validating zip, without trusting it.
//
// # The manifest
//
// A sealed directory holds manifest.txt, the last file written into it. Every
// line is
//
//	<64 lowercase hex digits of SHA-256><space><space><relative/path><LF>
//
// sorted by the bytes of the path, without duplicates, carriage returns or an
// unfinished last line. It lists every file but itself, and nothing that does
// not exist: the manifest and the file set are equal.
//
// # The zip
//
// [WriteZip] has no choices, so the same directory gives the same bytes on
// every machine: entries sorted by the bytes of their names, method Store,
// made by Unix 2.0, version needed 1.0, flags 0, date 1980-01-01 00:00:00,
// mode 0100644, no directories, extra fields, comments or data descriptors,
// and no zip64. Names obey [ProfileBundle] (see [CheckName]).
//
// # The reader
//
// Two programs can read different files out of one zip: one trusts the
// central directory, another the local headers; one searches the end record
// from behind, another starts at byte 0. An auditor that picks either reading
// certifies something that the next tool does not see. The reader of this
// package therefore accounts for every byte of the file exactly once: local
// headers and their data follow each other from byte 0 without gap or
// overlap, the central directory follows and tells the same story field by
// field, the end record is the last 22 bytes. Whatever does not fit is a
// finding. In [ProfileBundle] the headers must besides be the very bytes that
// WriteZip would have written.
//
// # The gates
//
// [Audit] checks ten gates in a fixed order and reports all findings:
//
//	 1 zip.integrity     it can be read to the end; checksums are right
//	 2 zip.portability   every reader on every system sees the same plain files
//	 3 manifest.format   manifest.txt is well-formed
//	 4 manifest.hashes   files and manifest are equal, nothing more, nothing less
//	 5 schema            \
//	 6 journal.chain      | supplied by the caller ([Options.Gates]);
//	 7 projections        | required in ProfileBundle
//	 8 signatures        /
//	 9 imports           sanity commands in a fresh workspace
//	10 tests             test commands in another fresh workspace
//
// Gates that need more than the evidence itself, such as the rules of the law,
// are the caller's ([Options.Further]); they run between 8 and 9.
//
// The audit fails closed. A gate is passed, failed, skipped because it does
// not apply or was not asked for, or blocked: it could not be checked. Any
// failed gate fails the audit (exit code 2), else any blocked gate blocks it
// (exit code 3). No command runs, and nothing is extracted, unless gates 1–4
// pass. A directory is audited by the same gates; the first two then look at
// the file system instead of a zip.
//
// # What it does not prove
//
// A manifest has no author: a party that can rewrite every file can rewrite the
// manifest as well. Who made a bundle is the matter of the signatures gate.
// File modes and, in [ProfileBundle], dates are not evidence. Names that
// differ only in Unicode normalization are not recognized as a clash; the
// names of ProfileBundle are ASCII, where the question does not arise.
package bundle
