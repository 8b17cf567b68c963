// Package bridge mirrors two facts of the authority to Nostr, and nothing else:
// that a provider offers work (an ad, kind 31990), and that a receipt exists (a
// pointer, kind 30078). It creates no authority: no event that comes from a
// relay changes anything here.
//
// Publisher and validator share one allow-list ([Allowed]) on kind, schema tag,
// prefix of the d tag, names of tags and keys of the content. What is not on it
// is refused before it is signed, and again before it is sent.
//
// # From the fact to the relay
//
// [Advertise] and [Point] write a row of the outbox in the transaction of the
// fact, so that there is a row exactly if the fact was committed, and do nothing
// else. Later a [Publisher] signs the row and hands it to each relay, as often
// as it takes. A relay that is down costs no command anything: what it has not
// taken waits, and the relay is asked again after a second, two, four, up to
// five minutes. Replicas share the work: a row is locked while it is signed, and
// a relay is leased by the replica that talks to it.
//
// Events follow NIP-01: the id is the SHA-256 of the compact array
// [0,pubkey,created_at,kind,tags,content], the signature is BIP-340 without
// auxiliary randomness. created_at stands in the row, so the same fact gives the
// same event, byte for byte, and publishing it again changes nothing.
//
// # The key
//
// A nexus has one key ([OpenKey]). Its secret half is a file, its public half is
// in the store, and a publisher with another key does not start.
//
// # Relays are untrusted
//
// [Verify] checks the id, the signature, the author and the class of everything
// that a relay has, and holds the pointers against the receipts of the nexus.
// What a relay says reaches logs and tables only as short printable text.
package bridge
