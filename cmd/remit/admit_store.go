package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"remit/law/admission"
	"remit/proof/reason"
	"remit/work/harness"
)

// decideSource puts a decision about a build of an engine on top of what was
// decided before.
func decideSource(home string, d admission.SourceDecision) (rec *admission.Source, err error) {
	if err := harness.RefuseSecrets("the record of the engine", d); err != nil {
		return nil, err
	}
	err = admissionsLocked(home, func() error {
		previous, err := admission.SourceRecord(home, d.Engine)
		if err != nil {
			return err
		}
		if previous != nil && previous.Engine != d.Engine {
			return fmt.Errorf("the file of engine %q is about %q: move it away", d.Engine, previous.Engine)
		}
		if rec, err = admission.NextSource(previous, d); err != nil {
			return badDecision(err)
		}
		return writeAdmission(home, admission.SourceFile(d.Engine), rec.Encode)
	})
	return rec, err
}

// decideModel is decideSource for a pair of provider and model.
func decideModel(home string, d admission.ModelDecision) (rec *admission.Model, err error) {
	if err := harness.RefuseSecrets("the record of the model", d); err != nil {
		return nil, err
	}
	err = admissionsLocked(home, func() error {
		previous, err := admission.ModelRecord(home, d.Provider, d.Model)
		if err != nil {
			return err
		}
		if previous != nil && (previous.Provider != d.Provider || previous.Model != d.Model) {
			return fmt.Errorf("the file of model %q is about %q: move it away", d.Model, previous.Model)
		}
		if rec, err = admission.NextModel(previous, d); err != nil {
			return badDecision(err)
		}
		return writeAdmission(home, admission.ModelFile(d.Provider, d.Model), rec.Encode)
	})
	return rec, err
}

// badDecision is what is wrong with a new decision. What was decided before has
// been checked, so the command line is what is wrong.
func badDecision(err error) error {
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

// writeAdmission replaces a record's file as a whole, on disk when it returns:
// a decision that was told must not be gone after a crash.
func writeAdmission(home, name string, encode func() ([]byte, error)) error {
	text, err := encode()
	if err != nil {
		return fmt.Errorf("making the record: %w", err)
	}
	path := filepath.Join(home, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort: the write error is what matters
		return fmt.Errorf("writing the record: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}
