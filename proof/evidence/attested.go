package evidence

import (
	"fmt"
	"slices"
	"time"

	"remit/proof/attest"
	"remit/proof/journal"
	"remit/proof/reason"
)

// statementTypes are the predicate types of noteStatements.
var statementTypes = []string{provenanceType, svrType, testResultType}

// attested is one statement of ours that lies beside a commit.
type attested struct {
	envelope  *attest.Envelope
	about     Attested
	predicate *readPredicate
	kind      int // of noteStatements
}

// AuditAttestations checks the envelopes that lie beside a commit: that there is one of
// each type, who vouches for them, and that they are about the tree of this commit.
// Without a receipt beside them only keys of the allowed signers are known. Statements
// of other types are those of others, and are not looked at.
func (t Trust) AuditAttestations(texts [][]byte, commit NotedCommit) *NoteAudit {
	out := &NoteAudit{Gates: []NoteGate{{Name: "attestation.format"}, {Name: "signatures"}, {Name: "attestation.commit"}}}
	form, signed, subject := &out.Gates[0], &out.Gates[1], &out.Gates[2]
	fail := func(g *NoteGate, code reason.Code, format string, args ...any) {
		g.Found = append(g.Found, reason.Finding{Gate: g.Name, Code: code, Path: "refs/attestations/" + commit.ID, Detail: bounded(fmt.Sprintf(format, args...))})
	}
	c := &vouching{trust: t}
	var ours []attested
	for _, text := range texts {
		e, err := attest.ParseEnvelope(text)
		if err != nil || e.PayloadType != attest.PayloadInToto {
			continue
		}
		about, p, err := readStatement(e.Payload)
		if err == nil && slices.Contains(statementTypes, p.kind) {
			ours = append(ours, attested{e, about, p, slices.Index(statementTypes, p.kind)})
		}
	}
	// The provenance first: it says when the run ended, and so which keys were valid.
	slices.SortStableFunc(ours, func(a, b attested) int { return a.kind - b.kind })
	seen := map[int]bool{}
	for _, s := range ours {
		seen[s.kind] = true
		if end, err := time.Parse(journal.TimeFormat, s.predicate.RunDetails.Metadata.FinishedOn); err == nil {
			c.at = end
		}
		for _, b := range s.predicate.RunDetails.Byproducts {
			if b.Name == ReceiptFile {
				out.Receipt = "sha256:" + b.Digest["sha256"]
			}
		}
		switch s.predicate.Result { // of the tests
		case "PASSED":
			out.RunStatus = StatusPass
		case "FAILED":
			out.RunStatus = StatusFail
		}
		c.noted(noteStatements[s.kind], s.envelope)
		why, same := commit.isOf(s.about)
		switch {
		case s.about.GitTree != commit.Tree:
			fail(subject, reason.TreeMismatch, "commit %s has tree %s, and what was verified is tree %.64s", commit.ID, commit.Tree, s.about.GitTree)
		case !same:
			fail(subject, reason.NoteOtherCommit, "commit %s has the tree that was verified, and the statements were made for commit %.64s", commit.ID, s.about.GitCommit)
		}
		subject.Why = why
	}
	for i, name := range noteStatements {
		if !seen[i] {
			fail(form, reason.NoteMissing, "none of them is the statement %s", name)
		}
	}
	if others := len(texts) - len(ours); others > 0 {
		form.Why = fmt.Sprintf("%d other(s) not looked at", others)
	}
	signed.Found, signed.Skipped, signed.Why, signed.Signers = c.found, c.skipped, c.why(), c.signers
	return out
}
