//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// noted is the note of the attested golden session, the commit that it is about, and
// the tree of that.
func noted(t testing.TB) (text []byte, about evidence.Attested) {
	t.Helper()
	dir := golden("attested")
	log, err := journal.ReadFile(dir + "/" + evidence.JournalFile)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := evidence.VerdictReceipt(log.Entries)
	if err != nil {
		t.Fatal(err)
	}
	envelopes, files := map[string][]byte{}, memory(t, dir)
	for _, name := range statementFiles {
		envelopes[name] = files[evidence.AttestationsDir+"/"+name].Data
	}
	if text, err = evidence.MakeNote(receipt, attest.Sign(signingKey(t, 1), attest.NamespaceReceipt, receipt), envelopes); err != nil {
		t.Fatal(err)
	}
	e, err := attest.ParseEnvelope(envelopes[evidence.SVRFile])
	if err != nil {
		t.Fatal(err)
	}
	if about, err = evidence.SubjectOf(e.Payload); err != nil {
		t.Fatal(err)
	}
	return text, about
}

// TestAuditOfANote: a note passes for the tree that it is about, and each part that is
// exchanged, cut or foreign is found.
func TestAuditOfANote(t *testing.T) {
	t.Parallel()
	text, about := noted(t)
	mine := signers(t, "alice "+signingKey(t, 1).Public().String())
	revoked, err := attest.ParseRevoked([]byte(signingKey(t, 1).Public().String()))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	with := func(i int, line []byte) []byte {
		out := bytes.Clone(text[:0])
		for k, l := range lines {
			if k == i {
				l = line
			}
			out = append(out, l...)
		}
		return out
	}
	sign := func(seed byte, i int, edit func([]byte) []byte) []byte {
		e, err := attest.ParseEnvelope(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		line, err := attest.SignEnvelope(signingKey(t, seed), e.PayloadType, edit(e.Payload))
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	same := func(p []byte) []byte { return p }
	swap := func(old, with string) func([]byte) []byte {
		return func(p []byte) []byte {
			if !bytes.Contains(p, []byte(old)) {
				t.Fatalf("no %q in %s", old, p)
			}
			return bytes.Replace(p, []byte(old), []byte(with), 1)
		}
	}
	var head struct {
		Receipt   json.RawMessage `json:"receipt"`
		Schema    string          `json:"schema"`
		Signature string          `json:"signature"`
	}
	if err := json.Unmarshal(lines[0], &head); err != nil {
		t.Fatal(err)
	}
	var receipt evidence.Receipt
	if err := evidence.DecodeReceipt(append(head.Receipt, '\n'), &receipt); err != nil {
		t.Fatal(err)
	}
	contract, err := os.ReadFile(filepath.Join(golden("attested"), evidence.ContractFile))
	if err != nil {
		t.Fatal(err)
	}
	title, err := evidence.TitleOf(contract)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(journal.TimeFormat, receipt.CompletedAt)
	if err != nil {
		t.Fatal(err)
	}
	// The commit of the change, as another committer has signed it, with edits.
	signed := func(edits ...string) string {
		who := fmt.Sprintf("%s %d +0000", evidence.CommitAuthor, at.Unix())
		text := fmt.Sprintf("tree %s\nparent %s\nauthor %s\ncommitter Ann <ann@example.org> 1 +0100\ngpgsig -----BEGIN\n \n x\n -----END\n\n%s\n\n%s", about.GitTree, receipt.BaselineCommit,
			who, evidence.Subject(title), evidence.CommitBody(&receipt, canon.Digest(append(head.Receipt, '\n')), false))
		return strings.NewReplacer(edits...).Replace(text)
	}
	for _, tt := range []struct {
		name         string
		text         []byte
		trust        evidence.Trust
		commit, tree string
		commitText   string
		gate         string
		code         reason.Code
	}{
		{name: "whole", text: text},
		{name: "trusted", text: text, trust: evidence.Trust{Signers: mine, Require: true}},
		{name: "another commit with the tree", text: text, commit: about.GitTree, gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "the commit as its operator signed it", text: text, commit: about.GitTree, commitText: signed()},
		{name: "as its operator rejected it", text: text, commit: about.GitTree, commitText: signed("\n\n"+evidence.Subject(title)+"\n\n", "\n\n"+evidence.Subject(title)+"\n\nREJECTED by its operator, and exported all the same.\n\n")},
		{name: "another parent", text: text, commit: about.GitTree, commitText: signed(string(receipt.BaselineCommit)+"\nauthor", about.GitTree+"\nauthor"), gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "another author", text: text, commit: about.GitTree, commitText: signed("author remit", "author ann"), gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "another date", text: text, commit: about.GitTree, commitText: signed(fmt.Sprint(at.Unix()), "0"), gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "another message that names the receipt", text: text, commit: about.GitTree, commitText: signed(evidence.Subject(title), "Fix more"), gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "a header more", text: text, commit: about.GitTree, commitText: signed("\ngpgsig ", "\nencoding latin1\ngpgsig "), gate: "note.commit", code: reason.NoteOtherCommit},
		{name: "another tree", text: text, tree: about.GitCommit, gate: "note.commit", code: reason.TreeMismatch},
		{name: "no key is trusted", text: text, trust: evidence.Trust{Require: true}, gate: "signatures", code: reason.SignerUnknown},
		{name: "revoked", text: text, trust: evidence.Trust{Signers: mine, Revoked: revoked}, gate: "signatures", code: reason.SignerRevoked},
		{name: "empty", gate: "note.format", code: reason.SchemaInvalid},
		{name: "a text of a person", text: []byte("looks good\n"), gate: "note.format", code: reason.SchemaInvalid},
		{name: "cut", text: text[:len(text)-1], gate: "note.format", code: reason.SchemaInvalid},
		{name: "a line more", text: append(bytes.Clone(text), "{}\n"...), gate: "note.format", code: reason.SchemaInvalid},
		{name: "no receipt", text: with(0, []byte("{}\n")), gate: "note.format", code: reason.SchemaInvalid},
		{name: "another schema", text: with(0, bytes.Replace(lines[0], []byte("remit.note.v1"), []byte("remit.note.v2"), 1)), gate: "note.format", code: reason.SchemaInvalid},
		{name: "an edited receipt", text: with(0, bytes.Replace(lines[0], []byte(`"status":"pass"`), []byte(`"status":"fail"`), 1)), gate: "note.format", code: reason.SchemaInvalid},
		{name: "no signature", text: with(0, bytes.Replace(lines[0], []byte(`"signature":"-----BEGIN`), []byte(`"signature":"-----BEGUN`), 1)), gate: "signatures", code: reason.SignatureInvalid},
		{name: "statements in another order", text: with(2, lines[3]), gate: "note.statements", code: reason.StatementMismatch},
		{name: "a statement by a stranger", text: with(2, sign(2, 2, same)), gate: "signatures", code: reason.SignatureUnchecked},
		{name: "a statement about another tree", text: with(2, sign(1, 2, swap(about.GitTree, about.GitCommit))), gate: "note.statements", code: reason.StatementMismatch},
		{name: "a provenance with another receipt", text: with(1, sign(1, 1, swap(`"name":"RECEIPT.json"`, `"name":"RECEIPT"`))), gate: "note.statements", code: reason.StatementMismatch},
		{name: "endless", text: bytes.Repeat([]byte("x"), evidence.MaxNote+1), gate: "note.format", code: reason.SchemaInvalid},
	} {
		commit, tree := about.GitCommit, about.GitTree
		if tt.commit != "" {
			commit = tt.commit
		}
		if tt.tree != "" {
			tree = tt.tree
		}
		gate, code := "", reason.Code("")
		for _, g := range tt.trust.AuditNote(tt.text, evidence.NotedCommit{ID: commit, Tree: tree, Text: []byte(tt.commitText)}).Gates {
			if len(g.Found) > 0 && gate == "" {
				gate, code = g.Name, g.Found[0].Code
			}
		}
		if gate != tt.gate || code != tt.code {
			t.Errorf("%s: %q %q, want %q %q", tt.name, gate, code, tt.gate, tt.code)
		}
	}
}

// FuzzNote: a note that passes with a signer is the one that was made.
func FuzzNote(f *testing.F) {
	text, about := noted(f)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte("{}\n{}\n{}\n{}\n"))
	trust := evidence.Trust{Signers: signers(f, "alice "+signingKey(f, 1).Public().String()), Require: true}
	f.Fuzz(func(t *testing.T, note []byte) {
		audit := trust.AuditNote(note, evidence.NotedCommit{ID: about.GitCommit, Tree: about.GitTree})
		for _, g := range audit.Gates {
			if len(g.Found) > 0 {
				return
			}
		}
		if !bytes.Equal(note, text) {
			t.Errorf("another note passes: %q", note)
		}
	})
}
