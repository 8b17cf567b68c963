// Package ladder is what an engine has to show before it may come closer to a
// real repository: the six stages, the twelve rows of the failure matrix, and
// the summary of what is shown so far. It is data and pure functions over it;
// nothing here runs or reads anything.
//
// # Stages
//
// A [Stage] has a mutation scope, says what it proves, and names the failure
// classes that are run at it. Stages are climbed in order, per engine, version
// and model; evidence that is missing blocks. No stage makes an engine the
// default: candidate status is evidence, the default is a decision of its own.
//
// # Rows
//
// A [Row] of the failure matrix is one way in which a run can go wrong, with
// the only acceptable end: a status, a reason code, an event and what the
// evidence must show. A row has one or more [Case]s, ways to bring its trigger
// about. [remit/work/matrix] executes them against a real engine; a row holds
// if every case that this machine can try ends as it says.
package ladder
