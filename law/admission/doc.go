// Package admission keeps the decisions about what a run may be made with: a
// [Source], which is one build of an engine, and a [Model], which is one pair
// of provider and model. A flag or an environment variable asks for an engine
// and a pair; the record is the authority.
//
// # Format
//
// A record is one file below REMIT_HOME:
//
//	admissions/source/<engine>.json
//	admissions/model/<provider>+<model>.json
//
// Its text is canonical JSON ([remit/proof/canon]) and one line end, and it has
// every key of its type. A name of lower-case letters, digits, dots and hyphens
// stands in the file's name as it is; any other becomes a digest
// ([SourceFile], [ModelFile]), so no name leads out of the directory and no two
// records share a file, on a file system that folds case neither.
//
// The record holds the latest decision and, oldest first, those before it. Each
// is numbered, has an id, which is the digest of its canonical bytes without
// the id, and names the id before it: what was decided cannot be changed or
// left out without changing all that follows. The last [MaxHistory] decisions
// are kept.
//
// A record is not signed: a user who can write REMIT_HOME can admit. What it is
// good against is everything that cannot, which is every engine, repository
// and bundle. A file that others than its owner can write is refused.
//
// # What holds
//
// A source record holds for one engine, version and digest of what is executed;
// a model record for one provider and one model, byte by byte. Anything else
// makes it stale, and a stale record admits nothing. A version that can move
// (latest, ^1.2) is refused when the record is made. The other fields say to
// people on what grounds it was made, and nothing compares them.
//
// # Failure modes
//
// [CheckSource] and [CheckModel] answer with a status word of the report and
// the reason code that the eligibility decision gives for it. A file that is
// there and is no record is an error with the code invalid_admission, its name
// and line, and never counts as missing. Only reading is done here; the command
// line writes.
package admission
