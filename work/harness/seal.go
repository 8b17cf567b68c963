package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// workspaceProof says that the engine started from the baseline's tree and
// that the tree below its workspace is still that.
func (r *run) workspaceProof(ctx context.Context) map[string]any {
	proof := map[string]any{"baseline_commit": r.base.Commit, "baseline_tree": r.base.Tree, "ended_clean": false, "refused": []string{}}
	if r.checkout == nil {
		return proof
	}
	err := r.checkout.Verify(ctx)
	proof["baseline_intact"] = err == nil
	if err != nil {
		r.note(evidence.StepStopped, "workspace-check", journal.Failed, nil, blockersOnly{[]evidence.Blocker{{
			Code: reason.InfrastructureFault, Message: "the cached baseline changed: " + r.scrub(err.Error()),
			Evidence: evidence.ProofsDir + "/workspace-clean.json"}}})
	}
	if r.start != nil {
		err := r.start.Verify(ctx)
		proof["start_tree"], proof["start_intact"] = r.startTree(), err == nil
		if err != nil {
			r.note(evidence.StepStopped, "start-check", journal.Failed, nil, blockersOnly{[]evidence.Blocker{{
				Code: reason.InfrastructureFault, Message: "the tree that the engine started from changed: " + r.scrub(err.Error()),
				Evidence: evidence.ProofsDir + "/workspace-clean.json"}}})
		}
	}
	if r.patched != nil {
		var refused []string
		for _, f := range r.patched.imported.Refused {
			refused = append(refused, f.Path)
		}
		proof["refused"], proof["ended_clean"] = orNone(refused), len(refused) == 0 && err == nil
	}
	return proof
}

// recordProof journals a proof; it becomes proofs/<name>.json.
func (r *run) recordProof(name string, body any) {
	r.note(evidence.StepProof, "proof-"+name, journal.Completed, evidence.ProofRecorded{Name: name}, body)
}

// recordArtifact screens a blob for secrets, reads it back, hashes it and
// journals the digest.
func (r *run) recordArtifact(name string) error {
	_, _, err := r.record(name)
	return err
}

