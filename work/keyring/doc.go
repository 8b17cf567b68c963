// Package keyring keeps the keys of this machine and the operator's list of keys
// that they trust: one key signs evidence and records, another one approvals.
//
// All lie in one directory, `keys` below REMIT_HOME, mode 0700:
//
//	id_ed25519            the signing key, OpenSSH form, mode 0600, without a passphrase
//	id_ed25519.pub        its public half, for people and programs to copy
//	approval_ed25519      the approval key, PKCS #8 under a passphrase, mode 0600
//	approval_ed25519.pub  its public half; alone where an ssh-agent holds the key
//	allowed_signers       whom the operator trusts, in the form of ssh-keygen
//	revoked_keys          whose signatures count no more, one public key a line
//
// # Two keys
//
// The signing key works unattended: every run uses it. What it signs says where
// evidence and records come from, and never that a person agreed. An approval is
// therefore signed with the approval key, which a person opens with a passphrase
// or through their ssh-agent ([Ring.SignApproval]), and a signature of the signing
// key never counts as one, whatever the list of trusted keys says.
//
// The signing key is made when it is first needed, like a host key, and read from its
// file for each signature: it is in no argument, no environment and no log. A
// key or directory that others can read or change, or that belongs to another
// user, is refused: what it signed would prove nothing.
//
// Both lists are written by the operator's commands alone. No bundle, repository or
// run adds to them.
package keyring
