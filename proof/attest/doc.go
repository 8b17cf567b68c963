// Package attest says who vouches for evidence: it makes and checks the
// signatures of bundles, in the forms that OpenSSH has for keys, signatures and
// trust, so that ssh-keygen alone can check what this package signs.
//
// # Signature
//
// A signature is an armored SSHSIG (PROTOCOL.sshsig of OpenSSH, version 1) over
// the exact bytes of a file: one namespace of [Namespaces], hash sha512, key type
// ssh-ed25519. Every other key type, hash and namespace is refused, and so is
// whatever is missing, cut or follows the end. What a signature proves is that
// the holder of a key signed these bytes for this purpose. It proves nothing
// about when, and nothing about whether the bytes are true.
//
// # Envelope
//
// A statement about a change is signed in a DSSE envelope ([SignEnvelope]), the form
// that in-toto, SLSA and sigstore read: one ed25519 signature over the payload and its
// type, by a key that is named by its fingerprint.
//
// # Key
//
// A private key is an unencrypted file of the form openssh-key-v1 with one
// ed25519 key, a public key the line `ssh-ed25519 BASE64 COMMENT`, and its name
// among people the fingerprint `SHA256:` and 43 characters of base64.
//
// # Trust
//
// [ParseSigners] reads an allowed_signers file (ssh-keygen(1)). The file is the
// auditor's: nothing in a bundle, and nothing in the change that a bundle
// describes, adds to it. Reading is strict: a line that is not understood is an
// error, since a line that is passed over could be the one that takes trust away.
// [ParseRevoked] reads the keys whose signatures count no more.
//
// Errors have no reason code: what a bad signature means for an audit is decided
// by its gate. Every input is bounded in bytes and count.
package attest
