// Package bridge mirrors two facts of the authority to Nostr, and nothing else:
// that a provider offers work (an ad, kind 31990), and that a receipt exists (a
// pointer, kind 30078). It creates no authority: no event that comes from a
// relay changes anything here.
//
// Publisher and validator share one allow-list ([Allowed]) on kind, schema tag,
// prefix of the d tag, names of tags and keys of the content. What is not on it
// is refused before it is signed, and again before it is sent.
//
// Events follow NIP-01: the id is the SHA-256 of the compact array
// [0,pubkey,created_at,kind,tags,content], the signature is BIP-340 without
// auxiliary randomness. created_at comes from the record that the event is
// about, so the same fact gives the same event, byte for byte, and publishing
// it again changes nothing.
//
// Relays are untrusted: an event that comes back is checked for its id, its
// signature and its class before anybody looks at it. A relay that is down
// blocks no run: what could not be sent stays in the outbox.
package bridge
