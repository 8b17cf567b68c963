// Package job holds the units of work that a provider may be asked to do, as
// pure records: what a request says, which limits it must keep, by which hash
// it is known, and what a response is worth.
//
// # Types
//
// A job type is a name with a version inside, so that a breaking change is a
// new name:
//
//   - oa.sandbox_run.v1 ([SandboxRunRequest]) runs commands in a sandbox. Its
//     wire form, defaults and limits are those of the network that defined it;
//     the optional response blocks provider, sandbox, caps and usage are ours.
//   - remit.engine_run.v1 ([EngineRunRequest]) lets an engine work under a
//     contract and returns a sealed bundle.
//
// Both are [Request]s; [Parse] reads any of them by type name.
//
// # Reading
//
// Requests and responses come from strangers. They are read strictly: valid
// UTF-8, one value, no key twice, no unknown key, no null, bounded in bytes and
// depth. Defaults are filled in while reading, so a sparse request and its
// spelled-out form are the same request.
//
// # The hash
//
// The job hash is the SHA-256, in bare lower-case hexadecimal, of the canonical
// request payload and of nothing else: type, owner, run and provider are not
// part of it. The canonical form sorts keys by bytes, has no white space and
// leaves absent options out. It differs from proof/canon in one point that the
// wire contract fixes: sandbox.resources.cpus is a 32-bit float and is always
// printed with a fraction (1.0). Nothing else that is hashed may be a fraction.
//
// # The verdict
//
// [Check] judges a response against its request without running anything:
// the same two records give the same [Verdict] everywhere. There are three
// outcomes. Passed: the commands ran and all exited with 0. JobFailed: the
// provider did its duty and the commands failed, or used up the time that the
// request granted. ProviderFault: the response contradicts the request or
// itself. Only a passed job is paid, and only a fault is a violation strike.
//
// Every error is a [*reason.Error] with code job_invalid or job_unknown_type;
// Field names the offending key as a path ("sandbox.resources.memory_mb").
package job
