package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/session"
)

// adopt records what the run left on disk without recording it, and removes
// half-written projections.
func (r *run) adopt() error {
	for _, e := range r.w.Entries() {
		var a evidence.ArtifactRecorded
		if e.Name == evidence.StepArtifact && json.Unmarshal(e.Outputs, &a) == nil {
			r.artifact[a.Path] = true
		}
	}
	if err := r.removeHalfWritten(); err != nil || r.ended() {
		return err
	}
	// What the verifier had not finished is done again, its log included.
	if !r.has(evidence.StepVerification, journal.Completed) && len(r.blockersSoFar()) == 0 {
		delete(r.artifact, evidence.TestLogFile)
	}
	for _, name := range []string{evidence.TestLogFile, evidence.TestResultsFile} {
		if !r.artifact[name] {
			if err := os.Remove(filepath.Join(r.session.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	root, err := os.OpenRoot(r.session.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case name == evidence.JournalFile || r.artifact[name]:
			return nil
		case name == stdoutFile, name == stderrFile:
			r.noteShort(name)
			return r.recordArtifact(name)
		case strings.HasPrefix(name, evidence.BackendDir+"/"), strings.HasPrefix(name, evidence.HeldOutDir+"/"), name == evidence.PatchFile,
			name == evidence.ParentPatchFile:
			return r.recordArtifact(name)
		}
		return root.Remove(name) // a projection, written before its time
	})
}

// removeHalfWritten removes files that were being written when the run died,
// before they had their name.
func (r *run) removeHalfWritten() error {
	for _, dir := range []string{"", evidence.BackendDir, evidence.ProofsDir} {
		entries, err := os.ReadDir(filepath.Join(r.session.Dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for half-written files: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), session.NewPrefix) {
				continue
			}
			if err := os.Remove(filepath.Join(r.session.Dir, dir, e.Name())); err != nil {
				return fmt.Errorf("removing a half-written file: %w", err)
			}
		}
	}
	return nil
}

// noteShort says when less of the engine's output is on disk than engine.run
// has the digest of: the disk was full when the run died.
func (r *run) noteShort(name string) {
	var f evidence.EngineFinished
	known := false
	for _, e := range r.w.Entries() {
		if e.Name == evidence.StepEngine && e.Status != journal.Started && json.Unmarshal(e.Outputs, &f) == nil {
			known = f.ProcessStarted && !f.OutputExceeded
		}
	}
	want, size := f.StdoutSHA256, f.StdoutBytes
	if name == stderrFile {
		want, size = f.StderrSHA256, f.StderrBytes
	}
	if !known {
		return
	}
	file, err := os.Open(filepath.Join(r.session.Dir, filepath.FromSlash(name)))
	if err != nil {
		return // recordArtifact says so
	}
	defer file.Close()
	if digest, kept, err := canon.DigestReader(file); err == nil && digest != want {
		r.note(evidence.StepStopped, "short-"+name, journal.Failed, nil, blockersOnly{[]evidence.Blocker{{Code: reason.ArtifactWriteFailure,
			Message: fmt.Sprintf("%s has %d of the %d bytes that the engine printed", name, kept, size), Evidence: name}}})
	}
}
