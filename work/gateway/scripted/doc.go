// Package scripted is a model that says what a script tells it to.
//
// # The idea
//
// What an engine and the gateway do when a model fails can only be tried with a
// model that fails on demand, in every way and always the same. A [Script] is
// read from YAML by [Load]; a [Server] plays it over the three protocols that
// engines speak. It needs no key and no network, so it is also what a user
// without a key tries an engine with (remit model script).
//
// # The format
//
// A script is a list of conversations with a condition each, a conversation a
// list of turns, a turn an answer or several to choose from. Which turn of a
// conversation a request asks for is read from the request, as is everything
// else that a condition can be about; the only thing that a server remembers is
// how often it gave an answer that is to be given so many times. Therefore a
// request that an engine repeats, and those that it makes beside its
// conversation, do not shift the script, and the same requests get the same
// bytes. docs/engines.md has the keys.
//
// # An answer
//
// A message is played as an iterator of events in the form of its protocol
// (chat.go, responses.go, messages.go), cut into pieces of the sizes that the
// script wants, and ends where the script breaks it off; the player writes
// the events in the shape and in the portions that the script wants. So faults
// go together with everything, and none has to be written three times.
//
// # What is counted
//
// [Server.Count] says which usage was reported to clients, and counts it before
// the bytes go out: an answer that was read is counted. A gateway that
// meters otherwise is wrong.
//
// # Failure modes
//
// A script that is wrong is [Problems]: all that is wrong with it, each with
// script_invalid, file, line and field. A request that is none, or for which
// the script says nothing, is refused with a status from 400 to 413 in the form
// of the protocol, with script_no_answer or script_no_capture where that is the
// reason: nothing is made up. The server bounds what it reads (64 MiB a request,
// 1 MiB a script) and what it says (16 MiB of text).
package scripted