// record is recordArtifact for a caller who needs what was recorded.
func (r *run) record(name string) (digest string, size int64, err error) {
	leaks, err := r.screen().Artifact(name)
	if err != nil {
		return "", 0, writeFailure(name, err)
	}
	path := filepath.Join(r.session.Dir, filepath.FromSlash(name))
	f, err := os.Open(path)
	if err != nil {
		return "", 0, writeFailure(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, writeFailure(name, err)
	}
	if digest, size, err = canon.DigestReader(f); err != nil {
		return "", 0, writeFailure(name, err)
	}
	now := r.clock()
	written := info.ModTime()
	if first := r.startedAt(); written.Before(first) {
		written = first // a coarse file clock may lag behind ours by a tick
	}
	r.artifact[name] = true
	r.append(journal.Step{StepID: "artifact-" + name, Name: evidence.StepArtifact, Status: journal.Completed, StartedAt: now, CompletedAt: now,
		Outputs: evidence.ArtifactRecorded{Path: name, SHA256: digest, Bytes: size, WrittenAt: stamp(written), CheckedAt: stamp(now),
			Blockers: leaks}})
	return digest, size, nil
}

// stamp is a time as the journal writes it.
func stamp(t time.Time) string { return t.UTC().Format(journal.TimeFormat) }

func (r *run) startedAt() time.Time {
	entries := r.w.Entries()
	if len(entries) == 0 {
		return r.clock()
	}
	t, err := time.Parse(journal.TimeFormat, entries[0].StartedAt)
	if err != nil {
		return r.clock()
	}
	return t
}

// seal completes the evidence: the blobs that every session has, the
// settlement, the verdict, the projections and, last, the manifest.
func (r *run) seal(ctx context.Context) (*Outcome, error) {
	r.yield(r.session.Journal())
	if err := errors.Join(r.completeBlobs(), r.mark()); err != nil {
		r.note(evidence.StepStopped, "blobs", journal.Failed, nil, blockersOnly{[]evidence.Blocker{writeBlocker(r, err)}})
	}
	r.recordDelivery()
	if err := r.proveSecrets(); err != nil {
		return nil, r.unsealed(err)
	}
	r.settle(ctx)
	r.deliver(ctx)
	done := r.times.Begin("evidence.sealed")
	defer done()
	if err := r.complete(); err != nil {
		return nil, r.unsealed(err)
	}
	r.lastEntry()
	if err := r.session.Seal(r.w.Entries(), r.secrets); err != nil {
		if reason.CodeOf(err) == reason.SecretLeak {
			return nil, r.unsealed(err)
		}
		r.note(evidence.StepStopped, "seal", journal.Failed, nil, blockersOnly{[]evidence.Blocker{writeBlocker(r, err)}})
		if again := r.complete(); again == nil {
			// With the failure in the journal the rest may still fit.
			if r.session.Seal(r.w.Entries(), r.secrets) == nil {
				return r.outcome()
			}
		}
		return nil, r.unsealed(err)
	}
	return r.outcome()
}

// unsealed says that the evidence is incomplete and where it lies.
func (r *run) unsealed(err error) error {
	if leak, ok := errors.AsType[*reason.Error](err); ok && leak.Code == reason.SecretLeak {
		leak.File = r.session.Dir
		return leak
	}
	e := reason.Errorf(reason.ArtifactWriteFailure, "the evidence could not be completed: %w", err)
	e.File = r.session.Dir
	return e.WithHint("what was done is kept in that directory; nothing claims a pass")
}

func (r *run) outcome() (*Outcome, error) {
	rep, err := r.session.Report()
	return &Outcome{Session: r.session, Report: rep}, err
}

// complete appends the verdict.
func (r *run) complete() error {
	verdict, err := evidence.Verdict(r.w.Entries())
	if err != nil {
		return err
	}
	state := journal.Completed
	if verdict.Status != evidence.StatusPass {
		state = journal.Failed
	}
	r.note(evidence.StepRunCompleted, "run", state, nil, verdict)
	r.sync()
	if err := r.failed(); err != nil {
		return err
	}
	r.tell(evidence.StepRunCompleted, verdict.Status, "")
	return nil
}

// completeBlobs makes sure that patch.diff and test.log are there and recorded.
func (r *run) completeBlobs() error {
	for _, blob := range []struct {
		name    string
		content []byte
	}{{evidence.PatchFile, nil}, {evidence.TestLogFile, r.notRunLog()}} {
		name := blob.name
		if r.artifact[name] {
			continue
		}
		f, err := os.OpenFile(filepath.Join(r.session.Dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			err = r.recordArtifact(name)
		} else if err == nil {
			_, err = f.Write(blob.content)
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
			if err == nil {
				err = r.recordArtifact(name)
			}
		}
		if err != nil {
			return writeFailure(name, err)
		}
	}
	return nil
}

func writeFailure(name string, err error) error {
	e := reason.Errorf(reason.ArtifactWriteFailure, "writing %s: %w", name, err)
	return e.WithHint("free some space or repair the permissions of REMIT_HOME, then start again")
}

// artifactWriter names the artifact in the error of a failed write.
type artifactWriter struct {
	w    io.Writer
	name string
}

func (a artifactWriter) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	if err != nil {
		err = writeFailure(a.name, err)
	}
	return n, err
}

func writeBlocker(r *run, err error) evidence.Blocker {
	return evidence.Blocker{Code: reason.ArtifactWriteFailure, Message: r.scrub(err.Error()), Evidence: evidence.JournalFile}
}

func (r *run) sourceRoot() string {
	if r.source != nil {
		return r.source.Root()
	}
	if dir, err := filepath.Abs(r.Repo); err == nil && r.Repo != "" && dir != string(filepath.Separator) {
		return dir // it was not opened, and its path is the user's all the same
	}
	return ""
}

// scrub takes host paths out of a message that goes into evidence: a bundle
// travels and must not tell how its maker's machine is laid out.
func (r *run) scrub(message string) string {
	for _, place := range [][2]string{{r.session.Dir, "<session>"}, {r.work, "<work>"}, {r.Home.Dir, "<remit-home>"},
		{r.sourceRoot(), "<source>"}} {
		if place[0] != "" {
			message = strings.ReplaceAll(message, place[0], place[1])
		}
	}
	return strings.ToValidUTF8(strings.ReplaceAll(strings.TrimSpace(message), "\n", "; "), "\uFFFD") // errors that were joined
}

// notRunLog is test.log of a run that never reached its verification.
func (r *run) notRunLog() []byte {
	var b bytes.Buffer
	if len(r.Contract.VerificationCommands) == 0 {
		fmt.Fprintf(&b, "BLOCKED %s: the contract names no verification command\n", reason.MissingTestCommand)
		return b.Bytes()
	}
	trees := []string{"the patched tree"}
	if r.measured != nil {
		if _, err := r.measured.wait(); errors.Is(err, errNotNeeded) { // cut off: what it has so far is a result of nothing
			trees = []string{"the base commit", "the patched tree"}
		} else {
			_ = r.measured.copyLog(&b) // the baseline was verified all the same; without its log the rest is still written
		}
	}
	for _, where := range trees {
		for _, c := range r.Contract.VerificationCommands {
			fmt.Fprintf(&b, "NOT RUN on %s: %s\n", where, c)
		}
	}
	return b.Bytes()
}
