package evidence

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"remit/proof/attest"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Trust is whom an auditor believes, and how much they ask for. The zero value
// believes no signer and asks for no signature.
type Trust struct {
	// Signers are the auditor's own, never those of a bundle.
	Signers *attest.Signers
	// Revoked are keys that vouch for nothing any more, the auditor's own as well.
	Revoked *attest.Revoked
	// Require makes a failure of a bundle that is not signed by one of them.
	Require bool
}

// Unsigned is what the gate signatures says of a bundle without a signature.
const Unsigned = "unsigned: integrity, not authorship"

// State is the audit gate signatures. It passes only for a signature that is
// there, verifies, and was made by a key that the auditor trusts for receipts at
// the time at which the run says that it ended. Without a signature, or with one
// by another key, it is skipped, and fails where a signer is required. A
// signature that does not verify fails, as one by a revoked key, and one of a form
// that this version cannot check blocks. The statements below attestations/ are
// held to the same rules, and to what the evidence gives.
func (t Trust) State(_ context.Context, files fs.FS) (found []reason.Finding, skipped bool, why string) {
	raw, err := readFile(files, ReceiptFile)
	if err != nil {
		return []reason.Finding{documentFinding(ReceiptFile, err)}, false, ""
	}
	var receipt Receipt
	if err := DecodeReceipt(raw, &receipt); err != nil {
		return []reason.Finding{documentFinding(ReceiptFile, err)}, false, ""
	}
	if len(receipt.Signature) > 0 && string(receipt.Signature) != "null" {
		return []reason.Finding{{Code: reason.SignatureUnchecked, Path: ReceiptFile, Detail: "is signed in a form that this version cannot check"}}, false, ""
	}
	c := &vouching{trust: t, files: files, at: endOf(&receipt)}
	key, err := SignerOf(files, raw)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing(SignatureFile)
	case err != nil:
		c.add(reason.SignatureInvalid, SignatureFile, bounded(err.Error()))
	default:
		c.receiptKey = key
		c.vouch(SignatureFile, ReceiptFile, key)
	}
	c.statements()
	return c.found, c.skipped, c.why()
}

// Check is [Trust.State] for a caller who asks for findings only.
func (t Trust) Check(ctx context.Context, files fs.FS) []reason.Finding {
	found, _, _ := t.State(ctx, files)
	return found
}

// SignerOf is the key whose signature over the receipt is in the files. The
// error wraps [fs.ErrNotExist] when there is no signature. That a key has signed
// says nothing about whose it is.
func SignerOf(files fs.FS, receipt []byte) (attest.PublicKey, error) {
	f, err := files.Open(SignatureFile)
	if err != nil {
		return attest.PublicKey{}, err
	}
	defer f.Close()
	sig, err := readAtMost(f, attest.MaxSignature)
	if err != nil {
		return attest.PublicKey{}, err
	}
	return attest.Verify(sig, attest.NamespaceReceipt, receipt)
}

// endOf is when the run of a receipt ended, zero when it has not.
func endOf(receipt *Receipt) time.Time {
	at, err := time.Parse(journal.TimeFormat, receipt.CompletedAt)
	if err != nil {
		return time.Time{} // no key whose validity is limited signs at no time
	}
	return at
}
