// Package lanes delivers live state over WebSocket, and nothing but delivers.
//
// # Topics
//
// A topic is the name of an event stream of the store, and its stream_id:
//
//	fleet:user:<id>:workers   presence of an owner's providers
//	run:<id>:events           the log of a run
//	jobs:<provider_id>        offers and cancels for a provider
//	user:<id>:receipts        receipts of an account that belong to no run
//
// # Opening
//
// A POST makes a ticket for one topic: good once, for 30 seconds, and bound to
// the token that asked. The handshake carries it as the subprotocol
// remit.ticket.<ticket> beside remit.lane.v1, so no secret is in a URL and
// browsers can send it. A browser of another origin is refused before the ticket
// is looked at. While a lane is open, the token behind its ticket is looked up
// again with every ping: revocation closes the lane.
//
// # Frames
//
// Texts of JSON. First hello {head_seq, floor_seq}; then, unless the cursor
// after_seq can be continued, reset {reason} and snapshot {seq}; then event
// after event, each exactly one seq after the one before. Readers apply by
// (stream_id, seq); applying twice is harmless. A cursor cannot be continued if
// events behind it are gone (retention_floor_breach), if it is too far behind
// (replay_budget_exceeded), or if it is ahead of the stream (cursor_invalid).
// Without a cursor a lane begins with a snapshot.
//
// The cursor means the same on every replica, since the stream is in the store
// and this package keeps no truth of its own.
//
// # Slow readers
//
// Nothing is queued for a reader: each lane has a place in the stream and reads
// on from there, out of a tail that all lanes of a topic share or out of the
// store. Memory is bounded whatever a reader does. One that was up to date and
// fell behind gets, by topic: presence a resync and a fresh snapshot; a run's
// log the replay, up to the budget; job lanes are closed (lane_slow_consumer),
// for an offer must be read in time or not at all. A reader that takes nothing
// for the write timeout is cut off.
//
// # Read only
//
// A message from the client closes the lane with status 1008, lane_read_only.
package lanes
