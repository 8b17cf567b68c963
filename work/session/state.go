package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// State is what a session looks like from outside.
type State struct {
	Session
	Phase  string // running, interrupted, unsealed or sealed
	Report *evidence.Report
	Log    *journal.Log
	At     string // the last journal step, where an interrupted run stopped
}

// The phases of a session. Only a sealed session has a complete bundle.
const (
	Running     = "running"
	Interrupted = "interrupted"
	Unsealed    = "unsealed"
	Sealed      = "sealed"
)

// Inspect reads a session without changing it.
func (s Session) Inspect() (*State, error) {
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return nil, err
	}
	st, err := s.InspectLog(log)
	if err != nil {
		return nil, err
	}
	busy, err := journal.Busy(s.Journal())
	if busy {
		st.Phase = Running
	}
	return st, err
}

// InspectLog is what the journal and the directory say, leaving aside whether
// another process is writing.
func (s Session) InspectLog(log *journal.Log) (*State, error) {
	st := &State{Session: s, Log: log, Phase: Interrupted}
	var err error
	if n := len(log.Entries); n > 0 {
		last := log.Entries[n-1]
		st.At = fmt.Sprintf("%s (%s)", last.Name, last.Status)
		if st.Report, err = evidence.ReportOf(log.Entries); err != nil {
			return nil, err
		}
	}
	ended := slices.ContainsFunc(log.Entries, func(e journal.Entry) bool { return e.Name == evidence.StepRunCompleted })
	if ended {
		st.Phase = Unsealed
		if _, err := os.Lstat(filepath.Join(s.Dir, evidence.ManifestFile)); err == nil {
			st.Phase = Sealed
			st.Report, err = s.sealedReport(st.Report)
			return st, err
		}
		return st, nil
	}
	if _, err := os.Lstat(filepath.Join(s.Dir, evidence.ManifestFile)); err == nil {
		e := reason.Errorf(reason.JournalUnfinished, "the bundle is sealed, and its journal has lost its end")
		e.File, e.Line = s.Journal(), len(log.Entries)+1
		return nil, e.WithHint("see all findings with `remit audit %s`", s.Dir)
	}
	return st, nil
}

// sealedReport reads report.json, which must be what the journal gives: a
// status that was written into the file decides nothing.
func (s Session) sealedReport(given *evidence.Report) (*evidence.Report, error) {
	rep, err := s.Report()
	if err != nil {
		return nil, err
	}
	bare := *rep
	bare.ArtifactPaths, bare.ArtifactDigests, bare.Freshness = given.ArtifactPaths, given.ArtifactDigests, given.Freshness
	said, err := canon.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	gives, err := canon.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	if !bytes.Equal(said, gives) {
		e := reason.Errorf(reason.ProjectionMismatch, "it is not what the journal gives")
		e.File = filepath.Join(s.Dir, evidence.ReportFile)
		return nil, e.WithHint("see all findings with `remit audit %s`", s.Dir)
	}
	return rep, nil
}

// Open opens an artifact of the session. It is a file of its directory: what took its
// place, a pipe that waits for a writer or a link to elsewhere, is refused.
func (s Session) Open(name string) (*os.File, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		e := reason.Errorf(reason.FileUnusable, "it is a %s and no file", kindOf(info.Mode()))
		e.File = filepath.Join(s.Dir, filepath.FromSlash(name))
		err = e.WithHint("see all findings with `remit audit %s`", s.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Read reads an artifact of the session whole.
func (s Session) Read(name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// Report reads report.json of a sealed session.
func (s Session) Report() (*evidence.Report, error) {
	raw, err := s.Read(evidence.ReportFile)
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	return evidence.ReadReport(raw)
}
