// Package remit is the front door of the module: it holds no code, only the
// plan of the house. Remit gives any coding agent a remit, takes back a change
// that can be proved, and pays only for what was verified.
//
// # The one idea
//
// A run is an append-only journal; everything else is a projection of it. The
// report, the receipt, the replay and the live view are functions of the journal
// and a few content-addressed blobs, so that an auditor can compute them again
// and see whether they are true.
//
// # The wings
//
// Imports point down only. A package may import what stands below it, never
// what stands above or beside it.
//
//	cmd/       the command line: parses, wires, prints, exits
//	nexus/     the authority: registry, jobs, treasury, approvals, lanes
//	provider/  the daemon on another machine that runs jobs
//	forge/     export: patch, branch, reports for CI
//	work/      what happens: the only wing that starts processes and writes trees
//	law/       what may happen: pure functions over records
//	proof/     what anyone can check offline: no network, no clock of its own
//
// The arrows, and which outside module may be used where, are a table in
// layering_test.go, each row with its reason. docs/house.md walks through the
// rooms as the data does: from the contract to the bundle, from the job to the
// money, from the model request to the journal, from the entry to the audit.
//
// # Who should not need this package
//
// Everybody: there is nothing to import. The program is remit/cmd/remit, and a
// verifier that shares no code with it is vectors/verify.py.
package remit
