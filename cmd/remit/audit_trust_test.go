package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/work/session"
)

// TestWhoVouches: the words about who has signed are those of the signers that the gate
// has as data, and no trusted signer covers up for an unknown one, nor the other way.
func TestWhoVouches(t *testing.T) {
	t.Parallel()
	const vector = "../../vectors/evidence/valid/attested/"
	key := func(seed byte) *attest.PrivateKey {
		key, err := attest.NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	alice, other := key(1), key(2) // the vectors are signed by the first
	receipt, err := os.ReadFile(vector + evidence.ReceiptFile)
	if err != nil {
		t.Fatal(err)
	}
	files := func(signature []byte, attestations bool) fstest.MapFS {
		out := fstest.MapFS{}
		for _, pattern := range []string{"*", evidence.AttestationsDir + "/*"} {
			names, err := filepath.Glob(vector + pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if text, err := os.ReadFile(name); err == nil && (attestations || pattern == "*") {
					out[strings.TrimPrefix(name, vector)] = &fstest.MapFile{Data: text}
				}
			}
		}
		if delete(out, evidence.SignatureFile); signature != nil {
			out[evidence.SignatureFile] = &fstest.MapFile{Data: signature}
		}
		return out
	}
	mine, theirs := attest.Sign(alice, attest.NamespaceReceipt, receipt), attest.Sign(other, attest.NamespaceReceipt, receipt)
	trusted, err := attest.ParseSigners([]byte("alice " + alice.Public().String()))
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := attest.ParseRevoked([]byte(alice.Public().String()))
	if err != nil {
		t.Fatal(err)
	}
	const statements = "journal.checkpoint, provenance.intoto.jsonl, svr.intoto.jsonl, test-result.intoto.jsonl, vsa.intoto.jsonl"
	unknown := other.Public().Fingerprint()
	for _, tt := range []struct {
		name     string
		trust    evidence.Trust
		files    fstest.MapFS
		status   bundle.Status
		signers  string // as data
		bundle   string // of the conclusion about a bundle
		commit   string // of that about a commit
		advisory string // of the advice
	}{
		{"only trusted", evidence.Trust{Signers: trusted}, files(mine, true), bundle.Pass, "alice+",
			"and that it was signed by alice (RECEIPT.json, " + statements, "This says who vouches", ""},
		{"only unknown", evidence.Trust{}, files(theirs, false), bundle.Skipped, unknown + "-",
			"but not who made it", "NO KEY THAT YOU TRUST VOUCHES FOR THIS COMMIT: only the owner of the key " + unknown, " It is signed by a key that you do not trust"},
		{"both", evidence.Trust{Signers: trusted}, files(theirs, true), bundle.Skipped, unknown + "- alice+",
			"and that a part of it was signed by alice (" + statements, "signed by alice (" + statements + "), and signed by the key " + unknown + " (RECEIPT.json)", " RECEIPT.json is signed by a key that you do not trust"},
		{"statements alone", evidence.Trust{Signers: trusted}, files(nil, true), bundle.Skipped, "alice+",
			"and that a part of it was signed by alice (" + statements, "This says who vouches", ""},
		{"none", evidence.Trust{Signers: trusted}, files(nil, false), bundle.Skipped, "", "but not who made it", "NO KEY VOUCHES FOR THIS COMMIT: it is not signed", ""},
		{"revoked", evidence.Trust{Signers: trusted, Revoked: revoked}, files(mine, true), bundle.Fail, "revoked", "", "NO KEY", ""},
	} {
		found, skipped, why, by := tt.trust.State(t.Context(), tt.files)
		gate := bundle.GateResult{Name: bundle.GateSignatures, Status: bundle.Pass, Reason: why, Findings: found, Signers: by}
		if len(found) > 0 {
			gate.Status = worst(found)
		} else if skipped {
			gate.Status = bundle.Skipped
		}
		rep := &bundle.Report{RunStatus: evidence.StatusPass}
		rep.Add(gate)
		var data []string
		for _, v := range by {
			switch {
			case v.Revoked:
				data = append(data, "revoked")
			case v.Trusted:
				data = append(data, v.Name+"+")
			default:
				data = append(data, v.Key+"-")
			}
		}
		if gate.Status != tt.status || strings.Join(data, " ") != tt.signers {
			t.Errorf("%s: %s by %q, want %s by %q: %v", tt.name, gate.Status, data, tt.status, tt.signers, found)
		}
		if got := conclusion(rep, "x", nil); !strings.Contains(got, tt.bundle) || tt.bundle == "" && got != "" {
			t.Errorf("%s: of a bundle %q, want %q", tt.name, got, tt.bundle)
		}
		if got := vouchers(rep); !strings.Contains(got, tt.commit) || (len(found) > 0 || len(by) == 0) != strings.HasPrefix(got, "NO KEY VOUCHES") {
			t.Errorf("%s: of a commit %q, want %q", tt.name, got, tt.commit)
		}
		a := &app{home: session.Home{Dir: t.TempDir()}}
		if got := a.trustAdvice(rep, "x"); !strings.HasPrefix(got, tt.advisory) || tt.advisory == "" && got != "" {
			t.Errorf("%s: the advice is %q, want %q", tt.name, got, tt.advisory)
		}
	}
}
