package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// A note is what a commit carries of its evidence: the receipt as of the verdict with
// a signature over it, and the statements. It is one JSON document a line, the first
// with the receipt, the others the envelopes.

// NotesRef is the ref whose tree has a note for each commit, as git notes has it.
const NotesRef = "refs/notes/remit"

const (
	noteSchema = "remit.note.v1"
	// MaxNote bounds a note, in bytes.
	MaxNote = 16 << 20
)

// noteHead is the first line of a note.
type noteHead struct {
	Receipt   json.RawMessage `json:"receipt"`
	Schema    string          `json:"schema"`
	Signature string          `json:"signature"` // armored SSHSIG over the receipt and LF
}

// MakeNote makes the note of a change. receipt is RECEIPT.json as of the verdict.
func MakeNote(receipt, signature []byte, envelopes map[string][]byte) ([]byte, error) {
	head, err := canon.Marshal(noteHead{Receipt: bytes.TrimSuffix(receipt, []byte("\n")), Schema: noteSchema, Signature: string(signature)})
	if err != nil {
		return nil, err
	}
	out := append(head, '\n')
	for _, name := range noteStatements {
		out = append(out, envelopes[name]...)
	}
	if len(out) > MaxNote {
		return nil, reason.Errorf(reason.OutputLimit, "the note would have %d bytes, the limit is %d", len(out), MaxNote)
	}
	return out, nil
}

// EnvelopesOf are the envelopes of a note that [MakeNote] has made.
func EnvelopesOf(note []byte) [][]byte {
	lines := bytes.SplitAfter(note, []byte("\n"))
	return lines[1 : len(lines)-1]
}

// noteStatements are the statements of a note in their order.
var noteStatements = []string{ProvenanceFile, SVRFile, TestResultFile}

// Attested is what the statements of a change are about.
type Attested struct {
	PatchSHA256, GitTree, GitCommit string // bare hex; the last is "" where nothing was changed
}

// note is a note that was read.
type note struct {
	receipt   []byte // with LF
	signature []byte
	envelopes []*attest.Envelope // of noteStatements
}

func parseNote(text []byte) (*note, error) {
	if len(text) > MaxNote {
		return nil, fmt.Errorf("a note has at most %d bytes", MaxNote)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) != len(noteStatements)+2 || len(lines[len(lines)-1]) > 0 {
		return nil, fmt.Errorf("a note has %d lines", len(noteStatements)+1)
	}
	var head noteHead
	if err := canon.Decode(bytes.TrimSuffix(lines[0], []byte("\n")), &head); err != nil {
		return nil, err
	}
	if head.Schema != noteSchema || len(head.Receipt) == 0 {
		return nil, fmt.Errorf("the note has the schema %.60q, not %s", head.Schema, noteSchema)
	}
	n := &note{receipt: append(bytes.Clone(head.Receipt), '\n'), signature: []byte(head.Signature)}
	for _, line := range lines[1 : len(lines)-1] {
		e, err := attest.ParseEnvelope(line)
		if err != nil {
			return nil, err
		}
		n.envelopes = append(n.envelopes, e)
	}
	return n, nil
}

// SubjectOf reads the subject of a statement.
func SubjectOf(payload []byte) (Attested, error) {
	s, _, err := readStatement(payload)
	return s, err
}

// readStatement reads the subject of a statement and its predicate.
func readStatement(payload []byte) (Attested, *readPredicate, error) {
	var s struct {
		Type          string        `json:"_type"`
		Subject       []Descriptor  `json:"subject"`
		PredicateType string        `json:"predicateType"`
		Predicate     readPredicate `json:"predicate"`
	}
	if err := canon.Check(payload); err != nil {
		return Attested{}, nil, err
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return Attested{}, nil, err
	}
	if s.Type != statementType || len(s.Subject) != 1 || s.Subject[0].Name != PatchFile {
		return Attested{}, nil, errors.New("it is no statement about one patch")
	}
	s.Predicate.kind = s.PredicateType
	d := s.Subject[0].Digest
	return Attested{PatchSHA256: d["sha256"], GitTree: d["gitTree"], GitCommit: d["gitCommit"]}, &s.Predicate, nil
}

// readPredicate is what is compared of a predicate.
type readPredicate struct {
	kind       string
	Result     string `json:"result"`
	RunDetails struct {
		Metadata   runMetadata  `json:"metadata"`
		Byproducts []Descriptor `json:"byproducts"`
	} `json:"runDetails"`
}

// NoteAudit is what the note of a commit shows.
type NoteAudit struct {
	Gates     []NoteGate
	RunStatus string // as the receipt says
	Receipt   string // its digest, for the bundle that has the evidence
}

// NoteGate is one gate of the audit of a note.
type NoteGate struct {
	Name    string
	Found   []reason.Finding
	Skipped bool
	Why     string
	Signers []attest.Vouched
}

// NotedCommit is a commit as it lies in a repository.
type NotedCommit struct {
	ID, Tree string
	Text     []byte // its headers, an empty line and its message
}

// isOf says whether statements about a commit are about this one: by its id, or, where
// another committer has signed it and so given it another one, because it has the id that
// they name once committer and signature are what they were. why says so of the latter.
func (c NotedCommit) isOf(about Attested) (why string, ok bool) {
	if about.GitCommit == c.ID {
		return "", true
	}
	if about.GitCommit != objectID(len(about.GitCommit), c.asVerified()) {
		return "", false
	}
	return "but for its committer and signature it is commit " + about.GitCommit + ", which the statements name", true
}

