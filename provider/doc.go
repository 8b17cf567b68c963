// Package provider is the daemon that runs jobs for an authority on another
// machine.
//
// # The way of a job
//
// The authority offers a job over the provider's live lane; the daemon takes a
// lease over HTTP, runs the job in the sandbox under its caps, keeps the result
// on disk (the spool), uploads the output by digest and hands the response in
// over HTTP. The lane only ever wakes the daemon: nothing that arrives on it is
// believed, and nothing is changed through it.
//
// There are two types of jobs. oa.sandbox_run.v1 runs commands over a tree.
// remit.engine_run.v1 lets one of the operator's engines ([Config.Engines]) work
// under a contract: the pipeline of package harness, whose sealed bundle is the
// result. An engine that asks a model ([Config.Agents]) does so through a gateway
// of this machine, with a key of its operator.
//
// A lease has a fence. The daemon renews it at a third of its time; when the
// authority says that the fence is stale, or cannot be reached until the lease
// has run out, the work is killed: its result would count for nothing. The lease
// of work that came to nothing for any other reason than a stale fence is handed
// back as soon as that is possible, by the next daemon if this one was killed.
//
// A lease grants what its job may use: what it asks for, within the caps of the
// provider's owner. The daemon bounds every job by that and by [Config.Caps]; where
// the sandbox cannot hold those caps it does not open, unless [Config.Unenforced].
//
// # The end of a daemon
//
// When the context of [Daemon.Run] ends, the daemon takes no more leases and says
// that it stops. What runs goes on for [Config.Grace]; then it is killed and its
// lease handed back. A result that could not be handed in waits for the next
// daemon. The last word is that the daemon has stopped, if no other one of this
// registration lives on this machine; a daemon that was killed says nothing, and
// its heartbeat goes stale.
//
// A daemon whose credential is not taken any more ends by itself, with an error.
//
// # What is promised
//
//   - Nothing runs outside the sandbox, with more than the caps allow, with a
//     network other than the gateway of its own run, or with a secret of this
//     machine in reach.
//   - A model is asked only while the admission records of this machine admit it,
//     and the engine's build, and for no more than the job and the operator allow.
//   - A job reads only repositories below the directories that the operator
//     named ([Config.Sources]), or the commit that was sent with its run: an
//     artifact:sha256:… is downloaded, checked, and unpacked as what it is, the
//     work of a stranger (workspace.OpenPack).
//   - A result that is finished stays in the spool until the authority has
//     acknowledged it, over restarts of the daemon.
//   - A job is executed once for each lease; a repeated offer of a job whose
//     result is in the spool hands in that result.
//
// # Failure modes
//
// What is the job's fault (a source that may not be read, a revision that does
// not exist, a working directory that is none) ends as a failing first command
// with exit code 128 and a message on its stderr: an honest failure, not a fault
// of the provider. An engine run that could not begin for such a reason is a
// refusal. What is this machine's fault ends with status error: a model that is
// out of reach too, and a build of an agent that is not the admitted one.
package provider
