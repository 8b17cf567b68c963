// Package server is the authority over HTTP: it wires the contract of
// remit/nexus/api to the registry, the jobs, the treasury and the lanes.
//
// # One request
//
// Whatever arrives takes the same way, in this order, and the first refusal
// ends it:
//
//	request id → credential (401) → rate (429) → scope (403) → body (413)
//	→ Idempotency-Key: missing 400, repeated: the stored answer, other request 422, in flight 409
//	→ read-only mode (503) → form of the body (400, 415) → the effect → the answer is stored
//
// From the key on, everything happens in one transaction of the store, together
// with the effect. A deterministic 4xx is stored as the answer to its key as
// well, in a transaction of its own, since what it did was rolled back; 401, 429
// and 5xx never are. Because the key is looked up before any state is asked, a
// repeat gets its answer also after the state has moved on.
//
// An answer that holds a new credential is stored sealed to the credential that
// asked (remit/nexus/identity).
//
// # Browsers
//
// The credential is a bearer token or, from a browser, the cookie of a session;
// with both the token counts. A cookie alone is enough to read. Every other
// request needs the session's CSRF token and an Origin of ours too (403). There
// is no CORS: no page of another origin reads an answer. An --origin is for
// pages that a proxy serves under another name than it asks us by. A login is
// the one mutation whose credential is in its body, see createSession.
//
// # Routes
//
// The table in routes.go is the only list of routes. A test holds it against
// openapi.yaml in both directions: paths, methods, scopes, keys.
//
// # What stays outside
//
// /metrics is answered to a token with the scope admin; without one there is a
// listener of its own, see [Server.MetricsHandler].
// Profiles are not on this listener at all, see [DebugHandler].
package server
