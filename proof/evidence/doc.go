// Package evidence turns the journal of a run into the artifacts that people
// and programs read, and checks that artifacts and journal say the same.
//
// The journal is the only source of truth. [Project] is a pure function: the
// same entries give the same bytes of report.json, report.md, context.json,
// contract.json, eligibility.json, events.normalized.jsonl, trace.jsonl,
// proofs/*.json, RECEIPT.json, REPLAY.jsonl and PR_SUMMARY.md, on any machine.
// What cannot be projected because it is too large (patch.diff, test.log, the
// engine's raw output below backend/) is a blob: its digest stands in an
// artifact.recorded entry.
//
// The verdict is a projection too. Steps carry the blockers that they met;
// [Verdict] folds them: no blocker and a passed verification is a pass,
// otherwise the status is that of the first blocker, the root cause. The
// harness writes what Verdict says into run.completed and the auditor computes
// it again.
//
// JSON documents are their canonical form (package canon) followed by one LF;
// JSONL files hold one canonical object a line.
package evidence
