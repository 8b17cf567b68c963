// Package harness is the pipeline of one run: it takes a contract and an
// engine and leaves a sealed session directory behind.
//
// The way of the data is one direction, and every step stands in the journal
// when it starts and when it ends:
//
//	contract → gates → workspace → engine → patch → path check → verifier → source proof → verdict → seal
//
// A contract that asks for an approval is put before the authority at the gates:
// nothing is copied or started before a person there has said yes.
//
// A step that refuses appends its blockers; the pipeline then goes straight to
// the seal, so that every run, whatever befell it, ends with complete evidence
// and the work already done is kept. The verdict is not decided here: it is
// evidence.Verdict over the journal.
//
// The harness never writes to the source repository. It reads its objects,
// looks at it before and after, and gives the agent a copy.
package harness