// sessionTrailer finds the session that a commit says it is from.
var sessionTrailer = form.Lazy(`(?m)^Remit-Session: ([A-Za-z0-9][A-Za-z0-9._-]{0,127})$`)

// Session returns the session that the message of the commit names, "" if it names none.
// The author of the commit wrote the message, and nothing proves it.
func (c NotedCommit) Session() string {
	m := sessionTrailer().FindSubmatch(c.Text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// asVerified is the text of the commit as it was before an operator signed or rejected
// it: its committer was its author.
func (c NotedCommit) asVerified() string {
	headers, message, _ := strings.Cut(string(c.Text), "\n\n")
	var b strings.Builder
	author, inSignature := "", false
	for line := range strings.SplitSeq(headers, "\n") {
		name, value, _ := strings.Cut(line, " ")
		if inSignature = name == "gpgsig" || name == "gpgsig-sha256" || inSignature && name == ""; inSignature {
			continue
		}
		switch name {
		case "author":
			author = value
		case "committer":
			line = name + " " + author
		}
		b.WriteString(line + "\n")
	}
	return b.String() + "\n" + strings.Replace(message, rejectedLine, "", 1)
}

// AuditNote checks the note of a commit: that it has its form, who vouches for it, that
// its parts belong together, and that they are about this commit and its tree. The
// evidence itself is in the bundle, and not looked at.
func (t Trust) AuditNote(text []byte, commit NotedCommit) *NoteAudit {
	out := new(NoteAudit)
	gate := func(name string) *NoteGate {
		out.Gates = append(out.Gates, NoteGate{Name: name})
		return &out.Gates[len(out.Gates)-1]
	}
	fail := func(g *NoteGate, code reason.Code, format string, args ...any) {
		g.Found = append(g.Found, reason.Finding{Gate: g.Name, Code: code, Path: NotesRef, Detail: bounded(fmt.Sprintf(format, args...))})
	}
	form := gate("note.format")
	n, err := parseNote(text)
	var receipt Receipt
	if err == nil {
		err = DecodeReceipt(n.receipt, &receipt)
	}
	if err != nil {
		fail(form, reason.SchemaInvalid, "%v", err)
		return out
	}
	out.RunStatus, out.Receipt = receipt.Status, canon.Digest(n.receipt)

	c := &vouching{trust: t, at: endOf(&receipt)}
	if key, err := attest.Verify(n.signature, attest.NamespaceReceipt, n.receipt); err != nil {
		c.add(reason.SignatureInvalid, NotesRef, bounded(err.Error()))
	} else {
		c.receiptKey = key
		c.vouch(NotesRef, ReceiptFile, key)
	}
	for i, e := range n.envelopes {
		c.noted(noteStatements[i], e)
	}
	signed := gate("signatures")
	signed.Found, signed.Skipped, signed.Why, signed.Signers = c.found, c.skipped, c.why(), c.signers

	agree := gate("note.statements")
	var about Attested
	for i, e := range n.envelopes {
		s, p, err := readStatement(e.Payload)
		switch {
		case err != nil:
			fail(agree, reason.StatementMismatch, "%s: %v", noteStatements[i], err)
			continue
		case i > 0 && s != about:
			fail(agree, reason.StatementMismatch, "%s is about another change", noteStatements[i])
		case p.kind != statementTypes[i] || e.PayloadType != attest.PayloadInToto:
			fail(agree, reason.StatementMismatch, "%s is a statement of another type", noteStatements[i])
		}
		about = s
		if i == 0 && !p.names(out.Receipt, receipt.SessionID) {
			fail(agree, reason.StatementMismatch, "%s does not name the receipt of the note", noteStatements[i])
		}
	}
	if receipt.PatchSHA256 == nil || receipt.HeadTree == nil || "sha256:"+about.PatchSHA256 != *receipt.PatchSHA256 || about.GitTree != *receipt.HeadTree {
		fail(agree, reason.StatementMismatch, "the receipt is about another change than the statements")
	}

	subject := gate("note.commit")
	why, same := commit.isOf(about)
	switch {
	case about.GitTree != commit.Tree:
		fail(subject, reason.TreeMismatch, "commit %s has tree %s, and what was verified is tree %.64s", commit.ID, commit.Tree, about.GitTree)
	case !same:
		fail(subject, reason.NoteOtherCommit, "commit %s has the tree that was verified, and the note was made for commit %.64s", commit.ID, about.GitCommit)
	}
	subject.Why = why
	return out
}

// noted checks one envelope of a note.
func (c *vouching) noted(name string, e *attest.Envelope) {
	key, known := c.key(e.KeyID)
	if !known {
		c.add(reason.SignatureUnchecked, NotesRef, bounded(name+" is signed by "+e.KeyID+", which has not signed the receipt and is not in your allowed signers"))
		return
	}
	if err := e.Verify(key); err != nil {
		c.add(reason.SignatureInvalid, NotesRef, bounded(name+": "+err.Error()))
		return
	}
	c.vouch(NotesRef, name, key)
}

// names reports whether a provenance is about a session and has the digest of its receipt.
func (p *readPredicate) names(receipt, session string) bool {
	for _, b := range p.RunDetails.Byproducts {
		if b.Name == ReceiptFile && "sha256:"+b.Digest["sha256"] == receipt {
			return p.RunDetails.Metadata.InvocationID == session
		}
	}
	return false
}
