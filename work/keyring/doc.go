// Package keyring keeps the key that this machine signs evidence with, and the
// operator's list of keys that they trust.
//
// Both lie in one directory, `keys` below REMIT_HOME, mode 0700:
//
//	id_ed25519       the private key, OpenSSH form, mode 0600, without a passphrase
//	id_ed25519.pub   its public half, for people and programs to copy
//	allowed_signers  whom the operator trusts, in the form of ssh-keygen
//
// The key is made when it is first needed, like a host key, and read from its
// file for each signature: it is in no argument, no environment and no log. A
// key or directory that others can read or change, or that belongs to another
// user, is refused: what it signed would prove nothing.
//
// The list is written by the operator's command alone. No bundle, repository or
// run adds to it.
package keyring
