package task

import (
	"bytes"
	"encoding/json"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Canonical returns the contract as canonical JSON: every key present, lists
// that are not stated as [], limits that are not stated as null; what came later than the first
// form of a contract is there only when it says something. Equal contracts have
// equal bytes.
func (c *Contract) Canonical() ([]byte, error) {
	full := c.clone()
	full.Lifecycle = full.Lifecycle.canonical()
	full.Verify = full.Verify.canonical()
	full.VerificationGroups = canonicalGroups(full.VerificationGroups)
	full.AllowedPaths = orEmpty(full.AllowedPaths)
	full.ForbiddenPaths = orEmpty(full.ForbiddenPaths)
	full.ProtectedPaths = orEmpty(full.ProtectedPaths)
	full.ForbiddenActions = orEmpty(full.ForbiddenActions)
	full.AllowOps = orEmpty(full.AllowOps)
	full.VerificationCommands = orEmpty(full.VerificationCommands)
	full.HeldOutTests = orEmpty(full.HeldOutTests)
	full.EvidenceExpectations = orEmpty(full.EvidenceExpectations)
	return canon.Marshal(full)
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Digest returns the digest of the canonical form. It names the contract.
func (c *Contract) Digest() (string, error) {
	b, err := c.Canonical()
	if err != nil {
		return "", err
	}
	return canon.Digest(b), nil
}

// ParseCanonical reads the contract.json of a session. Only the exact
// canonical form of a valid contract is accepted: the contract that comes back
// has the digest of src.
func ParseCanonical(file string, src []byte) (*Contract, error) {
	r := newReport(file)
	if len(src) > maxCanonicalBytes {
		r.add(place{}, "", reason.ContractTooLarge, "", "%d bytes, at most %d", len(src), maxCanonicalBytes)
		return nil, r.err()
	}
	c := &Contract{bounded: true}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		r.add(place{Line: 1}, "", reason.ContractSyntax, "", "not a contract: %w", err)
		return nil, r.err()
	}
	if again, err := c.Canonical(); err != nil || !bytes.Equal(again, src) {
		r.add(place{Line: 1}, "", reason.NotCanonical, "", "not the canonical form of a contract")
		return nil, r.err()
	}
	check(r, c)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// maxCanonicalBytes bounds the canonical form: escaping can make it longer
// than its source.
const maxCanonicalBytes = 8 * MaxSourceBytes
