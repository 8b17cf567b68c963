// Package gateway is the only way from an agent to a model.
//
// # The idea
//
// An agent in the sandbox has no route and no key. It has one address on its
// own loopback, behind which this package listens. A request that asks for the
// one admitted model, on one of three paths, leaves the machine with the
// credential added; every other request is refused here, recorded, and never
// leaves. What the provider answers is metered on its way back, so that tokens,
// cost and the name of the model that answered are facts of the wire and not
// claims of the agent.
//
// # What is let through
//
//	POST /v1/chat/completions   [Chat]       also without /v1
//	POST /v1/responses          [Responses]  also without /v1
//	POST /v1/messages           [Messages]   also with ?beta=true
//
// The request line is compared byte by byte: no cleaning, no decoding, no
// prefix, no other query, no absolute form, no CONNECT. The body must be one
// JSON object whose top-level names are plain, lower case and unique, so that
// no two readers can disagree on which model it names. The top-level names that
// go on are listed for each protocol; any other is refused, since behind it may
// stand another model, another provider, another host or a search. So is a part
// of the conversation that the provider would have to fetch, under whatever
// name, and a tool that it would run itself: a provider that fetches a URL for
// the agent is a network for the agent. So is what is stored over there under the
// credential, unless the operator allows it ([Options.StoredState]).
//
// # What is changed on the way out
//
// The headers are written anew from a short list; the agent's own, with its
// session ids and its token, stay here. From the body go the fields that name
// a person, a device or a work tree ("metadata", "client_metadata", "user",
// "safety_identifier") and those that change the price ("service_tier",
// "speed"); "prompt_cache_key" is replaced by a digest that only this gateway
// can make; the model's name is mapped if the engine knows it by another; a
// chat stream is asked to report its usage.
//
// # What is promised of an answer
//
//   - A stream is passed on event by event, as it comes. An event that is not
//     complete is never sent.
//   - A 200 is sent only after the provider's content type and its first event
//     (or, without streaming, its whole JSON) were seen to be of the protocol.
//   - A stream ends cleanly only after the protocol's own end: finish_reason and
//     [DONE], response.completed (or failed, incomplete), stop_reason and
//     message_stop. If the provider breaks off, the engine gets an error event
//     and then a broken connection, since some engines take a clean end for
//     success and run half a tool call.
//   - Before anything was passed on, a connection that could not be made and the
//     statuses 429 and 5xx are tried again a few times, after Retry-After or an
//     exponential pause. Nothing else is: a request may have been paid for.
//   - If an engine hangs up, the answer is read on for a while, because its
//     usage stands at the end.
//   - Every name of a model in an answer is compared with the admitted one. An
//     answer without a name is another model's too, once a probe was answered
//     with one.
//   - Why an answer ended is recorded in one word for all protocols; see [Stop].
//
// # Limits
//
// A request is refused with budget_exhausted once what was spent has reached a
// limit; what one request will cost is not guessed, so a run stops at most one
// request late and never early. While requests are under way whose most
// possible cost could reach the limit, the next one waits for them. An answer
// that reports no usage, or one with a figure that is none (negative, broken,
// a text, more than 100 million), is said to be unmetered; towards the limits,
// and only there, it counts what its size suggests, or hanging up would be free.
//
// What is refused costs nothing, and a program can be refused thousands of
// times a second. After [MaxRequests] of those, whatever the limits allow, the
// run has exhausted its budget: connections are broken off, and nothing more is
// recorded than how often. A request that net/http refuses before it gets here
// is recorded too, without a path.
//
// # What is never shown
//
// The credential is read once, outside the sandbox, and appears in no error,
// record, kept body or answer: what a provider echoes of it is taken out of the
// stream, in its usual encodings and with JSON's escapes too. The provider's
// address appears in none of them either.
//
// # Refusals
//
// A refusal has the protocol's own form, says "retry no more" to client
// libraries, and carries the reason code where clients show it:
//
//	{"error":{"type":"remit_refused","code":"model_mismatch","message":"…"}}
//	{"type":"error","error":{"type":"invalid_request_error","code":"model_mismatch","message":"…"}}
//
// Codes: route_refused, unauthenticated, request_invalid, request_too_large,
// content_type_refused, model_mismatch, hosted_tool_refused, budget_exhausted,
// artifact_write_failure, cancelled. What a provider does wrong is
// provider_unavailable, quota_exhausted, auth_unavailable, provider_refused, timeout or
// response_shape_unavailable.
//
// # Who should not need this package
//
// It is not a router and not a cache: it knows one provider and one model, for
// one run.
package gateway
