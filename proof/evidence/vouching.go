package evidence

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/proof/attest"
	"remit/proof/form"
	"remit/proof/reason"
)

// vouching is one run of the gate signatures: which key vouches for what.
type vouching struct {
	trust      Trust
	files      fs.FS
	at         time.Time        // when the run ended
	session    string           // as the receipt names it
	receiptKey attest.PublicKey // that has signed the receipt, zero for none

	found   []reason.Finding
	skipped bool
	signers []attest.Vouched
}

func (c *vouching) add(code reason.Code, path, detail string) {
	c.found = append(c.found, reason.Finding{Code: code, Path: path, Detail: detail})
}

// missing is a receipt without a signature.
func (c *vouching) missing(path string) {
	c.skipped = true
	if c.trust.Require {
		c.add(reason.SignatureMissing, path, "the bundle has none")
	}
}

// vouch records whose signature, found at path, is over a file. It was verified.
func (c *vouching) vouch(path, over string, key attest.PublicKey) {
	by := attest.Vouched{Key: key.Fingerprint(), Revoked: c.trust.Revoked.Has(key), Files: []string{over}}
	if by.Revoked {
		c.add(reason.SignerRevoked, path, "is signed by "+by.Key+", which you have revoked")
	} else if by.Name, by.Trusted = c.trust.Signers.Find(key, attest.NamespaceReceipt, c.at); !by.Trusted {
		c.skipped = true
		if c.trust.Require {
			c.add(reason.SignerUnknown, path, "signed by "+signerWords(by))
		}
	}
	for i := range c.signers {
		if known := &c.signers[i]; known.Key == by.Key && known.Trusted == by.Trusted {
			known.Files = append(known.Files, over)
			return
		}
	}
	c.signers = append(c.signers, by)
}

// signerWords are the name of a signer, or the key where the auditor knows none.
func signerWords(by attest.Vouched) string {
	if by.Trusted {
		return by.Name
	}
	return by.Key + " (not in your allowed signers)"
}

// why names the signers. Without statements it is the one of the receipt alone.
func (c *vouching) why() string {
	if len(c.signers) == 0 {
		return Unsigned
	}
	if len(c.signers) == 1 && len(c.signers[0].Files) == 1 && c.signers[0].Files[0] == ReceiptFile {
		return "signed by " + signerWords(c.signers[0])
	}
	var parts []string
	if c.receiptKey == (attest.PublicKey{}) {
		parts = append(parts, ReceiptFile+" is not signed")
	}
	for _, v := range c.signers {
		parts = append(parts, "signed by "+signerWords(v)+": "+strings.Join(v.Files, ", "))
	}
	return strings.Join(parts, "; ")
}

// statements checks the envelopes below attestations/. Each must hold the very
// statement that the evidence gives, signed by a key that is known: that of the
// receipt, or one of the auditor's. Whatever else lies there cannot be checked.
func (c *vouching) statements() {
	entries, err := fs.ReadDir(c.files, AttestationsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.found = append(c.found, documentFinding(AttestationsDir, err))
		return
	}
	given := sync.OnceValues(func() (map[string][]byte, error) { return Statements(c.files) })
	for _, e := range entries {
		path := AttestationsDir + "/" + e.Name()
		if e.Name() == CheckpointFile && !e.IsDir() {
			c.checkpoint(path)
			continue
		}
		if e.IsDir() || !slices.Contains([]string{ProvenanceFile, TestResultFile, SVRFile, VSAFile}, e.Name()) {
			c.add(reason.SignatureUnchecked, path, "is nothing that this version can check")
			continue
		}
		c.statement(path, func() ([]byte, error) {
			all, err := given()
			return all[e.Name()], err
		})
	}
}

// statement checks one envelope: given makes the statement that it must hold.
func (c *vouching) statement(path string, given func() ([]byte, error)) {
	f, err := c.files.Open(path)
	if err != nil {
		c.found = append(c.found, documentFinding(path, err))
		return
	}
	defer f.Close()
	text, err := readAtMost(f, attest.MaxEnvelope)
	var e *attest.Envelope
	if err == nil {
		e, err = attest.ParseEnvelope(text)
	}
	if err != nil {
		c.add(reason.SignatureInvalid, path, bounded(err.Error()))
		return
	}
	key, known := c.key(e.KeyID)
	if !known {
		c.add(reason.SignatureUnchecked, path, bounded("is signed by "+e.KeyID+", which has not signed the receipt and is not in your allowed signers"))
		return
	}
	if err := e.Verify(key); err != nil {
		c.add(reason.SignatureInvalid, path, bounded(err.Error()))
		return
	}
	want, err := given()
	switch {
	case err != nil:
		c.add(reason.StatementMismatch, path, bounded("the evidence gives no statement: "+err.Error()))
	case e.PayloadType != attest.PayloadInToto || !bytes.Equal(e.Payload, want):
		c.found = append(c.found, reason.Finding{Code: reason.StatementMismatch, Path: path, Detail: "is not the statement that the evidence gives",
			Hint: "make the statements anew with `remit export " + form.ShellWord(c.session) + " --to attestation`, where the run was made"})
	default:
		c.vouch(path, strings.TrimPrefix(path, AttestationsDir+"/"), key)
	}
}

// key is the key of a fingerprint, where the auditor or the receipt has it.
func (c *vouching) key(fingerprint string) (attest.PublicKey, bool) {
	if c.receiptKey != (attest.PublicKey{}) && c.receiptKey.Fingerprint() == fingerprint {
		return c.receiptKey, true
	}
	return c.trust.Signers.Key(fingerprint)
}
