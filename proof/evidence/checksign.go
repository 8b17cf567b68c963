package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
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
func (t Trust) State(_ context.Context, files fs.FS) (found []reason.Finding, skipped bool, why string, by []attest.Vouched) {
	raw, err := readFile(files, ReceiptFile)
	if err != nil {
		return []reason.Finding{documentFinding(ReceiptFile, err)}, false, "", nil
	}
	var receipt Receipt
	if err := DecodeReceipt(raw, &receipt); err != nil {
		return []reason.Finding{documentFinding(ReceiptFile, err)}, false, "", nil
	}
	if len(receipt.Signature) > 0 && string(receipt.Signature) != "null" {
		return []reason.Finding{{Code: reason.SignatureUnchecked, Path: ReceiptFile, Detail: "is signed in a form that this version cannot check"}}, false, "", nil
	}
	c := &vouching{trust: t, files: files, at: endOf(&receipt), session: receipt.SessionID}
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
	return c.found, c.skipped, c.why(), c.signers
}

// Check is [Trust.State] for a caller who asks for findings only.
func (t Trust) Check(ctx context.Context, files fs.FS) []reason.Finding {
	found, _, _, _ := t.State(ctx, files)
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

// CheckpointFile is the head of the journal as a signed checkpoint, below AttestationsDir.
const CheckpointFile = "journal.checkpoint"

// CheckpointOf is the head of a journal as C2SP has it. Its leaves are the lines of the
// journal, so that size and root are those of the receipt.
func CheckpointOf(entries []journal.Entry) (attest.Checkpoint, error) {
	head, err := journal.HeadOf(entries)
	if err != nil {
		return attest.Checkpoint{}, err
	}
	root, err := hex.DecodeString(strings.TrimPrefix(head.Root, "sha256:"))
	if err != nil || len(root) != sha256.Size {
		return attest.Checkpoint{}, fmt.Errorf("the root of the journal is %q", head.Root)
	}
	return attest.Checkpoint{Origin: "urn:remit:session:" + entries[0].SessionID, Size: head.TreeSize, Root: [sha256.Size]byte(root)}, nil
}

// checkpoint checks the signed head of the journal: it must be that of the journal which
// is there, by a key that is known.
func (c *vouching) checkpoint(path string) {
	f, err := c.files.Open(path)
	if err != nil {
		c.found = append(c.found, documentFinding(path, err))
		return
	}
	defer f.Close()
	text, err := readAtMost(f, attest.MaxCheckpoint)
	var signed *attest.SignedCheckpoint
	if err == nil {
		signed, err = attest.ParseCheckpoint(text)
	}
	if err != nil {
		c.add(reason.SignatureInvalid, path, bounded(err.Error()))
		return
	}
	known := append([]attest.PublicKey{c.receiptKey}, c.trust.Signers.Keys()...)
	by := slices.IndexFunc(known, signed.By)
	if by < 0 {
		c.add(reason.SignatureUnchecked, path, "is signed by a key that has not signed the receipt and is not in your allowed signers")
		return
	}
	if err := signed.Verify(known[by]); err != nil {
		c.add(reason.SignatureInvalid, path, err.Error())
		return
	}
	log, found := openJournal(c.files)
	if log == nil {
		c.found = append(c.found, found...)
		return
	}
	want, err := CheckpointOf(log.Entries)
	if err != nil || signed.Checkpoint != want {
		c.add(reason.StatementMismatch, path, "is not the checkpoint of the journal")
		return
	}
	c.vouch(path, CheckpointFile, known[by])
}
