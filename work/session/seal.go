package session

import (
	"fmt"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/redact"
)

// Seal projects the journal into the session directory, signs the receipt and
// seals all of it. A document that would hold a secret is not written.
func (s Session) Seal(entries []journal.Entry, secrets *redact.Secrets) error {
	set, err := evidence.Project(entries)
	if err != nil {
		return fmt.Errorf("projecting the journal: %w", err)
	}
	if err := secrets.CheckProjections(set); err != nil {
		return err
	}
	if err := evidence.Write(s.Dir, set); err != nil {
		return err
	}
	if err := s.sign(entries, set[evidence.ReceiptFile]); err != nil {
		return err
	}
	if err := s.attestAgain(entries); err != nil {
		return err
	}
	return bundle.Seal(s.Dir)
}

// extend appends steps to the journal of a run that has ended, without secrets,
// and seals the bundle anew.
func (s Session) extend(w *journal.Writer, steps ...journal.Step) error {
	secrets := redact.New(nil)
	for _, step := range steps {
		if _, err := w.Append(secrets.Step(step)); err != nil {
			return fmt.Errorf("writing the journal: %w", err)
		}
	}
	if err := w.Sync(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := s.Seal(w.Entries(), secrets); err != nil {
		return fmt.Errorf("sealing the bundle anew: %w", err)
	}
	return nil
}
