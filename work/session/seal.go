package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	if err := s.unseal(); err != nil {
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

// unseal removes the manifest before files change that it lists: a session whose
// sealing is cut off is unsealed, and a resumption seals it.
func (s Session) unseal() error {
	if err := os.Remove(filepath.Join(s.Dir, evidence.ManifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sealing the bundle anew: %w", err)
	}
	return nil
}

// extend appends steps to the journal of a run that has ended, without secrets,
// and seals the bundle anew.
func (s Session) extend(w *journal.Writer, steps ...journal.Step) error {
	if err := s.unseal(); err != nil {
		return err
	}
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
