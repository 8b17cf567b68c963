// Package secret finds credentials in text that is about to be published, and
// takes them out.
//
// # What is found
//
// Two kinds of things are looked for. A credential that the caller holds
// ([Value]) is searched for by its value: as it is, in base64 (standard and URL
// alphabet, at each of the three alignments), in hex, URL-encoded and escaped
// as in JSON. Line breaks inside do not hide it, so that a wrapped base64 block
// is found too. And key shapes that are known to stand for a secret are found
// by their form: [Kinds] lists them. A shape needs more than its prefix (enough
// varied characters, a header that decodes, a key body), because a check that
// cries wolf is switched off.
//
// A value that is too short, or a word that stands in every repository, would
// be found everywhere and is not searched for; [Scanner.NotSearched] names each
// one and why, so that silence is not taken for a clean result.
//
// # How
//
// One automaton (Aho-Corasick) over the beginnings of all values and shapes
// reads every byte once; only where a beginning stands is the rest looked at,
// in a bounded window. Time is linear in the input and memory is constant. A
// match may lie across the borders of writes.
//
// A [Finding] says what and where, and never the secret itself: kind, place,
// length and the first 8 hex digits of its SHA-256, by which its owner can
// recognise it.
//
// # What is not found
//
// An agent that knows a secret and wants it out can encrypt it, spell it backwards or
// split it into words. The scan catches accidents and the careless; what stops
// the rest is that no secret enters the sandbox. Values inside compressed data
// are not found, nor values in two encodings at once.
//
// # Who should not need this package
//
// To keep a secret out of a log that you write yourself, do not hand it to the
// logger.
package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// Version changes when the scanner finds something else than before.
const Version = "1"

// Value is a credential that the caller holds.
type Value struct {
	Name  string // what evidence may call it, such as an environment variable
	Value string // never in evidence
}

// Unsearched is a credential that is not searched for.
type Unsearched struct {
	Name string
	Why  string
}

// Finding describes a secret without telling it.
type Finding struct {
	Kind     string `json:"kind"`     // [Credential], or one of [Kinds]
	Name     string `json:"name"`     // of the credential, "" for a shape
	Encoding string `json:"encoding"` // of the credential: raw, base64, hex, url or json
	Offset   int64  `json:"offset"`   // bytes from the beginning
	Length   int64  `json:"length"`   // bytes, as it stands there
	Digest   string `json:"digest"`   // of the credential's value, or of the shape's text
}

// Credential is the kind of a finding that is the value of a [Value].
const Credential = "credential"

// Marker is what stands in a redacted text in the place of the finding.
func (f Finding) Marker() string {
	if f.Name != "" {
		return "[redacted:" + f.Kind + ":" + f.Name + "]"
	}
	return "[redacted:" + f.Kind + "]"
}

// digestPrefix is enough to recognise a secret among one's own, and too little
// to stand for it.
func digestPrefix(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}

// Rules say what a scan looks for.
type Rules uint8

// The two kinds of things that are found.
const (
	Values Rules = 1 << iota
	Shapes
	All = Values | Shapes
)

// FileName says for which tool a file of this name keeps credentials, "" for any other.
// What is named as an example of such a file has none.
func FileName(name string) string {
	dir, base := path.Split(strings.ToLower(name))
	parent := path.Base(dir)
	for _, end := range []string{".example", ".sample", ".template", ".dist", ".defaults", ".pub"} {
		if strings.HasSuffix(base, end) {
			return ""
		}
	}
	switch {
	case base == ".env", strings.HasPrefix(base, ".env."), base == ".envrc":
		return "the variables of a program"
	case base == ".netrc", base == "_netrc", base == ".git-credentials", base == ".pypirc", base == ".htpasswd", base == ".pgpass", base == ".my.cnf", base == ".vault-token":
		return "passwords"
	case base == "id_rsa", base == "id_dsa", base == "id_ecdsa", base == "id_ed25519", base == "id_ecdsa_sk", base == "id_ed25519_sk":
		return "a key of ssh"
	case strings.HasSuffix(base, ".p12"), strings.HasSuffix(base, ".pfx"), strings.HasSuffix(base, ".jks"), strings.HasSuffix(base, ".keystore"), strings.HasSuffix(base, ".kdbx"):
		return "keys"
	case parent == ".aws" && base == "credentials", parent == ".docker" && base == "config.json", parent == ".kube" && base == "config", parent == ".cargo" && strings.HasPrefix(base, "credentials"):
		return "tokens"
	}
	return ""
}
