package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// recordOutcome says what became of a run's result, after the run. The bundle that
// it asks for is sealed before the command, outside of any transaction: one that was
// overtaken is a blob that nothing names.
func (s *Server) recordOutcome(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := readBody(w, r, api.MaxBody); err != nil {
		return err
	}
	var sealed *sealedAgain
	var refused error
	var asked api.OutcomeRequest
	if r.json(&asked) == nil && api.Value(asked.Seal) { // else the command says what is wrong with it
		if err := extendDeadlines(w, artifactTimeout); err != nil && !errors.Is(err, http.ErrNotSupported) { // the panel has no connection
			return err
		}
		sealed, refused = s.sealOutcome(r, asked)
	}
	return s.commit(w, r, withBody(func(tx *store.Tx, r *request, body api.OutcomeRequest) (answer, error) {
		if refused != nil {
			return answer{}, refused
		}
		id, p := r.PathValue("run_id"), r.caller.Principal
		ask := jobs.OutcomeRequest{Kind: string(body.Kind), Note: api.Value(body.Note), Bundle: api.Value(body.BundleSha256),
			Decide: api.Value(body.Seal)}
		if sealed != nil {
			ask.Bundle = sealed.artifact.SHA256
		}
		if err := jobs.RecordOutcome(tx, p, id, ask); err != nil {
			return answer{}, err
		}
		if sealed != nil {
			if err := sealed.record(tx, p, id); err != nil {
				return answer{}, err
			}
		}
		return answer{value: api.Outcome{RunID: id, Kind: string(body.Kind), BundleSha256: api.Optional(ask.Bundle)}}, nil
	}), nil)
}

// sealedAgain is a bundle that the authority records of a run: with an outcome in it,
// or of the run's only job.
type sealedAgain struct {
	artifact jobs.RunArtifactRequest
	derived  *jobs.Derived
}

// record makes it the bundle of a run.
func (b *sealedAgain) record(tx *store.Tx, p authority.Principal, runID string) error {
	if _, err := jobs.PutRunArtifact(tx, p, runID, b.artifact); err != nil {
		return err
	}
	return jobs.Derive(tx, p, runID, *b.derived)
}

// sealOutcome writes an outcome into the bundle that is kept of a run. It returns
// nil where the command that follows refuses, or there is no bundle to write it to.
func (s *Server) sealOutcome(r *request, body api.OutcomeRequest) (*sealedAgain, error) {
	var row store.RunArtifactRow
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) error {
		run, err := jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id"))
		if err != nil || run.Outcome != "" || !jobs.RunState(run.State).Final() {
			return err
		}
		row, err = jobs.FindRunBundle(tx, r.caller.Principal, run.ID)
		if reason.CodeOf(err) == reason.NotFound {
			return nil
		}
		return err
	})
	kind := string(body.Kind)
	if err != nil || row.SHA256 == "" || kind != jobs.Accepted && kind != jobs.Rejected {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "remit-outcome-")
	if err != nil {
		return nil, err
	}
	said := evidence.Outcome{Outcome: kind, Reason: api.Value(body.Note), Actor: r.caller.ID}
	sealed, err := s.sealIn(r, dir, row.SHA256, said)
	return sealed, errors.Join(err, os.RemoveAll(dir))
}

// sealIn does so in a directory that is empty.
func (s *Server) sealIn(r *request, dir, digest string, said evidence.Outcome) (*sealedAgain, error) {
	ctx := r.Context()
	files := filepath.Join(dir, "bundle")
	if err := s.unpack(ctx, digest, filepath.Join(dir, "was.zip"), files); err != nil {
		if reason.CodeOf(err) == reason.NotAcceptable && said.Outcome == jobs.Rejected {
			return nil, nil // what cannot be read is not worth less for being rejected
		}
		return nil, err
	}
	entries, err := writeOutcome(files, said, s.opt.Clock())
	if err != nil {
		return nil, err
	}
	zip, err := os.OpenFile(filepath.Join(dir, "is.zip"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer zip.Close()
	sum := sha256.New()
	if err := bundle.WriteZip(io.MultiWriter(zip, sum), files); err != nil {
		return nil, err
	}
	if _, err := zip.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	out := &sealedAgain{artifact: jobs.RunArtifactRequest{Name: job.ResealedBundle(entries), SHA256: canon.DigestSum(sum)}}
	if out.artifact.SizeBytes, err = s.opt.Blobs.Put(ctx, out.artifact.SHA256, zip); err != nil {
		return nil, err
	}
	out.derived, err = s.derive(ctx, r, out.artifact)
	return out, err
}

// unpack writes the files of a bundle that an audit accepts to a directory.
func (s *Server) unpack(ctx context.Context, digest, zip, dir string) error {
	content, _, err := s.opt.Blobs.Open(ctx, digest)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(zip, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, content.Close())
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close(), content.Close()); err != nil {
		return err
	}
	opt := bundle.Options{Profile: bundle.ProfileBundle, Extract: dir}
	for _, g := range (evidence.Trust{}).Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	report, err := bundle.Audit(ctx, zip, opt)
	if err != nil {
		return err
	}
	if report.Status != bundle.Pass {
		return reason.Errorf(reason.NotAcceptable, "the audit of the bundle that is kept of the run says %s", report.Status).
			WithHint("save GET /v1/runs/RUN/bundle as bundle.zip: `remit audit bundle.zip` says what is wrong with it")
	}
	return nil
}

// writeOutcome appends an outcome to the journal of an unpacked bundle, makes its
// documents again and seals it. What was signed before is another bundle's: the
// signature and the statements go. It returns how many entries the journal has.
func writeOutcome(dir string, said evidence.Outcome, now time.Time) (int, error) {
	w, err := journal.Continue(filepath.Join(dir, evidence.JournalFile))
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Close() }() // it is synced before anything depends on it
	was, err := evidence.ReportOf(w.Entries())
	switch {
	case err != nil:
		return 0, err
	case was.OperatorOutcome != evidence.Pending:
		return 0, reason.Errorf(reason.OutcomeGiven, "the bundle of the run says that it was already %s", was.OperatorOutcome)
	case said.Outcome == jobs.Accepted && was.Status != evidence.StatusPass:
		return 0, reason.Errorf(reason.NotAcceptable, "the run ended as %s and cannot be accepted", was.Status)
	case said.Outcome == jobs.Rejected && was.Delivered != nil:
		return 0, reason.Errorf(reason.Conflict, "the run has delivered branch %q, which a rejection takes back", was.Delivered.Branch).
			WithHint("`remit reject %s` on the machine of the run does both", was.SessionID)
	}
	if _, err := w.Append(said.Step(now)); err != nil {
		return 0, fmt.Errorf("writing the journal: %w", err)
	}
	if err := w.Sync(); err != nil {
		return 0, fmt.Errorf("writing the journal: %w", err)
	}
	set, err := evidence.Project(w.Entries())
	if err == nil {
		err = evidence.Write(dir, set)
	}
	if err != nil {
		return 0, fmt.Errorf("making the documents of the run again: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, evidence.SignatureFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := os.RemoveAll(filepath.Join(dir, evidence.AttestationsDir)); err != nil {
		return 0, err
	}
	return len(w.Entries()), bundle.Seal(dir)
}
