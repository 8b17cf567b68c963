// Package identity says who asks: opaque bearer tokens, what they stand for and
// what they allow.
//
// # Tokens
//
// A token is rmt_<kind>_<id>_<secret>: the id (24 hex digits) finds the row, the
// secret (32 random bytes, base64url) proves possession. Of the whole text only
// the SHA-256 is stored, so a copy of the database holds no credential, and it
// is compared in constant time. Kinds are user, provider, panel and service; a
// kind ticket opens one live lane.
//
// A token stands for a principal ("user:alice", "provider:prv_…") and belongs to
// an owner ("alice"). What a request creates or moves is the owner's, whatever
// its body says.
//
// # Sessions
//
// A browser logs in with a token and gets a session ([OpenSession]): the same
// principal, with the scopes that the token has at each request, never more. Its
// secret has the form of a token, of the kind session; only the SHA-256 is
// stored. It follows from the token and the id of the session
// ([SessionSecret]), so that an answer that was lost can be repeated without
// keeping it. A session ends with its token, after [SessionLife], when it is not
// used for [SessionIdle], when it is ended, and when its principal opens more
// than [MaxSessions].
//
// # Ends
//
// A token ends by time, by revocation, or, if it is good for one use, by use.
// All three are token_expired, as is the end of a session; everything else that
// is wrong with a credential is unauthenticated, without a word on what.
//
// A used one-time token still says who asks, and nothing more: the answer to the
// request that used it up may have been lost, and only the idempotency key of
// that request opens it again. So it is with a session that was ended. See
// [Caller.Used].
//
// # Sealing
//
// The answer to a request that makes a credential contains the secret, and the
// authority has to repeat it byte for byte. It is therefore stored encrypted
// under a key that only the caller's own credential yields ([Caller.Seal]).
package identity
