package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"remit/law/admission"
	"remit/proof/atomicfile"
	"remit/proof/attest"
	"remit/proof/reason"
	"remit/work/keyring"
	"remit/work/redact"
)

// decide puts a decision on top of what was decided before about the same thing,
// and keeps it: searched for secrets, signed, and whole on disk when it returns.
// next reads the record before it and makes the new one; what calls it names the
// record in errors.
func decide[R interface{ Encode() ([]byte, error) }](home, what, file string, decision any,
	next func(admission.Store) (R, error)) (rec R, err error) {
	if err := redact.RefuseRecord(what, decision); err != nil {
		return rec, err
	}
	err = admissionsLocked(home, func() error {
		if rec, err = next(admission.Store{Home: home}); err != nil {
			return badDecision(err)
		}
		text, err := rec.Encode()
		if err != nil {
			return fmt.Errorf("making the record: %w", err)
		}
		return writeRecord(home, file, text)
	})
	return rec, err
}

// decideSource keeps a decision about a build of an engine.
func decideSource(home string, d admission.SourceDecision) (*admission.Source, error) {
	return decide(home, "the record of the engine", admission.SourceFile(d.Engine), d, func(s admission.Store) (*admission.Source, error) {
		previous, err := s.Source(d.Engine)
		if err != nil {
			return nil, asRead{err}
		}
		return admission.NextSource(previous, d)
	})
}

// decideModel keeps a decision about a pair of provider and model.
func decideModel(home string, d admission.ModelDecision) (*admission.Model, error) {
	return decide(home, "the record of the model", admission.ModelFile(d.Provider, d.Model), d, func(s admission.Store) (*admission.Model, error) {
		previous, err := s.Model(d.Provider, d.Model)
		if err != nil {
			return nil, asRead{err}
		}
		behind, err := s.ProviderDecision(d.Provider, d.Model)
		if err != nil {
			return nil, asRead{err}
		}
		if behind != nil && d.Decision == admission.Admitted {
			d.ProviderDecisionID = behind.ID
			if d.DecisionStatus == "" {
				d.DecisionStatus = behind.DecisionStatus
			}
			if d.DecisionStatus != behind.DecisionStatus {
				return nil, usagef("decision_status: the decision about the provider is %s (`remit admit show decision provider`), not %s",
					behind.DecisionStatus, d.DecisionStatus)
			}
		}
		return admission.NextModel(previous, d)
	})
}

// asRead marks the error of a record that was there before: the command line is
// not what is wrong.
type asRead struct{ error }

func (e asRead) Unwrap() error { return e.error }

// badDecision is what is wrong with a new decision. What was decided before has
// been checked, so the command line is what is wrong.
func badDecision(err error) error {
	var read asRead
	if errors.As(err, &read) {
		return read.error
	}
	var coded *reason.Error
	if !errors.As(err, &coded) || coded.Code != reason.InvalidAdmission {
		return fmt.Errorf("making the record: %w", err)
	}
	return usagef("%s: %s", coded.Field, coded.Message)
}

// admissionsLocked makes reading a record and writing its successor one step:
// two writers at once would each drop the other's decision from the history.
func admissionsLocked(home string, do func() error) error {
	dir := filepath.Join(home, admission.Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeping admissions: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("keeping admissions: %w", err)
	}
	defer lock.Close() // gives the lock back, as the end of the process does
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("locking the admissions: %w", err)
		}
	}
}

// writeRecord signs a record and replaces its file and its signature's, each as a
// whole: a reader that meets one of two new files reads again.
func writeRecord(home, name string, text []byte) error {
	signature, err := keyring.SignRecord(home, attest.NamespaceRecord, text)
	if err != nil {
		return err
	}
	if err := replaceFile(home, admission.SignatureFile(name), signature); err != nil {
		return err
	}
	return replaceFile(home, name, text)
}

// replaceFile replaces a file below the home as a whole, on disk when it returns:
// a decision that was printed must not be gone after a crash.
func replaceFile(home, name string, text []byte) error {
	path := filepath.Join(home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if err := atomicfile.ReplaceDurably(path, text, 0o600); err != nil {
		return fmt.Errorf("keeping the record: %w", err)
	}
	return nil
}
