package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Attest adds the signed statements about the change and the checkpoint of the journal's
// head to the bundle, and seals it anew: the manifest, nothing else of it, is another one then. It returns the
// files. The same bundle and key give the same ones.
func (s Session) Attest() (map[string][]byte, error) {
	w, err := journal.Continue(s.Journal()) // no other process seals meanwhile
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // nothing was written
	envelopes, err := s.envelopes(w.Entries())
	if err != nil {
		return nil, err
	}
	if err := s.unseal(); err != nil {
		return nil, err
	}
	if err := s.placeEnvelopes(envelopes); err != nil {
		return nil, err
	}
	return envelopes, bundle.Seal(s.Dir)
}

// Note is what the commit of the change carries: the receipt as of the verdict with a
// signature of its own, and the statements, which are added to the bundle as well. It
// returns the time of the verdict, and what the statements are about.
func (s Session) Note() (text []byte, about evidence.Attested, when time.Time, err error) {
	envelopes, err := s.Attest()
	if err != nil {
		return nil, about, when, err
	}
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return nil, about, when, err
	}
	receipt, err := evidence.VerdictReceipt(log.Entries)
	if err != nil {
		return nil, about, when, err
	}
	key, err := s.signer(log.Entries)
	if err != nil {
		return nil, about, when, err
	}
	if text, err = evidence.MakeNote(receipt, attest.Sign(key, attest.NamespaceReceipt, receipt), envelopes); err != nil {
		return nil, about, when, err
	}
	e, err := attest.ParseEnvelope(envelopes[evidence.SVRFile])
	if err != nil {
		return nil, about, when, err
	}
	if about, err = evidence.SubjectOf(e.Payload); err != nil {
		return nil, about, when, err
	}
	var said evidence.Receipt
	if err = evidence.DecodeReceipt(receipt, &said); err == nil {
		when, err = time.Parse(journal.TimeFormat, said.CompletedAt)
	}
	return text, about, when, err
}

// envelopes are the statements of the session and the head of its journal as files, signed
// by the key of this home.
func (s Session) envelopes(entries []journal.Entry) (map[string][]byte, error) {
	statements, err := evidence.Statements(os.DirFS(s.Dir))
	if err != nil {
		return nil, err
	}
	key, err := s.signer(entries)
	if err != nil {
		if reason.CodeOf(err) != "" {
			return nil, err
		}
		return nil, reason.Errorf(reason.SigningRefused, "nothing is signed for session %s: %w", s.ID, err)
	}
	for name, payload := range statements {
		if statements[name], err = attest.SignEnvelope(key, attest.PayloadInToto, payload); err != nil {
			return nil, err
		}
	}
	head, err := evidence.CheckpointOf(entries)
	if err == nil {
		statements[evidence.CheckpointFile], err = attest.SignCheckpoint(key, head)
	}
	return statements, err
}

func (s Session) placeEnvelopes(envelopes map[string][]byte) error {
	return evidence.Write(filepath.Join(s.Dir, evidence.AttestationsDir), envelopes)
}

// attestAgain keeps the statements of a bundle that has some in step with a new
// seal: they are signed anew, or taken away where nothing can sign them.
func (s Session) attestAgain(entries []journal.Entry) error {
	dir := filepath.Join(s.Dir, evidence.AttestationsDir)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the attestations of an earlier seal: %w", err)
	}
	envelopes, err := s.envelopes(entries)
	if err != nil {
		return nil //nolint:nilerr // a bundle without statements is one that makes no claim
	}
	return s.placeEnvelopes(envelopes)
}
